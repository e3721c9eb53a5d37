"""Structs in kernels: values made of fields, elements of arrays of structs, fields of arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeGuard

from tapedebug.compiler import flatten
from tapedebug.compiler.ir import Param
from tapedebug.compiler.lower import arrays, construct, contents, expressions, views
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldArrays,
    HeldView,
    IndexedView,
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
from tapedebug.lang.struct_types import near_field

# Parameters ------------------------------------------------------------------------------------------------


def bound(kind: Any, name: str, flat: Iterator[Param], number: Callable[[Param], Quantity]) -> Item:
    """Return a declared parameter, made of its flat parameters; `number` makes those passed by value."""
    parts = flatten.parts_of(kind)
    if parts is None:
        param = next(flat)
        return ArrayView(param) if param.is_array else number(param)
    items = [bound(inner, name + ending, flat, number) for ending, inner in parts]
    if isinstance(kind, t.IndexedArrayType):
        return IndexedView(name, kind, items[0], tuple(items[1:]))  # type: ignore[arg-type]
    if isinstance(kind, t.HeldArrayType):
        return HeldArrays(items[0], items[1], kind.array)  # type: ignore[arg-type, return-value]
    if isinstance(kind, t.ArrayType):
        return StructArray(name, kind, tuple(items))  # type: ignore[arg-type]
    return StructValue(kind, tuple(items))


# Fields ----------------------------------------------------------------------------------------------------


def is_field(node: ast.AST, base: StructValue) -> TypeGuard[ast.Attribute]:
    """True if a node names a field of a value."""
    return isinstance(node, ast.Attribute) and node.attr in base.kind.fields


def field(ctx: Context, node: ast.Attribute, base: StructValue) -> Item:
    """Return the value of a field of a value."""
    require_field(ctx, node, node.attr, base.kind)
    item = base.get(node.attr)
    if isinstance(item, Undefined):
        shown = ast.unparse(node)
        ctx.name_error(node, f"`{shown}` {item.reason}", item.hint or f"assign `{shown}` before")
    return item


def element_field(
    ctx: Context, node: ast.Attribute | ast.Subscript, base: StructArray
) -> ArrayView | StructArray | HeldView:
    """A field of an element of an array of structs."""
    if isinstance(node, ast.Subscript):
        _no_elements(ctx, node, base.kind)
    require_field(ctx, node, node.attr, base.kind)
    found = base.fields[list(base.kind.fields).index(node.attr)]
    return views.held(ctx, node, found) if isinstance(found, HeldArrays) else found


def _no_elements(ctx: Context, node: ast.AST, kind: Any) -> NoReturn:
    ctx.type_error(
        node, f"the struct {t.type_name(kind)} has no elements", f"use its fields: {', '.join(kind.fields)}"
    )


def require_field(ctx: Context, node: ast.AST, name: str, kind: Any) -> None:
    """Refuse a name that is no field."""
    if name not in kind.fields:
        hint = near_field(kind, name).replace("'", "`")
        ctx.type_error(node, f"{t.type_name(kind)} has no field `{name}`", hint)


def steps_to(
    ctx: Context, steps: list[ast.Subscript | ast.Attribute], item: Item
) -> tuple[tuple[str, ...], Any, Item, list[ast.Subscript | ast.Attribute]]:
    """The fields that steps of a target lead through.

    Returns:
        Their names, the type of the last, what it holds, and the steps that are left.
    """
    path: tuple[str, ...] = ()
    kind: Any = None
    while steps and isinstance(item, StructValue):
        step, *steps = steps
        if isinstance(step, ast.Subscript):
            _no_elements(ctx, step, item.kind)
        require_field(ctx, step, step.attr, item.kind)
        kind = item.kind.fields[step.attr]
        item = field(ctx, step, item) if steps else item.get(step.attr)
        path += (step.attr,)
    return path, kind, item, steps


# Elements --------------------------------------------------------------------------------------------------


def loaded(ctx: Context, node: ast.AST, item: Item) -> Item:
    """An item as a value: an element of an array of structs is read, everything else is what it is."""
    if isinstance(item, ArrayView | ChosenView) and not item.free:
        return arrays.read(ctx, node, arrays.Place(item))
    if isinstance(item, StructArray) and not item.free:
        fields = (
            views.held(ctx, node, f) if isinstance(f, HeldArrays) else loaded(ctx, node, f)
            for f in item.fields
        )
        return StructValue(item.kind, tuple(fields))
    return item


def store(ctx: Context, node: ast.AST, target: StructArray, item: Item, source: ast.AST) -> None:
    """`particles[i] = p`."""
    for view, part in _pairs(ctx, target, item, source):
        arrays.write(ctx, node, arrays.Place(view), part, source)


def add(ctx: Context, node: ast.AST, target: StructArray, item: Item, source: ast.AST) -> Item:
    """Add each field to that of an element, as atomics; the element before."""
    before = []
    for view, part in _pairs(ctx, target, item, source):
        was = arrays.add(ctx, node, arrays.Place(view), part, source)
        assert was is not None  # a whole field has certain components
        before.append(was)
    return contents.rebuilt(item, iter(before))


def _pairs(
    ctx: Context, target: StructArray, item: Item, source: ast.AST
) -> list[tuple[ArrayView, Quantity]]:
    item = as_value(ctx, source, item) or item
    if not isinstance(item, StructValue) or item.kind is not target.kind:
        kind = t.type_name(target.kind)
        ctx.type_error(
            source,
            f"`{target.name}` holds {kind}; got {contents.kind_of(item)}",
            f"make a {kind} of it, or write one field: {target.name}[…].{next(iter(target.kind.fields))} = …",
        )
    if target.kind.holds_arrays():
        ctx.syntax_error(
            source,
            f"a kernel does not store arrays in the elements of `{target.name}`, as writing a whole "
            f"{t.type_name(target.kind)} would",
            f"write the other fields one by one ({target.name}[…].… = …); assign arrays outside the kernel",
        )
    leaves = contents.leaves_of(item)
    return list(zip(_views(target), leaves or [], strict=True))


def _views(target: StructArray) -> Iterator[ArrayView]:
    for inner in target.fields:
        if isinstance(inner, StructArray):
            yield from _views(inner)
        elif isinstance(inner, ArrayView):  # `_pairs` refuses arrays
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
        content = value.__dict__[name]
        if isinstance(content, t.Struct):
            fields.append(_captured(ctx, node, content))
        elif t.is_scalar(inner):
            fields.append(ctx.constant(node, content, inner))
        elif t.is_compound(inner):
            number = ctx.number(node, content)
            assert number is not None
            fields.append(number)
        else:
            reason = "is an array of a struct that was captured"
            fields.append(Undefined(reason, "pass the struct as an argument of the launch"))
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
        require_field(ctx, keyword, keyword.arg, kind)
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
        made = made.put((name,), fitting(ctx, argument, f"{t.type_name(kind)}.{name}", inner, item))
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
            hint = arrays.hint_value(kind, q.type)
            ctx.type_error(node, f"`{name}` is {t.type_name(kind)}; got {t.type_name(q.type)}", hint)
        return q
    got = contents.kind_of(item)
    word = "a struct of that type" if t.is_struct(kind) else "an array of that type"
    ctx.type_error(node, f"`{name}` is {t.type_name(kind)}; got {got}", f"assign {word}")


def type_of(item: Item) -> Any:
    """The type that a parameter must be declared with to take an item; None where it has none."""
    match item:
        case Quantity():
            return item.type
        case StructValue():
            return item.kind
        case Items():
            return tuple(type_of(part) for part in item.items)
        case ArrayView() | StructArray():
            return t.ArrayType(item.type.dtype, item.free)
        case IndexedView():
            return t.IndexedArrayType(item.type.dtype, item.free)
        case HeldView() | ChosenView():
            return t.ArrayType(item.type.dtype, item.free)
        case Static() if isinstance(item.value, t.Struct):
            return type(item.value)
    return None
