"""Array elements and vector components: reading, and the places that assignments write to."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from tapedebug.compiler.builder import constant_of, widened
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import components, custom, expressions
from tapedebug.compiler.lower._context import AccessRecord, ArrayView, Context, Item, Items, counted
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


@dataclass(frozen=True, slots=True)
class Place:
    """An array element, or a part of it, that is read or written.

    Attributes:
        view: The element.
        type: The type of what stands there.
        components: The components of the element that are touched.
    """

    view: ArrayView
    type: Any
    components: range

    @property
    def whole(self) -> bool:
        """Whether this is the whole element."""
        return self.type is self.view.param.type.dtype


def whole(view: ArrayView) -> Place:
    """A whole element."""
    dtype = view.param.type.dtype
    return Place(view, dtype, range(t.components(dtype)))


def _part(base: Place, where: components.Path) -> Place | None:
    """A part of a place; None where that depends on a computed index."""
    found = components.places(base.type, where)
    if found is None:
        return None
    start = base.components.start
    return Place(
        base.view, components.type_at(base.type, where), range(start + found.start, start + found.stop)
    )


def shape(ctx: Context, view: ArrayView) -> Items:
    """The lengths of an array's axes, as int32."""
    builder = ctx.builder
    lengths = [
        builder.apply("to_i32", builder.extent(view.param.index, axis))
        for axis in range(view.param.type.ndim)
    ]
    return Items(tuple(expressions.wrap(ctx, length) for length in lengths))


def view_at(ctx: Context, node: ast.Subscript, base: ArrayView) -> ArrayView:
    """The view with the indices of a subscript added."""
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(nodes) > base.free:
        dims = base.param.type.ndim
        given = len(base.indices) + len(nodes)
        ctx.type_error(
            node,
            f"the array `{base.param.name}` has {counted(dims, 'dimension')} and is indexed with {given}",
            f"declare it with ndim={given}, or use {counted(dims, 'index', 'indices')}"
            if given <= t.MAX_DIMENSIONS
            else f"use {counted(dims, 'index', 'indices')}",
        )
    return replace(base, indices=base.indices + tuple(_index(ctx, n, base) for n in nodes))


def _index(ctx: Context, node: ast.expr, base: ArrayView) -> Value:
    if isinstance(node, ast.Slice):
        ctx.syntax_error(
            node,
            "slices of arrays are not in the kernel language yet",
            "slice the array outside, or loop over it",
        )
    q = expressions.value(ctx, node, "an index")
    if q.type not in t.INTEGERS:
        ctx.type_error(
            node,
            f"an index of `{base.param.name}` is an integer; got {t.type_name(q.type)}",
            "convert it with int(…)",
        )
    number = constant_of(q.scalar.value)
    if number is not None and number < 0:
        ctx.type_error(
            node,
            f"the index {number} of `{base.param.name}` is negative; kernels do not count from the end",
            f"write {base.param.name}.shape[0] - {-number}",
        )
    return widened(ctx.builder, q.scalar.value)


def element(ctx: Context, node: ast.Subscript, base: ArrayView) -> Item:
    """What a subscript of an array reads: an element, or a view with fewer dimensions."""
    view = view_at(ctx, node, base)
    if view.free:
        return view
    return read(ctx, node, whole(view))


def place_of(ctx: Context, node: ast.expr) -> Place | None:
    """The array element or component that a target names; None where it is a variable's."""
    found = _base(ctx, node)
    if isinstance(found, ArrayView):
        if isinstance(node, ast.Name):
            return None
        ctx.type_error(
            node,
            f"`{found.param.name}` needs {counted(found.free, 'more index', 'more indices')} here",
            "write to one element at a time",
        )
    return found


