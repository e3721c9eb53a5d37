"""Where user code stands: spans, the source of functions and notebook cells, and how both are shown."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


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
        """The source line with a line of carets under the span."""
        indent = len(self.text) - len(self.text.lstrip())
        start = max(self.column, indent)
        stop = self.end_column if self.end_line == self.line else len(self.text.rstrip())
        # Tabs keep their width on both lines, so that the caret stands under the right character.
        lead = "".join("\t" if c == "\t" else " " for c in self.text[:start])
        return f"{self.text.rstrip()}\n{lead}{'^' * max(1, stop - start)}"

    def as_dict(self) -> dict[str, Any]:
        """The span as the `location` of findings and traces."""
        return {
            "file": display_file(self.file),
            "line": self.line,
            "column": self.column,
            "function": self.function,
        }


@dataclass(frozen=True)
class Origin:
    """The source of one function: file, first line, text, and syntax tree with lines that count from 1."""

    file: str
    first_line: int
    lines: tuple[str, ...]
    function: str
    indent: int
    tree: ast.FunctionDef = field(repr=False, compare=False)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Origin:
        """Read the source of `function`; OSError where Python keeps none (code run by `exec`)."""
        lines, first = inspect.getsourcelines(function)
        indent = len(lines[0]) - len(lines[0].lstrip())
        try:
            # Indented code is parsed inside an `if`: comments and docstrings may begin further left than it.
            module = ast.parse("if 1:\n" * bool(indent) + "".join(lines))
        except SyntaxError as error:
            raise OSError("it is not a function definition") from error
        tree = module.body[0].body[0] if indent else module.body[0]  # type: ignore[attr-defined]
        if not isinstance(tree, ast.FunctionDef):
            raise OSError("it is not a function definition")
        if indent:
            ast.increment_lineno(tree, -1)
        return cls(
            file=function.__code__.co_filename,
            first_line=first,
            lines=tuple(line.rstrip("\n") for line in lines),
            function=function.__name__,
            indent=indent,
            tree=tree,
        )

    def span(self, node: ast.AST) -> Span:
        """The span of a node of `tree`."""
        start = getattr(node, "lineno", 1)
        stop = getattr(node, "end_lineno", start) or start
        return self.span_at(
            start,
            getattr(node, "col_offset", 0),
            stop,
            getattr(node, "end_col_offset", 0) or 0,
        )

    def span_at(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """The span of a range given in lines of the function (from 1) and bytes of them, as in `ast`."""
        offset = self.first_line - 1
        return Span(
            self.file,
            line + offset,
            self._characters(line, column),
            end_line + offset,
            self._characters(end_line, end_column),
            self.function,
            self._line(line),
        )

    def _line(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def _characters(self, line: int, column: int) -> int:
        """A column in characters: Python's syntax trees count bytes of UTF-8."""
        text = self._line(line)
        return column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))


def display_file(file: str) -> str:
    """A name for `file` that a person knows: `In [4]` for a notebook cell, else the path itself."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return file
    shell = ipython.get_ipython()
    cells = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    count = cells.get(file)
    return f"In [{count}]" if count is not None else file


def source_line(file: str, line: int) -> str:
    """One line of a file or notebook cell, without its line end; empty where there is none."""
    return linecache.getline(file, line).rstrip("\n")
