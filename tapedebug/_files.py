"""The text of source files as Python executed them, because files are edited while a process runs."""

from __future__ import annotations
import __future__

import inspect
import linecache
import time
import weakref
from collections.abc import Callable, Iterator
from functools import reduce
from importlib.machinery import BuiltinImporter, SourceFileLoader
from operator import or_
from types import CodeType
from typing import Any

FUTURES = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
"""The flags of a code object that `from __future__ import …` sets."""
STARTED = time.time() - time.process_time()
"""The latest possible start time of the process."""
SLOW_START = 60.0
"""Seconds by which the process may have started earlier, if it was idle."""


class ChangedSource(OSError):
    """A file was edited after Python had read it and before its text was stored."""


class SourceText:
    """One version of a file.

    Attributes:
        file: The file name.
        lines: The lines with their line ends; empty if there is no such file.
        changed: The modification time of the file, in seconds; None for a notebook cell.
    """

    def __init__(self, file: str, lines: list[str]) -> None:
        entry = linecache.cache.get(file)
        self.file = file
        self.lines = lines
        self.changed: float | None = entry[1] if entry is not None and len(entry) > 1 else None
        self._codes: dict[int, list[CodeType]] = {}

    def codes(self, futures: int) -> list[CodeType]:
        """Return the code objects that Python compiles it to with these flags; none if it is not Python."""
        if futures not in self._codes:
            try:
                whole = compile("".join(self.lines), self.file, "exec", futures, dont_inherit=True)
                self._codes[futures] = list(_nested(whole))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._codes[futures] = []
        return self._codes[futures]

    def require(self, code: CodeType, names: dict[str, Any]) -> None:
        """Raise an error if Python did not compile a code object from this text.

        The text of a cell cannot change. Modules that an import hook rewrites (as pytest does for `assert`)
        differ from their text by intention. A file last written long before the process started is unchanged.

        Args:
            code: The code object of a function in the file.
            names: The globals of its module.

        Raises:
            ChangedSource: The code object was compiled from another text.
        """
        loader = names.get("__loader__")
        is_rewritten = not (loader in (None, BuiltinImporter) or type(loader) is SourceFileLoader)
        if self.changed is None or self.changed < STARTED - SLOW_START or is_rewritten:
            return
        if code not in self.codes(code.co_flags & FUTURES):
            raise ChangedSource(
                f"{self.file} was edited after Python had read it: "
                f"its text at line {code.co_firstlineno} is not the function that runs"
            )


_KEPT: weakref.WeakKeyDictionary[Callable[..., Any], SourceText] = weakref.WeakKeyDictionary()
"""The source texts of decorated functions."""
_LATEST: dict[str, SourceText] = {}
"""The most recently stored text of each file."""


def keep(function: Callable[..., Any]) -> None:
    """Store the current text of the file that defines a function; called when it is decorated."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    if code is None or function in _KEPT:
        return
    lines = _read(code.co_filename, inner.__globals__)
    text = _LATEST.get(code.co_filename)
    if text is None or text.lines is not lines:
        text = _LATEST[code.co_filename] = SourceText(code.co_filename, lines)
    _KEPT[function] = text


def text_of(function: Callable[..., Any]) -> SourceText:
    """Return the text of a function's file as it was when the function was decorated, else as it is now."""
    cached = _KEPT.get(function)
    if cached is None:
        inner = inspect.unwrap(function)
        file = inner.__code__.co_filename
        cached = SourceText(file, _read(file, inner.__globals__))
    return cached


def file_lines(file: str) -> list[str]:
    """Return the lines of a file as they were when one of its functions was decorated, else as first read."""
    cached = _LATEST.get(file)
    return linecache.getlines(file) if cached is None else cached.lines


def file_line(file: str, line: int) -> str:
    """Return one line of `file_lines`, counted from 1, without its line end; empty if there is none."""
    lines = file_lines(file)
    return lines[line - 1].rstrip("\n") if 0 < line <= len(lines) else ""


def is_read(file: str) -> bool:
    """True if the lines of a file are available without reading it."""
    return file in _LATEST or file in linecache.cache


def _read(file: str, names: dict[str, Any]) -> list[str]:
    linecache.checkcache(file)
    return linecache.getlines(file, names)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
