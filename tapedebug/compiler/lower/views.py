"""Views of arrays: the result of a subscript, and the lengths of its axes."""

from __future__ import annotations

import ast
from dataclasses import replace

from tapedebug.compiler.builder import constant_of, not_negative, widened
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import arrays, diagnostics, expressions
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldArrays,
    HeldView,
    IndexedView,
    Items,
    Slice,
    StructArray,
    View,
    counted,
)
from tapedebug.lang import types as t


def shape(ctx: Context, view: View) -> Items:
    """The lengths of a view's axes, as int32."""
    lengths = _lengths(ctx, view)
    return Items(tuple(expressions.wrap(ctx, ctx.builder.apply("to_i32", length)) for length in lengths))


def _lengths(ctx: Context, view: View) -> list[Value]:
    """The lengths of a view's axes (int64)."""
    if isinstance(view, IndexedView):
        return [_length(ctx, table, 0) for table in view.tables]
    if isinstance(view, HeldView):
        return [length for length, _ in view.axes]
    if isinstance(view, ChosenView):
        pairs = zip(_lengths(ctx, view.yes), _lengths(ctx, view.no), strict=True)
        return [ctx.builder.apply("where", view.condition, one, two) for one, two in pairs]
    first = view.first if isinstance(view, StructArray) else view
    return [_length(ctx, first, axis) for axis in _free(first)]


def view_at(ctx: Context, node: ast.Subscript, base: View) -> View:
    """The view with the indices and slices of a subscript added."""
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
    return _at(ctx, nodes, base)


def _at(ctx: Context, nodes: list[ast.expr], base: View) -> View:
    """The view with indices and slices added, no more than it has axes."""
    if isinstance(base, IndexedView):
        return _indexed(ctx, nodes, base)
    if isinstance(base, ChosenView):
        given = [_once(ctx, node, f"%index{place}") for place, node in enumerate(nodes)]
        return ChosenView(base.condition, _at(ctx, given, base.yes), _at(ctx, given, base.no))  # type: ignore[arg-type]
    if isinstance(base, HeldView):
        return _held(ctx, nodes, base)
    first = base.first if isinstance(base, StructArray) else base
    chosen = [
        _slice(ctx, one, first, axis) if isinstance(one, ast.Slice) else _index(ctx, one, first, axis)
        for one, axis in zip(nodes, _free(first), strict=False)
    ]
    return _with(base, dict(zip(_free(first), chosen, strict=False)))


def _once(ctx: Context, node: ast.expr, name: str) -> ast.expr:
    """An index or slice whose values are computed here, once, and kept in variables for several arrays."""
    if isinstance(node, ast.Slice):
        lower, upper, step = (
            None if bound is None else _once(ctx, bound, f"{name}_{place}")
            for place, bound in enumerate((node.lower, node.upper, node.step))
        )
        return ast.copy_location(ast.Slice(lower, upper, step), node)
    if expressions.literal(ctx, node) is not None:
        return node
    ctx.env[name] = expressions.value(ctx, node, "an index")
    return ast.copy_location(ast.Name(name, ast.Load()), node)


def named(ctx: Context, node: ast.Call) -> View:
    """`view(a, i, …)`, which is `a[i, …]`."""
    base = expressions.lower(ctx, node.args[0])
    count = len(node.args) - 1
    if not isinstance(base, View) or not 0 < count < base.free:
        ctx.type_error(
            node,
            "view() takes an array of several dimensions, and an index for some of them",
            "write `view(a, i)` for a row of a two-dimensional array, and `a[i]` for an element",
        )
    index = node.args[1] if count == 1 else ast.Tuple(list(node.args[1:]), ast.Load())
    return view_at(ctx, ast.copy_location(ast.Subscript(node.args[0], index, ast.Load()), node), base)


def _with(base: ArrayView | StructArray, chosen: dict[int, Value | Slice]) -> ArrayView | StructArray:
    """The view with what is chosen on some of its axes."""
    first = base.first if isinstance(base, StructArray) else base
    indices: list[Value | Slice | None] = [*first.indices]
    indices += [None] * (first.type.ndim - len(indices))
    for axis, one in chosen.items():
        indices[axis] = one
    while indices and indices[-1] is None:
        indices.pop()
    return base.at(tuple(indices)) if isinstance(base, StructArray) else replace(base, indices=tuple(indices))


def _indexed(ctx: Context, nodes: list[ast.expr], base: IndexedView) -> View:
    """A subscript of an indexed array: a slice is one of a table, an index is looked up in it."""
    first = base.data.first if isinstance(base.data, StructArray) else base.data
    chosen: dict[int, Value | Slice] = {}
    left = list(base.tables[len(nodes) :])
    sliced: list[ArrayView] = []
    for node, table, axis in zip(nodes, base.tables, _free(first), strict=False):
        called = replace(table, label=base.name)
        if isinstance(node, ast.Slice):
            sliced.append(replace(table, indices=(_slice(ctx, node, called, 0),)))
            continue
        entry = replace(table, indices=(_index(ctx, node, called, 0),))
        found = arrays.read(ctx, node, arrays.Place(entry))
        chosen[axis] = widened(ctx.builder, found.scalar.value)
    data = _with(base.data, chosen)
    left = [*sliced, *left]
    return replace(base, data=data, tables=tuple(left)) if left else data


def held(ctx: Context, node: ast.AST, arrays_of: HeldArrays) -> HeldView:
    """The array that an element of an array of structs holds."""
    entry = arrays.read(ctx, node, arrays.Place(arrays_of.places))
    start, *numbers = (part.value for part in entry.parts)
    ndim = arrays_of.type.ndim
    axes = tuple(zip(numbers[:ndim], numbers[ndim:], strict=True))
    return HeldView(arrays_of.data, arrays_of.type, start, axes)


