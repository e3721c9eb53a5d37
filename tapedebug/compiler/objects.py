"""Object code in files, loaded without importing Numba.

A file is named by a digest of its source (generated text, processor, versions) and contains the digest of
its own content. One that is damaged, foreign or unreadable is discarded and made again. Files are written
whole, by rename, so that any number of processes can share the folder. Their content is executed, so folder
and file must belong to this user or root, and no other user may be able to write to them.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shlex
import stat
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tapedebug._config import LOG, config
from tapedebug.compiler import cache_limit, linker
from tapedebug.compiler.diagnostics import Diagnostic

MAGIC = b"tapedebug-object-3\n"
DIGEST = 32
BINARY = getattr(os, "O_BINARY", 0)
"""Windows would write two characters for each line's end."""
PRIVATE = 0o700
ROOT = 0


@cache
def _engine() -> Any:
    """Return LLVM's linker, for object code that `linker` cannot load."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    with contextlib.suppress(RuntimeError):
        llvm.load_library_permanently(linker.VECTOR_LIBRARY)
    target = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)


@cache
def processor() -> str:
    """Return the facts that object code depends on besides its source: processor, compiler, C library."""
    from tapedebug.compiler import target_fingerprint

    made_by = target_fingerprint.digest_of(
        "compiler/llvm/", "lang/", "compiler/numba_library.py", "compiler/backend.py"
    )
    glibc = "CS_GNU_LIBC_VERSION"
    libc = os.confstr(glibc) if glibc in getattr(os, "confstr_names", ()) else ""
    return f"{target_fingerprint.processor()} {libc} {made_by}"


def key_of(code: str, compiler: str, level: int = 3) -> str:
    """Return the name in the cache of the object code that a compiler makes of a text at a level of LLVM."""
    version = ""
    if compiler != "llvm":
        from importlib import metadata

        version = metadata.version(compiler)
    return hashlib.sha256(f"{processor()}\n{compiler} {version} {level}\n{code}".encode()).hexdigest()


def folder() -> Path:
    """Return the folder of the cache: `config.kernel_cache_dir`, `TAPEDEBUG_CACHE_DIR`, or the user's."""
    chosen = config.kernel_cache_dir or os.environ.get("TAPEDEBUG_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "linux":  # as platformdirs has it, which takes longer to load than a kernel
        wanted = os.environ.get("XDG_CACHE_HOME", ""), os.path.join(os.environ.get("HOME", ""), ".cache")
        user = next((path for path in wanted if os.path.isabs(path)), None)
        if user is not None:
            return Path(user, "tapedebug", "objects")
    import platformdirs

    return Path(platformdirs.user_cache_dir("tapedebug", appauthor=False)) / "objects"


_lock = threading.Lock()
_refused: set[Path] = set()


def trusted_folder(*within: str) -> Path | None:
    """Return the folder, or one `within` it; None if another user could put code there for this one to run.

    The first time that a folder is refused, a warning says why, and what to do.
    """
    place = folder()
    for part in ("", *within):
        place = place / part
        problem = _distrust(place)
        if problem is not None:
            with _lock:
                new = place not in _refused
                _refused.add(place)
            if new:
                LOG.warning("tapedebug: compiled kernels are not cached: %s", problem)
            return None
    return place


def _distrust(place: Path) -> str | None:
    """Return the reason not to trust a folder, with a hint; None if it is safe."""
    try:
        status = place.stat()
    except OSError:
        return None  # it is made later, by this user
    if is_private(status):
        return None
    elsewhere = "set TAPEDEBUG_CACHE_DIR, or config.kernel_cache_dir, to a folder of your own"
    if status.st_uid not in (os.geteuid(), ROOT):
        owner, user = status.st_uid, os.geteuid()
        return (
            f"the folder {place} belongs to user {owner}, who could put code there for user {user} to run"
            f"\n  = hint: {elsewhere}"
        )
    hint = elsewhere if status.st_mode & stat.S_ISVTX else f"run `chmod go-w {shlex.quote(str(place))}`"
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    return (
        f"other users may write to the folder {place} (mode {mode}), and could put code there for you to run"
        f"\n  = hint: {hint}"
    )


def is_private(status: os.stat_result) -> bool:
    """True if a file or folder belongs to this user or root, and no other user may write to it."""
    if not hasattr(os, "geteuid"):
        return True  # Windows: what is in the folder of a user is that user's
    return status.st_uid in (os.geteuid(), ROOT) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read(key: str, suffix: str = ".o") -> bytes | None:
    """Return the object code (or note) under `key`; None if there is none that is undamaged and private."""
    place = trusted_folder()
    if place is None:
        return None
    path = place / f"{key}{suffix}"
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read() if is_private(status) else b""
    except OSError:
        return None
    head = len(MAGIC) + DIGEST
    body = content[head:]
    if not content.startswith(MAGIC) or content[len(MAGIC) : head] != _digest(key, body):
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    cache_limit.mark_used(path, status)
    return body


def write(key: str, code: bytes, suffix: str = ".o") -> None:
    """Store object code (or a note); if the folder is not writable, the next process compiles again."""
    content = MAGIC + _digest(key, code) + code
    with contextlib.suppress(OSError):
        place = private_folder()
        if place is not None:
            write_private(place / f"{key}{suffix}", content)
            cache_limit.note_written(place, len(content))


def private_folder(*within: str) -> Path | None:
    """Return `trusted_folder(*within)`; create it if it does not exist.

    Raises:
        OSError: It cannot be created.
    """
    for depth in range(len(within) + 1):  # parents that `mkdir` makes by the way are as umask has it
        place = trusted_folder(*within[:depth])
        if place is None:
            break
        place.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    return trusted_folder(*within)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only this user can read; it appears complete or not at all.

    Raises:
        OSError: It cannot be written.
    """
    temporary = path.parent / f"{os.urandom(8).hex()}.tmp"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600), "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _digest(key: str, body: bytes) -> bytes:
    """Return a digest of name and content, so that a renamed file is rejected."""
    return hashlib.sha256(key.encode() + body).digest()


def clear() -> int:
    """Remove all files of the cache, also native functions and notes; return the number of objects."""
    paths = [*folder().glob("*.o"), *folder().glob("native/*")]
    for path in [
        *paths,
        *folder().glob("*.json"),
        *folder().glob("*.njit"),
        *folder().glob("*.sign"),
        *folder().glob("*.crash"),
    ]:
        with contextlib.suppress(OSError):
            path.unlink()
    return len(paths)


NUMBA = re.compile(rb"NRT_|numba")
"""The names of what object code needs of Numba while it runs, such as memory for arrays."""
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
"""Pointers all three: `ctypes` converts integers of other types half as fast."""

_loaded: dict[str, int] = {}


class Entry(ENTRY.__base__):  # type: ignore[misc, name-defined]
    """Compiled code: `entry(lo, hi, args)` runs the threads lo … hi-1 and releases the GIL meanwhile.

    Attributes:
        address: The address of the machine code.
        diagnostics: The diagnostics that it may emit, by number.
    """

    _flags_, _argtypes_, _restype_ = ENTRY._flags_, ENTRY._argtypes_, None

    def __init__(self, address: int) -> None:
        self.address = address
        self.diagnostics: tuple[Diagnostic, ...] = ()

    def settled(self) -> Entry:
        """Return this entry: it is compiled (a `LazyEntry` may not be)."""
        return self

    def direct(self) -> Callable[[int, int, int], None]:
        """Return a function that does the same in a quarter of the time; it pays for many calls."""
        from tapedebug.compiler.direct_call import direct

        return direct(self.settled())

    def direct_timed(self) -> Callable[[int, int, int], float] | None:
        """Return a function that also returns the seconds that it took; None if Python hides its clock."""
        from tapedebug.compiler.direct_call import direct_timed

        return direct_timed(self.settled())


def load(key: str, symbol: str, code: bytes) -> Entry:
    """Link object code into this process, once for each key; return its entry."""
    with _lock:
        if key not in _loaded:
            _loaded[key] = linker.linked(code, symbol) or _linked_by_llvm(code, symbol)
    return Entry(_loaded[key])


def _linked_by_llvm(code: bytes, symbol: str) -> int:
    import llvmlite.binding as llvm

    for name, address in linker.given().items():
        llvm.add_symbol(name, address)
    if "numba.core" in sys.modules and NUMBA.search(code):
        _start_numba()
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return int(engine.get_function_address(symbol))


@cache
def _start_numba() -> None:
    """Let LLVM find the functions of Numba's runtime, and start that.

    Numba does so before it compiles, and a process that finds its code in the cache compiles nothing: a call
    of such a function would go to address 0.
    """
    from numba.core.registry import cpu_target

    cpu_target.target_context.refresh()
