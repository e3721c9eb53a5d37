"""What the caller wrote for each argument of a launch: `x_next`, `net.first`, `forces[step]`.

The variables of a function are gone when it has returned; its source is not. Nothing of this costs anything
while a tape records: a record keeps only where it was called.
"""

from __future__ import annotations

import ast
import functools
import linecache

from tapedebug._source import Span

LONGEST = 40


def argument_texts(kind: str, site: Span) -> list[str | None]:
    """Return the source text of each argument of the call at `site`, a launch or a copy; None for no name.

    An empty list is returned where the call or its source is not found, for instance because the
    arguments are in a variable.
    """
    call = _calls(site.file, linecache.getline(site.file, 1)).get((site.line, site.column, site.end_column))
    if call is None:
        return []
    if kind == "kernel":
        return _launch(call)
    if kind == "copy":
        return _copy(call)
    return []


@functools.lru_cache(maxsize=64)
def _calls(file: str, first_line: str) -> dict[tuple[int, int, int], ast.Call]:
    """All calls in a file by position. `first_line` notices a cell or file that was replaced."""
    source = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # notebook cells with magics are stored as plain Python
        return {}
    return {
        (node.lineno, node.col_offset, node.end_col_offset or 0): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }


def _launch(call: ast.Call) -> list[str | None]:
    """`launch(kernel, dim, inputs, outputs)`: the elements of the two lists."""
    given: dict[str, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    for name, argument in zip(("kernel", "dim", "inputs", "outputs"), call.args, strict=False):
        given.setdefault(name, argument)
    texts: list[str | None] = []
    for name in ("inputs", "outputs"):
        if name not in given:
            continue
        arguments = given[name]
        if not isinstance(arguments, (ast.List, ast.Tuple)):
            return texts
        for element in arguments.elts:
            if isinstance(element, ast.Starred):
                return texts
            texts.append(_text(element))
    return texts


def _copy(call: ast.Call) -> list[str | None]:
    """`copy(dest, src)`, `dest.assign(src)` and `clone(src)`: destination and source."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first: str | None = _text(call.args[0]) if call.args else None
    if name == "clone":
        return [None, first]
    if name == "assign" and isinstance(call.func, ast.Attribute):
        return [_text(call.func.value), first]
    return [first, _text(call.args[1])] if name == "copy" and len(call.args) > 1 else []


def _text(expression: ast.expr) -> str | None:
    """The text of a name, attribute or element; anything else has no name."""
    inner: ast.expr = expression
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return None
    text = ast.unparse(expression)
    return text if len(text) <= LONGEST else None
