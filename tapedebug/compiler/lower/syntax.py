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


def assigns_first(loop: ast.AST, name: str) -> bool:
    """Return True if the first statement of a loop that names a variable gives it a value, on every path."""
    if not isinstance(loop, ast.For | ast.While) or (
        isinstance(loop, ast.While) and _mentions(loop.test, name)
    ):
        return False
    for statement in loop.body:
        if not _mentions(statement, name):
            continue
        if isinstance(statement, ast.For):
            return _is_named(statement.target, name) and not _mentions(statement.iter, name)
        if isinstance(statement, ast.Assign):
            given = any(_is_named(part, name) for target in statement.targets for part in _parts(target))
            return given and not _mentions(statement.value, name)
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            return _is_named(statement.target, name) and not _mentions(statement.value, name)
        return False
    return False


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_is_named(inner, name) for inner in ast.walk(node))


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _parts(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, ast.Tuple | ast.List) else [target]
