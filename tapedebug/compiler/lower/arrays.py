"""Array elements and vector components: reading, and the places that assignments write to."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.compiler.effects import AccessRecord
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import components, control, custom, expressions, structs, views
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldView,
    IndexedView,
    StructArray,
    StructValue,
    View,
    counted,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


@dataclass(frozen=True, slots=True)
class Place:
    """An array element, or a part of it, that is read or written.

    Attributes:
        view: The element.
        path: Which part of it is meant.
    """

    view: ArrayView | ChosenView
    path: components.Path = ()

    @property
    def type(self) -> Any:
        """The type of what stands there."""
        return components.type_at(self.view.type.dtype, self.path)


def place_of(ctx: Context, node: ast.expr) -> Place | StructArray | None:
    """The array element (a place, or a struct) or component that a target names; None of a variable's."""
    found = _base(ctx, node)
    if isinstance(found, StructValue):
        return None
    if isinstance(found, View) and found.free:
        if isinstance(found, HeldView) and isinstance(node, ast.Attribute) and is_memory(ctx, node):
            ctx.syntax_error(
                node,
                f"a kernel does not store arrays in elements, as `{ast.unparse(node)} = …` would",
                "assign the array outside the kernel, or copy its values one by one",
            )
        if isinstance(node, ast.Name | ast.Attribute):  # which is to be another array
            return None
        if isinstance(node, ast.Subscript) and any(isinstance(n, ast.Slice) for n in ast.walk(node.slice)):
            ctx.syntax_error(
                node,
                f"a slice of the array `{found.name}` cannot be assigned to",
                "write one element in each thread",
            )
        ctx.type_error(
            node,
            f"`{found.name}` needs {counted(found.free, 'more index', 'more indices')} here",
            "write to one element at a time",
        )
    assert not isinstance(found, IndexedView | HeldView)
    return Place(found) if isinstance(found, ArrayView | ChosenView) else found


def is_memory(ctx: Context, target: ast.expr) -> bool:
    """True if a target certainly is an element of an array, not of the variable at its start."""
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
        path: list[str] = []
        at = target
        while isinstance(at, ast.Attribute):
            path.insert(0, at.attr)
            at = at.value
        item = ctx.env.get(at.id) if isinstance(at, ast.Name) else None
        for name in path:
            known = isinstance(item, StructValue) and name in item.kind.fields
            item = item.get(name) if known and isinstance(item, StructValue) else None
        if isinstance(item, View):
            return True
    return False


def _base(ctx: Context, node: ast.expr) -> View | StructValue | Place | None:
    """The array, element, struct or part of an element that an expression names."""
    if isinstance(node, ast.Name):
        item = ctx.env.get(node.id)
        return item if isinstance(item, View | StructValue) else None
    if isinstance(node, ast.Call) and expressions.is_call_of(ctx, node, "view"):
        return views.named(ctx, node)
    if not isinstance(node, ast.Subscript | ast.Attribute):
        return None
    if isinstance(node, ast.Subscript) and custom.is_adjoint(ctx, node.value):
        item = custom.adjoint_of(ctx, node)
        return item if isinstance(item, View | StructValue) else None
    base = _base(ctx, node.value)
    if isinstance(base, StructValue):
        item = base.get(node.attr) if structs.is_field(node, base) else None
        return item if isinstance(item, View | StructValue) else None
    if isinstance(base, View) and base.free:
        return views.view_at(ctx, node, base) if isinstance(node, ast.Subscript) else None
    if isinstance(base, StructArray):
        return structs.element_field(ctx, node, base)
    assert not isinstance(base, IndexedView | HeldView)
    place = Place(base) if isinstance(base, ArrayView | ChosenView) else base
    if place is None:
        return None
    return replace(place, path=components.step(ctx, node, place.view.type.dtype, place.path))


def read(ctx: Context, node: ast.AST, place: Place) -> Quantity:
    """Read an element or component."""
    view = place.view
    if isinstance(view, ChosenView):
        chosen: Quantity = in_chosen(ctx, node, place, lambda one, _: read(ctx, node, one))
        return chosen
    ctx.at(node)
    builder, dtype = ctx.builder, view.type.dtype
    scalar, index = t.scalar_of(dtype), view.param.index
    found = components.places(dtype, place.path)
    if found is None:
        return components.get(read(ctx, node, Place(view)), place.path)
    offset = offset_of(ctx, view)
    if view.adjoint:
        values = [builder.emit("load_adjoint", (offset,), scalar, (index, c)) for c in found]
        return Quantity(place.type, tuple(builder.expr(v) for v in values))
    ctx.accesses.append(AccessRecord(index, "read", ctx.span(node)))
    parts = [builder.expr(builder.load(index, c, offset, scalar)) for c in found]
    return Quantity(place.type, tuple(parts))


