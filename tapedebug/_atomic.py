"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A stream for the content of `target`, which is as it was until the block has ended well.

    Raises:
        OSError: The file can not be written.
    """
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
