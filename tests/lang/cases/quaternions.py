"""Composite operations on quaternions, transforms and spatial vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lang.cases.base import AWAY, UNIT, WIDE, Case, dot, length, wide


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
    return v * (2 * w * w - 1) + 2 * u * dot(u, v)[..., None] + 2 * w * np.cross(u, v)


def _to_matrix(q: Any) -> Any:
    return np.stack([_rotate(q, np.broadcast_to(axis, (*q.shape[:-1], 3))) for axis in np.eye(3)], -1)


def _about(axis: Any, angle: Any) -> Any:
    half = np.asarray(angle)[..., None] / 2
    return np.concatenate([axis * np.sin(half), np.cos(half)], -1)


def _rpy(roll: Any, pitch: Any, yaw: Any) -> Any:
    x, y, z = (np.broadcast_to(axis, (*np.shape(roll), 3)) for axis in np.eye(3))
    return _hamilton(_about(z, yaw), _hamilton(_about(y, pitch), _about(x, roll)))


def _to_euler(q: Any) -> Any:
    """Angles of a rotation about z, then y, then x, by its matrix."""
    m = _to_matrix(_unit(q))
    x = np.arctan2(-m[..., 1, 2], m[..., 2, 2])
    return np.stack([x, np.arcsin(m[..., 0, 2]), np.arctan2(-m[..., 0, 1], m[..., 0, 0])], -1)


def _from_matrix(m: Any) -> Any:
    """The unit quaternion of a matrix near identity, by its real part."""
    m = m * 0.25 + np.eye(3)
    root = np.sqrt(1 + np.trace(m, axis1=1, axis2=2))
    parts = [m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]]
    return _unit(np.stack([*(p / (2 * root) for p in parts), root / 2], -1))


def _slerp(a: Any, b: Any, s: Any) -> Any:
    """Interpolate by angles in four dimensions; the operands are made unit quaternions first."""
    a, b = (x / length(x)[..., None] for x in (a, b))
    angle = np.arccos(dot(a, b))
    one, two = np.sin((1 - s) * angle) / np.sin(angle), np.sin(s * angle) / np.sin(angle)
    return one[..., None] * a + two[..., None] * b


def _twist(axis: Any, q: Any) -> Any:
    return np.concatenate([axis * dot(axis, q[..., :3])[..., None], q[..., 3:]], -1)


def _unit(a: Any) -> Any:
    return a / length(a)[..., None]


def _to_rpy(q: Any) -> Any:
    """The angles of the matrix of the rotation about z, y, x."""
    m = _to_matrix(_unit(q))
    return np.stack(
        [
            np.arctan2(m[..., 2, 1], m[..., 2, 2]),
            np.arcsin(-m[..., 2, 0]),
            np.arctan2(m[..., 1, 0], m[..., 0, 0]),
        ],
        -1,
    )


def _angle(q: Any) -> Any:
    return 2 * np.arctan2(length(q[..., :3]), q[..., 3])


def _euler(e: Any, axes: tuple[int, int, int]) -> Any:
    i, j, k = (_about(np.eye(3)[axis], e[..., axis]) for axis in axes)
    return _hamilton(k, _hamilton(j, i))


QUATERNIONS = [
    Case("mul", "{0} * {1}", _hamilton, (WIDE, WIDE), "qq>q"),
    wide("quat_inverse", _conjugate, "q>q"),
    wide("quat_rotate", _rotate, "qv>v", (3,)),
    wide("quat_rotate_inv", lambda q, v: _rotate(_conjugate(q), v), "qv>v", (3,)),
    wide("quat_to_matrix", _to_matrix, "q>m", (3,)),
    wide("quat_from_axis_angle", _about, "vs>q", (3,)),
    wide("quat_rpy", _rpy, "sss>q"),
    *(
        Case(
            "quat_from_euler",
            f"wp.quat_from_euler({{0}}, {i}, {j}, {k})",
            lambda e, axes=(i, j, k): _euler(e, axes),
            (WIDE,),
            "v>q",
            (3,),
        )
        for i, j, k in ((0, 1, 2), (2, 0, 2))
    ),
    Case("quat_to_euler", "wp.quat_to_euler(wp.normalize({0}), 2, 1, 0)", _to_euler, (WIDE,), "q>v", (3,)),
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
    Case(
        "quat_to_axis_angle",
        "wp.quat_to_axis_angle({0})[0]",
        lambda q: _unit(q[..., :3]) * np.sign(q[..., 3:]),
        (WIDE,),
        "q>v",
        (3,),
    ),
    Case("quat_to_axis_angle", "wp.quat_to_axis_angle({0})[1]", _angle, (AWAY,), "q>s", (3,)),
    Case("quat_to_rpy", "wp.quat_to_rpy(wp.normalize({0}))", _to_rpy, (AWAY,), "q>v", (3,)),
    wide("quat_twist", lambda a, q: _unit(_twist(a, q)), "vq>q", (3,)),
    wide("quat_twist_angle", lambda a, q: 2 * np.arctan2(abs(dot(a, q[..., :3])), q[..., 3]), "vq>s", (3,)),
    wide("quat_twist_angle_signed", lambda a, q: 2 * np.arctan2(dot(a, q[..., :3]), q[..., 3]), "vq>s", (3,)),
]


# Transforms: by matrices, of unit quaternions but where nothing is rotated ---------------------------------


def _halves(a: Any, at: int = 3) -> tuple[Any, Any]:
    return a[..., :at], a[..., at:]


def _product(a: Any, b: Any) -> Any:
    (p, q), (r, s) = _halves(a), _halves(b)
    return np.concatenate([_rotate(q, r) + p, _hamilton(q, s)], -1)


def _inverse(a: Any) -> Any:
    p, q = _halves(a)
    return np.concatenate([-_rotate(_conjugate(q), p), _conjugate(q)], -1)


def _homogeneous(m: Any, p: Any) -> Any:
    found = np.zeros((*p.shape[:-1], 4, 4))
    found[..., :3, :3], found[..., :3, 3], found[..., 3, 3] = m, p, 1
    return found


def _matrix_of(x: Any) -> Any:
    p, q = _halves(x)
    return _homogeneous(_to_matrix(q), p)


def _of_matrix(m: Any) -> Any:
    """The transform of a matrix near identity."""
    return np.concatenate([m[..., :3, 3] * 0.25, _from_matrix(m[..., :3, :3])], -1)


def _compose(p: Any, q: Any, s: Any) -> Any:
    return _homogeneous(_to_matrix(q) * s[..., None, :], p)


def _moved(m: Any) -> Any:
    return m[:, :3, 3]


def _scales(m: Any) -> Any:
    return np.sqrt((m[..., :3, :3] ** 2).sum(-2))


def _decomposed(m: Any) -> Any:
    """The rotation of a matrix near identity, its columns made unit vectors."""
    m = (m * 0.25 + np.eye(4))[..., :3, :3]
    m = m / np.sqrt((m**2).sum(-2, keepdims=True))
    return _from_matrix((m - np.eye(3)) * 4)


def _twisted(x: Any, u: Any) -> Any:
    (p, q), (w, v) = _halves(x), _halves(u)
    turned = _rotate(q, w)
    return np.concatenate([turned, _rotate(q, v) + np.cross(p, turned)], -1)


def _wrenched(x: Any, u: Any) -> Any:
    (p, q), (torque, force) = _halves(x), _halves(u)
    turned = _rotate(q, force)
    return np.concatenate([_rotate(q, torque) + np.cross(p, turned), turned], -1)


def _cross(a: Any, b: Any) -> Any:
    (w, v), (x, y) = _halves(a), _halves(b)
    return np.concatenate([np.cross(w, x), np.cross(v, x) + np.cross(w, y)], -1)


def _cross_dual(a: Any, b: Any) -> Any:
    (w, v), (x, y) = _halves(a), _halves(b)
    return np.concatenate([np.cross(w, x) + np.cross(v, y), np.cross(w, y)], -1)


def _blocks(r: Any, s: Any) -> Any:
    return np.concatenate([np.concatenate([r, 0 * r], -1), np.concatenate([s, r], -1)], -2)


NEAR_ONE = "{0} * 0.25 + wp.identity(n=4, dtype=scalar)"
TRANSFORMS = [
    Case("mul", "{0} * {1}", _product, (WIDE, WIDE), "xx>x", (3,)),
    wide("transform_multiply", _product, "xx>x", (3,)),
    wide("transform_inverse", _inverse, "x>x", (3,)),
    wide("transform_get_translation", lambda x: x[..., :3], "x>v", (3,)),
    wide("transform_get_rotation", lambda x: x[..., 3:], "x>q", (3,)),
    wide("transform_set_translation_copy", lambda x, p: np.concatenate([p, x[..., 3:]], -1), "xv>x", (3,)),
    wide("transform_set_rotation_copy", lambda x, q: np.concatenate([x[..., :3], q], -1), "xq>x", (3,)),
    wide("transform_point", lambda x, v: _rotate(x[..., 3:], v) + x[..., :3], "xv>v", (3,)),
    wide("transform_vector", lambda x, v: _rotate(x[..., 3:], v), "xv>v", (3,)),
    wide(
        "transform_point",
        lambda m, v: np.einsum("aij,aj->ai", m[:, :3, :3], v) + m[:, :3, 3],
        "hv>v",
        (3,),
    ),
    wide("transform_vector", lambda m, v: np.einsum("aij,aj->ai", m[:, :3, :3], v), "hv>v", (3,)),
    wide("transform_to_matrix", _matrix_of, "x>h", (3,)),
    Case("transform_from_matrix", f"wp.transform_from_matrix({NEAR_ONE})", _of_matrix, (UNIT,), "h>x", (3,)),
    wide("transform_compose", _compose, "vqv>h", (3,)),
    Case(
        "transform_decompose", "wp.transform_decompose({0})[0]", lambda m: m[:, :3, 3], (WIDE,), "h>v", (3,)
    ),
    Case("transform_decompose", f"wp.transform_decompose({NEAR_ONE})[1]", _decomposed, (UNIT,), "h>q", (3,)),
    Case("transform_decompose", "wp.transform_decompose({0})[2]", _scales, (AWAY,), "h>v", (3,)),
    wide("transform_twist", _twisted, "xu>u", (3,)),
    wide("transform_wrench", _wrenched, "xu>u", (3,)),
    wide("velocity_at_point", lambda u, r: u[..., 3:] + np.cross(u[..., :3], r), "uv>v", (3,)),
    wide("spatial_top", lambda u: u[..., :3], "u>v", (3,)),
    wide("spatial_bottom", lambda u: u[..., 3:], "u>v", (3,)),
    wide("spatial_dot", dot, "uu>s", (3,)),
    wide("spatial_cross", _cross, "uu>u", (3,)),
    wide("spatial_cross_dual", _cross_dual, "uu>u", (3,)),
    wide("spatial_adjoint", _blocks, "mm>k", (3,)),
]
