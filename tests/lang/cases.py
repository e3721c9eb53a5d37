"""What the checker of the rule table knows of each operation: its spelling, value in NumPy, and domain.

A rule or composite that is not listed here fails `test_rules.py`: who adds one says where it is defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.lang import noise_reference

Domain = tuple[float, float]
WIDE: Domain = (-2.0, 2.0)
POSITIVE: Domain = (0.2, 3.0)
UNIT: Domain = (-0.9, 0.9)
AWAY: Domain = (0.5, 1.5)
"""Away from 0, for divisors."""
BEYOND: Domain = (1.2, 3.0)

KINDS: dict[str, tuple[str, Callable[[int], tuple[int, ...]]]] = {
    "s": ("scalar", lambda n: ()),
    "v": ("wp.types.vector({n}, scalar)", lambda n: (n,)),
    "w": ("wp.types.vector({n} + 1, scalar)", lambda n: (n + 1,)),
    "m": ("wp.types.matrix(({n}, {n}), scalar)", lambda n: (n, n)),
    "r": ("wp.types.matrix(({n}, {n} + 1), scalar)", lambda n: (n, n + 1)),
    "t": ("wp.types.matrix(({n} + 1, {n}), scalar)", lambda n: (n + 1, n)),
    "q": ("wp.types.quaternion(scalar)", lambda n: (4,)),
}
"""What the letters of `Case.kinds` stand for, with vectors of length n: the type, and a value's shape."""


@dataclass(frozen=True)
class Case:
    """One operation on scalars (`s`), vectors (`v`) and other kinds of values (`KINDS`).

    Attributes:
        name: The entry of the table.
        spelling: The call in a kernel, with `{0}`, `{1}`, … for the operands.
        value: The same in NumPy, float64; the axes of a value are the last ones.
        domains: Where each operand is sampled.
        kinds: One letter an operand, and after the arrow the result's.
        lengths: The lengths of vectors for which it is defined.
    """

    name: str
    spelling: str
    value: Callable[..., Any]
    domains: tuple[Domain, ...]
    kinds: str = ""
    lengths: tuple[int, ...] = (2, 3, 4)

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
        asinh=np.arcsinh,
        erf=np.vectorize(math.erf),
        erfc=np.vectorize(math.erfc),
        abs=np.abs,
        floor=np.floor,
        ceil=np.ceil,
        trunc=np.trunc,
        round=_round,
        rint=np.rint,
        sign=lambda x: np.where(x < 0, -1.0, 1.0),
    ),
    *_unary(POSITIVE, sqrt=np.sqrt, cbrt=np.cbrt, log=np.log, log2=np.log2, log10=np.log10),
    *_unary(UNIT, asin=np.arcsin, acos=np.arccos, atanh=np.arctanh),
    *_unary(BEYOND, acosh=np.arccosh),
    Case("norm_of_square", "wp.length(vec1({0}))", np.abs, (POSITIVE,)),
    Case("sign0", "wp.abs({0})", np.abs, (WIDE,)),  # the derivative of abs is its only use
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

BITS = {"bit_and", "bit_or", "bit_xor", "invert", "lshift", "rshift"}
OF_STATES = {"rand_pcg", "centred_f32", "centred_f64", "direction_f32", "direction_f64", "single"}
"""Rules of random numbers and noise: those of `NOISE`, and in `test_random.py`, consist of them."""
INTEGER_ONLY = {"from_end", "idiv", "trip_count"} | BITS | OF_STATES
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


def _of_vectors(spelling: str) -> str:
    return f"wp.where({spelling}, {{0}}[0] * 0.0 + 1.0, {{0}}[0] * 0.0)"


