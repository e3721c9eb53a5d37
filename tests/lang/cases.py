"""What the checker of the rule table knows of each operation: its spelling, value in NumPy, and domain.

A rule or composite that is not listed here fails `test_rules.py`: who adds one says where it is defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Domain = tuple[float, float]
WIDE: Domain = (-2.0, 2.0)
POSITIVE: Domain = (0.2, 3.0)
UNIT: Domain = (-0.9, 0.9)
AWAY: Domain = (0.5, 1.5)
"""Away from 0, for divisors."""


@dataclass(frozen=True)
class Case:
    """One operation on scalars (`s`) and vectors (`v`).

    Attributes:
        name: The entry of the table.
        spelling: The call in a kernel, with `{0}`, `{1}`, … for the operands.
        value: The same in NumPy, float64; a vector's components are the last axis.
        domains: Where each operand is sampled.
        kinds: One letter an operand, `s` or `v`, and after the arrow the result's.
    """

    name: str
    spelling: str
    value: Callable[..., Any]
    domains: tuple[Domain, ...]
    kinds: str = ""

    @property
    def operands(self) -> str:
        return self.kinds.partition(">")[0] or "s" * len(self.domains)

    @property
    def result(self) -> str:
        return self.kinds.partition(">")[2] or "s"


def _call(name: str, count: int) -> str:
    return f"wp.{name}({', '.join(f'{{{i}}}' for i in range(count))})"


def _unary(domain: Domain = WIDE, **functions: Callable[..., Any]) -> list[Case]:
    return [Case(name, _call(name, 1), f, (domain,)) for name, f in functions.items()]


def _truth(spelling: str) -> str:
    return f"wp.where({spelling}, {{0}} * 0.0 + 1.0, {{0}} * 0.0)"


def _round(x: Any) -> Any:
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
        tan=np.tan,
        exp=np.exp,
        sinh=np.sinh,
        cosh=np.cosh,
        tanh=np.tanh,
        atan=np.arctan,
        abs=np.abs,
        floor=np.floor,
        ceil=np.ceil,
        trunc=np.trunc,
        round=_round,
        rint=np.rint,
        sign=lambda x: np.where(x < 0, -1.0, 1.0),
    ),
    *_unary(POSITIVE, sqrt=np.sqrt, cbrt=np.cbrt, log=np.log, log2=np.log2, log10=np.log10),
    *_unary(UNIT, asin=np.arcsin, acos=np.arccos),
    *_unary(asinh=np.arcsinh, erf=np.vectorize(math.erf), erfc=np.vectorize(math.erfc)),
    *_unary((1.2, 3.0), acosh=np.arccosh),
    *_unary(UNIT, atanh=np.arctanh),
    Case("norm_of_square", "wp.length(vec1({0}))", np.abs, (POSITIVE,)),
    Case("sign0", "wp.abs({0})", np.abs, (WIDE,)),  # the derivative of abs is its only use
    Case("to_f32", "scalar(wp.float32({0}))", lambda x: x, (WIDE,)),
    Case("to_f64", "scalar(wp.float64({0}))", lambda x: x, (WIDE,)),
    Case("to_i32", "scalar(wp.int32({0} * 10.0))", lambda x: np.trunc(x * 10), (WIDE,)),
    Case("to_i64", "scalar(wp.int64({0} * 10.0))", lambda x: np.trunc(x * 10), (WIDE,)),
    Case("to_b1", _truth("wp.bool({0} > 0.0)"), lambda x: x > 0, (WIDE,)),
    Case("isnan", _truth("wp.isnan({0})"), np.isnan, (WIDE,)),
    Case("isfinite", _truth("wp.isfinite({0})"), np.isfinite, (WIDE,)),
    Case("and", _truth("{0} > 0.0 and {1} > 0.0"), lambda a, b: (a > 0) & (b > 0), (WIDE, WIDE)),
    Case("or", _truth("{0} > 0.0 or {1} > 0.0"), lambda a, b: (a > 0) | (b > 0), (WIDE, WIDE)),
    Case("not", _truth("not {0} > 0.0"), lambda a: ~(a > 0), (WIDE,)),
    *(
        Case(name, _truth(f"{{0}} {sign} {{1}}"), compare, (WIDE, WIDE))
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

INTEGER_ONLY = {"idiv", "trip_count", "bit_and", "bit_or", "bit_xor", "lshift", "rshift", "invert"}
"""Rules that no float reaches: `test_rules.py` compares them with Python."""


def _dot(a: Any, b: Any) -> Any:
    return (a * b).sum(-1)


def _length(a: Any) -> Any:
    return np.sqrt(_dot(a, a))


def _over(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of vectors and numbers, with the numbers spread over the components."""
    return lambda a, b: f(*np.broadcast_arrays(_wide(a, b), _wide(b, a)))


