"""Functions of matrices."""

from __future__ import annotations

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import (
    columns_of,
    inner,
    matrix,
    require,
    require_length,
    require_square,
    rows_of,
    scalar,
    total,
    vector,
)
from tapedebug.lang.rules.table import Expr, Quantity, RuleError, composite, conversion, name_list

Rows = list[tuple[Expr, ...]]


def _require_rows(vectors: tuple[Quantity, ...]) -> None:
    if not vectors:
        raise RuleError("takes at least one vector; got none", "pass vectors of one type")
    kinds = [v.type for v in vectors]
    if len(set(kinds)) != 1 or not t.is_vector(kinds[0]):
        hint = conversion(kinds) if any(map(t.is_vector, kinds)) else "pass vectors, such as vec3 values"
        raise RuleError(f"takes vectors of one type; got {name_list(kinds)}", hint)


@composite("matrix_from_rows", "Matrix with these vectors as its rows.")
def matrix_from_rows(*rows: Quantity) -> Quantity:
    _require_rows(rows)
    return matrix([row.parts for row in rows])


@composite("matrix_from_cols", "Matrix with these vectors as its columns.")
def matrix_from_cols(*columns: Quantity) -> Quantity:
    _require_rows(columns)
    return matrix(list(zip(*(column.parts for column in columns), strict=True)))


@composite("transpose", "Matrix with rows and columns exchanged.")
def transpose(a: Quantity) -> Quantity:
    require(t.Matrix, a, floating=False)
    return matrix(columns_of(a))


@composite("trace", "Sum of the diagonal of a square matrix.")
def trace(a: Quantity) -> Quantity:
    size = require_square(a)
    return scalar(total(a.parts[k * (size + 1)] for k in range(size)))


@composite("diag", "Square matrix with this vector on its diagonal, and 0 elsewhere.")
def diag(vec: Quantity) -> Quantity:
    require(t.Vector, vec, floating=False)
    zero = vec.parts[0].lift(0)
    indices = range(vec.type.length)
    return matrix([[vec.parts[i] if i == j else zero for j in indices] for i in indices])


@composite("get_diag", "Diagonal of a square matrix, as a vector.")
def get_diag(mat: Quantity) -> Quantity:
    size = require_square(mat)
    return vector([mat.parts[k * (size + 1)] for k in range(size)])


@composite("outer", "Matrix of the products of all components of two vectors.")
def outer(a: Quantity, b: Quantity) -> Quantity:
    for v in (a, b):
        require(t.Vector, v, floating=False)
    if a.type.scalar is not b.type.scalar:
        kinds = [a.type, b.type]
        raise RuleError(
            f"takes vectors of one scalar type; got {name_list(kinds)}",
            conversion([k.scalar for k in kinds]),
        )
    return matrix([[x * y for y in b.parts] for x in a.parts])


@composite("skew", "Matrix of a vec3 whose product with a vector is the vector product.")
def skew(vec: Quantity) -> Quantity:
    require(t.Vector, vec)
    require_length(vec, 3)
    x, y, z = vec.parts
    zero = x.lift(0.0)
    return matrix([(zero, -z, y), (z, zero, -x), (-y, x, zero)])


@composite("ddot", "Sum of the products of the components of two matrices.")
def ddot(a: Quantity, b: Quantity) -> Quantity:
    require(t.Matrix, a, b, floating=False)
    return scalar(inner(a.parts, b.parts))


def _minors(top: tuple[Expr, ...], bottom: tuple[Expr, ...]) -> dict[tuple[int, int], Expr]:
    """The 2 by 2 determinants of two rows, by their columns."""
    count = range(len(top))
    return {(i, j): top[i] * bottom[j] - top[j] * bottom[i] for i in count for j in count if i < j}


def _adjugate(rows: Rows) -> Rows:
    """The transposed matrix of cofactors: its product with the matrix is the determinant times identity."""
    if len(rows) == 2:
        (a, b), (c, d) = rows
        return [(d, -b), (-c, a)]
    if len(rows) == 3:
        (a, b, c), (d, e, f), (g, h, i) = rows
        return [
            (e * i - f * h, c * h - b * i, b * f - c * e),
            (f * g - d * i, a * i - c * g, c * d - a * f),
            (d * h - e * g, b * g - a * h, a * e - b * d),
        ]
    (a, b, c, d), (e, f, g, h), (i, j, k, m), (n, o, p, q) = rows
    u, v = _minors(rows[0], rows[1]), _minors(rows[2], rows[3])
    u01, u02, u03, u12, u13, u23 = (u[key] for key in sorted(u))
    v01, v02, v03, v12, v13, v23 = (v[key] for key in sorted(v))
    return [
        (
            f * v23 - g * v13 + h * v12,
            c * v13 - b * v23 - d * v12,
            o * u23 - p * u13 + q * u12,
            k * u13 - j * u23 - m * u12,
        ),
        (
            g * v03 - e * v23 - h * v02,
            a * v23 - c * v03 + d * v02,
            p * u03 - n * u23 - q * u02,
            i * u23 - k * u03 + m * u02,
        ),
        (
            e * v13 - f * v03 + h * v01,
            b * v03 - a * v13 - d * v01,
            n * u13 - o * u03 + q * u01,
            j * u03 - i * u13 - m * u01,
        ),
        (
            f * v02 - e * v12 - g * v01,
            a * v12 - b * v02 + c * v01,
            o * u02 - n * u12 - p * u01,
            i * u12 - j * u02 + k * u01,
        ),
    ]


@composite("determinant", "Determinant of a square matrix of 2, 3 or 4 rows.")
def determinant(a: Quantity) -> Quantity:
    require_square(a, (2, 3, 4))
    rows = rows_of(a)
    return scalar(inner(rows[0], [row[0] for row in _adjugate(rows)]))


@composite(
    "inverse", "Inverse of a square matrix of 2, 3 or 4 rows; of a singular one zeros, with derivative 0."
)
def inverse(a: Quantity) -> Quantity:
    require_square(a, (2, 3, 4))
    require(t.Matrix, a)
    rows = rows_of(a)
    adjugate = _adjugate(rows)
    det = inner(rows[0], [row[0] for row in adjugate])
    regular = det.apply("ne", 0.0)
    scale = 1.0 / regular.select(det, det.lift(1.0))
    return Quantity(a.type, tuple(regular.select(x * scale, x.lift(0.0)) for row in adjugate for x in row))
