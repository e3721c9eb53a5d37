"""Assignments: to variables, array elements and components; plain, unpacking and augmented."""

from __future__ import annotations

import ast
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.compiler.lower import (
    arrays,
    calls,
    components,
    custom,
    expressions,
    in_place,
    references,
    statics,
    structs,
)
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
from tapedebug.compiler.source_variables import InPlace
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


def assign(ctx: Context, node: ast.Assign) -> None:
    """`target = value`."""
    first = node.targets[0]
    if (
        isinstance(first, ast.Tuple)
        and isinstance(node.value, ast.Call)
        and expressions.is_call_of(ctx, node.value, "tid")
    ):
        item: Any = calls.thread_index(ctx, node.value, len(first.elts))
    else:
        item = expressions.lower(ctx, node.value)
    for target in node.targets:
        assign_to(ctx, target, item, node.value)


def annotated(ctx: Context, node: ast.AnnAssign) -> None:
    """`target: type = value`: the value must be of that type; a number that is written down takes it."""
    if node.value is None:
        return
    declared = expressions.lower(ctx, node.annotation)
    try:
        kind = t.canonical(declared.value if isinstance(declared, Static) else None)
    except TypeError:
        ctx.type_error(
            node.annotation,
            f"`{ast.unparse(node.annotation)}` is not a type of values",
            "use float, int, bool, wp.vec3, …, or leave the annotation out",
        )
    if t.is_struct(kind):
        item = expressions.lower(ctx, node.value)
        item = structs.fitting(ctx, node.value, ast.unparse(node.target), kind, item)
        assign_to(ctx, node.target, item, node.value)
        return
    number = expressions.literal(ctx, node.value) if t.is_scalar(kind) and kind is not t.bool else None
    if number is not None and not (kind in t.INTEGERS and isinstance(number, float)):
        q = ctx.constant(node.value, number, kind)
    else:
        q = expressions.value(ctx, node.value)
    if q.type is not kind:
        ctx.type_error(
            node.value,
            f"`{ast.unparse(node.target)}` is declared as {t.type_name(kind)}; got {t.type_name(q.type)}",
            arrays.hint_value(kind, q.type),
        )
    assign_to(ctx, node.target, q, node.value)


def assign_to(ctx: Context, target: ast.expr, item: Any, source: ast.expr) -> None:
    """Let a variable, an array element or a component hold the item; misfits are shown at its `source`."""
    match target:
        case ast.Name():
            named = _named(ctx, target, item, source)
            if not references.assigned(ctx, target, named, source):
                ctx.env[target.id] = in_place.copied(ctx, named)
        case ast.Tuple() | ast.List():
            _unpack(ctx, target, item, source)
        case ast.Subscript() | ast.Attribute():
            place = arrays.place_of(ctx, target)
            if isinstance(place, StructArray):
                structs.store(ctx, target, place, item, source)
            elif isinstance(target, ast.Subscript) and custom.is_adjoint(ctx, target.value):
                _assign_adjoint(ctx, target, ctx.quantity(source, item), source)
            elif place is not None:
                arrays.write(ctx, target, place, ctx.quantity(source, item), source)
            else:
                _put(ctx, _part(ctx, target), item, source)
        case _:
            ctx.syntax_error(target, "this cannot be assigned to", "assign to a variable or an array element")


def _assign_adjoint(ctx: Context, target: ast.Subscript, q: Quantity, source: ast.expr) -> None:
    """`adjoint[x] = …` of a number or vector."""
    name = custom.variable(ctx, target)
    kind = ctx.quantity(target, ctx.env[name]).type
    if q.type is not kind:
        message = f"`{ast.unparse(target)}` is {t.type_name(kind)}; got {t.type_name(q.type)}"
        ctx.type_error(source, message, arrays.hint_value(kind, q.type, source))
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
        ctx.name_error(source, f"the value {item.reason}", item.hint or "assign it before")
    if isinstance(item, Items) and not item.items:
        ctx.quantity(source, item)  # which refuses it
    return item


