"""Compile C with the system's compiler into shared objects, kept beside the object cache.

A shared object is named by its source, the compiler, its options and the processor, and a file beside it has
the digest of its content: what is damaged or foreign is made again. Files appear whole, by rename.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.compiler import cache_limit, linker, objects
from tapedebug.compiler.cache_limit import NATIVE
from tapedebug.compiler.native.source import SYMBOL
from tapedebug.compiler.native.unit import ADJOINT, FORWARD, REPLAY

OPTIONS = ("-O2", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off", "-fvisibility=default", "-std=gnu17")
STRICT = ("implicit-function-declaration", "int-conversion", "incompatible-pointer-types", "return-type")
CONSTANT = ("cast-qual",)
ERROR = re.compile(r"^(\w+) of \w+:(\d+):(\d+): (?:fatal )?error: (.*)$", re.MULTILINE)
ELSEWHERE = re.compile(r"^.*?error: (.*)$", re.MULTILINE)


class NoCompiler(Exception):
    """There is no C compiler."""


@dataclass
class Refused(Exception):
    """The C compiler refuses a source.

    Attributes:
        title: Which snippet, as in `source.TITLES`; empty where it is none.
        line, column: Where in it, from 1.
        message: The compiler's message.
    """

    title: str
    line: int
    column: int
    message: str


@dataclass(frozen=True)
class Compiler:
    """A C compiler."""

    command: tuple[str, ...]
    version: str
    clang: bool

    @property
    def strict(self) -> list[str]:
        """Options that make errors of what C++ forbids and C allows."""
        return [f"-Werror={name}" for name in STRICT]

    @property
    def constant(self) -> list[str]:
        """Options that make every write through a pointer to constants an error."""
        loses = "incompatible-pointer-types-discards-qualifiers" if self.clang else "discarded-qualifiers"
        return [f"-Werror={name}" for name in (*CONSTANT, loses)]


def compiler() -> Compiler:
    """The system's: `CC`, else `cc`, `gcc` or `clang`.

    Raises:
        NoCompiler: There is none of them.
    """
    chosen = os.environ.get("CC")
    candidates = [shlex.split(chosen)] if chosen else [["cc"], ["gcc"], ["clang"]]
    for command in candidates:
        path = shutil.which(command[0]) if command else None
        if path is not None:
            return _described((path, *command[1:]), os.path.realpath(path), os.stat(path).st_mtime_ns)
    raise NoCompiler(f"CC is {chosen!r}, which is no program" if chosen else "there is no cc, gcc or clang")


@cache
def _described(command: tuple[str, ...], path: str, changed: int) -> Compiler:
    import subprocess

    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return Compiler(command, f"{' '.join(command)} {path} {changed} {done.stdout}", "clang" in done.stdout)


def run(source: str, *options: str) -> None:
    """Compile a source.

    Raises:
        Refused: The compiler rejects the code.
    """
    found = compiler()
    command = [*found.command, "-x", "c", "-", *OPTIONS, *found.strict, *options]
    import subprocess

    env = {**os.environ, "LC_ALL": "C"}  # errors in English, with plain quotes
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, env=env)
    if done.returncode == 0:
        return
    place = ERROR.search(done.stderr)
    if place is not None:
        raise Refused(place[1], int(place[2]), int(place[3]), place[4])
    match = ELSEWHERE.search(done.stderr)
    raise Refused("", 0, 0, match[1] if match else done.stderr.strip() or f"exit code {done.returncode}")


def accepts(sources: Sequence[str]) -> list[bool]:
    """Return a flag a source: it compiles although no pointer to constants may be written through."""
    found = compiler()
    command = [*found.command, "-x", "c", "-", *OPTIONS, *found.strict, *found.constant, "-fsyntax-only"]
    import subprocess

    running = []
    for source in sources:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
        running.append((process, source))
    for process, source in running:
        process.communicate(source)
    return [process.returncode == 0 for process, _ in running]


# The cache -------------------------------------------------------------------------------------------------


def key_of(source: str) -> str:
    """The key of a source: with the compiler, its options and the processor."""
    made_by = f"{compiler().version}\n{OPTIONS}\n{objects.processor()}\n{sys.platform}"
    return hashlib.sha256(f"{made_by}\n{source}".encode()).hexdigest()[:20]


_lock = threading.Lock()
_loaded: dict[str, ctypes.CDLL] = {}


def provide(stem: str, source: str) -> None:
    """Load the shared object of a source, compiled if it is not in the cache.

    Args:
        stem: What its symbols begin with; ends with the key.
        source: With `SYMBOL` in place of the stem.

    Raises:
        Refused: The compiler rejects the code.
    """
    with _lock:
        if stem in _loaded:
            return
        place = objects.trusted_folder(NATIVE)
        path = None if place is None else place / f"{stem}.so"
        if path is None or not _whole(path):
            path = _compiled(f"{stem}.so", source.replace(SYMBOL, stem))
        _load(stem, path)


def _compiled(file: str, source: str) -> Path:
    """The shared object in the cache; where that cannot be written to, in a folder of this process."""
    for find in (partial(objects.private_folder, NATIVE), _private):
        try:
            place = find()
            if place is None:
                continue
            handle, name = tempfile.mkstemp(".tmp", dir=place)
        except OSError:
            continue
        os.close(handle)
        try:
            run(source, "-shared", "-o", name, "-lm")
            os.chmod(name, objects.PRIVATE)  # some linkers make a new file, as umask has it
            digest = _digest(Path(name))
            final = place / file
            os.replace(name, final)
            objects.write_private(final.with_suffix(".sha256"), digest.encode())
            return final
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name)
    raise NoCompiler("there is no folder to compile into")


@cache
def _private() -> Path:
    return Path(tempfile.mkdtemp(prefix="tapedebug-native-"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _whole(path: Path) -> bool:
    """True if a shared object is in the cache, undamaged, and owned by this user."""
    beside = path.with_suffix(".sha256")
    try:
        states = path.stat(), beside.stat()
        if not all(map(objects.is_private, states)) or beside.read_text(encoding="utf-8") != _digest(path):
            return False
    except (OSError, UnicodeDecodeError):
        return False
    for each, status in zip((path, beside), states, strict=True):
        cache_limit.mark_used(each, status)
    return True


def _load(stem: str, path: Path) -> None:
    library = ctypes.CDLL(str(path))
    for variant in (FORWARD, ADJOINT, REPLAY):
        found = getattr(library, f"{stem}_{variant}", None)
        if found is not None:
            address = ctypes.cast(found, ctypes.c_void_p).value
            assert address is not None
            linker.give(f"{stem}_{variant}", address)
    _loaded[stem] = library


def function(symbol: str) -> Any:
    """A loaded function, for plain Python."""
    stem = symbol.rpartition("_")[0]
    found: Any = getattr(_loaded[stem], symbol)
    return found
