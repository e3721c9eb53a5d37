"""Atomic file writes: a file appears complete or not at all; pipes and devices are written directly.

A regular file is replaced by a rename, so that no reader and no run that fails sees half of it. Its mode
stays, its owner where that is allowed, and links to it still lead to it. Devices, pipes and sockets would be
destroyed by that: they get a copy of the complete content.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

OPENED = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
STREAMS = 1, 2
"""Standard output and error, whatever path leads to them."""


def require_place(target: Path) -> None:
    """Refuse a place that cannot be written to, before work is done for it and in words that name it.

    Raises:
        IsADirectoryError: It is a folder.
        FileNotFoundError: There is no such folder to write into.
        PermissionError: This user may not write there.
        OSError: Its symbolic links lead nowhere.
    """
    status = _status(target)
    if status is None or stat.S_ISREG(status.st_mode):
        final = Path(os.path.realpath(target))
        if not final.parent.is_dir():
            raise FileNotFoundError(f"the folder {final.parent} does not exist")
        for path in (final, final.parent):  # a file that may not be changed is not replaced either
            if path.exists() and not os.access(path, os.W_OK):
                raise PermissionError(f"{path} is not writable")
    elif stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{target} is a folder, not a file")
    elif not os.access(target, os.W_OK):
        raise PermissionError(f"{target} is not writable")


def is_special(target: Path) -> bool:
    """True if `target` is something else than a file or a folder: a device, a pipe, a socket."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def write_whole(target: Path, content: str | bytes) -> None:
    """Write `content` (text as UTF-8) to `target`, as `written_whole` does.

    Raises:
        OSError: The file cannot be written.
    """
    with written_whole(target) as stream:
        stream.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """Return a stream for the content of `target`, which stays as it was until the block has ended well.

    Raises:
        OSError: The file cannot be written.
    """
    require_place(target)
    status = _status(target)
    try:
        opened = None if status is None else _opened(target, status)
        if opened is not None or (status is not None and not stat.S_ISREG(status.st_mode)):
            with tempfile.TemporaryFile() as stream:
                yield cast("BinaryIO", stream)
                stream.seek(0)
                with open(target if opened is None else os.dup(opened), "wb") as final:
                    shutil.copyfileobj(stream, final)
        else:
            with _replaced(Path(os.path.realpath(target)), status) as stream:
                yield stream
    except OSError as error:
        raise _named(error, target) from None


@contextmanager
def _replaced(final: Path, status: os.stat_result | None) -> Iterator[BinaryIO]:
    """A stream of a file beside `final`, which takes its place."""
    temporary = final.parent / f".{secrets.token_hex(8)}.part"
    handle = os.open(temporary, OPENED, 0o666 if status is None else 0o600)  # a new file is as umask says
    try:
        with open(handle, "wb") as stream:
            yield stream
        if status is not None:
            _alike(temporary, final, status)
        temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _alike(temporary: Path, final: Path, status: os.stat_result) -> None:
    """Give a file the owner, the mode and the extended attributes of the file that it replaces."""
    for user in (status.st_uid, -1) if hasattr(os, "chown") else ():
        with contextlib.suppress(OSError):
            os.chown(temporary, user, status.st_gid)
            break
    made = temporary.stat()
    if made.st_gid == status.st_gid:
        shutil.copystat(final, temporary)
        os.utime(temporary)
    else:  # the group of this file must not get what another group had
        mode = stat.S_IMODE(status.st_mode) & ~stat.S_IRWXG
        temporary.chmod(mode | (mode & stat.S_IRWXO) << 3)


def _status(target: Path) -> os.stat_result | None:
    """Return the status of a path, behind its symbolic links; None if there is nothing."""
    try:
        return target.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _named(error, target) from None


def _opened(target: Path, status: os.stat_result) -> int | None:
    """The open descriptor that a path stands for: what is printed to a replaced file later is lost."""
    numbers = list(STREAMS)
    with contextlib.suppress(OSError, ValueError):
        if target.parent.samefile("/dev/fd"):
            numbers.append(int(target.name))
    for number in numbers:
        with contextlib.suppress(OSError, OverflowError):
            if os.path.samestat(os.fstat(number), status):
                return number
    return None


def _named(error: OSError, target: Path) -> OSError:
    """The same error, in words that name the file which was asked for rather than the one beside it."""
    if error.strerror is None:
        return error
    named = type(error)(f"{target} cannot be written: {error.strerror}")
    named.errno = error.errno
    return named