def _unpack(ctx: Context, target: ast.Tuple | ast.List, item: Any, source: ast.expr) -> None:
    if isinstance(item, Static):
        item = ctx.number(source, item.value) or item
    if isinstance(item, Quantity) and t.is_compound(item.type):
        item = Items(tuple(components.get(item, (k,)) for k in range(item.type.shape[0])))
    count = len(item.items) if isinstance(item, Items) else 1
    starred = next((e for e in target.elts if isinstance(e, ast.Starred)), None)
    if starred is not None:
        ctx.syntax_error(
            starred, "a kernel cannot unpack into a starred name", "write one name for each value"
        )
    if not isinstance(item, Items) or count != len(target.elts):
        ctx.type_error(
            target,
            f"{counted(len(target.elts), 'name')} cannot take {counted(count, 'value')}",
            "write one name for each value",
        )
    for element, part in zip(target.elts, item.items, strict=True):
        if isinstance(part, Undefined) and isinstance(element, ast.Name):
            ctx.env[element.id] = part  # nothing is wrong until it is read
        else:
            assign_to(ctx, element, part, source)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a variable: of a struct a field, of that or of a compound value a component.

    Attributes:
        name: The variable.
        fields: The fields that lead to what `old` is; none where it is the variable itself.
        kind: The type that is declared for the last of them.
        old: What holds the component, or the field that is meant as a whole.
        where: The component; empty where it is all of `old`.
    """

    name: str
    fields: tuple[str, ...]
    kind: Any
    old: Item
    where: components.Path


def _part(ctx: Context, target: ast.Subscript | ast.Attribute) -> _Part:
    """Return the part that `v.x`, `m[i, j]`, `m[i]` or `s.mass` names: assigning gives a new variable."""
    base, steps = _owner(ctx, target)
    if isinstance(base, ast.Subscript):
        name = custom.variable(ctx, base)
        item = ctx.env[name]
    elif isinstance(base, ast.Name):
        name, item = base.id, ctx.lookup(base)
    else:
        ctx.syntax_error(target, "this cannot be assigned to", "assign to a variable or an array element")
    if isinstance(item, View):
        ctx.type_error(
            target, "a kernel cannot change an array's attributes", f"write to an element: {name}[i] = …"
        )
    if isinstance(item, Static):
        ctx.syntax_error(
            target,
            f"`{name}` comes from outside the function and cannot be changed",
            statics.as_parameter(name, item.value, written=True)
            if isinstance(target, ast.Subscript) and not isinstance(item.value, t.Compound)
            else f"copy it first: v = {name}",
        )
    fields, kind, old, steps = structs.steps_to(ctx, steps, item)
    where: components.Path = ()
    if steps:
        old = ctx.quantity(base, old)
        for step in steps:
            where = components.step(ctx, step, old.type, where)
    return _Part(name, fields, kind, old, where)


def _put(ctx: Context, part: _Part, item: Item, source: ast.expr, how: InPlace = "component") -> None:
    """Let a part of a variable hold an item."""
    if part.where:
        old = ctx.quantity(source, part.old)
        item = _with_component(ctx, old, part.where, ctx.quantity(source, item), source)
        item = in_place.replaced(ctx, old, item, how)
    else:
        item = structs.fitting(ctx, source, ".".join((part.name, *part.fields)), part.kind, item)
        item = in_place.replaced(ctx, part.old, item, "field")
    whole = ctx.env[part.name]
    ctx.env[part.name] = whole.put(part.fields, item) if isinstance(whole, StructValue) else item


def _with_component(
    ctx: Context, old: Quantity, where: components.Path, q: Quantity, source: ast.expr
) -> Quantity:
    kind = components.type_at(old.type, where)
    if q.type is not kind:
        ctx.type_error(
            source,
            f"{components.noun(where, kind)} of {t.type_name(old.type)} is "
            f"{t.type_name(kind)}; got {t.type_name(q.type)}",
            arrays.hint_value(kind, q.type, source),
        )
    return components.put(old, where, q)


def _owner(ctx: Context, target: ast.expr) -> tuple[ast.expr, list[ast.Subscript | ast.Attribute]]:
    """Return the variable (or `adjoint[x]`) that a target is part of, and the steps to the part."""
    steps: list[ast.Subscript | ast.Attribute] = []
    while isinstance(target, ast.Subscript | ast.Attribute):
        if isinstance(target, ast.Subscript) and custom.is_adjoint(ctx, target.value):
            break
        steps.insert(0, target)
        target = target.value
    return target, steps


def augmented(ctx: Context, node: ast.AugAssign) -> None:
    """`target += value` and the like; what the target's indices compute is computed once."""
    target = node.target
    place = None if isinstance(target, ast.Name) else arrays.place_of(ctx, target)
    if isinstance(target, ast.Name) or (place is None and _is_whole_adjoint(ctx, target)):
        load = _as_load(target)
        before, given = expressions.lower(ctx, load), expressions.lower(ctx, node.value)
        own = expressions.of_structs(ctx, node, expressions.BINARY[type(node.op)][0], before, given)
        if own is not None:
            assign_to(ctx, target, own, node.value)
            return
        old, right = ctx.quantity(load, before), ctx.quantity(node.value, given)
        assign_to(ctx, target, expressions.binary(ctx, node, node.op, old, right), node.value)
        return
    if isinstance(place, StructArray):
        ctx.type_error(
            node,
            f"`{place.name}` holds {t.type_name(place.kind)}, which operators do not take",
            f"change its fields one by one: {', '.join(place.kind.fields)}",
        )
    if place is None:
        part = _part(ctx, target)
        read = in_place.copied(ctx, components.get(ctx.quantity(target, part.old), part.where))
        now = ctx.quantity(target, read)
        right = expressions.value(ctx, node.value)
        adds = isinstance(target, ast.Subscript) and isinstance(node.op, ast.Add | ast.Sub)
        new = expressions.binary(ctx, node, node.op, now, right)
        _put(ctx, part, new, node.value, "added" if adds else "component")
        return
    right = expressions.value(ctx, node.value)
    # `a[i] += v` adds as an atomic does: what stood there passes no derivative on but its own.
    if isinstance(node.op, ast.Add | ast.Sub) and right.type is place.type:
        if isinstance(node.op, ast.Sub):
            right = expressions.apply(ctx, node, "neg", "`-`", right)
        arrays.add(ctx, target, place, right, node.value)
        return
    for param in references.params_of(place.view):
        in_place.rewritten(ctx, node, param)
    old = arrays.read(ctx, target, place)
    arrays.write(ctx, target, place, expressions.binary(ctx, node, node.op, old, right), node.value)


def _is_whole_adjoint(ctx: Context, target: ast.expr) -> bool:
    """True if a target is `adjoint[x]` itself."""
    return isinstance(target, ast.Subscript) and custom.is_adjoint(ctx, target.value)


def _as_load(target: ast.expr) -> ast.expr:
    """A variable, or `adjoint[x]`, as an expression."""
    if isinstance(target, ast.Name):
        loaded: ast.expr = ast.Name(target.id, ast.Load())
    else:
        assert isinstance(target, ast.Subscript)
        loaded = ast.Subscript(target.value, target.slice, ast.Load())
    return ast.copy_location(loaded, target)
