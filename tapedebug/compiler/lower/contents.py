"""The numbers that an item consists of, in order, and their names in messages."""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldView,
    IndexedView,
    Item,
    Items,
    Static,
    StructArray,
    StructValue,
    Undefined,
    View,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


def zeros_like(ctx: Context, item: Item) -> Item:
    """Zeros of the same types."""
    if isinstance(item, Quantity):
        parts = [ctx.builder.expr(ctx.builder.constant(0, p.type)) for p in item.parts]
        return Quantity(item.type, tuple(parts))
    if isinstance(item, Items):
        return Items(tuple(zeros_like(ctx, i) for i in item.items))
    if isinstance(item, StructValue):
        return StructValue(item.kind, tuple(zeros_like(ctx, i) for i in item.fields))
    return item


def leaves_of(item: Item | None, views: Context | None = None) -> list[Quantity] | None:
    """The numbers and vectors that an item consists of; None where it is something else.

    With `views`, the indices that views of arrays are made of are among them.
    """
    match item:
        case Quantity():
            return [item]
        case ArrayView() | StructArray() | IndexedView() | HeldView() | ChosenView() if views is not None:
            return [Quantity(number.type, (views.builder.expr(number),)) for number in item.numbers]
        case Items() | StructValue():
            leaves = [leaves_of(part, views) for part in _parts(item)]
            found = [leaf for part in leaves for leaf in part or ()]
            return None if None in leaves else found
    return None


def _parts(item: Items | StructValue) -> list[Item]:
    """Return the items of a tuple or struct, without fields that are not assigned yet."""
    if isinstance(item, Items):
        return list(item.items)
    return [part for part in item.fields if not isinstance(part, Undefined)]


def rebuilt(item: Item, leaves: Iterator[Quantity]) -> Item:
    """The item with its numbers and vectors replaced, in order."""
    match item:
        case Items():
            return Items(tuple(rebuilt(part, leaves) for part in item.items))
        case StructValue():
            fields = (f if isinstance(f, Undefined) else rebuilt(f, leaves) for f in item.fields)
            return StructValue(item.kind, tuple(fields))
        case ArrayView() | StructArray() | IndexedView() | HeldView() | ChosenView():
            return item.remade(next(leaves).scalar.value for _ in item.numbers)
    return next(leaves)


def alike(one: Item | None, two: Item | None) -> bool:
    """True if two items differ in numbers only."""
    if isinstance(one, Items) and isinstance(two, Items) and len(one.items) == len(two.items):
        return all(alike(a, b) for a, b in zip(one.items, two.items, strict=True))
    if isinstance(one, StructValue) and isinstance(two, StructValue) and one.kind is two.kind:
        return all(alike(a, b) for a, b in zip(one.fields, two.fields, strict=True))
    if isinstance(one, View) and isinstance(two, View):
        return one.form == two.form
    return kind_of(one) == kind_of(two)


def kind_of(item: Item | None) -> str:
    """Return the kind of an item for a message: a type, an array, several values."""
    match item:
        case Quantity():
            return t.type_name(item.type)
        case ArrayView() | StructArray() | IndexedView() | HeldView() | ChosenView():
            return f"the array `{item.shown}`"
        case StructValue():
            return t.type_name(item.kind)
        case Items():
            return f"({', '.join(kind_of(i) for i in item.items)})"
        case Static():
            return f"the Python object `{getattr(item.value, '__name__', item.value)}`"
    return "undefined"
