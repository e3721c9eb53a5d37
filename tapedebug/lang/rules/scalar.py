"""Scalar rules: arithmetic, comparison, selection, rounding, elementary functions.

Division, remainder, rounding and `min`/`max` with NaN follow C, as the documents' users know them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tapedebug.lang import types as t
from tapedebug.lang.rules._table import (
    NOT_DIFFERENTIABLE,
    Expr,
    Partial,
    Select,
    bits,
    comparison,
    floats,
    integers,
    numbers,
    numpy_fold,
    rule,
    same_type,
    truth,
)

# Arithmetic ------------------------------------------------------------------------------------------------

rule(
    "add",
    "Sum.",
    result=numbers,
    text="{0} + {1}",
    partials=(lambda x, y, r: 1.0, lambda x, y, r: 1.0),
    fold=numpy_fold(operator.add),
)
rule(
    "sub",
    "Difference.",
    result=numbers,
    text="{0} - {1}",
    partials=(lambda x, y, r: 1.0, lambda x, y, r: -1.0),
    fold=numpy_fold(operator.sub),
)
rule(
    "mul",
    "Product.",
    result=numbers,
    text="{0} * {1}",
    partials=(lambda x, y, r: y, lambda x, y, r: x),
    fold=numpy_fold(operator.mul),
)
rule(
    "div",
    "Quotient of floats (IEEE: x / 0 is infinite).",
    result=floats,
    text="{0} / {1}",
    partials=(lambda x, y, r: 1.0 / y, lambda x, y, r: -(r / y)),
)
rule(
    "neg",
    "Negation.",
    result=numbers,
    text="-{0}",
    partials=(lambda x, r: -1.0,),
    fold=numpy_fold(operator.neg),
)
rule(
    "idiv",
    "Quotient of integers, rounded toward zero as in C; x / 0 is 0.",
    result=integers,
    text="c_div({0}, {1})",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "floordiv",
    "Quotient rounded toward minus infinity; an integer divided by 0 is 0.",
    result=numbers,
    text="floor_div({0}, {1})",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "mod",
    "Remainder with the sign of the dividend, as in C.",
    result=numbers,
    text="c_mod({0}, {1})",
    partials=(lambda x, y, r: 1.0, lambda x, y, r: -((x - r) / y)),
)


def _both_zero(x: Expr, y: Expr) -> Expr:
    return x.apply("eq", 0.0).apply("and", y.apply("eq", 0.0))


rule(
    "pow",
    "Power of floats.",
    result=floats,
    text="m_pow({0}, {1})",
    # x ** 0 is 1 everywhere, although 0 · 0 ** -1 is NaN; 0 ** y is 0, although log(0) is not finite.
    partials=(
        lambda x, y, r: _both_zero(x, y).select(0.0, y * x.apply("pow", y - 1.0)),
        lambda x, y, r: x.apply("eq", 0.0).select(0.0, x.apply("log") * r),
    ),
)

# Bits ------------------------------------------------------------------------------------------------------

for _name, _text, _doc, _bits in (
    ("bit_and", "{0} & {1}", "Bits that both integers have.", operator.and_),
    ("bit_or", "{0} | {1}", "Bits that at least one integer has.", operator.or_),
    ("bit_xor", "{0} ^ {1}", "Bits that exactly one integer has.", operator.xor),
    ("invert", "~{0}", "Bits that an integer does not have.", operator.invert),
):
    rule(_name, _doc, result=bits, text=_text, partials=NOT_DIFFERENTIABLE, fold=numpy_fold(_bits))
for _name, _text, _way in (("lshift", "shl", "up"), ("rshift", "shr", "down")):
    rule(
        _name,
        f"Bits of the first, moved {_way} by the second; a signed integer keeps its sign.",
        result=bits,
        text=f"{_text}({{0}}, {{1}})",
        partials=NOT_DIFFERENTIABLE,
    )

# Comparison, logic, selection ------------------------------------------------------------------------------

for _name, _sign, _word, _fold in (
    ("lt", "<", "less", operator.lt),
    ("le", "<=", "less or equal", operator.le),
    ("gt", ">", "greater", operator.gt),
    ("ge", ">=", "greater or equal", operator.ge),
    ("eq", "==", "equal", operator.eq),
    ("ne", "!=", "not equal", operator.ne),
):
    rule(
        _name,
        f"Whether the first is {_word} (the second).",
        result=comparison,
        text=f"{{0}} {_sign} {{1}}",
        partials=NOT_DIFFERENTIABLE,
        fold=numpy_fold(_fold),
    )
rule("and", "Both hold.", result=truth, text="{0} & {1}", partials=NOT_DIFFERENTIABLE)
rule("or", "At least one holds.", result=truth, text="{0} | {1}", partials=NOT_DIFFERENTIABLE)
rule("not", "Does not hold.", result=truth, text="not {0}", partials=NOT_DIFFERENTIABLE)


def _where(operands: Sequence[Any]) -> Any:
    condition, yes, no = operands
    truth([condition])
    return same_type([yes, no])


rule(
    "where",
    "The second value where the first holds, else the third; both are computed.",
    result=_where,
    text="select({0}, {1}, {2})",
    partials=(
        None,
        lambda c, x, y, r: Select(c),
        lambda c, x, y, r: Select(c.apply("not")),
    ),
)

# Elementary functions --------------------------------------------------------------------------------------


def _unary(name: str, doc: str, partial: Partial | None) -> None:
    partials = NOT_DIFFERENTIABLE if partial is None else (partial,)
    rule(name, doc, result=floats, text=f"m_{name}({{0}})", partials=partials)


def _square(x: Expr) -> Expr:
    return x * x


def _inverse_slope(slope: float) -> Partial:
    def partial(x: Expr, r: Expr) -> Expr:
        inside = 1.0 - _square(x)
        return inside.apply("le", 0.0).select(0.0, slope / inside.apply("sqrt"))

    return partial


def _polar(toward: Expr, y: Expr, x: Expr) -> Expr:
    """A coordinate over the square of the distance; 0 at the origin, which has no angle."""
    return _over(toward, _square(x) + _square(y))


def _over(value: Expr | float, divisor: Expr) -> Expr:
    """The quotient; 0 where the divisor is 0, and then the quotient's own adjoint is finite, too."""
    zero = divisor.apply("eq", 0.0)
    return zero.select(0.0, value / zero.select(1.0, divisor))


