"""Operators, on numbers and compound values alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import (
    columns_of,
    componentwise,
    inner,
    matrix,
    rows_of,
    same,
    scalar,
    vector,
)
from tapedebug.lang.rules.table import Expr, Quantity, RuleError, composite, conversion, name_list


@composite("add", "Sum of two values of one type.")
def add(x: Quantity, y: Quantity) -> Quantity:
    same(x, y)
    return componentwise("add", x, y)


@composite("sub", "Difference of two values of one type.")
def sub(x: Quantity, y: Quantity) -> Quantity:
    same(x, y)
    return componentwise("sub", x, y)


@composite("neg", "Negation of each component.")
def neg(x: Quantity) -> Quantity:
    return Quantity(x.type, tuple(-a for a in x.parts))


@composite("eq", "Whether two values are equal in every component.", differentiable=False)
def eq(x: Quantity, y: Quantity) -> Quantity:
    same(x, y)
    return scalar(reduce(lambda a, b: a.apply("and", b), componentwise("eq", x, y).parts))


@composite("ne", "Whether two values differ in a component.", differentiable=False)
def ne(x: Quantity, y: Quantity) -> Quantity:
    same(x, y)
    return scalar(reduce(lambda a, b: a.apply("or", b), componentwise("ne", x, y).parts))


def _scaled(name: str, value: Quantity, factor: Quantity) -> Quantity:
    if factor.type is not value.type.scalar:
        raise RuleError(
            f"takes a {value.type.word} and its scalar type; got {name_list([value.type, factor.type])}",
            f"convert the number with {t.conversion(value.type.scalar)}, or write a literal as 2.0",
        )
    return Quantity(value.type, tuple(a.apply(name, factor.scalar) for a in value.parts))


@composite(
    "mul",
    "Product of two numbers, of a number and any value, of matrices and vectors, quaternions, transforms.",
)
def mul(x: Quantity, y: Quantity) -> Quantity:
    if t.is_compound(x.type) and t.is_compound(y.type):
        return _product(x, y)
    if t.is_compound(x.type):
        return _scaled("mul", x, y)
    if t.is_compound(y.type):
        return _scaled("mul", y, x)
    return componentwise("mul", x, y)


@composite("matmul", "Product of two matrices, or of a matrix and a vector.")
def matmul(x: Quantity, y: Quantity) -> Quantity:
    kinds = [x.type, y.type]
    if not any(map(t.is_matrix, kinds)) or not all(t.is_matrix(k) or t.is_vector(k) for k in kinds):
        raise RuleError(
            f"takes matrices and vectors; got {name_list(kinds)}",
            "use dot(a, b) for two vectors, and `*` for a number or quaternions",
        )
    return _product(x, y)


@composite("div", "Quotient of two numbers, of each component and a number, or of a number and each.")
def div(x: Quantity, y: Quantity) -> Quantity:
    if t.is_compound(y.type) and (t.is_compound(x.type) or t.is_transformation(y.type)):
        hints = {
            t.Matrix: "use inverse(m)",
            t.Quaternion: "use quat_inverse(q)",
            t.Transformation: "use transform_inverse(t)",
        }
        raise RuleError(
            f"cannot divide by a {y.type.word}; got {name_list([x.type, y.type])}",
            hints.get(y.type.__base__, "use cw_div(a, b) for the quotient of components"),
        )
    if t.is_compound(y.type):
        return _quotients(x, y)
    integer = t.scalar_of(x.type) in t.INTEGERS and y.type in t.INTEGERS
    name = "idiv" if integer else "div"
    return _scaled(name, x, y) if t.is_compound(x.type) else componentwise(name, x, y)


def _quotients(x: Quantity, y: Quantity) -> Quantity:
    """A number over each component of a value."""
    name = "idiv" if y.type.scalar in t.INTEGERS else "div"
    if x.type is not y.type.scalar:
        return _scaled(name, y, x)  # which refuses it
    return Quantity(y.type, tuple(x.scalar.apply(name, b) for b in y.parts))


def _product(x: Quantity, y: Quantity) -> Quantity:
    """The product of two compound values."""
    kinds = [x.type, y.type]
    if all(map(t.is_vector, kinds)):
        raise RuleError(
            f"is not defined for two vectors; got {name_list(kinds)}",
            "use dot(a, b), cross(a, b), or cw_mul(a, b) for the product of components",
        )
    if t.is_quaternion(x.type) and t.is_quaternion(y.type):
        same(x, y)
        return Quantity(x.type, hamilton(x.parts, y.parts))
    if all(map(t.is_transformation, kinds)):
        same(x, y)
        return transformed(x, y)
    if any(map(t.is_transformation, kinds)):
        other = kinds[t.is_transformation(x.type)]
        raise RuleError(
            f"is not defined for a transform and a {other.word}; got {name_list(kinds)}",
            "use transform_point(t, p), transform_vector(t, v), or transform_to_matrix(t)",
        )
    if any(map(t.is_quaternion, kinds)):
        raise RuleError(
            f"is not defined for a quaternion and a {kinds[t.is_quaternion(x.type)].word}; "
            f"got {name_list(kinds)}",
            "use quat_rotate(q, v), or a product with quat_to_matrix(q)",
        )
    return _matrix_product(x, y)


def hamilton(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    """The product of two quaternions: the rotation b, then a."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    return (
        aw * bx + bw * ax + ay * bz - by * az,
        aw * by + bw * ay + az * bx - bz * ax,
        aw * bz + bw * az + ax * by - bx * ay,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def rotated(q: Sequence[Expr], v: Sequence[Expr], sign: float = 1.0) -> tuple[Expr, ...]:
    """A vector, rotated by a unit quaternion, or by its inverse where `sign` is -1."""
    (x, y, z, w), (a, b, c) = q, v
    scale = 2.0 * w * w - 1.0
    along = 2.0 * inner(q[:3], v)
    turn = (sign * 2.0) * w
    crossed = (y * c - z * b, z * a - x * c, x * b - y * a)
    return tuple(p * scale + k * along + n * turn for p, k, n in zip(v, q[:3], crossed, strict=True))


def transformed(x: Quantity, y: Quantity) -> Quantity:
    """The product of two transforms: y, then x."""
    moved = zip(rotated(x.parts[3:], y.parts[:3]), x.parts[:3], strict=True)
    return Quantity(x.type, (*(a + b for a, b in moved), *hamilton(x.parts[3:], y.parts[3:])))


def _matrix_product(x: Quantity, y: Quantity) -> Quantity:
    kinds = [x.type, y.type]
    if x.type.scalar is not y.type.scalar:
        raise RuleError(
            f"takes values of one scalar type; got {name_list(kinds)}",
            conversion([x.type.scalar, y.type.scalar]),
        )
    if x.type.shape[-1] != y.type.shape[0]:
        raise RuleError(
            f"takes as many columns as rows; got {name_list(kinds)}",
            f"the second needs {x.type.shape[-1]} rows; transpose(m) exchanges rows and columns",
        )
    if t.is_vector(y.type):
        return vector([inner(row, y.parts) for row in rows_of(x)])
    if t.is_vector(x.type):
        return vector([inner(x.parts, column) for column in columns_of(y)])
    return matrix([[inner(row, column) for column in columns_of(y)] for row in rows_of(x)])
