"""Source locations of user code: spans, the text of functions and notebook cells, excerpts with a caret."""

from __future__ import annotations

import ast
import copy
import inspect
import os
import stat
import sys
import weakref
from collections.abc import Callable, Container, Iterable
from dataclasses import field, replace
from functools import cached_property, lru_cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any, TypeGuard

from tapedebug import _files
from tapedebug._dataclass import dataclass
from tapedebug._syntax import parsed

LARGEST_SOURCE = 1 << 25
"""Largest file, in bytes, in which lines are looked up."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of user source: lines count from 1, columns from 0 (as in Python's `ast`)."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str
    text: str
    """The whole first source line of the span, without its line end."""

    def caret(self) -> str:
        """Return the source line with a line of carets under the span."""
        indent = len(self.text) - len(self.text.lstrip())
        start = max(self.column, indent)
        stop = self.end_column if self.end_line == self.line else len(self.text.rstrip())
        # Tabs keep their width on both lines, so that the caret is under the right character.
        lead = "".join("\t" if c == "\t" else " " for c in self.text[:start])
        return f"{self.text.rstrip()}\n{lead}{'^' * max(1, stop - start)}"


Site = tuple[CodeType, int]
"""A call site, captured cheaply: the code object and the index of the calling instruction."""


BETWEEN = frozenset({__name__.partition(".")[0], "IPython"})
"""Packages whose frames are never call sites: IPython runs between a cell and the magics of this package."""


_last_user: list[CodeType | None] = [None]
"""The code whose frame was a call site last."""


def call_site(depth: int = 2, between: Container[str] = BETWEEN) -> Site:
    """Return the first frame that is in none of these packages, `depth` frames up or further."""
    frame: FrameType | None = sys._getframe(depth)
    if frame is not None and frame.f_code is _last_user[0] and between is BETWEEN:  # most calls: a loop
        return frame.f_code, frame.f_lasti
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in between:
            if between is BETWEEN:
                _last_user[0] = frame.f_code
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    outer = sys._getframe(depth)
    return outer.f_code, outer.f_lasti


def site_span(site: Site) -> Span:
    """Return the file, lines and columns of a call site; the same object for all calls from there."""
    code, instruction = site
    return _span_of(code, code.co_filename, instruction)


@lru_cache(maxsize=1024)
def _span_of(code: CodeType, _file: str, instruction: int) -> Span:
    line, end_line, column, end_column = next(
        islice(code.co_positions(), instruction // 2, None), (None, None, None, None)
    )
    line = line or code.co_firstlineno
    end_line = end_line or line
    text = _files.file_line(code.co_filename, line)
    last = text if end_line == line else _files.file_line(code.co_filename, end_line)
    return Span(
        file=code.co_filename,
        line=line,
        column=characters(text, column or 0),
        end_line=end_line,
        end_column=len(last) if end_column is None else characters(last, end_column),
        function=code.co_name,
        text=text,
    )


def characters(text: str, column: int) -> int:
    """Return a column of a line in characters: Python counts the bytes of its UTF-8."""
    return column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))


@dataclass(frozen=True)
class Origin:
    """The source of one function: file, first line, and text; its syntax tree is read when it is needed."""

    file: str
    first_line: int
    lines: tuple[str, ...]
    function: str
    indent: int
    python: Callable[..., Any] = field(repr=False, compare=False)
    script: tuple[str, ...] = ()
    """Lines that define the function in a script, if `lines` are part of a larger statement."""

    @property
    def definition(self) -> tuple[str, ...]:
        """Return the lines that define the function in a script."""
        lead = self.indent
        return self.script or tuple(n[lead:] if not n[:lead].strip() else n for n in self.lines)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Origin:
        """Return the source of `function`, as it was when the function was decorated.

        Raises:
            OSError: There is no source (code run by `exec`), or it has changed (`ChangedSource`).
        """
        arrived = _ARRIVED.get(function)
        if arrived is not None:
            return arrived
        inner = inspect.unwrap(function)
        code, text = inner.__code__, _files.text_of(function)
        if text.lines:
            text.require(code, inner.__globals__)
        lines = _definition(code, text.lines)
        return cls(
            file=function.__code__.co_filename,
            first_line=code.co_firstlineno,
            lines=tuple(line.rstrip("\n") for line in lines),
            function=function.__name__,
            indent=_indent(lines[0]),
            python=function,
        )

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """Return the syntax tree, with lines counted from 1; OSError if it is not that of a function."""
        tree = self._parsed(self.lines)
        if tree is None:
            # Lines indented less than the function may be part of a string or of an expression.
            lines = _by_tokens(inspect.unwrap(self.python).__code__, _files.text_of(self.python).lines)
            tree = self._parsed([line.rstrip("\n") for line in lines])
        if tree is None:
            raise OSError("it is not a function definition")
        return tree

    def rewritten(self, transformers: Iterable[ast.NodeTransformer]) -> Origin:
        """Return the same source with its syntax tree as these leave it."""
        tree: Any = copy.deepcopy(self.tree)
        for transformer in transformers:
            tree = transformer.visit(tree)
        ast.fix_missing_locations(tree)
        return replace(self, script=tuple(ast.unparse(tree).splitlines())).with_tree(tree)

    @cached_property
    def header(self) -> ast.FunctionDef:
        """Return the syntax tree of parameters, decorators and return type; the body may be missing."""
        for number, line in enumerate(self.lines[:HEADER_LINES], 1):
            if line.rstrip().endswith(":"):
                tree = self._parsed([*self.lines[:number], " " * self.indent + "  pass"])
                if tree is not None:
                    return tree
        return self.tree

    def _parsed(self, lines: Iterable[str]) -> ast.FunctionDef | None:
        text = "\n".join(lines) + "\n"
        try:
            # Indented code is parsed inside an `if`: comments and docstrings may be indented less than it.
            (node,) = parsed("if 1:\n" * bool(self.indent) + text).body
        except (SyntaxError, ValueError):
            return None
        if self.indent:
            (node,) = node.body  # type: ignore[attr-defined]
            ast.increment_lineno(node, -1)
        return node if isinstance(node, ast.FunctionDef) else None

    @classmethod
    def of_lambda(cls, function: Callable[..., Any]) -> Origin:
        """Read the source of a lambda, as a function that returns its expression.

        Raises:
            OSError: The source is not available.
        """
        code = function.__code__
        text = _files.text_of(function)
        lines = text.lines
        if lines:
            text.require(code, function.__globals__)
        try:
            found = [node for node in ast.walk(parsed("".join(lines))) if _made(node, code)]
        except SyntaxError:
            found = []
        if not found:
            raise OSError("could not get source code")
        node = found[-1]  # the innermost of nested lambdas
        body = ast.copy_location(ast.Return(node.body), node.body)
        tree = ast.copy_location(ast.FunctionDef("lambda_", node.args, [body], [], None), node)
        script = ("@wp.func", *ast.unparse(ast.fix_missing_locations(tree)).splitlines())
        ast.increment_lineno(tree, 1 - node.lineno)
        last = node.end_lineno or node.lineno
        shown = tuple(line.rstrip("\n") for line in lines[node.lineno - 1 : last])
        return cls(code.co_filename, node.lineno, shown, "lambda_", 0, function, script).with_tree(tree)

    def to_send(self) -> Origin:
        """Return the origin without its function, so complete that another process needs no file for it."""
        sent = replace(self, python=_without_source)
        # parse here if the lines alone are not enough: lambdas, lines indented less than the definition
        return sent.with_tree(self.tree) if self.script or self._parsed(self.lines) is None else sent

    def arrive(self, python: Callable[..., Any]) -> Origin:
        """Make this the origin of a function that another process sent and whose file may not exist here."""
        found = replace(self, python=python)
        if "tree" in vars(self):
            found.with_tree(self.tree)
        _ARRIVED[python] = found
        return found

    def with_tree(self, tree: ast.FunctionDef) -> Origin:
        """Return an origin with this tree, for a function that has no definition in its source."""
        vars(self).update(tree=tree, header=tree)
        return self

    def span(self, node: ast.AST) -> Span:
        """Return the span of a node of `tree`."""
        start = getattr(node, "lineno", 1)
        stop = getattr(node, "end_lineno", start) or start
        return self.span_at(
            start,
            getattr(node, "col_offset", 0),
            stop,
            getattr(node, "end_col_offset", 0) or 0,
        )

    def span_at(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """Return the span of a range of lines of the function (from 1) and byte columns, as in `ast`."""
        offset = self.first_line - 1
        return Span(
            self.file,
            line + offset,
            characters(self._line(line), column),
            end_line + offset,
            characters(self._line(end_line), end_column),
            self.function,
            self._line(line),
        )

    def _line(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""


def _without_source() -> None:
    """Placeholder for the function of an origin that is sent to another process."""


_ARRIVED: weakref.WeakKeyDictionary[Callable[..., Any], Origin] = weakref.WeakKeyDictionary()
"""The origins of functions that came from other processes, whose code objects may name no file."""

HEADER_LINES = 60
"""Number of lines in which the body of a function must begin."""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _definition(code: CodeType, lines: list[str]) -> list[str]:
    """Return the lines of a function's definition from those of its file; OSError if it is not there."""
    found = _by_indentation(code, lines)
    return _by_tokens(code, lines) if found is None else found


