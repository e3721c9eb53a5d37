"""Functions of quaternions: x, y, z, and w, the real part; unit quaternions are rotations."""

from __future__ import annotations

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import columns_of, inner, matrix, require, require_length
from tapedebug.lang.rules._table import Expr, Quantity, RuleError, composite, conversion, name_list
from tapedebug.lang.rules.operators import hamilton
from tapedebug.lang.rules.vector import length, normalize

Parts = tuple[Expr, ...]


def _quat(parts: Parts) -> Quantity:
    return Quantity(t.quaternion(parts[0].type), parts)


def _require_scalar(kind: type[t.Scalar], what: str, *operands: Quantity) -> None:
    """Require that numbers are of the float type that a compound operand has."""
    kinds = [q.type for q in operands]
    if any(k is not kind for k in kinds):
        raise RuleError(
            f"takes {what} of {t.type_name(kind)}; got {name_list(kinds)}",
            f"convert it with {t.conversion(kind)}",
        )


@composite("quat_inverse", "Conjugate of a quaternion: of a unit quaternion, its inverse.")
def quat_inverse(q: Quantity) -> Quantity:
    require(t.Quaternion, q)
    x, y, z, w = q.parts
    return _quat((-x, -y, -z, w))


def _rotated(q: Parts, v: Parts, sign: float) -> Parts:
    (x, y, z, w), (a, b, c) = q, v
    scale = 2.0 * w * w - 1.0
    along = 2.0 * inner(q[:3], v)
    turn = (sign * 2.0) * w
    crossed = (y * c - z * b, z * a - x * c, x * b - y * a)
    return tuple(p * scale + k * along + n * turn for p, k, n in zip(v, q[:3], crossed, strict=True))


def _require_rotation(q: Quantity, v: Quantity) -> None:
    require(t.Quaternion, q)
    require(t.Vector, v)
    require_length(v, 3)
    if v.type.scalar is not q.type.scalar:
        raise RuleError(
            f"takes a quaternion and a vector of one scalar type; got {name_list([q.type, v.type])}",
            conversion([q.type.scalar, v.type.scalar]),
        )


@composite("quat_rotate", "Vector, rotated by a unit quaternion.")
def quat_rotate(q: Quantity, v: Quantity) -> Quantity:
    _require_rotation(q, v)
    return Quantity(v.type, _rotated(q.parts, v.parts, 1.0))


@composite("quat_rotate_inv", "Vector, rotated by the inverse of a unit quaternion.")
def quat_rotate_inv(q: Quantity, v: Quantity) -> Quantity:
    _require_rotation(q, v)
    return Quantity(v.type, _rotated(q.parts, v.parts, -1.0))


def _about(axis: Parts, angle: Expr) -> Parts:
    half = angle * 0.5
    sine = half.apply("sin")
    return (*(a * sine for a in axis), half.apply("cos"))


@composite("quat_from_axis_angle", "Rotation about an axis of length 1 by an angle in radians.")
def quat_from_axis_angle(axis: Quantity, angle: Quantity) -> Quantity:
    require(t.Vector, axis)
    require_length(axis, 3)
    _require_scalar(axis.type.scalar, "an angle", angle)
    return _quat(_about(axis.parts, angle.scalar))


@composite("quat_rpy", "Rotation by roll about x, then pitch about y, then yaw about z, in radians.")
def quat_rpy(roll: Quantity, pitch: Quantity, yaw: Quantity) -> Quantity:
    if roll.type not in t.FLOATS:
        raise RuleError(
            f"takes floating-point numbers; got {t.type_name(roll.type)}", "pass angles as floats"
        )
    _require_scalar(roll.type, "angles", roll, pitch, yaw)
    halves = [angle.scalar * 0.5 for angle in (roll, pitch, yaw)]
    sr, sp, sy = (h.apply("sin") for h in halves)
    cr, cp, cy = (h.apply("cos") for h in halves)
    return _quat(
        (
            cy * sr * cp - sy * cr * sp,
            cy * cr * sp + sy * sr * cp,
            sy * cr * cp - cy * sr * sp,
            cy * cr * cp + sy * sr * sp,
        )
    )


@composite("quat_to_matrix", "Matrix (3 by 3) of the rotation of a unit quaternion.")
def quat_to_matrix(q: Quantity) -> Quantity:
    require(t.Quaternion, q)
    zero, one = q.parts[0].lift(0.0), q.parts[0].lift(1.0)
    axes = ((one, zero, zero), (zero, one, zero), (zero, zero, one))
    return matrix(list(zip(*(_rotated(q.parts, axis, 1.0) for axis in axes), strict=True)))


@composite("quat_from_matrix", "Quaternion of a rotation matrix (3 by 3, or the upper left of 4 by 4).")
def quat_from_matrix(m: Quantity) -> Quantity:
    require(t.Matrix, m)
    if m.type.shape not in ((3, 3), (4, 4)):
        raise RuleError(
            f"takes a matrix of 3 or 4 rows and columns; got {t.type_name(m.type)}", "use a mat33"
        )
    columns = [column[:3] for column in columns_of(m)[:3]]
    (a, d, g), (b, e, h), (c, f, i) = columns
    # One of four roots is taken: of a sum that is at least 1, so that the division is safe.
    by_w = _from_root(a + e + i, (h - f, c - g, d - b), 3)
    by_x = _from_root(a - (e + i), (b + d, g + c, h - f), 0)
    by_y = _from_root(e - (i + a), (b + d, f + h, c - g), 1)
    by_z = _from_root(i - (a + e), (g + c, f + h, d - b), 2)
    second = e > a
    third = i > second.select(e, a)
    rest = _chosen(third, by_z, _chosen(second, by_y, by_x))
    return _quat(_chosen((a + e + i) >= 0.0, by_w, rest))


def _from_root(sum_less_one: Expr, others: Parts, place: int) -> Parts:
    """A quaternion from the square of twice its component at `place`, and the products with the others."""
    square = sum_less_one + 1.0
    # Where this root is not the one to take it may be of a negative number: 1 keeps it harmless.
    root = (square > 0.0).select(square, square.lift(1.0)).apply("sqrt")
    parts = [other * (0.5 / root) for other in others]
    parts.insert(place, root * 0.5)
    return tuple(parts)


def _chosen(condition: Expr, yes: Parts, no: Parts) -> Parts:
    return tuple(condition.select(a, b) for a, b in zip(yes, no, strict=True))


@composite("quat_slerp", "Rotation on the shorter way from a (at 0) to b (at 1), at constant speed.")
def quat_slerp(a: Quantity, b: Quantity, s: Quantity) -> Quantity:
    require(t.Quaternion, a, b)
    _require_scalar(a.type.scalar, "a number", s)
    x, y, z, w = hamilton(quat_inverse(a).parts, b.parts)
    turn = Quantity(t.vector(3, x.type), (x, y, z))
    flip = (w >= 0.0).select(1.0, w.lift(-1.0))
    axis = tuple(part * flip for part in normalize(turn).parts)
    angle = 2.0 * length(turn).scalar.apply("atan2", w * flip)
    return _quat(hamilton(a.parts, _about(axis, s.scalar * angle)))
