"""Assignments: to variables, array elements and components; plain, unpacking and augmented."""

from __future__ import annotations

import ast
from typing import Any

from tapedebug.compiler.lower import arrays, calls, components, custom, expressions, structs
from tapedebug.compiler.lower._context import (
    Context,
    Item,
    Items,
    Static,
    StructArray,
    StructValue,
    Undefined,
    View,
    counted,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

Step = ast.Subscript | ast.Attribute
"""From a variable to what an assignment to a part of it replaces."""


def assign(ctx: Context, node: ast.Assign) -> None:
    """`target = value`."""
    if len(node.targets) > 1:
        ctx.syntax_error(
            node, "a kernel cannot assign to several targets at once", "write one assignment each"
        )
    target = node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Call) and calls.is_tid(ctx, node.value):
        item: Any = calls.thread_index(ctx, node.value, len(target.elts))
    else:
        item = expressions.lower(ctx, node.value)
    assign_to(ctx, target, item, node.value)


def assign_to(ctx: Context, target: ast.expr, item: Any, source: ast.expr) -> None:
    """Let a variable, an array element or a component hold the item; misfits are shown at its `source`."""
    match target:
        case ast.Name():
            ctx.env[target.id] = _named(ctx, target, item, source)
        case ast.Tuple() | ast.List():
            _unpack(ctx, target, item, source)
        case ast.Subscript() | ast.Attribute():
            place = arrays.place_of(ctx, target)
            if isinstance(target, ast.Subscript) and custom.is_adjoint(ctx, target.value):
                _assign_adjoint(ctx, target, ctx.quantity(source, item), source)
            elif isinstance(place, StructArray):
                structs.store(ctx, target, place, item, source)
            elif place is not None:
                arrays.write(ctx, target, place, ctx.quantity(source, item), source)
            else:
                _assign_component(ctx, target, item, source)
        case _:
            ctx.syntax_error(target, "this cannot be assigned to", "assign to a variable or an array element")


def _assign_adjoint(ctx: Context, target: ast.Subscript, q: Quantity, source: ast.expr) -> None:
    """`adjoint[x] = …` of a number or vector."""
    name = custom.variable(ctx, target)
    kind = ctx.quantity(target, ctx.env[name]).type
    if q.type is not kind:
        message = f"`{ast.unparse(target)}` is {t.type_name(kind)}; got {t.type_name(q.type)}"
        ctx.type_error(source, message, arrays.mend_value(kind, q.type))
    ctx.env[name] = q


def _named(ctx: Context, target: ast.Name, item: Any, source: ast.expr) -> Any:
    """The item as a variable's value: numbers get the variable's name in generated code."""
    if isinstance(item, Static):
        known = ctx.number(source, item.value) or structs.as_value(ctx, source, item)
        return item if known is None else known
    if isinstance(item, Quantity):
        labels = components.labels(item.type) if len(item.parts) > 1 else []
        for place, part in enumerate(item.parts):
            if not part.value.hint and part.value.op is not None and part.value.op.kind != "const":
                part.value.hint = target.id + (f"_{labels[place]}" if place < len(labels) else "")
    if isinstance(item, Undefined):
        ctx.name_error(source, f"the value {item.reason}", "assign it before")
    if isinstance(item, Items) and not item.items:
        ctx.quantity(source, item)  # which refuses it
    return item


def _unpack(ctx: Context, target: ast.Tuple | ast.List, item: Any, source: ast.expr) -> None:
    if isinstance(item, Static):
        item = ctx.number(source, item.value) or item
    if isinstance(item, Quantity) and t.is_compound(item.type):
        item = Items(tuple(components.get(item, (k,)) for k in range(item.type.shape[0])))
    count = len(item.items) if isinstance(item, Items) else 1
    if not isinstance(item, Items) or count != len(target.elts):
        ctx.type_error(
            target,
            f"{counted(len(target.elts), 'name')} cannot take {counted(count, 'value')}",
            "write one name for each value",
        )
    for element, part in zip(target.elts, item.items, strict=True):
        assign_to(ctx, element, part, source)


