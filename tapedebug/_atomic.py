"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def require_place(target: Path) -> None:
    """Refuse a place where no file can be, before work is done for it and in words that name it.

    Raises:
        IsADirectoryError: It is a folder.
        FileNotFoundError: There is no such folder to write into.
        PermissionError: Who runs this may not write there.
    """
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder, not a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist")
    changed = target if target.exists() else target.parent
    if not os.access(changed, os.W_OK):
        raise PermissionError(f"{changed} is not writable")


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A stream for the content of `target`, which is as it was until the block has ended well.

    Raises:
        OSError: The file can not be written.
    """
    require_place(target)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp made it private; what is saved is an ordinary file
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
