"""Functions of quaternions: x, y, z, and w, the real part; unit quaternions are rotations."""

from __future__ import annotations

import math

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import (
    columns_of,
    inner,
    matrix,
    one_scalar_type,
    require,
    require_length,
    require_scalar,
    scalar,
    vector,
)
from tapedebug.lang.rules.operators import hamilton, rotated
from tapedebug.lang.rules.table import Expr, Quantity, RuleError, composite, name_list
from tapedebug.lang.rules.vector import length, normalize
from tapedebug.lang.types import Quaternion

Parts = tuple[Expr, ...]


def _quat(parts: Parts) -> Quantity:
    return Quantity(t.quaternion(parts[0].type), parts)


@composite("quat_inverse", "Conjugate of a quaternion: of a unit quaternion, its inverse.")
def quat_inverse(quat: Quantity) -> Quantity:
    require(t.Quaternion, quat)
    x, y, z, w = quat.parts
    return _quat((-x, -y, -z, w))


def _require_rotation(q: Quantity, v: Quantity) -> None:
    require(t.Quaternion, q)
    require(t.Vector, v)
    require_length(v, 3)
    one_scalar_type("a quaternion and a vector", q, v)


@composite("quat_rotate", "Vector, rotated by a unit quaternion.")
def quat_rotate(quat: Quantity, vec: Quantity) -> Quantity:
    _require_rotation(quat, vec)
    return Quantity(vec.type, rotated(quat.parts, vec.parts))


@composite("quat_rotate_inv", "Vector, rotated by the inverse of a unit quaternion.")
def quat_rotate_inv(quat: Quantity, vec: Quantity) -> Quantity:
    _require_rotation(quat, vec)
    return Quantity(vec.type, rotated(quat.parts, vec.parts, -1.0))


def _about(axis: Parts, angle: Expr) -> Parts:
    half = angle * 0.5
    sine = half.apply("sin")
    return (*(a * sine for a in axis), half.apply("cos"))


@composite("quat_from_axis_angle", "Rotation about an axis of length 1 by an angle in radians.")
def quat_from_axis_angle(axis: Quantity, angle: Quantity) -> Quantity:
    require(t.Vector, axis)
    require_length(axis, 3)
    require_scalar(axis.type.scalar, "an angle", angle)
    return _quat(_about(axis.parts, angle.scalar))


@composite("quat_rpy", "Rotation by roll about x, then pitch about y, then yaw about z, in radians.")
def quat_rpy(roll: Quantity, pitch: Quantity, yaw: Quantity) -> Quantity:
    if roll.type not in t.FLOATS:
        raise RuleError(
            f"takes floating-point numbers; got {t.type_name(roll.type)}", "pass angles as floats"
        )
    require_scalar(roll.type, "angles", roll, pitch, yaw)
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
def quat_to_matrix(quat: Quantity) -> Quantity:
    require(t.Quaternion, quat)
    return matrix(rotation_rows(quat.parts))


def rotation_rows(q: Parts) -> list[Parts]:
    """The rows of the matrix of a unit quaternion's rotation."""
    zero, one = q[0].lift(0.0), q[0].lift(1.0)
    axes = ((one, zero, zero), (zero, one, zero), (zero, zero, one))
    return list(zip(*(rotated(q, axis) for axis in axes), strict=True))


@composite("quat_from_matrix", "Unit quaternion of a rotation matrix (3 by 3, or the upper left of 4 by 4).")
def quat_from_matrix(mat: Quantity) -> Quantity:
    require(t.Matrix, mat)
    if mat.type.shape not in ((3, 3), (4, 4)):
        raise RuleError(
            f"takes a matrix of 3 or 4 rows and columns; got {t.type_name(mat.type)}", "use a mat33"
        )
    return _quat(from_columns([column[:3] for column in columns_of(mat)[:3]]))


def from_columns(columns: list[Parts]) -> Parts:
    """The unit quaternion of a rotation matrix, by its columns."""
    (a, d, g), (b, e, h), (c, f, i) = columns
    # One of four roots is taken: of a sum that is at least 1, so that the division is safe.
    by_w = _from_root(a + e + i, (h - f, c - g, d - b), 3)
    by_x = _from_root(a - (e + i), (b + d, g + c, h - f), 0)
    by_y = _from_root(e - (i + a), (b + d, f + h, c - g), 1)
    by_z = _from_root(i - (a + e), (g + c, f + h, d - b), 2)
    second = e > a
    third = i > second.select(e, a)
    rest = _chosen(third, by_z, _chosen(second, by_y, by_x))
    # Of a matrix that is not exactly a rotation the root alone has no length of 1.
    return normalize(_quat(_chosen((a + e + i) >= 0.0, by_w, rest))).parts


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
def quat_slerp(a: Quantity, b: Quantity, t: Quantity) -> Quantity:
    require(Quaternion, a, b)
    require_scalar(a.type.scalar, "a number", t)
    axis, angle = _axis_angle(hamilton(quat_inverse(a).parts, b.parts))
    return _quat(hamilton(a.parts, _about(axis, t.scalar * angle)))


def _axis_angle(q: Parts) -> tuple[Parts, Expr]:
    """The axis of a rotation, and its angle in [0, π]."""
    turn, w = vector(q[:3]), q[3]
    flip = (w >= 0.0).select(1.0, w.lift(-1.0))
    axis = tuple(part * flip for part in normalize(turn).parts)
    # At half a turn (w = 0) the angle has its maximum, a kink: as of abs(), its derivative there is 0.
    return axis, 2.0 * length(turn).scalar.apply("atan2", w.apply("abs"))