def _assign_component(
    ctx: Context, target: ast.Subscript | ast.Attribute, item: Item, source: ast.expr
) -> None:
    """`v.x = …`, `m[i, j] = …`, `m[i] = …`, `state.mass = …` of a variable: it gets a new value."""
    base, steps = _owner(ctx, target)
    if isinstance(base, ast.Subscript):
        name = custom.variable(ctx, base)
        old = ctx.env[name]
    elif isinstance(base, ast.Name):
        name, old = base.id, ctx.lookup(base)
    else:
        ctx.syntax_error(target, "this cannot be assigned to", "assign to a variable or an array element")
    if isinstance(old, View):
        ctx.type_error(
            target, "a kernel cannot change an array's attributes", f"write to an element: {name}[i] = …"
        )
    if isinstance(old, Static):
        ctx.syntax_error(
            target,
            f"`{name}` comes from outside the function and cannot be changed",
            f"copy it first: v = {name}",
        )
    ctx.env[name] = _with(ctx, base, old, steps, item, source)


def _with(ctx: Context, base: ast.expr, old: Item, steps: list[Step], item: Item, source: ast.expr) -> Item:
    """A value with what `steps` lead to replaced by `item`."""
    if isinstance(old, StructValue):
        step = steps[0]
        if not isinstance(step, ast.Attribute):
            ctx.type_error(
                step, f"the struct {t.type_name(old.kind)} has fields, and no elements", "name a field"
            )
        structs.require_field(ctx, step, old.kind)
        if len(steps) > 1:
            new = _with(ctx, step, structs.field(ctx, step, old), steps[1:], item, source)
        else:
            name = ast.unparse(step)
            new = structs.fitting(ctx, source, name, old.kind.fields[step.attr], item)
        return old.put(step.attr, new)
    return _with_component(ctx, ctx.quantity(base, old), steps, ctx.quantity(source, item), source)


def _with_component(
    ctx: Context, old: Quantity, steps: list[Step], new: Quantity, source: ast.expr
) -> Quantity:
    where: components.Path = ()
    kind = old.type
    for step in steps:
        if isinstance(step, ast.Attribute):
            where += (components.named(ctx, step, kind, step.attr),)
        else:
            where += components.path(ctx, step, kind)
        kind = components.type_at(old.type, where)
    if new.type is not kind:
        ctx.type_error(
            source,
            f"a {'component' if t.is_scalar(kind) else 'row'} of {t.type_name(old.type)} is "
            f"{t.type_name(kind)}; got {t.type_name(new.type)}",
            arrays.mend_value(kind, new.type),
        )
    return components.put(old, where, new)


def _owner(ctx: Context, target: ast.expr) -> tuple[ast.expr, list[Step]]:
    """What a target is a component of (a variable, `adjoint[x]`), and the steps from it to the component."""
    steps: list[Step] = []
    while isinstance(target, ast.Subscript | ast.Attribute):
        if isinstance(target, ast.Subscript) and custom.is_adjoint(ctx, target.value):
            break
        steps.insert(0, target)
        target = target.value
    return target, steps


def augmented(ctx: Context, node: ast.AugAssign) -> None:
    """`target += value` and the like."""
    place = arrays.place_of(ctx, node.target) if not isinstance(node.target, ast.Name) else None
    if isinstance(place, StructArray):
        ctx.type_error(
            node,
            f"`{place.name}` holds {t.type_name(place.kind)}, which operators do not take",
            f"change its fields one by one: {', '.join(place.kind.fields)}",
        )
    right = expressions.value(ctx, node.value)
    if place is None:
        load = _as_load(node.target)
        result = expressions.binary(ctx, node, node.op, expressions.value(ctx, load), right)
        assign_to(ctx, node.target, result, node.value)
        return
    # `a[i] += v` adds as an atomic does: what stood there passes no derivative on but its own.
    if isinstance(node.op, ast.Add | ast.Sub) and right.type is place.type:
        if isinstance(node.op, ast.Sub):
            right = expressions.apply(ctx, node, "neg", "`-`", right)
        arrays.add(ctx, node.target, place, right, node.value)
        return
    old = arrays.read(ctx, node.target, place)
    arrays.write(ctx, node.target, place, expressions.binary(ctx, node, node.op, old, right), node.value)


def _as_load(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment as an expression."""
    match target:
        case ast.Name():
            loaded: ast.expr = ast.Name(target.id, ast.Load())
        case ast.Attribute():
            loaded = ast.Attribute(target.value, target.attr, ast.Load())
        case ast.Subscript():
            loaded = ast.Subscript(target.value, target.slice, ast.Load())
        case _:
            return target
    return ast.copy_location(loaded, target)
