"""Functions of vectors: products and lengths."""

from __future__ import annotations

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import (
    componentwise,
    inner,
    require,
    require_length,
    require_scalar,
    scalar,
    total,
)
from tapedebug.lang.rules.table import Expr, Quantity, composite


@composite("cw_mul", "Product of components of two vectors or matrices.")
def cw_mul(a: Quantity, b: Quantity) -> Quantity:
    require(t.Vector, a, b, floating=False, also=t.Matrix)
    return componentwise("mul", a, b)


@composite("cw_div", "Quotient of components of two vectors or matrices.")
def cw_div(a: Quantity, b: Quantity) -> Quantity:
    require(t.Vector, a, b, floating=False, also=t.Matrix)
    return componentwise("div" if a.type.scalar in t.FLOATS else "idiv", a, b)


@composite("dot", "Scalar product of two vectors or quaternions.")
def dot(a: Quantity, b: Quantity) -> Quantity:
    require(t.Vector, a, b, floating=False, also=t.Quaternion)
    return scalar(inner(a.parts, b.parts))


@composite("cross", "Vector product of two vec3.")
def cross(a: Quantity, b: Quantity) -> Quantity:
    require(t.Vector, a, b)
    require_length(a, 3)
    (ax, ay, az), (bx, by, bz) = a.parts, b.parts
    return Quantity(a.type, (ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))


@composite("length_sq", "Square of the length of a vector or quaternion.")
def length_sq(a: Quantity) -> Quantity:
    require(t.Vector, a, floating=False, also=t.Quaternion)
    return scalar(inner(a.parts, a.parts))


@composite("length", "Euclidean length of a vector or quaternion; its derivative at zero is 0.")
def length(a: Quantity) -> Quantity:
    require(t.Vector, a, also=t.Quaternion)
    return scalar(length_sq(a).scalar.apply("norm_of_square"))


@composite(
    "normalize", "Length 1 in the same direction; zero gives zero (a quaternion: w = 1), derivative 0."
)
def normalize(a: Quantity) -> Quantity:
    norm = length(a).scalar
    nonzero = norm > 0.0
    # The divisor is never zero, so that the branch that is not taken produces no NaN.
    safe = nonzero.select(norm, norm.lift(1.0))
    rest = (0.0,) * a.type.length if t.is_vector(a.type) else (0.0, 0.0, 0.0, 1.0)
    return Quantity(
        a.type, tuple(nonzero.select(x / safe, x.lift(z)) for x, z in zip(a.parts, rest, strict=True))
    )


@composite("norm_l1", "Sum of the absolute values of a vector's components.")
def norm_l1(v: Quantity) -> Quantity:
    require(t.Vector, v)
    return scalar(total(x.apply("abs") for x in v.parts))


@composite("norm_l2", "Euclidean length of a vector; its derivative at zero is 0.")
def norm_l2(v: Quantity) -> Quantity:
    require(t.Vector, v)
    return length(v)


def _threshold(v: Quantity, delta: Quantity | None) -> Expr:
    """Return the value at which a Huber norm changes from square to linear; 1 by default."""
    require(t.Vector, v)
    if delta is None:
        return v.parts[0].lift(1.0)
    require_scalar(v.type.scalar, "a threshold", delta)
    return delta.scalar


@composite("norm_huber", "Half the squared length of a vector up to length delta (1), linear beyond.")
def norm_huber(v: Quantity, delta: Quantity | None = None) -> Quantity:
    limit = _threshold(v, delta)
    square = length_sq(v).scalar
    linear = limit * (square.apply("norm_of_square") - 0.5 * limit)
    return scalar(square.apply("le", limit * limit).select(0.5 * square, linear))


@composite(
    "norm_pseudo_huber", "Length of a vector, smooth at zero: delta sqrt(1 + length²/delta²); delta is 1."
)
def norm_pseudo_huber(v: Quantity, delta: Quantity | None = None) -> Quantity:
    limit = _threshold(v, delta)
    return scalar(limit * (1.0 + length_sq(v).scalar / (limit * limit)).apply("sqrt"))


@composite("smooth_normalize", "A vector divided by its pseudo-Huber norm.")
def smooth_normalize(v: Quantity, delta: Quantity | None = None) -> Quantity:
    norm = norm_pseudo_huber(v, delta).scalar
    return Quantity(v.type, tuple(x / norm for x in v.parts))
