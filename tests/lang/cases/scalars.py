"""Scalar rules, each on floats."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.lang.cases.base import AWAY, BEYOND, POSITIVE, UNIT, WIDE, Case, Domain, call


def _unary(domain: Domain = WIDE, **functions: Callable[..., Any]) -> list[Case]:
    return [Case(name, call(name, 1), f, (domain,)) for name, f in functions.items()]


NORMAL = statistics.NormalDist(0.0, math.sqrt(0.5))


def truth(spelling: str, number: str = "{0}") -> str:
    """Return whether a condition holds, as a number; `number` is an operand, or a component of one."""
    return f"wp.where({spelling}, {number} * 0.0 + 1.0, {number} * 0.0)"


def round_away(x: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


RULES = [
    Case("add", "{0} + {1}", np.add, (WIDE, WIDE)),
    Case("sub", "{0} - {1}", np.subtract, (WIDE, WIDE)),
    Case("mul", "{0} * {1}", np.multiply, (WIDE, WIDE)),
    Case("div", "{0} / {1}", np.divide, (WIDE, AWAY)),
    Case("neg", "-{0}", np.negative, (WIDE,)),
    Case("floordiv", "{0} // {1}", np.floor_divide, (WIDE, AWAY)),
    Case("mod", "{0} % {1}", np.fmod, (WIDE, AWAY)),
    Case("pow", "{0} ** {1}", np.power, (POSITIVE, WIDE)),
    Case("where", "wp.where({0} > {1}, {1}, {2})", lambda a, b, c: np.where(a > b, b, c), (WIDE, WIDE, WIDE)),
    Case("atan2", "wp.atan2({0}, {1})", np.arctan2, (WIDE, AWAY)),
    *_unary(
        sin=np.sin,
        cos=np.cos,
        exp=np.exp,
        sinh=np.sinh,
        cosh=np.cosh,
        tanh=np.tanh,
        atan=np.arctan,
        asinh=np.arcsinh,
        erf=np.vectorize(math.erf),
        erfc=np.vectorize(math.erfc),
        abs=np.abs,
        floor=np.floor,
        ceil=np.ceil,
        trunc=np.trunc,
        round=round_away,
        rint=np.rint,
        sign=lambda x: np.where(x < 0, -1.0, 1.0),
    ),
    *_unary(POSITIVE, sqrt=np.sqrt, cbrt=np.cbrt, log=np.log, log2=np.log2, log10=np.log10),
    *_unary(UNIT, erfinv=lambda x: np.vectorize(NORMAL.inv_cdf)((x + 1) / 2)),
    *_unary((0.1, 1.9), erfcinv=lambda x: -np.vectorize(NORMAL.inv_cdf)(x / 2)),
    *_unary(UNIT, tan=np.tan, asin=np.arcsin, acos=np.arccos, atanh=np.arctanh),
    *_unary(BEYOND, acosh=np.arccosh),
    Case("norm_of_square", "wp.length(vec1({0}))", np.abs, (POSITIVE,)),
    Case("sign0", "wp.abs({0})", np.abs, (WIDE,)),  # the derivative of abs is its only use
    Case("to_f16", "scalar(wp.float16({0}))", lambda x: x, (WIDE,)),
    Case("to_bf16", "scalar(wp.bfloat16({0}))", lambda x: x, (WIDE,)),
    Case("to_f32", "scalar(wp.float32({0}))", lambda x: x, (WIDE,)),
    Case("to_f64", "scalar(wp.float64({0}))", lambda x: x, (WIDE,)),
    *(
        Case(f"to_i{n}", f"scalar(wp.int{n}({{0}} * 10.0))", lambda x: np.trunc(x * 10), (WIDE,))
        for n in (8, 16, 32, 64)
    ),
    *(
        Case(f"to_u{n}", f"scalar(wp.uint{n}({{0}} * 10.0))", lambda x: np.trunc(x * 10), (POSITIVE,))
        for n in (8, 16, 32, 64)
    ),
    Case("to_b1", truth("wp.bool({0} > 0.0)"), lambda x: x > 0, (WIDE,)),
    Case("isnan", truth("wp.isnan({0})"), np.isnan, (WIDE,)),
    Case("isinf", truth("wp.isinf({0})"), np.isinf, (WIDE,)),
    Case("isfinite", truth("wp.isfinite({0})"), np.isfinite, (WIDE,)),
    Case("and", truth("{0} > 0.0 and {1} > 0.0"), lambda a, b: (a > 0) & (b > 0), (WIDE, WIDE)),
    Case("or", truth("{0} > 0.0 or {1} > 0.0"), lambda a, b: (a > 0) | (b > 0), (WIDE, WIDE)),
    Case("not", truth("not {0} > 0.0"), lambda a: ~(a > 0), (WIDE,)),
    *(
        Case(name, truth(f"{{0}} {sign} {{1}}"), compare, (WIDE, WIDE))
        for name, sign, compare in (
            ("lt", "<", np.less),
            ("le", "<=", np.less_equal),
            ("gt", ">", np.greater),
            ("ge", ">=", np.greater_equal),
            ("eq", "==", np.equal),
            ("ne", "!=", np.not_equal),
        )
    ),
]
"""Scalar rules on floats."""

BITS = {"bit_and", "bit_or", "bit_xor", "invert", "lshift", "rshift"}
OF_STATES = {"rand_pcg", "centred_f32", "centred_f64", "direction_f32", "direction_f64", "single"}
"""Rules of random numbers and noise: those of `cases.noise`, and in `test_random.py`, consist of them."""
OF_BITS = {f"{s}{n}_of_bits" for n in (8, 16, 32, 64) for s in "iuf"} - {"f8_of_bits"} | {"bf16_of_bits"}
INTEGER_ONLY = {"from_end", "idiv", "trip_count"} | BITS | OF_STATES | OF_BITS
"""Rules that no float reaches: `test_rules.py` compares them with Python."""
