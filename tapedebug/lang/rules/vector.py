"""Functions of vectors, and those that take numbers and vectors alike."""

from __future__ import annotations

import math
from collections.abc import Callable

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import (
    componentwise,
    inner,
    require,
    require_length,
    scalar,
    total,
)
from tapedebug.lang.rules._table import Expr, Quantity, RuleError, composite, conversion, name_list
from tapedebug.lang.rules.operators import add, mul, sub


@composite("cw_mul", "Product of components of two vectors or matrices.")
def cw_mul(a: Quantity, b: Quantity) -> Quantity:
    require(t.Vector, a, b, also=t.Matrix)
    return componentwise("mul", a, b)


@composite("cw_div", "Quotient of components of two vectors or matrices.")
def cw_div(a: Quantity, b: Quantity) -> Quantity:
    require(t.Vector, a, b, also=t.Matrix)
    return componentwise("div", a, b)


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
    require(t.Vector, a, also=t.Quaternion)
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
    # The division never sees a zero, so that no NaN can be born on the branch that is not taken.
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


@composite("where", "The second value where the first holds, else the third; both are computed.")
def where(condition: Quantity, yes: Quantity, no: Quantity) -> Quantity:
    if yes.type is not no.type:
        raise RuleError(
            f"takes two values of one type; got {name_list([yes.type, no.type])}",
            conversion([yes.type, no.type]),
        )
    if t.is_compound(condition.type):
        raise RuleError(
            f"takes a condition (bool) first; got {t.type_name(condition.type)}",
            "write a comparison, such as `x > 0.0`",
        )
    holds = condition.scalar if condition.type is t.bool else condition.scalar.apply("ne", 0)
    parts = zip(yes.parts, no.parts, strict=True)
    return Quantity(yes.type, tuple(holds.select(a, b) for a, b in parts))


def _first(a: Expr, b: Expr, sign: str) -> Expr:
    """Whether the first of two values is the one to take: a NaN never is where the other is a number."""
    holds = a.apply(sign, b)
    return holds.apply("or", b.apply("isnan")) if b.type in t.FLOATS else holds


def _extreme(sign: str) -> Callable[[Quantity, Quantity], Quantity]:
    def build(x: Quantity, y: Quantity) -> Quantity:
        if t.is_matrix(x.type) or t.is_quaternion(x.type):
            raise RuleError(f"takes numbers or vectors; got {t.type_name(x.type)}", "apply it to components")
        if x.type is not y.type:
            raise RuleError(
                f"takes two values of one type; got {name_list([x.type, y.type])}",
                conversion([x.type, y.type]),
            )
        pairs = zip(x.parts, y.parts, strict=True)
        return Quantity(x.type, tuple(_first(a, b, sign).select(a, b) for a, b in pairs))

    return build


# As C's fmin and fmax: of a number and a NaN the number. A tie's derivative goes to the second.
composite("min", "The smaller of two numbers, or of each pair of components.")(_extreme("lt"))
composite("max", "The larger of two numbers, or of each pair of components.")(_extreme("gt"))


@composite("clamp", "The first value, held between the second and the third.")
def clamp(x: Quantity, low: Quantity, high: Quantity) -> Quantity:
    for other in (low, high):
        if other.type is not x.type or t.is_compound(x.type):
            raise RuleError(
                f"takes three numbers of one type; got {name_list([x.type, low.type, high.type])}",
                conversion([x.type, low.type, high.type])
                if not t.is_compound(x.type)
                else "clamp each component, or use min() and max()",
            )
    v, lowest, highest = x.scalar, low.scalar, high.scalar
    raised = _first(v, lowest, "ge").select(v, lowest)
    return scalar(_first(raised, highest, "le").select(raised, highest))


@composite("lerp", "Linear interpolation: a at 0, b at 1.")
def lerp(a: Quantity, b: Quantity, s: Quantity) -> Quantity:
    return add(mul(a, sub(scalar(s.scalar.lift(1.0)), s)), mul(b, s))


def _require_number(x: Quantity) -> None:
    if t.is_compound(x.type):
        raise RuleError(f"takes a number; got {t.type_name(x.type)}", "apply it to each component")


@composite("step", "1 of a negative number, else 0.", differentiable=False)
def step(x: Quantity) -> Quantity:
    _require_number(x)
    return scalar(x.scalar.apply("lt", 0).select(1, x.scalar.lift(0)))


@composite("nonzero", "0 of 0, else 1.", differentiable=False)
def nonzero(x: Quantity) -> Quantity:
    _require_number(x)
    return scalar(x.scalar.apply("eq", 0).select(0, x.scalar.lift(1)))


@composite("frac", "What follows the decimal point, with the sign of the number.")
def frac(x: Quantity) -> Quantity:
    _require_number(x)
    return scalar(x.scalar - x.scalar.apply("trunc"))


@composite("degrees", "An angle in radians as degrees.")
def degrees(x: Quantity) -> Quantity:
    _require_number(x)
    return scalar(_floating(x.scalar) * (180.0 / math.pi))


@composite("radians", "An angle in degrees as radians.")
def radians(x: Quantity) -> Quantity:
    _require_number(x)
    return scalar(_floating(x.scalar) * (math.pi / 180.0))


def _floating(x: Expr) -> Expr:
    if x.type not in t.FLOATS:
        raise RuleError(
            f"takes floating-point numbers; got {t.type_name(x.type)}", "convert it with float(…)"
        )
    return x


@composite("smoothstep", "0 below a, 1 above b, between them a smooth step (a cubic in x).")
def smoothstep(a: Quantity, b: Quantity, x: Quantity) -> Quantity:
    if len({a.type, b.type, x.type}) != 1:
        kinds = [a.type, b.type, x.type]
        raise RuleError(f"takes three numbers of one type; got {name_list(kinds)}", conversion(kinds))
    _require_number(x)
    low = _floating(a.scalar)
    s = clamp(
        scalar((x.scalar - low) / (b.scalar - low)), scalar(low.lift(0.0)), scalar(low.lift(1.0))
    ).scalar
    return scalar(s * s * (3.0 - 2.0 * s))


def _place_of_extreme(sign: str) -> Callable[[Quantity], Quantity]:
    def build(v: Quantity) -> Quantity:
        require(t.Vector, v, floating=False)
        first = v.parts[0]
        best, place = first, Expr(first.emitter, first.emitter.exact(0, t.uint32))
        for number, part in enumerate(v.parts[1:], start=1):
            better = _first(part, best, sign)
            best, place = better.select(part, best), better.select(number, place)
        return scalar(place)

    return build


for _name, _word, _sign in (("argmin", "smallest", "lt"), ("argmax", "largest", "gt")):
    composite(
        _name,
        f"Index of a vector's {_word} component, as uint32; the first of several.",
        differentiable=False,
    )(_place_of_extreme(_sign))