def _smoothstep(a: Any, b: Any, x: Any) -> Any:
    s = np.clip((x - a) / (b - a), 0, 1)
    return s * s * (3 - 2 * s)


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
    Case("cross", "wp.cross({0}, {1})", np.cross, (WIDE, WIDE), "vv>v", (3,)),
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
    Case("eq", _truth("{0} == {1}"), np.equal, (WIDE, WIDE), "ss>s"),
    Case("ne", _truth("{0} != {1}"), np.not_equal, (WIDE, WIDE), "ss>s"),
    Case("eq", _of_vectors("{0} == {1}"), lambda a, b: (a == b).all(-1), (WIDE, WIDE), "vv>s"),
    Case("ne", _of_vectors("{0} != {1}"), lambda a, b: (a != b).any(-1), (WIDE, WIDE), "vv>s"),
    Case("norm_l1", "wp.norm_l1({0})", lambda a: np.abs(a).sum(-1), (AWAY,), "v>s"),
    Case("norm_l2", "wp.norm_l2({0})", _length, (AWAY,), "v>s"),
    Case("argmin", "scalar(wp.argmin({0}))", lambda a: a.argmin(-1), (WIDE,), "v>s"),
    Case("argmax", "scalar(wp.argmax({0}))", lambda a: a.argmax(-1), (WIDE,), "v>s"),
    Case("step", "wp.step({0})", lambda x: np.where(x < 0, 1.0, 0.0), (WIDE,), "s>s"),
    Case("nonzero", "wp.nonzero({0})", lambda x: np.where(x == 0, 0.0, 1.0), (WIDE,), "s>s"),
    Case("frac", "wp.frac({0})", lambda x: x - np.trunc(x), (WIDE,), "s>s"),
    Case("degrees", "wp.degrees({0})", np.degrees, (WIDE,), "s>s"),
    Case("radians", "wp.radians({0})", np.radians, (WIDE,), "s>s"),
    Case(
        "smoothstep", "wp.smoothstep({0}, {1}, {2})", _smoothstep, ((-2.5, -0.5), (0.5, 2.5), WIDE), "sss>s"
    ),
]
"""Composite operations, on vectors and on scalars."""


def _inverse(m: Any) -> Any:
    return np.linalg.inv(m + 2 * np.eye(m.shape[-1]))


def _skew(v: Any) -> Any:
    return np.cross(v[..., None, :], -np.eye(3))


def _mats(name: str, value: Callable[..., Any], kinds: str, lengths: tuple[int, ...] = (2, 3, 4)) -> Case:
    count = len(kinds.partition(">")[0])
    return Case(name, _call(name, count), value, (WIDE,) * count, kinds, lengths)


def _product(x: Any, y: Any) -> Any:
    """The product of matrices and vectors, by the letters of `numpy.einsum`."""
    return np.einsum("aij,ajk->aik", x, y)


def _apply(m: Any, v: Any) -> Any:
    return np.einsum("aij,aj->ai", m, v)


def _before(v: Any, m: Any) -> Any:
    return np.einsum("ai,aij->aj", v, m)


