"""Calls of operations of the rule table; functions that leave their results in variables."""

from __future__ import annotations

import ast

from tapedebug.compiler.lower import assignment, expressions, in_place
from tapedebug.compiler.lower._context import Context, Item, Items, counted
from tapedebug.lang.rules import COMPOSITES, RULES, Quantity

OUTPUTS = {"svd2": 3, "svd3": 3, "qr3": 2, "eig3": 2, "quat_to_axis_angle": 2}
"""Functions that may be given variables for their results, and how many results there are."""
SETTERS = {"transform_set_translation": "p", "transform_set_rotation": "q"}
"""Functions that change a part of their first argument."""


def lower(ctx: Context, node: ast.Call, name: str) -> Item:
    """The value of a call of an entry of the rule table: a number, a compound value, or several."""
    outputs = changed_by(node, name)
    split = len(node.args) - len(outputs)
    result = applied(ctx, node, name, *operands(ctx, node, name, node.args[:split]))
    if not outputs:
        return result
    assert isinstance(result, Items)
    for target, item in zip(outputs, result.items, strict=True):
        assignment.assign_to(ctx, target, item, target)
    return Items(())


def operands(ctx: Context, node: ast.Call, name: str, given: list[ast.expr]) -> list[Quantity]:
    """The arguments of an operation of the rule table, as many as it takes."""
    values = [expressions.argument(ctx, a) for a in given]
    ctx.at(node)
    entry = COMPOSITES.get(name)
    least, most = (entry.least, entry.most) if entry is not None else (RULES[name].arity,) * 2
    if len(values) < least or (most is not None and len(values) > most):
        takes = counted(least, "argument") if least == most else f"{least} to {most} arguments"
        names = entry.operands if entry is not None else ("x", "y", "z")
        ctx.type_error(
            node,
            f"{name}() takes {takes}; got {len(values)}",
            f"{name}({', '.join(names[:most])}): {(entry or RULES[name]).doc}",
        )
    return values


def applied(ctx: Context, node: ast.Call, name: str, *values: Quantity) -> Item:
    """An operation of the rule table on values."""
    entry = COMPOSITES.get(name)
    if entry is None:
        return expressions.apply(ctx, node, name, f"{name}()", *values)
    result = ctx.guarded(node, f"{name}()", entry.build, *in_place.stopped(ctx, name, values))
    return Items(result) if isinstance(result, tuple) else result


def set_part(ctx: Context, node: ast.Call, name: str) -> Items:
    """`transform_set_translation(t, p)` and its kin: an assignment to a part of a transform."""
    part = SETTERS[name]
    if len(node.args) != 2:
        ctx.type_error(node, f"{name}() takes 2 arguments; got {len(node.args)}", f"write {name}(t, {part})")
    target = ast.copy_location(ast.Attribute(node.args[0], part, ast.Store()), node)
    assignment.assign_to(ctx, target, expressions.value(ctx, node.args[1]), node.args[1])
    return Items(())


def changed_by(node: ast.Call, name: str = "") -> list[ast.expr]:
    """Return the arguments that a call writes to, as far as the function's name determines them."""
    if not name:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in SETTERS:
        return node.args[:1]
    count = OUTPUTS.get(name, 0)
    return node.args[-count:] if count and len(node.args) > count else []


def roots(targets: list[ast.expr]) -> dict[str, None]:
    """The variables that these are components of."""
    found: dict[str, None] = {}
    for target in targets:
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name):
            found[target.id] = None
    return found
