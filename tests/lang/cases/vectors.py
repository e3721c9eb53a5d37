"""Composite operations on numbers and vectors; what is done component by component to any kind of value."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lang.cases.base import AWAY, UNIT, WIDE, Case, Domain, dot, each, length, over, spread, wide
from tests.lang.cases.scalars import round_away, truth

LOW: Domain = (-1.5, -0.5)
HIGH: Domain = (0.5, 1.5)
WEIGHT: Domain = (0.0, 1.0)
ANY = ("s>s", "v>v", "r>r", "q>q", "x>x")
PAIRS = ("ss>s", "vv>v", "rr>r", "qq>q", "xx>x")


def _of(kind: str, spelling: str) -> str:
    """Return whether a condition on the first operand holds, as a number."""
    entry = {"s": "{0}", "r": "{0}[0, 0]"}.get(kind, "{0}[0]")
    return truth(spelling, entry)


def _all(values: Any) -> Any:
    return values.reshape(values.shape[0], -1).all(-1)


def _any(values: Any) -> Any:
    return values.reshape(values.shape[0], -1).any(-1)


def _choose(c: Any, a: Any, b: Any) -> Any:
    return np.where(spread(c > 0, a), a, b)


def _lerp(a: Any, b: Any, s: Any) -> Any:
    s = spread(s, a)
    return a * (1 - s) + b * s


def _smoothstep(a: Any, b: Any, x: Any) -> Any:
    s = np.clip((x - a) / (b - a), 0, 1)
    return s * s * (3 - 2 * s)


def _clip(x: Any, low: Any, high: Any) -> Any:
    return np.clip(x, spread(low, x), spread(high, x))


def _huber(v: Any, delta: Any) -> Any:
    norm = length(v)
    return np.where(norm <= delta, norm**2 / 2, delta * (norm - delta / 2))


def _pseudo(v: Any, delta: Any) -> Any:
    return delta * np.sqrt(1 + dot(v, v) / delta**2)


ARITHMETIC = [
    *each("add", "{0} + {1}", np.add, (WIDE, WIDE), *PAIRS),
    *each("sub", "{0} - {1}", np.subtract, (WIDE, WIDE), *PAIRS),
    *each("neg", "-{0}", np.negative, (WIDE,), *ANY),
    *each("mul", "{0} * {1}", over(np.multiply), (WIDE, WIDE), "ss>s", "vs>v", "rs>r", "qs>q", "xs>x"),
    *each("mul", "{0} * {1}", over(np.multiply), (WIDE, WIDE), "sv>v", "sr>r", "sq>q", "sx>x"),
    *each("div", "{0} / {1}", over(np.divide), (WIDE, AWAY), "ss>s", "vs>v", "rs>r", "qs>q", "xs>x"),
    *each("div", "{0} / {1}", over(np.divide), (WIDE, AWAY), "sv>v", "sr>r", "sq>q"),
    *each("mod", "{0} % {1}", np.fmod, (WIDE, AWAY), "ss>s", "vv>v", "rr>r"),
    *each("abs", "wp.abs({0})", np.abs, (WIDE,), "s>s", "v>v", "r>r"),
    *each("sign", "wp.sign({0})", lambda x: np.where(x < 0, -1.0, 1.0), (WIDE,), "s>s", "v>v", "r>r"),
    *each("floor", "wp.floor({0})", np.floor, (WIDE,), "s>s", "v>v", "r>r"),
    *each("ceil", "wp.ceil({0})", np.ceil, (WIDE,), "s>s", "v>v", "r>r"),
    *each("trunc", "wp.trunc({0})", np.trunc, (WIDE,), "s>s", "v>v", "r>r"),
    *each("rint", "wp.rint({0})", np.rint, (WIDE,), "s>s", "v>v", "r>r"),
    *each("round", "wp.round({0})", round_away, (WIDE,), "s>s", "v>v", "r>r"),
    *each("cw_mul", "wp.cw_mul({0}, {1})", np.multiply, (WIDE, WIDE), "vv>v", "rr>r"),
    *each("cw_div", "wp.cw_div({0}, {1})", np.divide, (WIDE, AWAY), "vv>v", "rr>r"),
]
TESTS = [
    case
    for kind in "svrqx"
    for case in [
        Case("eq", _of(kind, "{0} == {1}"), lambda a, b: _all(a == b), (WIDE, WIDE), f"{kind}{kind}>s"),
        Case("ne", _of(kind, "{0} != {1}"), lambda a, b: _any(a != b), (WIDE, WIDE), f"{kind}{kind}>s"),
        Case("isnan", _of(kind, "wp.isnan({0})"), lambda a: _any(np.isnan(a)), (WIDE,), f"{kind}>s"),
        Case("isinf", _of(kind, "wp.isinf({0})"), lambda a: _any(np.isinf(a)), (WIDE,), f"{kind}>s"),
        Case("isfinite", _of(kind, "wp.isfinite({0})"), lambda a: _all(np.isfinite(a)), (WIDE,), f"{kind}>s"),
    ]
]
CHOICES = [
    *(
        Case(name, f"wp.{name}({order})", _choose, (WIDE,) * 3, f"s{kind}{kind}>{kind}")
        for kind in "svrqx"
        for name, order in (("where", "{0} > 0.0, {1}, {2}"), ("select", "{0} > 0.0, {2}, {1}"))
    ),
    *each("min", "wp.min({0}, {1})", np.minimum, (WIDE, WIDE), "ss>s", "vv>v"),
    *each("max", "wp.max({0}, {1})", np.maximum, (WIDE, WIDE), "ss>s", "vv>v"),
    Case("min", "wp.min({0})", lambda a: a.min(-1), (WIDE,), "v>s"),
    Case("max", "wp.max({0})", lambda a: a.max(-1), (WIDE,), "v>s"),
    *each("clamp", "wp.clamp({0}, {1}, {2})", _clip, (WIDE, LOW, HIGH), "sss>s", "vvv>v"),
    *each("clamp", "wp.clamp({0}, {1}, {2})", _clip, (WIDE, LOW, HIGH), "vss>v", "vsv>v", "vvs>v"),
    Case("argmin", "scalar(wp.argmin({0}))", lambda a: a.argmin(-1), (WIDE,), "v>s"),
    Case("argmax", "scalar(wp.argmax({0}))", lambda a: a.argmax(-1), (WIDE,), "v>s"),
]


def _bits(x: Any) -> Any:
    return np.vectorize(lambda n: float(int(n * 8.0).bit_count()))(x)


RAMPS = [
    *each("lerp", "wp.lerp({0}, {1}, {2})", _lerp, (WIDE, WIDE, WEIGHT), "sss>s", "vvs>v", "rrs>r"),
    *each("lerp", "wp.lerp({0}, {1}, {2})", _lerp, (WIDE, WIDE, WEIGHT), "qqs>q", "xxs>x"),
    Case("step", "wp.step({0})", lambda x: np.where(x < 0, 1.0, 0.0), (WIDE,), "s>s"),
    Case("nonzero", "wp.nonzero({0})", lambda x: np.where(x == 0, 0.0, 1.0), (WIDE,), "s>s"),
    Case("copysign", "wp.copysign({0}, {1})", np.copysign, (AWAY, (-1.5, -0.5)), "ss>s"),
    Case("copysign", "wp.copysign({0}, {1})", np.copysign, ((-1.5, -0.5), AWAY), "ss>s"),
    Case("bit_count", "scalar(wp.bit_count(wp.int32({0} * 8.0)))", _bits, (AWAY,), "s>s"),
    Case("frac", "wp.frac({0})", lambda x: x - np.trunc(x), (WIDE,), "s>s"),
    Case("degrees", "wp.degrees({0})", np.degrees, (WIDE,), "s>s"),
    Case("radians", "wp.radians({0})", np.radians, (WIDE,), "s>s"),
    Case(
        "smoothstep", "wp.smoothstep({0}, {1}, {2})", _smoothstep, ((-2.5, -0.5), (0.5, 2.5), WIDE), "sss>s"
    ),
]
NORMS = [
    *each("dot", "wp.dot({0}, {1})", dot, (WIDE, WIDE), "vv>s", "qq>s"),
    *each("length", "wp.length({0})", length, (AWAY,), "v>s", "q>s"),
    *each("length_sq", "wp.length_sq({0})", lambda a: dot(a, a), (WIDE,), "v>s", "q>s"),
    *each("normalize", "wp.normalize({0})", lambda a: a / length(a)[..., None], (AWAY,), "v>v", "q>q"),
    wide("cross", np.cross, "vv>v", (3,)),
    Case("norm_l1", "wp.norm_l1({0})", lambda a: np.abs(a).sum(-1), (AWAY,), "v>s"),
    Case("norm_l2", "wp.norm_l2({0})", length, (AWAY,), "v>s"),
    Case("norm_huber", "wp.norm_huber({0}, {1})", _huber, (WIDE, AWAY), "vs>s"),
    Case("norm_huber", "wp.norm_huber({0})", lambda v: _huber(v, 1.0), (UNIT,), "v>s"),
    Case("norm_pseudo_huber", "wp.norm_pseudo_huber({0}, {1})", _pseudo, (WIDE, AWAY), "vs>s"),
    Case("norm_pseudo_huber", "wp.norm_pseudo_huber({0})", lambda v: _pseudo(v, 1.0), (WIDE,), "v>s"),
    Case(
        "smooth_normalize",
        "wp.smooth_normalize({0}, {1})",
        lambda v, d: v / _pseudo(v, d)[..., None],
        (WIDE, AWAY),
        "vs>v",
    ),
    Case(
        "smooth_normalize",
        "wp.smooth_normalize({0})",
        lambda v: v / _pseudo(v, 1.0)[..., None],
        (WIDE,),
        "v>v",
    ),
]
