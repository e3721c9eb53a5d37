"""Components of compound values, `v.x`, `v[i]`, `m[i, j]`, `m[i]`: reading and replacing."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from tapedebug.compiler.builder import constant_of, widened
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import diagnostics, expressions, views
from tapedebug.compiler.lower._context import Context, Items, counted
from tapedebug.lang import types as t
from tapedebug.lang.rules import Expr, Quantity

Path = tuple[int | range | Quantity, ...]
"""The choice on each axis of a compound value: a number, several, or a computed index; then all."""


def named(ctx: Context, node: ast.AST, kind: Any, name: str) -> int | range:
    """The component called `name` (x, y, z, w) of a vector or quaternion, or part (p, q) of a transform."""
    letters = kind.letters if t.is_compound(kind) else ""
    if name in tuple(letters):
        return int(letters.index(name))
    if t.is_transformation(kind) and name in kind.named:
        return range(kind.named[name].start, kind.named[name].stop)
    if letters:
        has = f"its components are {', '.join(letters)}"
    elif t.is_transformation(kind):
        has = "its parts are p, the translation, and q, the rotation"
    elif t.is_matrix(kind):
        has = "write m[i, j] for an element of a matrix, m[i] for a row"
    else:
        has = "only vectors and quaternions have components"
    ctx.type_error(node, f"{t.type_name(kind)} has no component `{name}`", has)


def known_length(item: Any) -> int | None:
    """The number of components of a vector, rows of a matrix, or values of a tuple; None of anything else."""
    if isinstance(item, Items):
        return len(item.items)
    return int(item.type.shape[0]) if isinstance(item, Quantity) and t.is_compound(item.type) else None


def path(ctx: Context, node: ast.Subscript, kind: Any) -> Path:
    """The indices of a subscript of a value of type `kind`."""
    if not t.is_compound(kind):
        ctx.type_error(
            node,
            f"a {t.type_name(kind)} cannot be indexed",
            "only arrays, vectors, matrices and quaternions have elements",
        )
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    axes = len(kind.shape)
    if len(nodes) > axes:
        ctx.type_error(
            node,
            f"{t.type_name(kind)} takes {counted(axes, 'index', 'indices')}; got {len(nodes)}",
            "write v[i]" if axes == 1 else "write m[i, j]",
        )
    return tuple(_index(ctx, n, kind, axis) for axis, n in enumerate(nodes))


def step(ctx: Context, node: ast.Subscript | ast.Attribute, kind: Any, where: Path) -> Path:
    """The path to a component of what another path leads to."""
    inner = type_at(kind, where) if where else kind
    more: Path = (
        (named(ctx, node, inner, node.attr),) if isinstance(node, ast.Attribute) else path(ctx, node, inner)
    )
    found: list[int | range | Quantity] = []
    left = list(more)
    for index in where:
        if not isinstance(index, range) or not left:
            found.append(index)
            continue
        one = left.pop(0)
        if isinstance(one, Quantity):
            ctx.syntax_error(
                node, "a slice is assigned to as a whole, or by constant indices", "index the value itself"
            )
        if isinstance(one, range):
            stride = index.step * one.step
            found.append(range(index[one[0]], index[one[0]] + stride * len(one), stride))
        else:
            found.append(index[one])
    return (*found, *left)


def _index(ctx: Context, node: ast.expr, kind: Any, axis: int) -> int | range | Quantity:
    size: int = kind.shape[axis]
    if isinstance(node, ast.Slice):
        return _slice(ctx, node, kind, size)
    q = expressions.value(ctx, node, "an index")
    if q.type not in t.INTEGERS:
        ctx.type_error(node, f"an index is an integer; got {t.type_name(q.type)}", "convert it with int(…)")
    number = constant_of(q.scalar.value)
    if number is None:
        length = ctx.builder.constant(size, t.int64)
        place = views.from_end(ctx, widened(ctx.builder, q.scalar.value), length)
        diagnostics.within(ctx, node, place, length, f"axis {axis} of a {t.type_name(kind)}")
        return expressions.wrap(ctx, place)
    if not -size <= number < size:
        thing = "component" if len(kind.shape) == 1 else ("row", "column")[axis]
        ctx.type_error(
            node,
            f"{t.type_name(kind)} has no {thing} {number}",
            f"its {thing}s are 0 to {size - 1}",
        )
    return int(number) % size


def _slice(ctx: Context, node: ast.Slice, kind: Any, size: int) -> range:
    """The components that a slice chooses."""
    bounds: list[int | None] = []
    for bound in (node.lower, node.upper, node.step):
        q = None if bound is None else expressions.value(ctx, bound, "an index")
        number = constant_of(q.scalar.value) if q is not None and q.type in t.INTEGERS else None
        if q is not None and number is None:
            ctx.type_error(
                bound or node,
                f"a slice of a {kind.word} has bounds that are known when the kernel is compiled",
                "write them as numbers, or use a loop",
            )
        bounds.append(None if number is None else int(number))
    if bounds[2] == 0:
        ctx.type_error(node, "the step of a slice is not 0", "use a step that is not 0")
    found = range(size)[slice(*bounds)]
    if not found:
        ctx.type_error(node, f"this slice of {t.type_name(kind)} is empty", f"choose some of 0 to {size - 1}")
    return found


def type_at(kind: Any, where: Path) -> Any:
    """The type of what a path leads to."""
    if not where:
        return kind
    if t.is_transformation(kind):
        parts = {range(part.start, part.stop): part.type for part in kind.named.values()}
        if where[0] in parts:
            return parts[where[0]]
    dims = [len(index) for index in where if isinstance(index, range)] + list(kind.shape[len(where) :])
    if dims == list(kind.shape) and (t.is_vector(kind) or t.is_matrix(kind)):
        return kind
    if len(dims) > 1:
        return t.matrix((dims[0], dims[1]), kind.scalar)
    return t.vector(dims[0], kind.scalar) if dims else kind.scalar


def noun(where: Path, kind: Any) -> str:
    """Return the noun that messages use for a part of a compound value."""
    if any(isinstance(index, range) for index in where):
        return "a slice"
    return "a component" if t.is_scalar(kind) else "a row"


def places(kind: Any, where: Path) -> list[int] | None:
    """The components that a path leads to, where all its indices are known."""
    if any(isinstance(index, Quantity) for index in where):
        return None
    return _numbers(kind, where)


def _numbers(kind: Any, where: Path) -> list[int]:
    """The components that a path leads to, were its computed indices 0."""
    found = [0]
    for axis, extent in enumerate(t.value_shape(kind)):
        index = where[axis] if axis < len(where) else range(extent)
        chosen = index if isinstance(index, range) else [0 if isinstance(index, Quantity) else index]
        found = [start * extent + k for start in found for k in chosen]
    return found


def computed(ctx: Context, kind: Any, where: Path) -> tuple[Value, list[int], Value]:
    """Return the position that a path with computed indices leads to.

    Returns:
        How many components it is to a first one, by the computed indices; which components are meant there;
        and whether there are such.
    """
    b = ctx.builder
    first, there = b.constant(0, t.int64), b.constant(True, t.bool)
    for axis, index in enumerate(where):
        if isinstance(index, Quantity):
            size = b.constant(int(np.prod(kind.shape[axis + 1 :], dtype=int)), t.int64)
            first = b.apply("add", first, b.apply("mul", index.scalar.value, size))
            for test, bound in (("ge", 0), ("lt", kind.shape[axis])):
                holds = b.apply(test, index.scalar.value, b.constant(bound, t.int64))
                there = b.apply("and", there, holds)
    return first, _numbers(kind, where), there


def get(q: Quantity, where: Path) -> Quantity:
    """Return the part at the end of a path; for an empty path, the value itself."""
    return Quantity(type_at(q.type, where), _got(q.parts, q.type.shape, where)) if where else q


def _got(parts: tuple[Expr, ...], shape: tuple[int, ...], where: Path) -> tuple[Expr, ...]:
    if not where:
        return parts
    size = len(parts) // shape[0]
    rows = [_got(parts[k * size : (k + 1) * size], shape[1:], where[1:]) for k in range(shape[0])]
    match where[0]:
        case int() as index:
            return rows[index]
        case range() as chosen:
            return tuple(part for k in chosen for part in rows[k])
        case Quantity() as index:
            return _select(rows, index)


def _select(rows: list[tuple[Expr, ...]], index: Quantity) -> tuple[Expr, ...]:
    """One of the rows by a computed index; the last for an index that there is not."""
    chosen = rows[-1]
    for place in range(len(rows) - 2, -1, -1):
        here = _is(index, place)
        chosen = tuple(here.select(a, b) for a, b in zip(rows[place], chosen, strict=True))
    return chosen


def _is(index: Quantity, place: int) -> Expr:
    return index.scalar.apply("eq", index.scalar.lift(place))


def put(q: Quantity, where: Path, new: Quantity) -> Quantity:
    """The value with what a path leads to replaced; a computed index that there is not replaces nothing."""
    return Quantity(q.type, _replaced(q.parts, q.type.shape, where, new.parts))


def _replaced(
    parts: tuple[Expr, ...], shape: tuple[int, ...], where: Path, new: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    if not where:
        return new
    index, size = where[0], len(parts) // shape[0]
    found: list[Expr] = []
    chosen = list(index) if isinstance(index, range) else [index]
    portion = len(new) // len(chosen)
    for place in range(shape[0]):
        row = parts[place * size : (place + 1) * size]
        if isinstance(index, Quantity):
            inside, here = _replaced(row, shape[1:], where[1:], new), _is(index, place)
            found += [here.select(a, b) for a, b in zip(inside, row, strict=True)]
        elif place in chosen:
            begin = chosen.index(place) * portion
            found += _replaced(row, shape[1:], where[1:], new[begin : begin + portion])
        else:
            found += row
    return tuple(found)


def labels(kind: Any) -> list[str]:
    """Return the names of components in generated code: letters, or row and column."""
    if t.is_matrix(kind):
        return [f"{i}{j}" for i in range(kind.shape[0]) for j in range(kind.shape[1])]
    if t.is_transformation(kind):
        return ["px", "py", "pz", "qx", "qy", "qz", "qw"]
    return list("xyzw"[: kind.length])
