"""The fingerprint of everything but the source that machine code depends on: processor, versions.

Asking LLVM for the processor takes longer than running a kernel from the cache, and so does reading all of
the compiler's source. Both results are stored beside the object code, under signatures that show a change:
for the processor the operating system's description, for files their sizes, paths and times.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from tapedebug.compiler import objects

SUFFIX = ".sign"
PACKAGE = Path(__file__).parents[1]
PROCESSOR = "/sys/devices/system/cpu/modalias"
"""The processor's vendor, family and model, and every feature that the system lets programs use."""
SETTLED = 2e9
"""Nanoseconds after which a change of a file has a time of its own: file systems count in steps."""


def processor() -> str:
    """The processor and its features, as LLVM names them, and LLVM's version."""
    return _cached(_signs_of_processor(), _asked)


def digest_of(*places: str) -> str:
    """A digest of source files of this package, given by their names or their folders, which end with `/`."""
    files = sorted(_files(places))
    return _cached(_signs_of_files(files), lambda: _read(path for path, _ in files))


def _asked() -> str:
    import llvmlite
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_host_cpu_name()} {features} llvmlite {llvmlite.__version__}"


def _read(paths: Iterable[str]) -> str:
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


def _cached(signs: str | None, compute: Callable[[], str]) -> str:
    """Return the cached text for these signs, or compute and cache it."""
    if signs is None:
        return compute()
    key = hashlib.sha256(signs.encode()).hexdigest()
    found = objects.read(key, SUFFIX)
    if found is not None:
        with contextlib.suppress(UnicodeDecodeError):
            return found.decode()
    made = compute()
    objects.write(key, made.encode(), SUFFIX)
    return made


def _signs_of_processor() -> str | None:
    """None where a change of the processor or of LLVM might not show."""
    spec = PathFinder.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.dirname(spec.origin)
    parts = [spec.origin, os.path.join(folder, "_version.py"), os.path.join(folder, "binding")]
    try:
        with open(PROCESSOR, encoding="ascii") as file:
            known = file.read()
        llvm = [_signs(path, os.stat(path)) for path in parts]
    except (OSError, ValueError):
        return None
    return "\n".join([known, *map(str, os.uname()), *llvm])


def _signs_of_files(files: list[tuple[str, os.stat_result]]) -> str | None:
    """None where one has just changed, and may change again without a sign."""
    last = max(max(stat.st_mtime_ns, stat.st_ctime_ns) for _, stat in files)
    if abs(time.time_ns() - last) < SETTLED:
        return None
    return "\n".join(_signs(path, stat) for path, stat in files)


def _signs(path: str, stat: os.stat_result) -> str:
    return f"{path} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def _files(places: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    for place in places:
        path = f"{PACKAGE}/{place}"
        if place.endswith("/") or not place:
            yield from _within(path, deep=bool(place))
        else:
            yield path, os.stat(path)


def _within(folder: str, *, deep: bool) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif deep and entry.is_dir() and entry.name != "__pycache__":
                yield from _within(entry.path, deep=True)
