"""The lines of a custom gradient that change adjoints."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tapedebug.diagnose.experiments.places import place_of
from tapedebug.trace import Location

if TYPE_CHECKING:
    from tapedebug.compiler.function import Function


def own_name(function: Function, gradient: Function, name: str) -> str:
    """The name that a gradient gives a parameter of its function."""
    plain = name.partition("[")[0]
    names, own = function.parameters, gradient.parameters
    return own[names.index(plain)] if plain in names and names.index(plain) < len(own) else plain


def adjoint_line(gradient: Function, own: str | None = None, *, assigned: bool = False) -> Location | None:
    """The first line of a gradient that changes the adjoint of a parameter; its definition where none does.

    Args:
        gradient: The gradient.
        own: Its name of the parameter; None for any.
        assigned: Prefer an assignment to an addition.
    """
    tree = gradient.origin.tree
    found: list[ast.stmt] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_is_adjoint(inner, own) for target in targets for inner in ast.walk(target)):
                found.append(node)
    if assigned:
        found = [node for node in found if isinstance(node, ast.Assign)] or found
    return place_of(gradient.origin.span(found[0] if found else tree))


def _is_adjoint(node: ast.AST, name: str | None) -> bool:
    """Return whether a node is `wp.adjoint[name]`."""
    if not isinstance(node, ast.Subscript) or (name and getattr(node.slice, "id", None) != name):
        return False
    value = node.value
    return (value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")) == "adjoint"