MATRICES = [
    *(
        Case(name, f"{{0}} {sign} {{1}}", f, (WIDE, WIDE), kinds)
        for name, sign in (("mul", "*"), ("matmul", "@"))
        for kinds, f in (
            ("mm>m", _product),
            ("rt>m", _product),
            ("mr>r", _product),
            ("mv>v", _apply),
            ("rw>v", _apply),
            ("vr>w", _before),
        )
    ),
    *(
        Case(name, f"{{0}} {sign} {{1}}", f, (WIDE, WIDE), "rr>r")
        for name, sign, f in (("add", "+", np.add), ("sub", "-", np.subtract))
    ),
    Case("neg", "-{0}", np.negative, (WIDE,), "r>r"),
    Case("mul", "{0} * {1}", lambda m, s: m * s[:, None, None], (WIDE, WIDE), "ms>m"),
    Case("mul", "{0} * {1}", lambda s, m: m * s[:, None, None], (WIDE, WIDE), "sm>m"),
    Case("div", "{0} / {1}", lambda m, s: m / s[:, None, None], (WIDE, AWAY), "ms>m"),
    _mats("cw_mul", np.multiply, "rr>r"),
    Case("cw_div", "wp.cw_div({0}, {1})", np.divide, (WIDE, AWAY), "rr>r"),
    _mats("transpose", lambda m: m.swapaxes(1, 2), "r>t"),
    _mats("trace", lambda m: np.trace(m, axis1=1, axis2=2), "m>s"),
    _mats("determinant", np.linalg.det, "m>s"),
    Case("inverse", "wp.inverse({0} + wp.identity(n={n}, dtype=scalar) * 2.0)", _inverse, (UNIT,), "m>m"),
    _mats("diag", lambda v: v[:, :, None] * np.eye(v.shape[1]), "v>m"),
    _mats("get_diag", lambda m: np.diagonal(m, axis1=1, axis2=2), "m>v"),
    _mats("outer", lambda a, b: a[:, :, None] * b[:, None, :], "vw>r"),
    _mats("ddot", lambda a, b: (a * b).sum((1, 2)), "rr>s"),
    _mats("skew", _skew, "v>m", (3,)),
    Case(
        "matrix_from_rows",
        "wp.matrix_from_rows({0}, {1}, {2})",
        lambda *v: np.stack(v, 1),
        (WIDE,) * 3,
        "vvv>t",
        (2,),
    ),
    Case(
        "matrix_from_rows",
        "wp.matrix_from_rows({0}, {1}, {2})",
        lambda *v: np.stack(v, 1),
        (WIDE,) * 3,
        "vvv>m",
        (3,),
    ),
    Case(
        "matrix_from_cols",
        "wp.matrix_from_cols({0}, {1}, {2})",
        lambda *v: np.stack(v, 2),
        (WIDE,) * 3,
        "vvv>r",
        (2,),
    ),
    Case(
        "matrix_from_cols",
        "wp.matrix_from_cols({0}, {1}, {2})",
        lambda *v: np.stack(v, 2),
        (WIDE,) * 3,
        "vvv>m",
        (3,),
    ),
]
"""Composite operations on matrices."""


def _hamilton(a: Any, b: Any) -> Any:
    """Products by real and imaginary parts."""
    u, s, v, t = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    real = s * t - (u * v).sum(-1, keepdims=True)
    return np.concatenate([s * v + t * u + np.cross(u, v), real], -1)


def _conjugate(q: Any) -> Any:
    return q * np.array([-1, -1, -1, 1])


def _rotate(q: Any, v: Any) -> Any:
    # As warp-lang: exact for unit quaternions; others do not scale as q v q* does.
    u, w = q[..., :3], q[..., 3:]
    return v * (2 * w * w - 1) + 2 * u * _dot(u, v)[..., None] + 2 * w * np.cross(u, v)


def _to_matrix(q: Any) -> Any:
    return np.stack([_rotate(q, np.broadcast_to(axis, (*q.shape[:-1], 3))) for axis in np.eye(3)], -1)


def _about(axis: Any, angle: Any) -> Any:
    half = np.asarray(angle)[..., None] / 2
    return np.concatenate([axis * np.sin(half), np.cos(half)], -1)


def _rpy(roll: Any, pitch: Any, yaw: Any) -> Any:
    x, y, z = (np.broadcast_to(axis, (*np.shape(roll), 3)) for axis in np.eye(3))
    return _hamilton(_about(z, yaw), _hamilton(_about(y, pitch), _about(x, roll)))


def _from_matrix(m: Any) -> Any:
    """The quaternion of a matrix near identity, by its real part."""
    m = m * 0.25 + np.eye(3)
    root = np.sqrt(1 + np.trace(m, axis1=1, axis2=2))
    parts = [m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]]
    return np.stack([*(p / (2 * root) for p in parts), root / 2], -1)


def _slerp(a: Any, b: Any, s: Any) -> Any:
    """By angles in four dimensions; the operands are made unit quaternions first."""
    a, b = (x / _length(x)[..., None] for x in (a, b))
    angle = np.arccos(_dot(a, b))
    one, two = np.sin((1 - s) * angle) / np.sin(angle), np.sin(s * angle) / np.sin(angle)
    return one[..., None] * a + two[..., None] * b