def _by_tokens(code: CodeType, lines: list[str]) -> list[str]:
    """Return the lines of any function by tokenizing, which takes a hundred times as long."""
    rest = lines[code.co_firstlineno - 1 :]
    if not rest:
        raise OSError("could not get source code")
    return inspect.getblock(rest)


def _by_indentation(code: CodeType, lines: list[str]) -> list[str] | None:
    """Return the lines of a function by indentation; None if that is not sufficient."""
    first = code.co_firstlineno - 1
    last = max((line for *_, line in code.co_lines() if line), default=0)
    if not 0 <= first < last <= len(lines):
        return None
    indent = _indent(lines[first])
    if not any(line.lstrip().startswith("def ") for line in lines[first : last - 1]):
        return None  # no part of its body has a line of its own
    for number in range(last, len(lines)):
        text = lines[number].lstrip()
        if text and not text.startswith("#"):
            if len(lines[number]) - len(text) <= indent:
                break
            last = number + 1
    return lines[first:last]


def _made(node: ast.AST, code: CodeType) -> TypeGuard[ast.Lambda]:
    """True if a code object was compiled from this lambda: its instructions lie in the expression."""
    if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
        return False
    body = node.body
    start, stop = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    # A position of length zero denotes the lambda as a whole.
    places = [(line, at) for line, _, at, end in code.co_positions() if line and at is not None and at != end]
    return bool(places) and all(start <= place <= stop for place in places)


def display_file(file: str) -> str:
    """Return the display name of `file`: `In [4]` for a notebook cell, else the path itself."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return file
    shell = ipython.get_ipython()
    cells = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    count = cells.get(file)
    return f"In [{count}]" if count is not None else file


def source_line(file: str, line: int) -> str:
    """Return one line of a file or notebook cell, without its line end; empty if there is none."""
    return _files.file_line(file, line) if _is_source(file) else ""


def _is_source(file: str) -> bool:
    """True if lines of a file may be read; a trace of unknown origin may name any file.

    Reading a device or a pipe would never end. A name without a file may be a notebook cell.
    """
    if _files.is_read(file):
        return True
    if "\0" in file:
        return False
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_SOURCE
