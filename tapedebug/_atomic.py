"""Atomic file writes: a file appears complete or not at all; pipes and devices are written directly.

A regular file is replaced by a rename, so that no reader sees half of it and a failed run leaves none behind.
Its mode is preserved, its owner if that is allowed, and links to it remain valid. A rename would destroy
devices, pipes and sockets: the complete content is copied to them.
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
"""File descriptors of standard output and standard error, which a path may refer to."""


def require_place(target: Path) -> None:
    """Raise an error that names `target` if it cannot be written, before any work is done for it.

    Raises:
        IsADirectoryError: `target` is a folder.
        FileNotFoundError: Its folder does not exist.
        PermissionError: The user may not write there.
        OSError: Its symbolic links cannot be resolved.
    """
    status = _status(target)
    if status is None or stat.S_ISREG(status.st_mode):
        final = Path(os.path.realpath(target))
        if not final.parent.is_dir():
            raise FileNotFoundError(f"the folder {final.parent} does not exist")
        for path in (final, final.parent):  # a read-only file is not replaced either
            if path.exists() and not os.access(path, os.W_OK):
                raise PermissionError(f"{path} is not writable")
    elif stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{target} is a folder, not a file")
    elif not os.access(target, os.W_OK):
        raise PermissionError(f"{target} is not writable")


def is_special(target: Path) -> bool:
    """True if `target` is neither a file nor a folder: a device, a pipe, a socket."""
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
    """Return a stream for the content of `target`, which is unchanged until the block ends without an error.

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
    """Yield a stream to a temporary file beside `final` that replaces it at the end."""
    temporary = final.parent / f".{secrets.token_hex(8)}.part"
    handle = os.open(temporary, OPENED, 0o666 if status is None else 0o600)  # the umask applies to a new file
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
    else:  # the group of this file must not get another group's permissions
        mode = stat.S_IMODE(status.st_mode) & ~stat.S_IRWXG
        temporary.chmod(mode | (mode & stat.S_IRWXO) << 3)


def _status(target: Path) -> os.stat_result | None:
    """Return the status of a path, with symbolic links resolved; None if nothing exists there."""
    try:
        return target.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _named(error, target) from None


def _opened(target: Path, status: os.stat_result) -> int | None:
    """Return the open descriptor of a path: later prints to a replaced file would be lost."""
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
    """Return the same error with the name of the requested file instead of the temporary one."""
    if error.strerror is None:
        return error
    named = type(error)(f"{target} cannot be written: {error.strerror}")
    named.errno = error.errno
    return named
