"""Operations on vectors, and the operators and functions that take scalars and vectors alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from tapedebug.lang import types as t
from tapedebug.lang.rules._table import Expr, Quantity, RuleError, composite, conversion, name_list


def scalar(value: Expr) -> Quantity:
    """A scalar quantity."""
    return Quantity(value.type, (value,))


def _require_vectors(what: str, *operands: Quantity) -> None:
    kinds = [q.type for q in operands]
    if len(set(kinds)) != 1 or not t.is_vector(kinds[0]):
        of_one_type = " of one type" if len(kinds) > 1 else ""
        number = {1: "a vector", 2: "two vectors"}[len(kinds)]
        raise RuleError(
            f"takes {number}{of_one_type}; got {name_list(kinds)}", f"pass {number}, such as vec3 values"
        )
    if kinds[0].scalar not in t.FLOATS and what != "dot":
        raise RuleError(f"takes floating-point vectors; got {name_list(kinds)}", "use vec2, vec3, …")


def _componentwise(name: str, x: Quantity, y: Quantity) -> Quantity:
    return Quantity(x.type, tuple(a.apply(name, b) for a, b in zip(x.parts, y.parts, strict=True)))


def _same(name: str, x: Quantity, y: Quantity) -> Quantity:
    if t.is_vector(x.type) or t.is_vector(y.type):
        if x.type is not y.type:
            raise RuleError(
                f"takes values of one type; got {name_list([x.type, y.type])}", conversion([x.type, y.type])
            )
        return _componentwise(name, x, y)
    return scalar(x.scalar.apply(name, y.scalar))


@composite("add", "Sum of two numbers or two vectors.")
def add(x: Quantity, y: Quantity) -> Quantity:
    return _same("add", x, y)


@composite("sub", "Difference of two numbers or two vectors.")
def sub(x: Quantity, y: Quantity) -> Quantity:
    return _same("sub", x, y)


@composite("neg", "Negation of a number or a vector.")
def neg(x: Quantity) -> Quantity:
    return Quantity(x.type, tuple(-a for a in x.parts))


def _scaled(name: str, vector: Quantity, factor: Quantity) -> Quantity:
    if factor.type is not vector.type.scalar:
        raise RuleError(
            f"takes a vector and its scalar type; got {name_list([vector.type, factor.type])}",
            f"convert the number with {t.conversion(vector.type.scalar)}, or write a literal as 2.0",
        )
    return Quantity(vector.type, tuple(a.apply(name, factor.scalar) for a in vector.parts))


@composite("mul", "Product of two numbers, or of a vector and a number.")
def mul(x: Quantity, y: Quantity) -> Quantity:
    if t.is_vector(x.type) and t.is_vector(y.type):
        raise RuleError(
            f"is not defined for two vectors; got {name_list([x.type, y.type])}",
            "use dot(a, b), cross(a, b), or cw_mul(a, b) for the product of components",
        )
    if t.is_vector(x.type):
        return _scaled("mul", x, y)
    if t.is_vector(y.type):
        return _scaled("mul", y, x)
    return _same("mul", x, y)


@composite("div", "Quotient of two numbers, or of a vector and a number.")
def div(x: Quantity, y: Quantity) -> Quantity:
    if t.is_vector(y.type):
        raise RuleError(
            f"cannot divide by a vector; got {name_list([x.type, y.type])}",
            "use cw_div(a, b) for the quotient of components",
        )
    integer = t.scalar_of(x.type) in t.INTEGERS and y.type in t.INTEGERS
    name = "idiv" if integer else "div"
    return _scaled(name, x, y) if t.is_vector(x.type) else _same(name, x, y)


@composite("cw_mul", "Product of components.")
def cw_mul(a: Quantity, b: Quantity) -> Quantity:
    _require_vectors("cw_mul", a, b)
    return _componentwise("mul", a, b)


@composite("cw_div", "Quotient of components.")
def cw_div(a: Quantity, b: Quantity) -> Quantity:
    _require_vectors("cw_div", a, b)
    return _componentwise("div", a, b)


def _sum(values: Sequence[Expr]) -> Expr:
    return reduce(Expr.__add__, values)


@composite("dot", "Scalar product of two vectors.")
def dot(a: Quantity, b: Quantity) -> Quantity:
    _require_vectors("dot", a, b)
    return scalar(_sum([x * y for x, y in zip(a.parts, b.parts, strict=True)]))


@composite("cross", "Vector product of two vec3.")
def cross(a: Quantity, b: Quantity) -> Quantity:
    _require_vectors("cross", a, b)
    if a.type.length != 3:
        raise RuleError(f"takes vectors of three components; got {t.type_name(a.type)}", "use vec3 values")
    (ax, ay, az), (bx, by, bz) = a.parts, b.parts
    return Quantity(a.type, (ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))


@composite("length_sq", "Square of a vector's length.")
def length_sq(a: Quantity) -> Quantity:
    _require_vectors("length_sq", a)
    return scalar(_sum([x * x for x in a.parts]))


@composite("length", "Euclidean length of a vector; its derivative at the zero vector is 0.")
def length(a: Quantity) -> Quantity:
    _require_vectors("length", a)
    return scalar(length_sq(a).scalar.apply("norm_of_square"))


@composite("normalize", "Vector of length 1 in the same direction; the zero vector stays, with derivative 0.")
def normalize(a: Quantity) -> Quantity:
    norm = length(a).scalar
    nonzero = norm > 0.0
    # The division never sees a zero, so that no NaN can be born on the branch that is not taken.
    safe = nonzero.select(norm, norm.lift(1.0))
    return Quantity(a.type, tuple(nonzero.select(x / safe, x.lift(0.0)) for x in a.parts))


@composite("where", "The second value where the first holds, else the third; both are computed.")
def where(condition: Quantity, yes: Quantity, no: Quantity) -> Quantity:
    if yes.type is not no.type:
        raise RuleError(
            f"takes two values of one type; got {name_list([yes.type, no.type])}",
            conversion([yes.type, no.type]),
        )
    if t.is_vector(condition.type):
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
        if other.type is not x.type or t.is_vector(x.type):
            raise RuleError(
                f"takes three numbers of one type; got {name_list([x.type, low.type, high.type])}",
                conversion([x.type, low.type, high.type])
                if not t.is_vector(x.type)
                else "clamp each component, or use min() and max()",
            )
    v, lowest, highest = x.scalar, low.scalar, high.scalar
    raised = _first(v, lowest, "ge").select(v, lowest)
    return scalar(_first(raised, highest, "le").select(raised, highest))


@composite("lerp", "Linear interpolation: a at 0, b at 1.")
def lerp(a: Quantity, b: Quantity, s: Quantity) -> Quantity:
    return add(mul(a, sub(scalar(s.scalar.lift(1.0)), s)), mul(b, s))


def _one_float(*operands: Quantity) -> list[Expr]:
    """The operands, which must be floats of one type."""
    kinds = [q.type for q in operands]
    if len(set(kinds)) != 1 or kinds[0] not in t.FLOATS:
        raise RuleError(f"takes floating-point numbers; got {name_list(kinds)}", "convert them with float(…)")
    return [q.scalar for q in operands]


@composite("degrees", "Degrees of an angle in radians.")
def degrees(x: Quantity) -> Quantity:
    (angle,) = _one_float(x)
    return scalar(angle * (180.0 / math.pi))


@composite("radians", "Radians of an angle in degrees.")
def radians(x: Quantity) -> Quantity:
    (angle,) = _one_float(x)
    return scalar(angle * (math.pi / 180.0))


@composite("frac", "What is left of a number without its integer part; it has the number's sign.")
def frac(x: Quantity) -> Quantity:
    (number,) = _one_float(x)
    return scalar(number - number.apply("trunc"))


@composite("step", "1 of a negative number, else 0.")
def step(x: Quantity) -> Quantity:
    (number,) = _one_float(x)
    return scalar((number < 0.0).select(1.0, number.lift(0.0)))


@composite("smoothstep", "0 at the first edge, 1 at the second, smooth between.")
def smoothstep(edge0: Quantity, edge1: Quantity, x: Quantity) -> Quantity:
    low, high, number = _one_float(edge0, edge1, x)
    s = clamp(
        scalar((number - low) / (high - low)), scalar(number.lift(0.0)), scalar(number.lift(1.0))
    ).scalar
    return scalar(s * s * (3.0 - 2.0 * s))