def _wide(a: Any, other: Any) -> Any:
    return a[..., None] if np.ndim(a) < np.ndim(other) else a


def _lerp(a: Any, b: Any, s: Any) -> Any:
    s = _wide(s, a)
    return a * (1 - s) + b * s


def _smooth(low: Any, high: Any, x: Any) -> Any:
    s = np.clip((x - low) / (high - low), 0.0, 1.0)
    return s * s * (3.0 - 2.0 * s)


COMPOSITES = [
    Case("add", "{0} + {1}", np.add, (WIDE, WIDE), "vv>v"),
    Case("add", "{0} + {1}", np.add, (WIDE, WIDE), "ss>s"),
    Case("sub", "{0} - {1}", np.subtract, (WIDE, WIDE), "vv>v"),
    Case("sub", "{0} - {1}", np.subtract, (WIDE, WIDE), "ss>s"),
    Case("neg", "-{0}", np.negative, (WIDE,), "v>v"),
    Case("neg", "-{0}", np.negative, (WIDE,), "s>s"),
    Case("mul", "{0} * {1}", _over(np.multiply), (WIDE, WIDE), "vs>v"),
    Case("mul", "{0} * {1}", _over(np.multiply), (WIDE, WIDE), "sv>v"),
    Case("mul", "{0} * {1}", np.multiply, (WIDE, WIDE), "ss>s"),
    Case("div", "{0} / {1}", _over(np.divide), (WIDE, AWAY), "vs>v"),
    Case("div", "{0} / {1}", np.divide, (WIDE, AWAY), "ss>s"),
    Case("cw_mul", "wp.cw_mul({0}, {1})", np.multiply, (WIDE, WIDE), "vv>v"),
    Case("cw_div", "wp.cw_div({0}, {1})", np.divide, (WIDE, AWAY), "vv>v"),
    Case("dot", "wp.dot({0}, {1})", _dot, (WIDE, WIDE), "vv>s"),
    Case("cross", "wp.cross({0}, {1})", np.cross, (WIDE, WIDE), "vv>v"),
    Case("length", "wp.length({0})", _length, (AWAY,), "v>s"),
    Case("length_sq", "wp.length_sq({0})", lambda a: _dot(a, a), (WIDE,), "v>s"),
    Case("normalize", "wp.normalize({0})", lambda a: a / _length(a)[..., None], (AWAY,), "v>v"),
    Case(
        "where",
        "wp.where({0} > 0.0, {1}, {2})",
        lambda c, a, b: np.where((c > 0)[..., None], a, b),
        (WIDE,) * 3,
        "svv>v",
    ),
    Case(
        "where", "wp.where({0} > 0.0, {1}, {2})", lambda c, a, b: np.where(c > 0, a, b), (WIDE,) * 3, "sss>s"
    ),
    Case("min", "wp.min({0}, {1})", np.minimum, (WIDE, WIDE), "vv>v"),
    Case("min", "wp.min({0}, {1})", np.minimum, (WIDE, WIDE), "ss>s"),
    Case("max", "wp.max({0}, {1})", np.maximum, (WIDE, WIDE), "vv>v"),
    Case("max", "wp.max({0}, {1})", np.maximum, (WIDE, WIDE), "ss>s"),
    Case("clamp", "wp.clamp({0}, {1}, {2})", np.clip, (WIDE, (-1.5, -0.5), (0.5, 1.5)), "sss>s"),
    Case("lerp", "wp.lerp({0}, {1}, {2})", _lerp, (WIDE, WIDE, (0.0, 1.0)), "vvs>v"),
    Case("lerp", "wp.lerp({0}, {1}, {2})", _lerp, (WIDE, WIDE, (0.0, 1.0)), "sss>s"),
    Case("degrees", "wp.degrees({0})", np.degrees, (WIDE,), "s>s"),
    Case("radians", "wp.radians({0})", np.radians, (WIDE,), "s>s"),
    Case("frac", "wp.frac({0})", lambda x: np.fmod(x, 1.0), (WIDE,), "s>s"),
    Case("step", "wp.step({0})", lambda x: np.where(x < 0, 1.0, 0.0), (WIDE,), "s>s"),
    Case("smoothstep", "wp.smoothstep({0}, {1}, {2})", _smooth, ((-2.0, -1.0), (0.5, 1.5), WIDE), "sss>s"),
]
"""Composite operations, on vectors and on scalars."""
