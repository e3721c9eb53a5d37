"""Atomics: `atomic_add(array, i, …, value)` and its kin, which give back the value before.

Threads of one entry run in order, so that a read followed by a write is atomic; all but sums are lowered to
that, and their derivatives are those of what is read, chosen and written. Which thread won is then a matter
of what was read, which the adjoint replays as it does for any array that a launch reads and writes.
"""

from __future__ import annotations

import ast
from typing import Any

from tapedebug.compiler.effects import AccessRecord
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import arrays, contents, expressions, in_place, structs, views
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldView,
    IndexedView,
    Item,
    StructArray,
    View,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

NAMES = {
    "atomic_add": "value",
    "atomic_sub": "value",
    "atomic_min": "value",
    "atomic_max": "value",
    "atomic_exch": "value",
    "atomic_cas": "compare, value",
    "atomic_and": "value",
    "atomic_or": "value",
    "atomic_xor": "value",
}
"""The operands of each after the array and its indices, for messages."""

_EXTREMES = {"atomic_min": "lt", "atomic_max": "gt"}
_BITS = {"atomic_and": "bit_and", "atomic_or": "bit_or", "atomic_xor": "bit_xor"}
_ORDERED = ("atomic_exch", "atomic_cas")


def lower(ctx: Context, node: ast.Call, name: str, used: bool) -> Item:
    """The value of an atomic: what the element held before; `used` is false where the call is a statement."""
    view, element = _element(ctx, node, name)
    if isinstance(element, StructArray):
        return _of_struct(ctx, node, name, used, element)
    place = arrays.Place(element)
    values = node.args[1 + view.free :]
    operands = [expressions.value(ctx, value) for value in values]
    ctx.uses_atomic_result = ctx.uses_atomic_result or used or name in _ORDERED
    if name in ("atomic_add", "atomic_sub"):
        q = (
            operands[0]
            if name == "atomic_add"
            else expressions.apply(ctx, node, "neg", f"{name}()", operands[0])
        )
        ctx.at(node)
        before = arrays.add(ctx, node, place, q, values[0])
        assert before is not None  # a whole element has certain components
        return in_place.stopped_result(ctx, name, before) if used else before
    for operand, source in zip(operands, values, strict=True):
        arrays.require(ctx, source, place, operand)
    _check_type(ctx, node, name, place)
    ctx.at(node)
    before = arrays.in_chosen(
        ctx, node, place, lambda one, element: _in_order(ctx, node, name, one, element, operands)
    )
    return in_place.stopped_result(ctx, name, before) if used else before


def _of_struct(ctx: Context, node: ast.Call, name: str, used: bool, element: StructArray) -> Item:
    """`atomic_add` and `atomic_sub` of a whole struct: each field is added to."""
    if name not in ("atomic_add", "atomic_sub"):
        ctx.type_error(
            node,
            f"{name}() takes an array of numbers; `{element.name}` holds {t.type_name(element.kind)}",
            "use an array of its own for what threads compete for",
        )
    item = expressions.lower(ctx, node.args[-1])
    item = structs.as_value(ctx, node.args[-1], item) or item
    if name == "atomic_sub":
        parts = contents.leaves_of(item) or []
        item = contents.rebuilt(item, (expressions.apply(ctx, node, "neg", f"{name}()", q) for q in parts))
    ctx.at(node)
    ctx.uses_atomic_result = ctx.uses_atomic_result or used
    return structs.add(ctx, node, element, item, node.args[-1])


def _element(ctx: Context, node: ast.Call, name: str) -> tuple[View, ArrayView | ChosenView | StructArray]:
    """The array and the element that an atomic is of; the number of its arguments must fit."""
    after = NAMES[name].split(", ")
    array = expressions.lower(ctx, node.args[0]) if node.args else None
    if not isinstance(array, View):
        ctx.type_error(node, f"{name}() takes an array first", f"write {name}(array, index, {NAMES[name]})")
    wanted = 1 + array.free + len(after)
    if len(node.args) != wanted:
        letters = ", ".join("ijkl"[: array.free])
        ctx.type_error(
            node,
            f"{name}() on `{array.name}` takes {wanted} arguments; got {len(node.args)}",
            f"write {name}({array.name}, {letters}, {NAMES[name]})",
        )
    indices = node.args[1 : 1 + array.free]
    inner = indices[0] if array.free == 1 else ast.Tuple(list(indices), ast.Load())
    subscript = ast.copy_location(ast.Subscript(node.args[0], inner, ast.Load()), node)
    element = views.view_at(ctx, subscript, array)
    assert not isinstance(element, IndexedView | HeldView)  # every index is given
    return array, element


def _check_type(ctx: Context, node: ast.Call, name: str, place: arrays.Place) -> None:
    scalar, holds = t.scalar_of(place.type), t.type_name(place.type)
    array = f"`{place.view.name}`"
    if place.view.adjoint:
        ctx.type_error(
            node, f"{name}() cannot change an adjoint", f"add to it: atomic_add({place.view.name}, …)"
        )
    if name in _EXTREMES and scalar is t.bool:
        ctx.type_error(
            node, f"{name}() compares numbers; {array} holds bool", "use atomic_or or atomic_and of int32"
        )
    if name in _BITS and scalar not in t.INTEGERS:
        ctx.type_error(
            node, f"{name}() combines bits of integers; {array} holds {holds}", "use an array of int32"
        )


def _in_order(
    ctx: Context, node: ast.AST, name: str, place: arrays.Place, view: ArrayView, operands: list[Quantity]
) -> Quantity:
    builder, index = ctx.builder, view.param.index
    ctx.accesses.append(AccessRecord(index, "atomic", ctx.span(node), ordered=name in _ORDERED))
    offset = arrays.offset_of(ctx, view)
    scalar = t.scalar_of(place.type)
    before = []
    for c, parts in zip(
        range(t.components(place.type)), zip(*(q.parts for q in operands), strict=True), strict=True
    ):
        old = builder.load(index, c, offset, scalar)
        before.append(builder.expr(old))
        values = [part.value for part in parts]
        builder.store(index, c, offset, in_place.stored(ctx, name, values[-1], _new(ctx, name, old, *values)))
    return Quantity(place.type, tuple(before))


def _new(ctx: Context, name: str, old: Value, *values: Any) -> Value:
    """Return the new value of the element; an equal value leaves it unchanged."""
    apply = ctx.builder.apply
    if name in _EXTREMES:
        replaced = apply(_EXTREMES[name], values[0], old)
        if old.type in t.FLOATS:  # as min() and max(): of a NaN and a number the number
            replaced = apply("or", replaced, apply("isnan", old))
        return apply("where", replaced, values[0], old)
    if name in _BITS:
        return apply(_BITS[name], old, values[0])
    if name == "atomic_cas":
        return apply("where", apply("eq", old, values[0]), values[1], old)
    new: Value = values[0]
    return new