def write(ctx: Context, node: ast.AST, place: Place, q: Quantity, source: ast.AST) -> None:
    """Write an element or component; the type must be that of the array, else the error is at `source`."""
    require(ctx, source, place, q)
    if isinstance(place.view, ChosenView):
        in_chosen(ctx, node, place, lambda one, _: write(ctx, node, one, q, source))
        return
    ctx.at(node)
    index, b = place.view.param.index, ctx.builder
    if place.view.adjoint:
        _each(ctx, node, place, q, lambda c, at, part: b.effect("store_adjoint", (at, part), (index, c)))
        return
    ctx.accesses.append(AccessRecord(index, "write", ctx.span(node)))
    _each(ctx, node, place, q, lambda c, at, part: b.store(index, c, at, part))


def add(ctx: Context, node: ast.AST, place: Place, q: Quantity, source: ast.AST) -> Quantity | None:
    """Add to an element or component, as an atomic; the value before, where it is a certain component's."""
    require(ctx, source, place, q)
    if place.type is t.bool:
        ctx.type_error(node, "cannot add to an array of bool", "use an array of int32")
    if isinstance(place.view, ChosenView):
        before: Quantity | None = in_chosen(ctx, node, place, lambda one, _: add(ctx, node, one, q, source))
        return before
    index, b = place.view.param.index, ctx.builder
    if place.view.adjoint:
        now = read(ctx, node, place)
        _each(ctx, node, place, q, lambda c, at, part: b.effect("add_adjoint", (at, part), (index, c)))
        return now
    ctx.at(node)
    ctx.accesses.append(AccessRecord(index, "atomic", ctx.span(node)))
    parts = _each(ctx, node, place, q, lambda c, at, part: b.expr(b.atomic_add(index, c, at, part)))
    return Quantity(place.type, tuple(parts)) if parts else None


def in_chosen(ctx: Context, node: ast.AST, place: Place, act: Callable[[Place, ArrayView], Any]) -> Any:
    """Apply a function to an element of one of two arrays, and return its result, if there is one.

    Args:
        ctx: The state of lowering.
        node: The expression, for messages.
        place: An element of one of two arrays.
        act: A function of the place in one array, and of the element there.
    """
    view, name = place.view, "%chosen"
    if isinstance(view, ArrayView):
        return act(place, view)

    def of(choice: Any) -> Callable[[], None]:
        def run() -> None:
            found = in_chosen(ctx, node, replace(place, view=choice), act)
            if found is not None:
                ctx.env[name] = found

        return run

    control.branch(ctx, node, view.condition, of(view.yes), of(view.no))
    return ctx.env.pop(name, None)


def _each(
    ctx: Context, node: ast.AST, place: Place, q: Quantity, effect: Callable[[int, Value, Value], Any]
) -> list[Any]:
    """Return the results of an effect on each component, or nothing for computed indices.

    Where there is no such component, nothing happens.
    """
    assert isinstance(place.view, ArrayView)
    dtype = place.view.type.dtype
    offset, found = offset_of(ctx, place.view), components.places(dtype, place.path)
    parts = [part.value for part in q.parts]
    if found is not None:
        return [effect(c, offset, part) for c, part in zip(found, parts, strict=True)]
    first, rest, there = components.computed(ctx, dtype, place.path)

    def run() -> None:
        at = ctx.builder.apply("add", offset, first)
        for c, part in zip(rest, parts, strict=True):
            effect(c, at, part)

    control.branch(ctx, node, there, run, lambda: None)
    return []


def offset_of(ctx: Context, view: ArrayView) -> Value:
    """The place of an element (int64), in scalars from the array's start."""
    return ctx.builder.offset(view.param.index, tuple(view.numbers))


def require(ctx: Context, node: ast.AST, place: Place, q: Quantity) -> None:
    """Require a value of the type of what stands at a place; else the error is at `node`."""
    if q.type is place.type:
        return
    thing = components.noun(place.path, place.type)
    name = f"{thing} of `{place.view.name}`" if place.path else f"`{place.view.name}`"
    holds = "is" if place.path else "holds"
    ctx.type_error(
        node,
        f"{name} {holds} {t.type_name(place.type)}; got {t.type_name(q.type)}",
        hint_value(place.type, q.type, node),
    )


def hint_value(expected: Any, got: Any, node: ast.AST | None = None) -> str:
    """Hint for a value of type `got`, written as `node`, where `expected` is needed."""
    if expected is t.float32 and got is t.int32:
        number = node.operand if isinstance(node, ast.UnaryOp) else node
        if isinstance(number, ast.Constant) and type(number.value) is int:
            return f"write {ast.unparse(node)}.0"  # type: ignore[arg-type]
    if t.is_compound(expected):
        return f"make a {expected.word} of it: wp.{t.type_name(expected)}(…)"
    if t.is_vector(got):
        return "use one component, or a number made of it, such as wp.length(v)"
    if t.is_compound(got):
        return "use one component, or a number made of them"
    return f"convert the value with {t.conversion(expected)}"
