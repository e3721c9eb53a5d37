"""Steps, ramps and interpolation, and angles in degrees."""

from __future__ import annotations

import math

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import require_scalar, scalar
from tapedebug.lang.rules.choice import clamp
from tapedebug.lang.rules.operators import add, mul, sub
from tapedebug.lang.rules.table import Expr, Quantity, RuleError, composite, conversion, name_list
from tapedebug.lang.types import scalar_of


@composite("lerp", "Linear interpolation of numbers or of components: a at 0, b at 1.")
def lerp(a: Quantity, b: Quantity, t: Quantity) -> Quantity:
    if a.type is not b.type:
        kinds = [a.type, b.type]
        raise RuleError(f"takes two values of one type; got {name_list(kinds)}", conversion(kinds))
    require_scalar(scalar_of(a.type), "a number", t)
    return add(mul(a, sub(scalar(t.scalar.lift(1.0)), t)), mul(b, t))


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
