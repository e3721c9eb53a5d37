"""The calls in a source file by their place, and the expressions of a launch's arguments."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace

from tapedebug._files import file_line, file_lines
from tapedebug._source import Span, characters
from tapedebug._syntax import parsed

POSITIONS = ("kernel", "dim", "inputs", "outputs")
"""The first parameters of `launch`, which calls may pass by position."""


def calls_in(file: str) -> dict[tuple[int, int, int], ast.Call]:
    """Return all calls in a file by line, column and end column; columns count characters."""
    return _calls(file, file_line(file, 1))


@functools.lru_cache(maxsize=64)
def _calls(file: str, first_line: str) -> dict[tuple[int, int, int], ast.Call]:
    """Return the calls. `first_line` detects a cell or file that was replaced."""
    lines = file_lines(file)
    try:
        tree = parsed("".join(lines))
    except (SyntaxError, ValueError, RecursionError):  # notebook cells with magics are stored as plain Python
        return {}
    return {
        (
            node.lineno,
            characters(lines[node.lineno - 1], node.col_offset),
            characters(lines[(node.end_lineno or node.lineno) - 1], node.end_col_offset or 0),
        ): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }


def arguments(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr]:
    """Return the expressions that a call passes by keyword, or by position before the first star.

    Args:
        call: The call.
        parameters: The names of the parameters that may be passed by position.
    """
    before_star = itertools.takewhile(lambda each: not isinstance(each, ast.Starred), call.args)
    found = dict(zip(parameters, before_star, strict=False))
    return found | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def has_star(call: ast.Call) -> bool:
    """True if a call passes arguments that its source does not list."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(
        keyword.arg is None for keyword in call.keywords
    )


def argument(call: ast.Call, name: str) -> ast.expr | None:
    """Return the expression of a parameter of `launch`, given by keyword or by position."""
    return arguments(call, POSITIONS).get(name)


def argument_span(site: Span, name: str) -> Span:
    """Return the place of one argument of the launch at `site`; `site` itself if it is not found."""
    call = _launch_at(site)
    return _span(site, None if call is None else argument(call, name))


def element_span(site: Span, number: int) -> Span:
    """Return the place of an argument of the kernel that is launched at `site`.

    Args:
        site: The place of the call.
        number: The position in the lists `inputs` and `outputs` together, from 0.

    Returns:
        The place of the element, or `site` if the lists are not written out in the call.
    """
    call = _launch_at(site)
    for name in ("inputs", "outputs") if call is not None else ():
        assert call is not None
        given = argument(call, name)
        if given is None and not has_star(call):
            continue
        if not isinstance(given, ast.List | ast.Tuple):
            return site
        for element in given.elts:
            if isinstance(element, ast.Starred):
                return site
            if number == 0:
                return _span(site, element)
            number -= 1
    return site


def _launch_at(site: Span) -> ast.Call | None:
    """Return the call at a place if it passes `inputs`, or is one of `launch`."""
    call = calls_in(site.file).get((site.line, site.column, site.end_column))
    if call is None:
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    by_name = any(keyword.arg == "inputs" for keyword in call.keywords)
    return call if name == "launch" or by_name else None


def _span(site: Span, node: ast.expr | None) -> Span:
    """Return the place of an expression in the file of `site`, or `site` itself for None."""
    if node is None:
        return site
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    first, last = (file_line(site.file, line) for line in (node.lineno, end_line))
    return replace(
        site,
        line=node.lineno,
        column=characters(first, node.col_offset),
        end_line=end_line,
        end_column=characters(last, end_column),
        text=first,
    )