QUATERNIONS = [
    Case("mul", "{0} * {1}", _hamilton, (WIDE, WIDE), "qq>q"),
    Case("mul", "{0} * {1}", _over(np.multiply), (WIDE, WIDE), "qs>q"),
    Case("mul", "{0} * {1}", _over(np.multiply), (WIDE, WIDE), "sq>q"),
    Case("div", "{0} / {1}", _over(np.divide), (WIDE, AWAY), "qs>q"),
    Case("add", "{0} + {1}", np.add, (WIDE, WIDE), "qq>q"),
    Case("sub", "{0} - {1}", np.subtract, (WIDE, WIDE), "qq>q"),
    Case("dot", "wp.dot({0}, {1})", _dot, (WIDE, WIDE), "qq>s"),
    Case("length", "wp.length({0})", _length, (AWAY,), "q>s"),
    Case("normalize", "wp.normalize({0})", lambda a: a / _length(a)[..., None], (AWAY,), "q>q"),
    _mats("quat_inverse", _conjugate, "q>q"),
    _mats("quat_rotate", _rotate, "qv>v", (3,)),
    _mats("quat_rotate_inv", lambda q, v: _rotate(_conjugate(q), v), "qv>v", (3,)),
    _mats("quat_to_matrix", _to_matrix, "q>m", (3,)),
    _mats("quat_from_axis_angle", _about, "vs>q", (3,)),
    _mats("quat_rpy", _rpy, "sss>q"),
    Case(
        "quat_from_matrix",
        "wp.quat_from_matrix({0} * 0.25 + wp.identity(n=3, dtype=scalar))",
        _from_matrix,
        (UNIT,),
        "m>q",
        (3,),
    ),
    Case(
        "quat_slerp",
        "wp.quat_slerp(wp.normalize({0}), wp.normalize({1}), {2})",
        _slerp,
        (AWAY, (0.2, 2.0), (0.1, 0.9)),
        "qqs>q",
    ),
]
"""Composite operations on quaternions."""

SEED = int(noise_reference.pcg(7))


def _state_bits(x: Any) -> Any:
    seeds = np.trunc(x * 1000).astype(np.int64).astype(np.uint32)
    return (noise_reference.pcg(seeds) >> np.uint32(16)).astype(float)


NOISE = [
    Case(
        "rand_init",
        "scalar(wp.rand_init(int({0} * 1000.0)) >> wp.uint32(16))",
        _state_bits,
        (WIDE,),
        "s>s",
    ),
    Case(
        "noise",
        "wp.noise(wp.rand_init(7), {0})",
        lambda x: noise_reference.noise(SEED, x[..., None]),
        (WIDE,),
        "s>s",
    ),
    Case("noise", "wp.noise(wp.rand_init(7), {0})", lambda x: noise_reference.noise(SEED, x), (WIDE,), "v>s"),
    *(
        Case(
            "pnoise",
            f"wp.pnoise(wp.rand_init(7), {{0}}, {', '.join(map(str, periods))})",
            lambda x, periods=periods: noise_reference.noise(
                SEED, x.reshape(-1, len(periods)), np.array(periods)
            ),
            ((-8.0, 8.0),),
            "v>s" if len(periods) > 1 else "s>s",
            (len(periods),) if len(periods) > 1 else (2, 3, 4),
        )
        for periods in ((3,), (3, 2), (3, 2, 5), (3, 2, 5, 4))
    ),
    Case(
        "curlnoise",
        "wp.curlnoise(wp.rand_init(7), {0})",
        lambda x: noise_reference.curl(SEED, x),
        (WIDE,),
        "v>v",
        (2, 3),
    ),
]
"""Fields of random numbers, and the states that select them."""

ROUNDED = {"to_f32"}
"""Operations that the float64 twin, too, computes with constants or values of float32."""

TABLES = {
    "rules": RULES,
    "composites": COMPOSITES,
    "matrices": MATRICES,
    "quaternions": QUATERNIONS,
    "noise": NOISE,
}