@composite("quat_to_axis_angle", "Two values: axis and angle (0 to π) of a rotation; of none zeros.")
def quat_to_axis_angle(quat: Quantity) -> tuple[Quantity, Quantity]:
    require(t.Quaternion, quat)
    axis, angle = _axis_angle(quat.parts)
    return vector(axis), scalar(angle)


@composite("quat_to_rpy", "Roll, pitch and yaw of a unit quaternion's rotation, in radians, as a vector.")
def quat_to_rpy(quat: Quantity) -> Quantity:
    require(t.Quaternion, quat)
    x, y, z, w = quat.parts
    roll = (2.0 * (w * x + y * z)).apply("atan2", 1.0 - 2.0 * (x * x + y * y))
    pitch = (2.0 * (w * y - z * x)).apply("asin")  # which holds its operand in [-1, 1]
    yaw = (2.0 * (w * z + x * y)).apply("atan2", 1.0 - 2.0 * (y * y + z * z))
    return vector((roll, pitch, yaw))


def _along(axis: Quantity, q: Quantity) -> Expr:
    """The component of a rotation's imaginary part along an axis."""
    require(t.Vector, axis)
    require_length(axis, 3)
    require(t.Quaternion, q)
    one_scalar_type("an axis and a quaternion", axis, q)
    return inner(axis.parts, q.parts[:3])


@composite("quat_twist", "The part of a rotation that turns about an axis of length 1, as a quaternion.")
def quat_twist(axis: Quantity, q: Quantity) -> Quantity:
    along = _along(axis, q)
    return normalize(_quat((*(along * a for a in axis.parts), q.parts[3])))


@composite("quat_twist_angle", "Angle by which a rotation turns about an axis of length 1, without its sign.")
def quat_twist_angle(axis: Quantity, q: Quantity) -> Quantity:
    return scalar(2.0 * _along(axis, q).apply("abs").apply("atan2", q.parts[3]))


@composite("quat_twist_angle_signed", "Angle by which a rotation turns about an axis of length 1.")
def quat_twist_angle_signed(axis: Quantity, q: Quantity) -> Quantity:
    return scalar(2.0 * _along(axis, q).apply("atan2", q.parts[3]))


# Angles about three axes, given by number -------------------------------------------------------------------


def _axes(*numbers: Quantity) -> list[tuple[Expr, Expr, Expr]]:
    """For each axis that is given by its number, the conditions that it is x, y, z."""
    for number in numbers:
        if number.type not in t.INTEGERS:
            got = name_list([n.type for n in numbers])
            raise RuleError(f"takes three axes as 0, 1 or 2; got {got}", "write (e, 0, 1, 2) for x, y, z")
    return [tuple(n.scalar.apply("eq", axis) for axis in range(3)) for n in numbers]  # type: ignore[misc]


def _at(axis: tuple[Expr, Expr, Expr], parts: Parts) -> Expr:
    """The component on an axis."""
    return axis[0].select(parts[0], axis[1].select(parts[1], parts[2]))


@composite("quat_from_euler", "Rotation about axes i, j, k (0 to 2) in turn, by the angles e[i], e[j], e[k].")
def quat_from_euler(e: Quantity, i: Quantity, j: Quantity, k: Quantity) -> Quantity:
    require(t.Vector, e)
    require_length(e, 3)
    zero, one = e.parts[0].lift(0.0), e.parts[0].lift(1.0)
    turns = [
        _about(tuple(chosen.select(one, zero) for chosen in axis), _at(axis, e.parts))
        for axis in _axes(i, j, k)
    ]
    return _quat(hamilton(turns[2], hamilton(turns[1], turns[0])))


@composite(
    "quat_to_euler", "Angles e of a unit quaternion for quat_from_euler(e, i, j, k), of three different axes."
)
def quat_to_euler(q: Quantity, i: Quantity, j: Quantity, k: Quantity) -> Quantity:
    """Bernardes and Viollet, https://doi.org/10.1371/journal.pone.0276302."""
    require(t.Quaternion, q)
    first, second, third = axes = _axes(i, j, k)
    x, y, z = (_at(axis, q.parts[:3]) for axis in axes)
    w = q.parts[3]
    in_turn = [first[a].apply("and", second[(a + 1) % 3]) for a in range(3)]
    right = in_turn[0].apply("or", in_turn[1]).apply("or", in_turn[2])
    sign = right.select(w.lift(1.0), w.lift(-1.0))
    a, b, c, d = w - y, x + z * sign, y + w, z * sign - x
    middle = 2.0 * _norm(c, d).apply("atan2", _norm(a, b)) - math.pi / 2
    half_sum, half_difference = b.apply("atan2", a), d.apply("atan2", c)
    angles = (_within(half_sum - half_difference), middle, _within((half_sum + half_difference) * sign))
    zero = w.lift(0.0)
    return vector(
        [
            first[n].select(angles[0], second[n].select(angles[1], third[n].select(angles[2], zero)))
            for n in range(3)
        ]
    )


def _within(angle: Expr) -> Expr:
    """An angle from -2π to 2π as the same one from -π to π."""
    below = (angle < -math.pi).select(angle + 2.0 * math.pi, angle)
    return (angle > math.pi).select(angle - 2.0 * math.pi, below)


def _norm(x: Expr, y: Expr) -> Expr:
    return (x * x + y * y).apply("norm_of_square")