def _base(ctx: Context, node: ast.expr) -> ArrayView | Place | None:
    """The array, element or part of an element that an expression names."""
    if isinstance(node, ast.Name):
        item = ctx.env.get(node.id)
        return item if isinstance(item, ArrayView) else None
    if not isinstance(node, ast.Subscript | ast.Attribute):
        return None
    if isinstance(node, ast.Subscript) and custom.is_adjoint(ctx, node.value):
        item = custom.adjoint_of(ctx, node)
        return item if isinstance(item, ArrayView) else None
    base = _base(ctx, node.value)
    if isinstance(base, ArrayView):
        if isinstance(node, ast.Attribute):
            return None
        view = view_at(ctx, node, base)
        return view if view.free else whole(view)
    if base is None:
        return None
    if isinstance(node, ast.Attribute):
        return _part(base, (components.named(ctx, node, base.type, node.attr),))
    part = _part(base, components.path(ctx, node, base.type))
    if part is None:
        word = base.type.word
        ctx.syntax_error(
            node,
            "a component of an array element is written with a constant index",
            f"read the {word} into a variable, change it, and write it back",
        )
    return part


def read(ctx: Context, node: ast.AST, place: Place) -> Quantity:
    """Read an element or component."""
    ctx.at(node)
    builder = ctx.builder
    scalar = t.scalar_of(place.type)
    offset = builder.offset(place.view.param.index, place.view.indices)
    index = place.view.param.index
    if place.view.adjoint:
        values = [builder.emit("load_adjoint", (offset,), scalar, (index, c)) for c in place.components]
        return Quantity(place.type, tuple(builder.expr(v) for v in values))
    ctx.accesses.append(AccessRecord(index, "read", ctx.span(node)))
    parts = [builder.expr(builder.load(index, c, offset, scalar)) for c in place.components]
    return Quantity(place.type, tuple(parts))


def write(ctx: Context, node: ast.AST, place: Place, q: Quantity, source: ast.AST) -> None:
    """Write an element or component; the type must be that of the array, else the error is at `source`."""
    require(ctx, source, place, q)
    ctx.at(node)
    if place.view.adjoint:
        _adjoint_effect(ctx, "store_adjoint", place, q)
        return
    ctx.accesses.append(AccessRecord(place.view.param.index, "write", ctx.span(node)))
    offset = ctx.builder.offset(place.view.param.index, place.view.indices)
    for c, part in zip(place.components, q.parts, strict=True):
        ctx.builder.store(place.view.param.index, c, offset, part.value)


def add(ctx: Context, node: ast.AST, place: Place, q: Quantity, source: ast.AST) -> Quantity:
    """Add to an element or component, as an atomic; the value before."""
    require(ctx, source, place, q)
    if place.type is t.bool:
        ctx.type_error(node, "cannot add to an array of bool", "use an array of int32")
    if place.view.adjoint:
        now = read(ctx, node, place)
        _adjoint_effect(ctx, "add_adjoint", place, q)
        return now
    ctx.at(node)
    ctx.accesses.append(AccessRecord(place.view.param.index, "atomic", ctx.span(node)))
    builder = ctx.builder
    offset = builder.offset(place.view.param.index, place.view.indices)
    before = [
        builder.atomic_add(place.view.param.index, c, offset, part.value)
        for c, part in zip(place.components, q.parts, strict=True)
    ]
    return Quantity(place.type, tuple(builder.expr(b) for b in before))


def _adjoint_effect(ctx: Context, kind: str, place: Place, q: Quantity) -> None:
    index = place.view.param.index
    offset = ctx.builder.offset(index, place.view.indices)
    for c, part in zip(place.components, q.parts, strict=True):
        ctx.builder.effect(kind, (offset, part.value), (index, c))


def require(ctx: Context, node: ast.AST, place: Place, q: Quantity) -> None:
    """Require a value of the type of what stands at a place; else the error is at `node`."""
    if q.type is place.type:
        return
    thing = "a component" if t.is_scalar(place.type) else "a row"
    name = f"`{place.view.name}`" if place.whole else f"{thing} of `{place.view.name}`"
    holds = "holds" if place.whole else "is"
    ctx.type_error(
        node,
        f"{name} {holds} {t.type_name(place.type)}; got {t.type_name(q.type)}",
        mend_value(place.type, q.type),
    )


def mend_value(expected: Any, got: Any) -> str:
    """What to do with a value of type `got` where `expected` is needed."""
    if t.is_compound(expected):
        return f"make a {expected.word} of it: wp.{t.type_name(expected)}(…)"
    if t.is_vector(got):
        return "use one component, or a number made of it, such as wp.length(v)"
    if t.is_compound(got):
        return "use one component, or a number made of them"
    return f"convert the value with {t.conversion(expected)}"