_unary("sqrt", "Square root; its derivative at 0 is infinite.", lambda x, r: 0.5 / r)
# A length: its derivative at 0 is taken as 0, the least of the subgradients (as the documents' system does).
rule(
    "norm_of_square",
    "Square root of a sum of squares; its derivative at 0 is 0.",
    result=floats,
    text="m_sqrt({0})",
    partials=(lambda s, r: _over(0.5, r),),
)
_unary("cbrt", "Cube root.", lambda x, r: 1.0 / (3.0 * r * r))
_unary("exp", "Exponential.", lambda x, r: r)
_unary("log", "Natural logarithm.", lambda x, r: 1.0 / x)
_unary("log2", "Logarithm to base 2.", lambda x, r: (1.0 / math.log(2.0)) / x)
_unary("log10", "Logarithm to base 10.", lambda x, r: (1.0 / math.log(10.0)) / x)
_unary("sin", "Sine of an angle in radians.", lambda x, r: x.apply("cos"))
_unary("cos", "Cosine of an angle in radians.", lambda x, r: -x.apply("sin"))
_unary("tan", "Tangent of an angle in radians.", lambda x, r: 1.0 + r * r)
for _name, _word, _slope in (("asin", "sine", 1.0), ("acos", "cosine", -1.0)):
    # Rounding takes the cosine of an angle beyond 1, so the operand is held there, as the documents'
    # system does. The function is flat outside, so its derivative at ±1, infinite from inside, is taken as 0.
    rule(
        _name,
        f"Inverse {_word}, in radians; the operand is held in [-1, 1], where its derivative is 0.",
        result=floats,
        text=f"m_{_name}(unit({{0}}))",
        partials=(_inverse_slope(_slope),),
    )
