"""Object code: kept in files, loaded without importing Numba.

A file is named by what it was compiled from (generated text, processor, versions) and says the digest of its
own content; one that is damaged, foreign or unreadable is discarded and made again. Files appear whole, by
rename, so that any number of processes may share the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

from tapedebug._config import config
from tapedebug.compiler.remarks import Remark

MAGIC = b"tapedebug-object-3\n"
DIGEST = 32
VECTOR_LIBRARY = "libmvec.so.1"
"""Vector functions of the C library, where it is glibc."""


@cache
def _engine() -> Any:
    """The one linker of this process."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    with contextlib.suppress(RuntimeError):
        llvm.load_library_permanently(VECTOR_LIBRARY)
    target = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)


@cache
def processor() -> str:
    """What object code depends on besides its source: the processor, the compiler, what the source calls."""
    import llvmlite
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    own = Path(__file__).parent
    made_by = [*sorted((own / "llvm").glob("*.py")), own / "numba_library.py", own / "backend.py"]
    library = hashlib.sha256(b"".join(path.read_bytes() for path in made_by)).hexdigest()
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    return f"{llvm.get_host_cpu_name()} {features} llvmlite {llvmlite.__version__} {libc} {library}"


def key_of(code: str, compiler: str) -> str:
    """The name under which the object code that a compiler made of a generated text is kept."""
    version = ""
    if compiler != "llvm":
        from importlib import metadata

        version = metadata.version(compiler)
    return hashlib.sha256(f"{processor()}\n{compiler} {version}\n{code}".encode()).hexdigest()


def folder() -> Path:
    """The folder of the cache: `config.kernel_cache_dir`, `TAPEDEBUG_CACHE_DIR`, or that of the user."""
    chosen = config.kernel_cache_dir or os.environ.get("TAPEDEBUG_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tapedebug", appauthor=False)) / "objects"


def read(key: str, suffix: str = ".o") -> bytes | None:
    """The object code (or note) kept under `key`; None where there is none that is whole."""
    path = folder() / f"{key}{suffix}"
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head = len(MAGIC) + DIGEST
    body = content[head:]
    if not content.startswith(MAGIC) or content[len(MAGIC) : head] != _digest(key, body):
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    return body


def write(key: str, code: bytes, suffix: str = ".o") -> None:
    """Keep object code (or a note); a folder that cannot be written to costs only the next start."""
    import tempfile

    content = MAGIC + _digest(key, code) + code
    temporary = None
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder(), suffix=".tmp", delete=False) as file:
            temporary = file.name
            file.write(content)
        os.replace(temporary, folder() / f"{key}{suffix}")
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _digest(key: str, body: bytes) -> bytes:
    """Of the content and of its name, so that a file under another name is foreign."""
    return hashlib.sha256(key.encode() + body).digest()


def clear() -> int:
    """Remove all that is kept, native functions and notes too; gives the number of objects."""
    paths = [*folder().glob("*.o"), *folder().glob("native/*")]
    for path in [*paths, *folder().glob("*.json")]:
        with contextlib.suppress(OSError):
            path.unlink()
    return len(paths)


ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
"""Pointers all three: `ctypes` converts integers of other types half as fast."""

_lock = threading.Lock()
_loaded: dict[str, int] = {}


class Entry(ENTRY.__base__):  # type: ignore[misc, name-defined]
    """Compiled code: `entry(lo, hi, args)` runs the threads lo … hi-1 and releases the GIL meanwhile.

    Attributes:
        address: Where the machine code starts.
        remarks: What it may say, by number.
    """

    _flags_, _argtypes_, _restype_ = ENTRY._flags_, ENTRY._argtypes_, None

    def __init__(self, address: int) -> None:
        self.address = address
        self.remarks: tuple[Remark, ...] = ()


def load(key: str, symbol: str, code: bytes) -> Entry:
    """Link object code into this process; the same code is linked once."""
    import llvmlite.binding as llvm

    with _lock:
        if key not in _loaded:
            engine = _engine()
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
            _loaded[key] = engine.get_function_address(symbol)
    return Entry(_loaded[key])
