"""Elementary functions of floats, and rounding; each is one unit, with its lowering for every target.

Rounding and the values at the ends of domains follow C, as the documents' users know them.
"""

from __future__ import annotations

import math

import numpy as np

from tapedebug.lang.lowering import (
    FLOATS,
    Function,
    Instructions,
    fitting,
    function,
    intrinsic,
    libm,
    llvm_type,
    of_its_type,
)
from tapedebug.lang.rules._formulas import Double, formula
from tapedebug.lang.rules._vector_functions import cosine, root, sine
from tapedebug.lang.rules.table import NOT_DIFFERENTIABLE, Expr, Partial, floats, rule


def _unary(
    name: str,
    doc: str,
    lowering: Function,
    partial: Partial | None,
    *,
    odd: bool = False,
    curvature: float | None = None,
    exact: bool = False,
) -> None:
    """A function of one float; those without a partial derivative are called by name elsewhere."""
    rule(
        name,
        doc,
        result=floats,
        lowering=lowering,
        partials=NOT_DIFFERENTIABLE if partial is None else (partial,),
        public=partial is not None,
        odd=odd,
        curvature=curvature,
        exact=exact,
    )


def _square(x: Expr) -> Expr:
    return x * x


def _over(value: Expr | float, divisor: Expr) -> Expr:
    """The quotient; 0 where the divisor is 0, and then the quotient's own adjoint is finite, too."""
    zero = divisor.apply("eq", 0.0)
    return zero.select(0.0, value / zero.select(1.0, divisor))


# Roots, powers, logarithms ---------------------------------------------------------------------------------

_unary(
    "sqrt",
    "Square root; its derivative at 0 is infinite.",
    intrinsic("sqrt", np.sqrt, exact=True, vector=root),
    lambda x, r: 0.5 / r,
)
# A length: its derivative at 0 is taken as 0, the least of the subgradients (as the documents' system does).
rule(
    "norm_of_square",
    "Square root of a sum of squares; its derivative at 0 is 0.",
    result=floats,
    lowering="m_sqrt({0})",
    partials=(lambda s, r: _over(0.5, r),),
)
_unary("cbrt", "Cube root.", libm("cbrt", np.cbrt), lambda x, r: 1.0 / (3.0 * r * r))


def _both_zero(x: Expr, y: Expr) -> Expr:
    return x.apply("eq", 0.0).apply("and", y.apply("eq", 0.0))


rule(
    "pow",
    "Power of floats.",
    result=floats,
    lowering=libm("pow", np.power),
    # x ** 0 is 1 everywhere, although 0 · 0 ** -1 is NaN; 0 ** y is 0, although log(0) is not finite.
    partials=(
        lambda x, y, r: _both_zero(x, y).select(0.0, y * x.apply("pow", y - 1.0)),
        lambda x, y, r: x.apply("eq", 0.0).select(0.0, x.apply("log") * r),
    ),
    public=True,
)
_unary("exp", "Exponential.", intrinsic("exp", np.exp), lambda x, r: r)
_unary("log", "Natural logarithm.", intrinsic("log", np.log), lambda x, r: 1.0 / x)
_unary("log2", "Logarithm to base 2.", intrinsic("log2", np.log2), lambda x, r: (1.0 / math.log(2.0)) / x)
_unary(
    "log10", "Logarithm to base 10.", intrinsic("log10", np.log10), lambda x, r: (1.0 / math.log(10.0)) / x
)

# Angles ----------------------------------------------------------------------------------------------------

_unary(
    "sin",
    "Sine of an angle in radians.",
    intrinsic("sin", np.sin, vector=sine),
    lambda x, r: x.apply("cos"),
    odd=True,
)
_unary(
    "cos",
    "Cosine of an angle in radians.",
    intrinsic("cos", np.cos, vector=cosine),
    lambda x, r: -x.apply("sin"),
    curvature=-1.0,
)
_unary("tan", "Tangent of an angle in radians.", libm("tan", np.tan), lambda x, r: 1.0 + r * r, odd=True)


def _unit(x: str) -> Instructions:
    """The operand, held in [-1, 1]; NaN stays."""
    fitting(x in FLOATS, x)
    kind = llvm_type(x)
    return Instructions(
        x,
        f"{{r}}.below = fcmp olt {kind} {{0}}, -1.0\n"
        f"{{r}}.raised = select i1 {{r}}.below, {kind} -1.0, {kind} {{0}}\n"
        f"{{r}}.above = fcmp ogt {kind} {{r}}.raised, 1.0\n"
        f"{{r}} = select i1 {{r}}.above, {kind} 1.0, {kind} {{r}}.raised",
    )


function("unit", of_its_type(lambda x: np.clip(x, -1, 1)), _unit)


def _inverse_slope(slope: float) -> Partial:
    def partial(x: Expr, r: Expr) -> Expr:
        inside = 1.0 - _square(x)
        return inside.apply("le", 0.0).select(0.0, slope / inside.apply("sqrt"))

    return partial


for _name, _word, _slope, _python in (
    ("asin", "sine", 1.0, np.arcsin),
    ("acos", "cosine", -1.0, np.arccos),
):
    # Rounding takes the cosine of an angle beyond 1, so the operand is held there, as the documents'
    # system does. The function is flat outside, so its derivative at ±1, infinite from inside, is taken as 0.
    rule(
        _name,
        f"Inverse {_word}, in radians; the operand is held in [-1, 1], where its derivative is 0.",
        result=floats,
        lowering=f"{libm(_name, _python).name}(unit({{0}}))",
        partials=(_inverse_slope(_slope),),
        public=True,
        odd=_name == "asin",
    )