def _held(ctx: Context, nodes: list[ast.expr], base: HeldView) -> View:
    """A subscript of an array that an element holds: indices move its start, slices change axes as well."""
    b, start = ctx.builder, base.start
    left: list[tuple[Value, Value]] = []
    for node, (length, stride) in zip(nodes, base.axes, strict=False):
        if isinstance(node, ast.Slice):
            chosen = _slice_of(ctx, node, base.name, length)
            start = b.apply("add", start, b.apply("mul", chosen.start, stride))
            left.append((chosen.length, b.apply("mul", stride, _as_value(ctx, chosen.step))))
            continue
        index = from_end(ctx, _integer(ctx, node, base.name), length)
        diagnostics.within(ctx, node, index, length, f"an array of `{base.name}`")
        start = b.apply("add", start, b.apply("mul", index, stride))
    view = replace(base, start=start, axes=(*left, *base.axes[len(nodes) :]))
    return view if view.free else view.element


def _free(view: ArrayView) -> list[int]:
    """The axes of the array that the view has, too."""
    return [axis for axis in range(view.param.type.ndim) if not isinstance(_on(view, axis), Value)]


def _on(view: ArrayView, axis: int) -> Value | Slice | None:
    return view.indices[axis] if axis < len(view.indices) else None


def _length(ctx: Context, view: ArrayView, axis: int) -> Value:
    found = _on(view, axis)
    return found.length if isinstance(found, Slice) else ctx.builder.extent(view.param.index, axis)


def _integer(ctx: Context, node: ast.expr, name: str) -> Value:
    """An index or a bound of a slice, as int64."""
    q = expressions.value(ctx, node, "an index")
    if q.type not in t.INTEGERS:
        ctx.type_error(
            node,
            f"an index of `{name}` is an integer; got {t.type_name(q.type)}",
            "convert it with int(…)",
        )
    return widened(ctx.builder, q.scalar.value)


def _index(ctx: Context, node: ast.expr, base: ArrayView, axis: int) -> Value:
    """The place on the array's axis that an index of the view means."""
    b, found = ctx.builder, _on(base, axis)
    index = from_end(ctx, _integer(ctx, node, base.name), _length(ctx, base, axis))
    if isinstance(found, Slice):
        diagnostics.within(ctx, node, index, found.length, f"a slice of `{base.param.name}`")
        return b.apply("add", found.start, b.apply("mul", index, _as_value(ctx, found.step)))
    return index


def from_end(ctx: Context, index: Value, length: Value) -> Value:
    """An index that counts from the end where it is negative."""
    b = ctx.builder
    return index if not_negative(b, index) else b.apply("from_end", index, length)


def _slice(ctx: Context, node: ast.Slice, base: ArrayView, axis: int) -> Slice:
    """`start:stop:step` on an axis of an array, which may be sliced already."""
    b, found = ctx.builder, _on(base, axis)
    chosen = _slice_of(ctx, node, base.name, _length(ctx, base, axis))
    if not isinstance(found, Slice):
        return chosen
    start = b.apply("add", found.start, b.apply("mul", chosen.start, _as_value(ctx, found.step)))
    if isinstance(chosen.step, int) and isinstance(found.step, int):
        return Slice(start, chosen.step * found.step, chosen.length)
    step = b.apply("mul", _as_value(ctx, chosen.step), _as_value(ctx, found.step))
    return Slice(start, step, chosen.length)


def _slice_of(ctx: Context, node: ast.Slice, name: str, length: Value) -> Slice:
    """`start:stop:step` of so many elements, as Python has it: bounds beyond the ends are the ends."""
    b = ctx.builder
    step: int | Value = 1 if node.step is None else _step(ctx, node.step, name)
    zero, one, minus = b.constant(0, t.int64), b.constant(1, t.int64), b.constant(-1, t.int64)
    if isinstance(step, Value):
        upwards = b.apply("lt", zero, step)
        first = b.apply("where", upwards, zero, minus)
        last = b.apply("where", upwards, length, b.apply("sub", length, one))
        start, stop = b.apply("where", upwards, first, last), b.apply("where", upwards, last, first)
    else:
        first, last = (zero, length) if step > 0 else (minus, b.apply("sub", length, one))
        start, stop = (first, last) if step > 0 else (last, first)
    if node.lower is not None:
        start = _clamped(ctx, from_end(ctx, _integer(ctx, node.lower, name), length), first, last)
    if node.upper is not None:
        stop = _clamped(ctx, from_end(ctx, _integer(ctx, node.upper, name), length), first, last)
    simple = step == 1 and start is zero
    count = (
        b.apply("sub", stop, start) if simple else b.apply("trip_count", start, stop, _as_value(ctx, step))
    )
    return Slice(start, step, count)


def _as_value(ctx: Context, step: int | Value) -> Value:
    """The step of a slice as int64."""
    return step if isinstance(step, Value) else ctx.builder.constant(step, t.int64)


def _clamped(ctx: Context, place: Value, first: Value, last: Value) -> Value:
    """A bound, held between two others."""
    b = ctx.builder
    if not (not_negative(b, place) and constant_of(first) == 0):
        place = b.apply("where", b.apply("lt", place, first), first, place)
    return b.apply("where", b.apply("lt", last, place), last, place)


def _step(ctx: Context, node: ast.expr, name: str) -> int | Value:
    """The step of a slice: a number if it is known, else a value (if that is 0, there are no elements)."""
    value = _integer(ctx, node, name)
    step = constant_of(value)
    if step == 0:
        ctx.type_error(node, "the step of a slice is not 0", "use a step that is not 0")
    return value if step is None else int(step)
