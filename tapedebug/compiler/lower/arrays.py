"""Array elements and vector components: reading, and the places that assignments write to."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tapedebug.compiler.builder import constant_of, widened
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import components, custom, expressions, structs
from tapedebug.compiler.lower._context import (
    AccessRecord,
    ArrayView,
    Context,
    IndexedView,
    Items,
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


def shape(ctx: Context, view: View) -> Items:
    """The lengths of an array's axes, as int32."""
    builder = ctx.builder
    if isinstance(view, IndexedView):
        axes = [(table.param.index, 0) for table in view.tables]
    else:
        first = view.first if isinstance(view, StructArray) else view
        axes = [(first.param.index, axis) for axis in range(view.type.ndim)]
    lengths = [builder.apply("to_i32", builder.extent(param, axis)) for param, axis in axes]
    return Items(tuple(expressions.wrap(ctx, length) for length in lengths))


def no_attribute(ctx: Context, node: ast.Attribute, view: View) -> NoReturn:
    """Refuse an attribute that arrays do not have."""
    mend = f"inside kernels an array has `shape`; index it to reach its values: {view.name}[i]"
    ctx.type_error(node, f"the array `{view.name}` has no attribute `{node.attr}` in a kernel", mend)


def view_at(ctx: Context, node: ast.Subscript, base: View) -> View:
    """The view with the indices of a subscript added."""
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(nodes) > base.free:
        dims = base.type.ndim
        given = dims - base.free + len(nodes)
        ctx.type_error(
            node,
            f"the array `{base.name}` has {counted(dims, 'dimension')} and is indexed with {given}",
            f"declare it with ndim={given}, or use {counted(dims, 'index', 'indices')}"
            if given <= t.MAX_DIMENSIONS
            else f"use {counted(dims, 'index', 'indices')}",
        )
    return _at(ctx, node, base, tuple(_index(ctx, n, base) for n in nodes))


def _at(ctx: Context, node: ast.AST, base: View, indices: tuple[Value, ...]) -> View:
    if isinstance(base, ArrayView):
        return replace(base, indices=base.indices + indices)
    if isinstance(base, StructArray):
        return structs.indexed(base, lambda view: replace(view, indices=view.indices + indices))
    looked_up = []
    for table, index in zip(base.tables, indices, strict=False):
        found = read(ctx, node, whole(replace(table, indices=(index,))))
        looked_up.append(widened(ctx.builder, found.scalar.value))
    data = _at(ctx, node, base.data, tuple(looked_up))
    rest = base.tables[len(indices) :]
    assert not isinstance(data, IndexedView)
    return replace(base, data=data, tables=rest) if rest else data


def _index(ctx: Context, node: ast.expr, base: View) -> Value:
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
            f"an index of `{base.name}` is an integer; got {t.type_name(q.type)}",
            "convert it with int(…)",
        )
    number = constant_of(q.scalar.value)
    if number is not None and number < 0:
        ctx.type_error(
            node,
            f"the index {number} of `{base.name}` is negative; kernels do not count from the end",
            f"write {base.name}.shape[0] - {-number}",
        )
    return widened(ctx.builder, q.scalar.value)


def place_of(ctx: Context, node: ast.expr) -> Place | StructArray | None:
    """The array element (a place, or a struct) or component that a target names; None of a variable's."""
    found = _base(ctx, node)
    if isinstance(found, StructValue):
        return None
    if isinstance(found, View) and found.free:
        if isinstance(node, ast.Name) or _field_of_value(ctx, node):
            return None
        ctx.type_error(
            node,
            f"`{found.name}` needs {counted(found.free, 'more index', 'more indices')} here",
            "write to one element at a time",
        )
    assert not isinstance(found, IndexedView)
    return whole(found) if isinstance(found, ArrayView) else found


def _field_of_value(ctx: Context, node: ast.expr) -> bool:
    """Whether a target is an array field of a struct, which is to hold another array."""
    return isinstance(node, ast.Attribute) and isinstance(_base(ctx, node.value), StructValue)


def is_memory(ctx: Context, target: ast.expr) -> bool:
    """Whether a target certainly lies in an array, and not in the variable that it begins with."""
    while isinstance(target, ast.Subscript | ast.Attribute):
        path: list[str] = []
        at: ast.expr = target.value
        while isinstance(at, ast.Attribute):
            path.insert(0, at.attr)
            at = at.value
        item: Any = ctx.env.get(at.id) if isinstance(at, ast.Name) else None
        for name in path:
            known = isinstance(item, StructValue) and name in item.kind.fields
            item = item.get(name) if known else None
        if isinstance(item, View):
            return True
        target = target.value
    return False


def _base(ctx: Context, node: ast.expr) -> View | StructValue | Place | None:
    """The array, element, struct or part of an element that an expression names."""
    if isinstance(node, ast.Name):
        item = ctx.env.get(node.id)
        return item if isinstance(item, View | StructValue) else None
    if not isinstance(node, ast.Subscript | ast.Attribute):
        return None
    if isinstance(node, ast.Subscript) and custom.is_adjoint(ctx, node.value):
        item = custom.adjoint_of(ctx, node)
        return item if isinstance(item, View) else None
    base = _base(ctx, node.value)
    if isinstance(base, StructValue):
        item = structs.field(ctx, node, base) if isinstance(node, ast.Attribute) else None
        return item if isinstance(item, View | StructValue) else None
    if isinstance(base, View) and base.free:
        return view_at(ctx, node, base) if isinstance(node, ast.Subscript) else None
    if isinstance(base, StructArray):
        return structs.field(ctx, node, base) if isinstance(node, ast.Attribute) else None  # type: ignore[return-value]
    assert not isinstance(base, IndexedView)
    part_of = whole(base) if isinstance(base, ArrayView) else base
    return None if part_of is None else _part_at(ctx, node, part_of)


def _part_at(ctx: Context, node: ast.Subscript | ast.Attribute, base: Place) -> Place:
    """A part of an element that a subscript or attribute names."""
    if isinstance(node, ast.Attribute):
        part = _part(base, (components.named(ctx, node, base.type, node.attr),))
    else:
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
    _require(ctx, source, place, q)
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
    _require(ctx, source, place, q)
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


def _require(ctx: Context, node: ast.AST, place: Place, q: Quantity) -> None:
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
