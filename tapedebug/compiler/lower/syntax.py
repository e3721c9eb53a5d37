"""The variables that statements assign and their jumps, from the syntax tree alone."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from tapedebug.compiler.lower import operations


def local_names(body: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that statements assign as a whole: local variables, in Python's sense."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def assigned_names(
    body: Iterable[ast.stmt],
    is_memory: Callable[[ast.expr], bool],
    changed_by: Callable[[ast.Call], list[ast.expr]],
) -> list[str]:
    """The variables that statements assign, in order of appearance; not what `is_memory` holds of.

    `changed_by` gives the arguments that a call changes.
    """
    names: dict[str, Any] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
            changed = changed_by(node) if isinstance(node, ast.Call) else []
            # `v.x = …` and `v[0] = …` change the variable v.
            if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
                changed = [node]
            names.update(operations.roots([c for c in changed if not is_memory(c)]))
    return list(names)


def jumps(body: Iterable[ast.stmt]) -> set[str]:
    """Return those of break, continue and return in statements that concern the enclosing loop."""
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.Break():
                found.add("%break")
            case ast.Continue():
                found.add("%continue")
            case ast.Return():
                found.add("%return")
            case ast.If():
                found |= jumps([*statement.body, *statement.orelse])
            case ast.For() | ast.While():
                found |= jumps(statement.body) & {"%return"}
    return found


def always_returns(body: list[ast.stmt]) -> bool:
    """True if a function's statements always end with a return."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and always_returns(last.body) and always_returns(last.orelse)
    if isinstance(last, ast.While):
        forever = isinstance(last.test, ast.Constant) and bool(last.test.value)
        return forever and "%break" not in jumps(last.body)
    return isinstance(last, ast.Return)


def always_jumps(body: list[ast.stmt]) -> bool:
    """True if control never reaches the end of the statements."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_jumps(last.body) and always_jumps(last.orelse)
    return isinstance(last, ast.Return | ast.Break | ast.Continue)
