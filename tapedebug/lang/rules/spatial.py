"""Functions of spatial vectors: six components, the angular three first, then the linear three."""

from __future__ import annotations

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import (
    inner,
    matrix,
    one_scalar_type,
    require,
    require_length,
    require_shape,
    rows_of,
    scalar,
    vector,
)
from tapedebug.lang.rules.table import Expr, Quantity, composite
from tapedebug.lang.rules.transform import cross

Parts = tuple[Expr, ...]


def _split(*operands: Quantity) -> list[Parts]:
    """Top and bottom of each operand."""
    require(t.Vector, *operands)
    require_length(operands[0], 6)
    return [half for q in operands for half in (q.parts[:3], q.parts[3:])]


def _sum(a: Parts, b: Parts) -> Parts:
    return tuple(x + y for x, y in zip(a, b, strict=True))


@composite("spatial_top", "First three components of a spatial vector: the angular part.")
def spatial_top(svec: Quantity) -> Quantity:
    return vector(_split(svec)[0])


@composite("spatial_bottom", "Last three components of a spatial vector: the linear part.")
def spatial_bottom(svec: Quantity) -> Quantity:
    return vector(_split(svec)[1])


@composite("spatial_dot", "Scalar product of two spatial vectors.")
def spatial_dot(a: Quantity, b: Quantity) -> Quantity:
    _split(a, b)
    return scalar(inner(a.parts, b.parts))


@composite("spatial_cross", "Cross product of two twists.")
def spatial_cross(a: Quantity, b: Quantity) -> Quantity:
    wa, va, wb, vb = _split(a, b)
    return Quantity(a.type, (*cross(wa, wb), *_sum(cross(va, wb), cross(wa, vb))))


@composite("spatial_cross_dual", "Cross product of a twist and a wrench.")
def spatial_cross_dual(a: Quantity, b: Quantity) -> Quantity:
    wa, va, wb, vb = _split(a, b)
    return Quantity(a.type, (*_sum(cross(wa, wb), cross(va, vb)), *cross(wa, vb)))


@composite("spatial_adjoint", "Spatial matrix (6 by 6) of the blocks r, 0 above s, r.")
def spatial_adjoint(r: Quantity, s: Quantity) -> Quantity:
    for block in (r, s):
        require_shape(block, (3, 3))
    one_scalar_type("matrices", r, s)
    zeros = (r.parts[0].lift(0.0),) * 3
    upper = [(*row, *zeros) for row in rows_of(r)]
    lower = [(*left, *right) for left, right in zip(rows_of(s), rows_of(r), strict=True)]
    return matrix([*upper, *lower])