_unary("atan", "Inverse tangent, in radians.", lambda x, r: 1.0 / (1.0 + _square(x)))
_unary("sinh", "Hyperbolic sine.", lambda x, r: x.apply("cosh"))
_unary("cosh", "Hyperbolic cosine.", lambda x, r: x.apply("sinh"))
_unary("tanh", "Hyperbolic tangent.", lambda x, r: 1.0 - r * r)
_unary("asinh", "Inverse hyperbolic sine.", lambda x, r: 1.0 / (_square(x) + 1.0).apply("sqrt"))
_unary(
    "acosh",
    "Inverse hyperbolic cosine, of numbers from 1.",
    lambda x, r: 1.0 / (_square(x) - 1.0).apply("sqrt"),
)
_unary("atanh", "Inverse hyperbolic tangent.", lambda x, r: 1.0 / (1.0 - _square(x)))
for _name, _doc, _slope in (("erf", "Error function.", 1.0), ("erfc", "1 minus the error function.", -1.0)):
    _scale = _slope * 2.0 / math.sqrt(math.pi)
    _unary(_name, _doc, lambda x, r, scale=_scale: scale * (-_square(x)).apply("exp"))
_unary(
    "erfinv",
    "Inverse of the error function; infinite at 1 and -1.",
    lambda x, r: (math.sqrt(math.pi) / 2.0) * (r * r).apply("exp"),
)
rule(
    "atan2",
    "Angle of the point (second, first), in radians; its derivative at the origin is 0.",
    result=floats,
    text="m_atan2({0}, {1})",
    partials=(
        lambda y, x, r: _polar(x, y, x),
        lambda y, x, r: -_polar(y, y, x),
    ),
)
_unary("floor", "Largest integer not above, as a float.", None)
_unary("ceil", "Smallest integer not below, as a float.", None)
_unary("trunc", "Rounded toward zero, as a float.", None)
_unary("round", "Rounded to the nearest integer, halves away from zero, as a float.", None)
_unary("rint", "Rounded to the nearest integer, halves to even, as a float.", None)
rule(
    "isnan",
    "Whether the value is not a number.",
    result=lambda o: floats(o) and t.bool,
    text="{0} != {0}",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "isinf",
    "Whether the value is infinite.",
    result=lambda o: floats(o) and t.bool,
    text="({0} == {0}) & (({0} - {0}) != ({0} - {0}))",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "isfinite",
    "Whether the value is neither infinite nor NaN.",
    result=lambda o: floats(o) and t.bool,
    text="({0} - {0}) == ({0} - {0})",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "abs",
    "Absolute value; its derivative at 0 is 0.",
    result=numbers,
    text="m_abs({0})",
    partials=(lambda x, r: x.apply("sign0"),),
)
rule(
    "sign0",
    "-1, 0 or 1 by the sign.",
    result=numbers,
    text="m_sign0({0})",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "sign",
    "-1 of a negative number, else 1.",
    result=numbers,
    text="m_sign({0})",
    partials=NOT_DIFFERENTIABLE,
)

rule(
    "trip_count",
    "Number of iterations of range(start, stop, step).",
    result=integers,
    text="trip_count({0}, {1}, {2})",
    partials=NOT_DIFFERENTIABLE,
)

rule(
    "stop_gradient",
    "The same number, as a constant: no derivative passes.",
    result=same_type,
    text="{0}",
    partials=NOT_DIFFERENTIABLE,
)


def _first(operands: Sequence[Any]) -> Any:
    for operand in operands:
        floats([operand])
    return operands[0]


rule(
    "differentiated_as",
    "The first number, with the mean of the derivatives of the others: for functions that are smooth where "
    "the way to compute them is not.",
    result=_first,
    text="{0}",
    partials=(None, lambda x, y, z, r: 0.5, lambda x, y, z, r: 0.5),
    beside=2,
)

rule(
    "from_end",
    "An index into so many elements: a negative one counts from the end.",
    result=integers,
    text="select({0} < 0, {0} + {1}, {0})",
    partials=NOT_DIFFERENTIABLE,
    fold=lambda index, length: index + length if index < 0 else index,
)
