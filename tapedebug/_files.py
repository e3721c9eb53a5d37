"""The text of source files as Python ran them, because files are edited while a process lives."""

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
"""When the process began, at the latest."""
SLOW_START = 60.0
"""Seconds by which it may have begun earlier, waiting for something."""


class ChangedSource(OSError):
    """A file was edited after Python had read it, before its text was kept."""


class SourceText:
    """One version of a file.

    Attributes:
        file: Its name.
        lines: Its lines, with their ends; none where there is no such file.
        changed: When the file was written, in seconds; None for a notebook cell.
    """

    def __init__(self, file: str, lines: list[str]) -> None:
        entry = linecache.cache.get(file)
        self.file = file
        self.lines = lines
        self.changed: float | None = entry[1] if entry is not None and len(entry) > 1 else None
        self._codes: dict[int, list[CodeType]] = {}

    def codes(self, futures: int) -> list[CodeType]:
        """The code objects that Python makes of it with these flags; none where it is no Python."""
        if futures not in self._codes:
            try:
                whole = compile("".join(self.lines), self.file, "exec", futures, dont_inherit=True)
                self._codes[futures] = list(_nested(whole))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._codes[futures] = []
        return self._codes[futures]

    def require(self, code: CodeType, names: dict[str, Any]) -> None:
        """Refuse a code object that Python did not make of this text.

        A cell's text cannot change. Modules that an import hook rewrites (as pytest does for `assert`) differ
        from their text by intention. What was written long before the process began is what it read.

        Args:
            code: The code object of a function in the file.
            names: The globals of its module.

        Raises:
            ChangedSource: It was made of another text.
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
"""The texts that decorated functions were made of."""
_LATEST: dict[str, SourceText] = {}
"""By file, the text that was kept last."""


def keep(function: Callable[..., Any]) -> None:
    """Keep the text of the file that a function stands in, as the file is now: where it is decorated."""
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
    """Return the text of a function's file as it was where the function was decorated, else as it is now."""
    kept = _KEPT.get(function)
    if kept is None:
        inner = inspect.unwrap(function)
        file = inner.__code__.co_filename
        kept = SourceText(file, _read(file, inner.__globals__))
    return kept


def file_lines(file: str) -> list[str]:
    """Return the lines of a file as they were where a function of it was decorated, else as first read."""
    kept = _LATEST.get(file)
    return linecache.getlines(file) if kept is None else kept.lines


def file_line(file: str, line: int) -> str:
    """Return one line of `file_lines`, counted from 1, without its line end; empty where there is none."""
    lines = file_lines(file)
    return lines[line - 1].rstrip("\n") if 0 < line <= len(lines) else ""


def is_read(file: str) -> bool:
    """Return whether a file's lines are at hand without reading it."""
    return file in _LATEST or file in linecache.cache


def _read(file: str, names: dict[str, Any]) -> list[str]:
    linecache.checkcache(file)
    return linecache.getlines(file, names)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
