"""The caller's expression for each argument of a launch: `x_next`, `net.first`, `forces[step]`.

The variables of a function are gone after it has returned, but its source is still available. This costs
nothing while a tape records: a record stores only its call site.
"""

from __future__ import annotations

import ast
import itertools

from tapedebug._calls import argument, arguments, calls_in, has_star
from tapedebug.contract import Place

LONGEST = 40


def argument_texts(kind: str, site: Place) -> list[str | None]:
    """Return the source text of each argument of the call at `site`, a launch or a copy; None for no name.

    The list is empty if the call or its source is not found, for instance because the arguments are in a
    variable.
    """
    call = calls_in(site.file).get((site.line, site.column, site.end_column))
    if call is None:
        return []
    if kind == "kernel":
        return _launch(call)
    if kind == "python":
        return _python(call)
    if kind == "copy":
        return _copy(call)
    return []


def launch_texts(file: str, line: int, column: int) -> tuple[list[str | None], list[str | None]] | None:
    """Return the source texts of `inputs` and of `outputs` of the launch that begins at a place in a file.

    None stands for an argument without a name; the result is None if the call is not found.
    """
    calls = calls_in(file)
    found = [call for place, call in calls.items() if place[:2] == (line, column)]
    for call in sorted(
        found, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0), reverse=True
    ):
        inputs, outputs = (_listed(call, name) for name in ("inputs", "outputs"))
        if inputs is not None and outputs is not None:
            return inputs, outputs
    return None


def _launch(call: ast.Call) -> list[str | None]:
    """Return the elements of the two lists of `launch(kernel, dim, inputs, outputs)`."""
    texts: list[str | None] = []
    for name in ("inputs", "outputs"):
        arguments = _arguments(call, name)
        texts += [_text(element) for element in arguments or []]
        if arguments is None or len(arguments) < _count(call, name):
            return texts
    return texts


def _listed(call: ast.Call, name: str) -> list[str | None] | None:
    """Return the texts of one of the lists; None if it is not a list in the source."""
    arguments = _arguments(call, name)
    if arguments is None or len(arguments) < _count(call, name):
        return None
    return [_text(element) for element in arguments]


def _arguments(call: ast.Call, name: str) -> list[ast.expr] | None:
    """Return the elements of one list of a launch, up to the first with a star; None if they are not here."""
    given = argument(call, name)
    if given is None:
        return None if has_star(call) else []
    if not isinstance(given, (ast.List, ast.Tuple)):
        return None
    return list(itertools.takewhile(lambda element: not isinstance(element, ast.Starred), given.elts))


def _count(call: ast.Call, name: str) -> int:
    given = argument(call, name)
    return len(given.elts) if isinstance(given, (ast.List, ast.Tuple)) else 0


def _python(call: ast.Call) -> list[str | None]:
    """Return each array of `launch_python(forward, backward, reads, writes)` once, in parameter order."""
    places = arguments(call, ("forward", "backward", "reads", "writes"))
    texts: list[str | None] = []
    for name in ("reads", "writes"):
        given = places.get(name)
        if not isinstance(given, (ast.List, ast.Tuple)):
            return texts
        if any(isinstance(element, ast.Starred) for element in given.elts):
            return texts
        texts += [text for e in given.elts if (text := _text(e)) is None or text not in texts]
    return texts


def _copy(call: ast.Call) -> list[str | None]:
    """Return destination and source of `copy(dest, src)`, `dest.assign(src)` or `clone(src)`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = arguments(call, ("dest", "src") if name == "copy" else ("src",))
    dest, src = (None if (each := given.get(key)) is None else _text(each) for key in ("dest", "src"))
    if name == "clone":
        return [None, src]
    if name == "assign" and isinstance(call.func, ast.Attribute):
        return [_text(call.func.value), src]
    return [dest, src] if name == "copy" else []


def _text(expression: ast.expr) -> str | None:
    """Return the text of a name, attribute or element; None for other expressions."""
    inner: ast.expr = expression
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return None
    text = ast.unparse(expression)
    return text if len(text) <= LONGEST else None
