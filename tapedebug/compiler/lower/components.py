"""Components of compound values: `v.x`, `v[i]`, `m[i, j]`, `m[i]`; which are meant, reading, replacing."""

from __future__ import annotations

import ast
from typing import Any

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.lower import expressions
from tapedebug.compiler.lower._context import Context, counted
from tapedebug.lang import types as t
from tapedebug.lang.rules import Expr, Quantity

Path = tuple[int | Quantity, ...]
"""Indices into a compound value, a number each where it is known: fewer than its axes are a row."""


def named(ctx: Context, node: ast.AST, kind: Any, name: str) -> int:
    """The component called `name` (x, y, z, w) of a vector or quaternion type."""
    letters = kind.letters if t.is_compound(kind) else ""
    if name in tuple(letters):
        return int(letters.index(name))
    if letters:
        has = f"its components are {', '.join(letters)}"
    elif t.is_matrix(kind):
        has = "write m[i, j] for an element of a matrix, m[i] for a row"
    else:
        has = "only vectors and quaternions have components"
    ctx.type_error(node, f"{t.type_name(kind)} has no component `{name}`", has)


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


def _index(ctx: Context, node: ast.expr, kind: Any, axis: int) -> int | Quantity:
    if isinstance(node, ast.Slice):
        ctx.syntax_error(
            node, f"slices of {kind.word} values are not in the kernel language yet", "use one component"
        )
    q = expressions.value(ctx, node, "an index")
    if q.type not in t.INTEGERS:
        ctx.type_error(node, f"an index is an integer; got {t.type_name(q.type)}", "convert it with int(…)")
    number = constant_of(q.scalar.value)
    if number is None:
        return q
    size = kind.shape[axis]
    if not 0 <= number < size:
        thing = "component" if len(kind.shape) == 1 else ("row", "column")[axis]
        ctx.type_error(
            node,
            f"{t.type_name(kind)} has no {thing} {number}",
            f"its {thing}s are 0 to {size - 1}",
        )
    return int(number)


def type_at(kind: Any, where: Path) -> Any:
    """The type of what a path leads to."""
    rest = kind.shape[len(where) :]
    return t.vector(rest[0], kind.scalar) if rest else kind.scalar


def places(kind: Any, where: Path) -> range | None:
    """The components that a path leads to, where all its indices are known."""
    known = [index for index in where if isinstance(index, int)]
    if len(known) < len(where):
        return None
    size = t.components(type_at(kind, where))
    start = 0
    for index, extent in zip(known, kind.shape, strict=False):
        start = start * extent + index
    return range(start * size, (start + 1) * size)


def get(q: Quantity, where: Path) -> Quantity:
    """What a path leads to."""
    parts = q.parts
    for index, extent in zip(where, q.type.shape, strict=False):
        size = len(parts) // extent
        rows = [parts[k * size : (k + 1) * size] for k in range(extent)]
        parts = rows[index] if isinstance(index, int) else _select(rows, index)
    return Quantity(type_at(q.type, where), parts)


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
    for place in range(shape[0]):
        row = parts[place * size : (place + 1) * size]
        if isinstance(index, int) and index != place:
            found += row
            continue
        inside = _replaced(row, shape[1:], where[1:], new)
        if isinstance(index, int):
            found += inside
        else:
            here = _is(index, place)
            found += [here.select(a, b) for a, b in zip(inside, row, strict=True)]
    return tuple(found)


def labels(kind: Any) -> list[str]:
    """What generated code calls the components: letters, or row and column."""
    if t.is_matrix(kind):
        return [f"{i}{j}" for i in range(kind.shape[0]) for j in range(kind.shape[1])]
    return list("xyzw"[: kind.length])
