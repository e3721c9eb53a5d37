"""Structs in kernels: values made of fields, elements of arrays of structs, fields of arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tapedebug.compiler import flatten
from tapedebug.compiler.ir import Param
from tapedebug.compiler.lower import arrays, construct, control, expressions
from tapedebug.compiler.lower._context import (
    ArrayView,
    Context,
    IndexedView,
    Item,
    Static,
    StructArray,
    StructValue,
    Undefined,
    View,
    counted,
)
from tapedebug.lang import types as t
from tapedebug.lang._struct import near_field
from tapedebug.lang.rules import Quantity

# Parameters ------------------------------------------------------------------------------------------------


def bound(kind: Any, name: str, flat: Iterator[Param], number: Callable[[Param], Quantity]) -> Item:
    """What a declared parameter is in a kernel, of its flat parameters; `number` makes those by value."""
    parts = flatten.parts_of(kind)
    if parts is None:
        param = next(flat)
        return ArrayView(param) if param.is_array else number(param)
    items = [bound(inner, name + ending, flat, number) for ending, inner in parts]
    if isinstance(kind, t.IndexedArrayType):
        return IndexedView(name, kind, items[0], tuple(items[1:]))  # type: ignore[arg-type]
    if isinstance(kind, t.ArrayType):
        return StructArray(name, kind, tuple(items))  # type: ignore[arg-type]
    return StructValue(kind, tuple(items))


# Fields ----------------------------------------------------------------------------------------------------


def field(ctx: Context, node: ast.Attribute, base: StructValue | StructArray) -> Item:
    """`base.name`: what a field of a value holds, or the view of a field of an element."""
    require_field(ctx, node, base.kind)
    if isinstance(base, StructArray):
        return base.fields[list(base.kind.fields).index(node.attr)]
    item = base.get(node.attr)
    if isinstance(item, Undefined):
        ctx.name_error(node, f"`{ast.unparse(node)}` {item.reason}", f"assign `{ast.unparse(node)}` before")
    return item


def require_field(ctx: Context, node: ast.Attribute, kind: type[t.Struct]) -> None:
    """Refuse a name that is no field."""
    if node.attr not in kind.fields:
        mend = near_field(kind, node.attr).replace("'", "`")
        ctx.type_error(node, f"{t.type_name(kind)} has no field `{node.attr}`", mend)


def element_attribute(ctx: Context, node: ast.Attribute, base: StructArray) -> Item:
    """`particles.shape`, `particles[i].pos`."""
    if not base.free:
        return field(ctx, node, base)
    if node.attr == "shape" and base.free == base.type.ndim:
        return arrays.shape(ctx, base)
    if node.attr in base.kind.fields:
        indices = ", ".join("ijkl"[: base.free])
        ctx.type_error(
            node,
            f"`{node.attr}` is a field of the elements of the array `{base.name}`",
            f"index it first: {base.name}[{indices}].{node.attr}",
        )
    arrays.no_attribute(ctx, node, base)


def indexed(view: StructArray, add: Callable[[ArrayView], ArrayView]) -> StructArray:
    """The array with indices given to the views of all fields."""
    fields = (indexed(f, add) if isinstance(f, StructArray) else add(f) for f in view.fields)
    return replace(view, fields=tuple(fields))


# Elements --------------------------------------------------------------------------------------------------


def loaded(ctx: Context, node: ast.AST, item: Item) -> Item:
    """An item as a value: an element of an array of structs is read, everything else is what it is."""
    if isinstance(item, ArrayView) and not item.free:
        return arrays.read(ctx, node, arrays.whole(item))
    if isinstance(item, StructArray) and not item.free:
        return StructValue(item.kind, tuple(loaded(ctx, node, f) for f in item.fields))
    return item


def store(ctx: Context, node: ast.AST, target: StructArray, item: Item, source: ast.AST) -> None:
    """`particles[i] = p`."""
    for view, part in _pairs(ctx, target, item, source, "holds"):
        arrays.write(ctx, node, arrays.whole(view), part, source)


def add(ctx: Context, node: ast.AST, target: StructArray, item: Item, source: ast.AST) -> Item:
    """Add each field to that of an element, as atomics; the element before."""
    before = [
        arrays.add(ctx, node, arrays.whole(view), part, source)
        for view, part in _pairs(ctx, target, item, source, "adds")
    ]
    return control.rebuilt(item, iter(before))


def _pairs(
    ctx: Context, target: StructArray, item: Item, source: ast.AST, verb: str
) -> list[tuple[ArrayView, Quantity]]:
    item = as_value(ctx, source, item) or item
    if not isinstance(item, StructValue) or item.kind is not target.kind:
        kind = t.type_name(target.kind)
        ctx.type_error(
            source,
            f"`{target.name}` {verb} {kind}; got {control.kind_of(item)}",
            f"make a {kind} of it, or write one field: {target.name}[…].{next(iter(target.kind.fields))} = …",
        )
    leaves = control.leaves_of(item)
    return list(zip(_views(target), leaves or [], strict=True))


def _views(target: StructArray) -> Iterator[ArrayView]:
    for inner in target.fields:
        if isinstance(inner, StructArray):
            yield from _views(inner)
        else:
            yield inner


# Values ----------------------------------------------------------------------------------------------------


def zeros(ctx: Context, kind: Any) -> Item:
    """The value of a type whose numbers are 0; array fields hold none."""
    if t.is_struct(kind):
        return StructValue(kind, tuple(zeros(ctx, inner) for inner in kind.fields.values()))
    if isinstance(kind, t.ArrayType | t.IndexedArrayType):
        return Undefined("holds no array")
    return construct.zeros(ctx, kind)


def as_value(ctx: Context, node: ast.AST, item: Item) -> StructValue | None:
    """A struct that was captured from Python as constants, or the item where it is a struct; else None."""
    if isinstance(item, Static) and isinstance(item.value, t.Struct):
        return _captured(ctx, node, item.value)
    return item if isinstance(item, StructValue) else None


def _captured(ctx: Context, node: ast.AST, value: t.Struct) -> StructValue:
    kind = type(value)
    fields: list[Item] = []
    for name, inner in kind.fields.items():
        held = value.__dict__[name]
        if isinstance(held, t.Struct):
            fields.append(_captured(ctx, node, held))
        elif t.is_scalar(inner):
            fields.append(ctx.constant(node, held, inner))
        elif t.is_compound(inner):
            number = ctx.number(node, held)
            assert number is not None
            fields.append(number)
        else:
            fields.append(Undefined("is an array of a captured struct: pass the struct as an argument"))
    return StructValue(kind, tuple(fields))


def construct_struct(ctx: Context, node: ast.Call, kind: type[t.Struct]) -> StructValue:
    """`State(q, mass=1.0)`: fields in order or by name; the others are zeros."""
    names = list(kind.fields)
    shown = f"{t.type_name(kind)}({', '.join(names)})"
    if len(node.args) > len(names):
        ctx.type_error(
            node, f"{shown} has {counted(len(names), 'field')}; got {len(node.args)} values", shown
        )
    made = zeros(ctx, kind)
    assert isinstance(made, StructValue)
    given = list(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None:
            ctx.syntax_error(node, "a kernel cannot use `**`", "name each field")
        if keyword.arg not in names:
            place = ast.copy_location(ast.Attribute(node.func, keyword.arg, ast.Load()), keyword)
            require_field(ctx, place, kind)
        if keyword.arg in dict(given):
            ctx.type_error(keyword, f"the field `{keyword.arg}` has two values", "give it once")
        given.append((keyword.arg, keyword.value))
    for name, argument in given:
        inner = kind.fields[name]
        number = expressions.literal(ctx, argument) if t.is_scalar(inner) else None
        if number is not None and inner is not t.bool:
            item: Item = ctx.constant(argument, number, inner)
        else:
            item = expressions.lower(ctx, argument)
        made = made.put(name, fitting(ctx, argument, f"{t.type_name(kind)}.{name}", inner, item))
    ctx.at(node)
    return made


def fitting(ctx: Context, node: ast.AST, name: str, kind: Any, item: Item) -> Item:
    """An item that a field of type `kind` is to hold; the error is at `node`."""
    if t.is_struct(kind):
        found = as_value(ctx, node, item)
        if found is not None and found.kind is kind:
            return found
    elif isinstance(kind, t.ArrayType | t.IndexedArrayType):
        if isinstance(item, View) and type_of(item) == kind:
            return item
    else:
        q = ctx.quantity(node, item)
        if q.type is not kind:
            mend = arrays.mend_value(kind, q.type)
            ctx.type_error(node, f"`{name}` is {t.type_name(kind)}; got {t.type_name(q.type)}", mend)
        return q
    got = control.kind_of(item)
    word = "a struct of that type" if t.is_struct(kind) else "an array of that type"
    ctx.type_error(node, f"`{name}` is {t.type_name(kind)}; got {got}", f"assign {word}")


def type_of(item: Item) -> Any:
    """The type that a parameter must be declared with to take an item; None where it has none."""
    match item:
        case Quantity():
            return item.type
        case StructValue():
            return item.kind
        case ArrayView() | StructArray():
            return t.ArrayType(item.type.dtype, item.free)
        case IndexedView():
            return t.IndexedArrayType(item.type.dtype, item.free)
        case Static() if isinstance(item.value, t.Struct):
            return type(item.value)
    return None
