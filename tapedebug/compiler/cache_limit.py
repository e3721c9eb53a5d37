"""Bound the size of the cache of compiled kernels: remove the files that were used least recently.

The names of the files are digests, so that the files whose names begin with the same digit are a fair sample
of all. Each trim looks at one of these sixteen parts, and holds it to a sixteenth of the limit. Every process
that writes to the cache trims at its end with a chance in proportion to what it has written: no state is
shared between processes, and a cache of 1 GiB (220,000 files) costs a process half a second now and then.

Modification times say when a file was last used, to the day: `mark_used` sets them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import stat
import threading
import time
from pathlib import Path

from tapedebug._config import LOG, config

DEFAULT = 1024
"""The limit in MiB, if neither `config.kernel_cache_size` nor `TAPEDEBUG_CACHE_SIZE` gives one."""
NATIVE = "native"
"""The folder of shared objects, inside the cache."""
PARTS = "0123456789abcdef"
LEFT = 0.75
"""The share of the limit that a trim leaves, so that the next one finds nothing to do for a while."""
STEP = 64
"""A process trims about once for each 1/STEP of the limit that it writes."""
DAY = 86400.0
IN_USE = 600.0
"""Seconds for which a file is never removed: a process may just have written it, for another to load."""
BLOCK = 4096
"""Bytes of a block on disk, if the system does not say how many a file occupies."""

_OURS = re.compile(r"(?:native_.*_)?([0-9a-f])[0-9a-f]{15,63}\.(?:o|json|njit|sign|crash|so|sha256)")
_TEMPORARY = re.compile(r"(?:[0-9a-f]{16}|tmp\w{8})\.tmp")

_lock = threading.Lock()
_written: dict[Path, int] = {}
"""The bytes written to each folder since this process last trimmed it."""


def limit() -> int:
    """Return the limit in bytes: `config.kernel_cache_size`, or `TAPEDEBUG_CACHE_SIZE`; 0 is no limit."""
    chosen = config.kernel_cache_size
    if chosen is None:
        text = os.environ.get("TAPEDEBUG_CACHE_SIZE", "")
        if text and not text.isdecimal():
            LOG.warning("TAPEDEBUG_CACHE_SIZE is a number of MiB; got %r, so %d is used", text, DEFAULT)
        chosen = int(text) if text.isdecimal() else DEFAULT
    return int(chosen) << 20


def mark_used(path: Path, status: os.stat_result) -> None:
    """Note that a file was used, if that was not noted within the last day."""
    if time.time() - status.st_mtime > DAY:
        with contextlib.suppress(OSError):
            os.utime(path)


def note_written(folder: Path, nbytes: int) -> None:
    """Count a file that was written to a cache; trim it at the end of the process, or after many files."""
    with _lock:
        if not _written:
            atexit.register(_trim_at_exit)
        written = _written[folder] = _written.get(folder, 0) + -(-nbytes // BLOCK) * BLOCK
    if written >= 1 << 20 and written * STEP >= (most := limit()) > 0:
        _trim_some(folder, most)


def _trim_at_exit() -> None:
    most = limit()
    for folder, written in list(_written.items()) if most else ():
        if _random() % most < written * STEP:
            _trim_some(folder, most)


def _trim_some(folder: Path, most: int) -> None:
    with _lock:
        _written[folder] = 0
    trim(folder, most, PARTS[_random() % len(PARTS)])


def _random() -> int:
    """Return a large random number, without a step of the generator that the user may have seeded."""
    return int.from_bytes(os.urandom(8), "little")


def trim(folder: Path, most: int, part: str) -> int:
    """Hold one of the sixteen parts of a cache to its share of a limit.

    Other processes may read, write and trim the folder at the same time. Files that are not those of the
    cache stay, and so do those that are younger than `IN_USE`.

    Args:
        folder: The folder of the cache.
        most: The limit of the whole cache, in bytes on disk.
        part: The first digit of the names to look at.

    Returns:
        The number of files removed.
    """
    now = time.time()
    found: list[tuple[float, int, str]] = []
    stale: list[str] = []
    for place in (folder, folder / NATIVE):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                name = entry.name
                if not name.startswith((part, "native_")) and not name.endswith(".tmp"):
                    continue  # most names; a regular expression takes much longer
                known = _OURS.fullmatch(name)
                if known[1] != part if known else _TEMPORARY.fullmatch(name) is None:
                    continue
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    if known is not None:
                        found.append((status.st_mtime, _size(status), entry.path))
                    elif now - status.st_mtime > DAY:  # left by a process that was killed
                        stale.append(entry.path)
    total, share = sum(size for _, size, _ in found), most // len(PARTS)
    if total > share:
        for used, size, path in sorted(found):
            if total <= share * LEFT or now - used < IN_USE:
                break
            total -= size
            stale.append(path)
    removed = 0
    for path in stale:
        with contextlib.suppress(OSError):  # another process was faster, or (on Windows) has it open
            os.unlink(path)
            removed += 1
    return removed


def _size(status: os.stat_result) -> int:
    """Return the bytes that a file occupies on disk."""
    blocks = getattr(status, "st_blocks", None)
    return -(-status.st_size // BLOCK) * BLOCK if blocks is None else int(blocks) * 512
