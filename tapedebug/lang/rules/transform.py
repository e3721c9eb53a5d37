"""Functions of transforms: a translation `p`, then a rotation `q`; a point x goes to q x q* + p."""

from __future__ import annotations

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import (
    inner,
    matrix,
    one_scalar_type,
    require,
    require_length,
    require_shape,
    rows_of,
    vector,
)
from tapedebug.lang.rules.operators import rotated, transformed
from tapedebug.lang.rules.quaternion import from_columns, quat_inverse, rotation_rows
from tapedebug.lang.rules.table import Expr, Quantity, composite

Parts = tuple[Expr, ...]


def _split(xform: Quantity) -> tuple[Parts, Parts]:
    """Translation and rotation."""
    require(t.Transformation, xform)
    return xform.parts[:3], xform.parts[3:]


def _quat(parts: Parts) -> Quantity:
    return Quantity(t.quaternion(parts[0].type), parts)


def _transform(p: Parts, q: Parts) -> Quantity:
    return Quantity(t.transformation(p[0].type), (*p, *q))


def _require_vector(what: str, xform: Quantity, v: Quantity, length: int = 3) -> None:
    require(t.Vector, v)
    require_length(v, length)
    one_scalar_type(what, xform, v)


def _sum(a: Parts, b: Parts) -> Parts:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def cross(a: Parts, b: Parts) -> Parts:
    """The vector product."""
    (ax, ay, az), (bx, by, bz) = a, b
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@composite("transform_get_translation", "Translation of a transform: `t.p`.")
def transform_get_translation(xform: Quantity) -> Quantity:
    return vector(_split(xform)[0])


@composite("transform_get_rotation", "Rotation of a transform, a quaternion: `t.q`.")
def transform_get_rotation(xform: Quantity) -> Quantity:
    return _quat(_split(xform)[1])


@composite("transform_set_translation_copy", "The transform with another translation.")
def transform_set_translation_copy(xform: Quantity, p: Quantity) -> Quantity:
    _, q = _split(xform)
    _require_vector("a transform and a vector", xform, p)
    return _transform(p.parts, q)


@composite("transform_set_rotation_copy", "The transform with another rotation.")
def transform_set_rotation_copy(xform: Quantity, q: Quantity) -> Quantity:
    p, _ = _split(xform)
    require(t.Quaternion, q)
    one_scalar_type("a transform and a quaternion", xform, q)
    return _transform(p, q.parts)


@composite("transform_multiply", "Product of two transforms, as `a * b`: what b does, then a.")
def transform_multiply(a: Quantity, b: Quantity) -> Quantity:
    require(t.Transformation, a, b)
    return transformed(a, b)


@composite("transform_inverse", "Inverse of a transform.")
def transform_inverse(xform: Quantity) -> Quantity:
    p, q = _split(xform)
    back = quat_inverse(_quat(q)).parts
    return _transform(tuple(-x for x in rotated(back, p)), back)


def _through_matrix(m: Quantity, v: Quantity) -> tuple[Parts, list[Parts]]:
    """The upper left of a 4 by 4 matrix applied to a vector, and the rows of the matrix."""
    require_shape(m, (4, 4))
    _require_vector("a matrix and a vector", m, v)
    rows = rows_of(m)
    return tuple(inner(row[:3], v.parts) for row in rows[:3]), rows


@composite("transform_point", "Point, rotated and moved by a transform or a 4 by 4 matrix.")
def transform_point(xform: Quantity, point: Quantity) -> Quantity:
    if t.is_matrix(xform.type):
        turned, rows = _through_matrix(xform, point)
        return Quantity(point.type, tuple(x + row[3] for x, row in zip(turned, rows, strict=False)))
    p, q = _split(xform)
    _require_vector("a transform and a vector", xform, point)
    return Quantity(point.type, _sum(rotated(q, point.parts), p))


