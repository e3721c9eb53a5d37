"""`adjoint[x]` in custom gradients: numbers, views of adjoint arrays, structs of both."""

from __future__ import annotations

from dataclasses import replace

from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldArrays,
    HeldView,
    IndexedView,
    Item,
    Items,
    StructArray,
    StructValue,
    Undefined,
    View,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


def differentiable(item: Item) -> bool:
    """True if an input has an adjoint."""
    if isinstance(item, StructValue):
        return any(differentiable(field) for field in item.fields)
    if isinstance(item, View):
        return bool(t.is_float(item.type.dtype))
    return isinstance(item, Quantity) and t.scalar_of(item.type) in t.FLOATS


def is_counted(item: Item) -> bool:
    """True if an adjoint is held by a variable, not by arrays alone."""
    return isinstance(item, StructValue) or (isinstance(item, Quantity) and differentiable(item))


def fresh(ctx: Context, name: str, item: Item) -> Item:
    """Return an adjoint in the value's form, of placeholders; parts without an adjoint cannot be read."""
    if isinstance(item, StructValue):
        return StructValue(item.kind, tuple(fresh(ctx, name, field) for field in item.fields))
    if isinstance(item, View):
        return view(item)
    if isinstance(item, Quantity) and differentiable(item):
        parts = (ctx.builder.expr(Value(p.type, f"adj_{name}")) for p in item.parts)
        return Quantity(item.type, tuple(parts))
    return Undefined("has no adjoint", "only floats and values made of them do")


def results(result: Item) -> list[Item]:
    """The results of a function, each of which has an adjoint."""
    if isinstance(result, Items):
        return [one for item in result.items for one in results(item)]
    return [result]


def seed(ctx: Context, item: Item) -> Item:
    """The adjoint of a result."""
    if isinstance(item, StructValue):
        return StructValue(item.kind, tuple(seed(ctx, field) for field in item.fields))
    assert isinstance(item, Quantity)
    parts = (ctx.builder.expr(Value(p.type, f"adj_{p.value.hint or 'ret'}")) for p in item.parts)
    return Quantity(item.type, tuple(parts))


def view(item: View) -> View:
    """The adjoint of an array."""
    if isinstance(item, ArrayView):
        return replace(item, adjoint=True)
    if isinstance(item, StructArray):
        fields = tuple(
            replace(f, data=view(f.data)) if isinstance(f, HeldArrays) else view(f)  # type: ignore[arg-type]
            for f in item.fields
        )
        return replace(item, name=f"wp.adjoint[{item.name}]", fields=fields)  # type: ignore[arg-type]
    if isinstance(item, HeldView):
        return replace(item, data=view(item.data))  # type: ignore[arg-type]
    if isinstance(item, ChosenView):
        return replace(item, yes=view(item.yes), no=view(item.no))  # type: ignore[arg-type]
    assert isinstance(item, IndexedView)
    return replace(item, name=f"wp.adjoint[{item.name}]", data=view(item.data))  # type: ignore[arg-type]


def pairs(one: Item, two: Item) -> list[tuple[Quantity, Quantity]]:
    """The numbers of two items of one type that both have."""
    if isinstance(one, StructValue) and isinstance(two, StructValue):
        both = zip(one.fields, two.fields, strict=True)
        return [pair for a, b in both for pair in pairs(a, b)]
    if isinstance(one, Quantity) and isinstance(two, Quantity):
        return [(one, two)]
    return []
