"""Singular values, eigenvalues and QR of small matrices, by rotations of two coordinates at a time.

Each decomposition is made twice. First without derivatives: rotations until the matrix has its final form,
with signs and order as agreed. Then, with derivatives, once more from there: the factors found are constants,
what they make of the matrix is diagonal (triangular) but for rounding, and the rotations that remain are near
identity, where their derivatives are those of the decomposition. One sweep has the first, two the second.

Where two singular values or eigenvalues agree to rounding, their vectors have no derivative: the rotation
between them passes none on, so that what does not depend on the choice (a sum of eigenvalues, the polar
factor U Vᵀ) keeps its right derivative, and nothing becomes infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import inner, matrix, require_shape, rows_of, vector
from tapedebug.lang.rules._table import Expr, Quantity, composite

Row = tuple[Expr, ...]
Rows = list[Row]
Turn = tuple[Expr, Expr]
"""Cosine and sine of an angle."""

SWEEPS = 8
"""Enough for double precision, whatever the matrix: from a few on, each sweep doubles the digits."""


# Rotations of two coordinates ------------------------------------------------------------------------------


def _turn(x: Expr, y: Expr, floor: float) -> Turn:
    """The angle of the point (x, y); none, without derivative, within `floor` of the origin."""
    r = (x * x + y * y).apply("norm_of_square")
    away = r > floor
    safe = away.select(r, r.lift(1.0))
    return away.select(x / safe, x.lift(1.0)), away.select(y / safe, y.lift(0.0))


def _diagonalising(x: Expr, y: Expr, z: Expr, floor: float) -> Turn:
    """The smaller angle by which the axes of the symmetric matrix (x, y; y, z) turn to make it diagonal."""
    gap = x - z
    r = (gap * gap + 4.0 * (y * y)).apply("norm_of_square")
    apart = r > floor
    whole = gap.apply("abs") + r
    tangent = (gap >= 0.0).select(2.0, gap.lift(-2.0)) * y / apart.select(whole, r.lift(1.0))
    tangent = apart.select(tangent, y.lift(0.0))
    cosine = 1.0 / (1.0 + tangent * tangent).apply("sqrt")
    return cosine, tangent * cosine


def _together(a: Turn, b: Turn) -> Turn:
    """One angle after the other."""
    return a[0] * b[0] - a[1] * b[1], a[1] * b[0] + a[0] * b[1]


def _turned_columns(rows: Rows, i: int, j: int, turn: Turn) -> Rows:
    c, s = turn
    found = []
    for row in rows:
        new = list(row)
        new[i], new[j] = c * row[i] + s * row[j], c * row[j] - s * row[i]
        found.append(tuple(new))
    return found


def _turned_rows(rows: Rows, i: int, j: int, turn: Turn) -> Rows:
    return _transposed(_turned_columns(_transposed(rows), i, j, turn))


# Matrices of expressions -----------------------------------------------------------------------------------


def _transposed(rows: Sequence[Row]) -> Rows:
    return list(zip(*rows, strict=True))


def _product(a: Rows, b: Rows) -> Rows:
    columns = _transposed(b)
    return [tuple(inner(row, column) for column in columns) for row in a]


def _identity(like: Expr, size: int) -> Rows:
    return [tuple(like.lift(float(i == j)) for j in range(size)) for i in range(size)]


def _held(rows: Rows) -> Rows:
    return [tuple(x.held() for x in row) for row in rows]


def _repeated(count: int, state: list[Rows], step: Callable[[list[Rows]], list[Rows]]) -> list[Rows]:
    """Several matrices after `count` steps: a loop in generated code."""
    emitter, size = state[0][0][0].emitter, len(state[0])

    def run(*values: object) -> list[object]:
        flat = [Expr(emitter, v) for v in values]
        rows = [tuple(flat[k : k + size]) for k in range(0, len(flat), size)]
        stepped = step([rows[k : k + size] for k in range(0, len(rows), size)])
        return [x.value for m in stepped for row in m for x in row]

    values = emitter.repeat(count, [x.value for m in state for row in m for x in row], run)
    flat = [Expr(emitter, v) for v in values]
    rows = [tuple(flat[k : k + size]) for k in range(0, len(flat), size)]
    return [rows[k : k + size] for k in range(0, len(rows), size)]


def _scaled(a: Quantity) -> tuple[Rows, Expr]:
    """A matrix over its largest entry, and that entry, a constant: squares neither over- nor underflow.

    Half precision is widened: dozens of roundings would leave little of it.
    """
    parts = [x.apply(f"to_{_working(a).code}") for x in a.parts]
    sizes = [x.held().apply("abs") for x in parts]
    largest = reduce(lambda p, q: (p > q).select(p, q), sizes)
    scale = (largest > 0.0).select(largest, largest.lift(1.0))
    return rows_of(Quantity(a.type, tuple(x / scale for x in parts))), scale


def _working(a: Quantity) -> type[t.Scalar]:
    """The scalar type to compute with."""
    scalar: type[t.Scalar] = a.type.scalar
    return scalar if np.finfo(scalar.numpy).bits >= 32 else t.float32


def _result(a: Quantity, *found: Quantity) -> tuple[Quantity, ...]:
    """Factors, in the scalar type of the matrix."""
    scalar = a.type.scalar
    return tuple(
        Quantity(
            t.vector(q.type.length, scalar) if t.is_vector(q.type) else t.matrix(q.type.shape, scalar),
            tuple(x.apply(f"to_{scalar.code}") for x in q.parts),
        )
        for q in found
    )


def _floor(a: Quantity) -> float:
    """How far rounding can move an entry of a matrix whose largest is 1."""
    return 64.0 * float(np.finfo(_working(a).numpy).eps)


# Singular values -------------------------------------------------------------------------------------------


def _sweep(state: list[Rows], floor: float) -> list[Rows]:
    """Each pair of coordinates made diagonal, by a rotation on the left and one on the right."""
    p, u, v = state
    size = len(p)
    for i in range(size):
        for j in range(i + 1, size):
            (a, b), (c, d) = ((p[k][i], p[k][j]) for k in (i, j))
            # First the left side alone makes the pair symmetric, then both sides make it diagonal.
            left = _turn(a + d, c - b, floor)
            x, y, z = left[0] * a + left[1] * c, left[0] * b + left[1] * d, left[0] * d - left[1] * b
            both = _diagonalising(x, y, z, floor)
            left = _together(left, both)
            p = _turned_columns(_turned_rows(p, i, j, left), i, j, both)
            u, v = _turned_columns(u, i, j, left), _turned_columns(v, i, j, both)
    return [p, u, v]


def _exchanged(rows: Rows, i: int, j: int, condition: Expr) -> Rows:
    """Two columns exchanged where the condition holds, one of them negated: a rotation stays one."""
    found = []
    for row in rows:
        new = list(row)
        new[i], new[j] = condition.select(row[j], row[i]), condition.select(-row[i], row[j])
        found.append(tuple(new))
    return found


def _flipped(rows: Rows, places: Sequence[int], condition: Expr) -> Rows:
    return [tuple(condition.select(-x, x) if k in places else x for k, x in enumerate(row)) for row in rows]


def _ordered(p: Rows, u: Rows, v: Rows) -> tuple[Rows, Rows]:
    """Left and right vectors by falling magnitude of the singular values, all but the last not negative."""
    size = len(p)
    sigma = [p[k][k] for k in range(size)]
    for i in range(size):
        for j in range(i + 1, size):
            larger = sigma[j].apply("abs") > sigma[i].apply("abs")
            u, v = _exchanged(u, i, j, larger), _exchanged(v, i, j, larger)
            sigma[i], sigma[j] = larger.select(sigma[j], sigma[i]), larger.select(sigma[i], sigma[j])
    for k in range(size if size == 2 else size - 1):
        # In three dimensions the last takes the sign, so that u stays a rotation.
        negative = sigma[k] < 0.0
        u = _flipped(u, (k,) if size == 2 else (k, size - 1), negative)
        if size > 2:
            sigma[-1] = negative.select(-sigma[-1], sigma[-1])
    return u, v


def _svd(a: Quantity) -> tuple[Quantity, Quantity, Quantity]:
    rows, scale = _scaled(a)
    size = len(rows)
    start = [_held(rows), _identity(scale, size), _identity(scale, size)]
    p, u, v = _repeated(SWEEPS if size > 2 else 2, start, lambda state: _sweep(state, 0.0))
    u, v = _ordered(p, u, v)
    p = _product(_transposed(u), _product(rows, v))
    p, u, v = _sweep(_sweep([p, u, v], _floor(a)), _floor(a))
    found = _result(a, matrix(u), vector([p[k][k] * scale for k in range(size)]), matrix(v))
    return found[0], found[1], found[2]


@composite(
    "svd2",
    "Three values u, sigma, v of a 2 by 2 matrix: it is u diag(sigma) vᵀ, sigma falling, not negative.",
)
def svd2(A: Quantity) -> tuple[Quantity, Quantity, Quantity]:
    require_shape(A, (2, 2))
    return _svd(A)


@composite(
    "svd3",
    "Three values u, sigma, v of a 3 by 3 matrix u diag(sigma) vᵀ, u and v rotations; sigma falls in "
    "magnitude and has the sign of the determinant in its last component.",
)
def svd3(A: Quantity) -> tuple[Quantity, Quantity, Quantity]:
    require_shape(A, (3, 3))
    return _svd(A)


# Eigenvalues and QR ----------------------------------------------------------------------------------------


def _symmetric_sweep(state: list[Rows], floor: float) -> list[Rows]:
    p, q = state
    for i in range(3):
        for j in range(i + 1, 3):
            turn = _diagonalising(p[i][i], p[i][j], p[j][j], floor)
            p = _turned_columns(_turned_rows(p, i, j, turn), i, j, turn)
            q = _turned_columns(q, i, j, turn)
    return [p, q]


@composite(
    "eig3", "Two values q, d of a symmetric 3 by 3 matrix q diag(d) qᵀ, q a rotation; d in no certain order."
)
def eig3(A: Quantity) -> tuple[Quantity, Quantity]:
    require_shape(A, (3, 3))
    rows, scale = _scaled(A)
    mean = [
        tuple((x + y) * 0.5 for x, y in zip(*pair, strict=True))
        for pair in zip(rows, _transposed(rows), strict=True)
    ]
    start = [_held(mean), _identity(scale, 3)]
    _, q = _repeated(SWEEPS, start, lambda state: _symmetric_sweep(state, 0.0))
    p = _product(_transposed(q), _product(mean, q))
    p, q = _symmetric_sweep(_symmetric_sweep([p, q], _floor(A)), _floor(A))
    values = _result(A, matrix(q), vector([p[k][k] * scale for k in range(3)]))
    return values[0], values[1]


def _triangular(r: Rows, q: Rows) -> tuple[Rows, Rows]:
    """The matrix made upper triangular by rotations of its rows, which the columns of q follow."""
    for i, j in ((0, 1), (0, 2), (1, 2)):
        turn = _turn(r[i][i], r[j][i], 0.0)
        r, q = _turned_rows(r, i, j, turn), _turned_columns(q, i, j, turn)
    return r, q


@composite(
    "qr3",
    "Two values q, r of a 3 by 3 matrix: it is q r, q a rotation, r upper triangular, its first two diagonal "
    "elements not negative.",
)
def qr3(A: Quantity) -> tuple[Quantity, Quantity]:
    require_shape(A, (3, 3))
    rows, scale = _scaled(A)
    _, q = _triangular(_held(rows), _identity(scale, 3))
    r, q = _triangular(_product(_transposed(q), rows), q)
    zero = scale.lift(0.0)
    upper = [tuple(x * scale if i <= j else zero for j, x in enumerate(row)) for i, row in enumerate(r)]
    values = _result(A, matrix(q), matrix(upper))
    return values[0], values[1]