@composite("transform_vector", "Vector, rotated (not moved) by a transform or a 4 by 4 matrix.")
def transform_vector(xform: Quantity, vec: Quantity) -> Quantity:
    if t.is_matrix(xform.type):
        return Quantity(vec.type, _through_matrix(xform, vec)[0])
    _, q = _split(xform)
    _require_vector("a transform and a vector", xform, vec)
    return Quantity(vec.type, rotated(q, vec.parts))


def _homogeneous(rows: list[Parts], p: Parts) -> Quantity:
    zero, one = p[0].lift(0.0), p[0].lift(1.0)
    return matrix([*((*row, x) for row, x in zip(rows, p, strict=True)), (zero, zero, zero, one)])


@composite("transform_to_matrix", "Matrix (4 by 4) of a transform, for points (x, y, z, 1).")
def transform_to_matrix(xform: Quantity) -> Quantity:
    p, q = _split(xform)
    return _homogeneous(rotation_rows(q), p)


@composite("transform_from_matrix", "Transform of a 4 by 4 matrix of a rotation and a translation.")
def transform_from_matrix(mat: Quantity) -> Quantity:
    require_shape(mat, (4, 4))
    rows = rows_of(mat)[:3]
    columns = [column[:3] for column in zip(*rows, strict=True)]
    return _transform(columns[3], from_columns(columns[:3]))


@composite("transform_compose", "Matrix (4 by 4) that scales, then rotates, then moves.")
def transform_compose(position: Quantity, rotation: Quantity, scale: Quantity) -> Quantity:
    require(t.Quaternion, rotation)
    for v in (position, scale):
        _require_vector("a quaternion and vectors", rotation, v)
    rows = [
        tuple(x * s for x, s in zip(row, scale.parts, strict=True)) for row in rotation_rows(rotation.parts)
    ]
    return _homogeneous(rows, position.parts)


@composite("transform_decompose", "Three values: position, rotation and scale of a 4 by 4 matrix.")
def transform_decompose(m: Quantity) -> tuple[Quantity, Quantity, Quantity]:
    require_shape(m, (4, 4))
    columns = [column[:3] for column in zip(*rows_of(m)[:3], strict=True)]
    sizes = [inner(column, column).apply("norm_of_square") for column in columns[:3]]
    safe = [size.apply("eq", 0.0).select(1.0, size) for size in sizes]
    axes = [tuple(x / size for x in column) for column, size in zip(columns[:3], safe, strict=True)]
    return vector(columns[3]), _quat(from_columns(axes)), vector(sizes)


# Twists and wrenches: spatial vectors, the angular part first ----------------------------------------------


def _twisted(frame: Quantity, x: Quantity) -> tuple[Parts, Parts, Parts, Parts]:
    p, q = _split(frame)
    _require_vector("a transform and a spatial vector", frame, x, 6)
    return p, q, x.parts[:3], x.parts[3:]


@composite("transform_twist", "Twist (angular, then linear velocity) in the frame that a transform leads to.")
def transform_twist(t: Quantity, x: Quantity) -> Quantity:
    p, q, angular, linear = _twisted(t, x)
    w = rotated(q, angular)
    return Quantity(x.type, (*w, *_sum(rotated(q, linear), cross(p, w))))


@composite("transform_wrench", "Wrench (torque, then force) in the frame that a transform leads to.")
def transform_wrench(t: Quantity, x: Quantity) -> Quantity:
    p, q, torque, force = _twisted(t, x)
    f = rotated(q, force)
    return Quantity(x.type, (*_sum(rotated(q, torque), cross(p, f)), *f))


@composite("velocity_at_point", "Velocity at a point r of a body with a twist: linear + angular × r.")
def velocity_at_point(qd: Quantity, r: Quantity) -> Quantity:
    require(t.Vector, qd)
    require_length(qd, 6)
    _require_vector("vectors", qd, r)
    return Quantity(r.type, _sum(qd.parts[3:], cross(qd.parts[:3], r.parts)))