_unary(
    "atan",
    "Inverse tangent, in radians.",
    libm("atan", np.arctan),
    lambda x, r: 1.0 / (1.0 + _square(x)),
    odd=True,
)


def _polar(toward: Expr, y: Expr, x: Expr) -> Expr:
    """A coordinate over the square of the distance; 0 at the origin, which has no angle."""
    return _over(toward, _square(x) + _square(y))


rule(
    "atan2",
    "Angle of the point (second, first), in radians; its derivative at the origin is 0.",
    result=floats,
    lowering=libm("atan2", np.arctan2),
    partials=(
        lambda y, x, r: _polar(x, y, x),
        lambda y, x, r: -_polar(y, y, x),
    ),
    public=True,
    operands=("y", "x"),
)

# Hyperbolic functions --------------------------------------------------------------------------------------

_unary("sinh", "Hyperbolic sine.", libm("sinh", np.sinh), lambda x, r: x.apply("cosh"), odd=True)
_unary("cosh", "Hyperbolic cosine.", libm("cosh", np.cosh), lambda x, r: x.apply("sinh"), curvature=1.0)
_unary("tanh", "Hyperbolic tangent.", libm("tanh", np.tanh), lambda x, r: 1.0 - r * r, odd=True)
_unary(
    "asinh",
    "Inverse hyperbolic sine.",
    libm("asinh", np.arcsinh),
    lambda x, r: 1.0 / (_square(x) + 1.0).apply("sqrt"),
    odd=True,
)
_unary(
    "acosh",
    "Inverse hyperbolic cosine, of numbers from 1.",
    libm("acosh", np.arccosh),
    lambda x, r: 1.0 / (_square(x) - 1.0).apply("sqrt"),
)
_unary(
    "atanh",
    "Inverse hyperbolic tangent.",
    libm("atanh", np.arctanh),
    lambda x, r: 1.0 / (1.0 - _square(x)),
    odd=True,
)

# The error function ----------------------------------------------------------------------------------------

for _name, _doc, _slope, _scalar in (
    ("erf", "Error function.", 1.0, math.erf),
    ("erfc", "1 minus the error function.", -1.0, math.erfc),
):
    _scale = _slope * 2.0 / math.sqrt(math.pi)
    _unary(
        _name,
        _doc,
        libm(_name, _scalar),
        lambda x, r, scale=_scale: scale * (-_square(x)).apply("exp"),
        odd=_name == "erf",
    )

START = (2.30753, 0.27061, 0.99229, 0.04481)
"""Formula 26.2.22 of Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964)."""
NEAR = (0.886227, 0.232014)
"""The first two coefficients of the series of the inverse error function at 0."""


def _inverse_erf(erf: Double, erfc: Double) -> Double:
    """The number from 0 on with this error function and complement: a rough one, and two steps of Halley's.

    Where the error function is at least one half, the complement has all the digits.
    """
    near = erf * erf * NEAR[1] + NEAR[0]
    s = ((erfc * 0.5).of("log") * -2.0).of("sqrt")
    above, below = s * START[1] + START[0], s * (s * START[3] + START[2]) + 1.0
    far, near = (s - above / below) * math.sqrt(0.5), erf * near
    y = far.where(erf >= 0.5, near)
    for _ in range(2):
        beyond, within = erfc - y.of("erfc"), y.of("erf") - erf
        slope = (-(y * y)).of("exp") * (2.0 / math.sqrt(math.pi))
        u = beyond.where(erf >= 0.5, within) / slope
        y = y - u / (y * u + 1.0)
    return y


def _erfinv(x: Double) -> Double:
    size = x.size()
    y = _inverse_erf(size, 1.0 - size)
    inside, end = size < 1.0, size.equals(1.0)
    return y.where(inside, x.constant(math.inf).where(end, math.nan)).with_sign_of(x)


_unary(
    "erfinv",
    "Inverse of the error function; infinite at 1 and -1.",
    formula("m_erfinv", _erfinv),
    lambda x, r: (math.sqrt(math.pi) / 2.0) * (r * r).apply("exp"),
)


def _erfcinv(x: Double) -> Double:
    other = 2.0 - x
    above = other < 1.0
    tail = other.where(above, x)
    y = x.constant(math.inf).where(tail.equals(0.0), _inverse_erf(1.0 - tail, tail))
    return (-y).where(above, y)


_unary(
    "erfcinv",
    "Inverse of 1 minus the error function; infinite at 0 and 2.",
    formula("m_erfcinv", _erfcinv),
    lambda x, r: (-math.sqrt(math.pi) / 2.0) * (r * r).apply("exp"),
)

# Rounding --------------------------------------------------------------------------------------------------

_unary(
    "floor",
    "Largest integer not above, as a float.",
    intrinsic("floor", np.floor, exact=True),
    None,
    exact=True,
)
_unary(
    "ceil",
    "Smallest integer not below, as a float.",
    intrinsic("ceil", np.ceil, exact=True),
    None,
    exact=True,
)
_unary(
    "trunc", "Rounded toward zero, as a float.", intrinsic("trunc", np.trunc, exact=True), None, exact=True
)
_unary(
    "round",
    "Rounded to the nearest integer, halves away from zero, as a float.",
    intrinsic("round", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), exact=True),
    None,
)
_unary(
    "rint",
    "Rounded to the nearest integer, halves to even, as a float.",
    intrinsic("rint", np.rint, exact=True),
    None,
)
