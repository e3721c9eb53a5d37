"""Singular values, eigenvalues and QR of small matrices, by rotations of two coordinates at a time.

Each decomposition is made twice. First without derivatives: rotations until the matrix has its final form,
with signs and order as agreed. Then, only where derivatives are asked for, once more from there, in float64:
the factors found are constants, what they make of the matrix is diagonal (triangular) but for rounding, and
the rotations that remain are near identity, where their derivatives are those of the decomposition. One sweep
has the first, two the second.

Where two singular values or eigenvalues agree, their vectors have no derivative, but what does not depend on
the choice of vectors has one: U g(S) Vᵀ, V g(S) Vᵀ, Q g(d) Qᵀ. There the adjoints of the factors cancel, and
divided by the difference of the values they are 0 / 0. The limit is taken: derivatives, also those of what
kernels compute from the factors (`compiler.passes.smooth`), are the mean of those of two matrices, which have
the same vectors, and values that are moved apart: in one matrix to one side, in the other by as much to the
other side. The mean is right to the square of the displacement, and rounding grows with its inverse. Values
are those of the matrix given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import inner, matrix, require_shape, rows_of, total, vector
from tapedebug.lang.rules.table import Expr, Quantity, composite

Row = tuple[Expr, ...]
Rows = list[Row]
Smooth = Sequence[tuple[Expr, Expr]]
"""The components of all factors, one after the other: the two whose mean derivative each has."""
Turn = tuple[Expr, Expr]
"""Cosine and sine of an angle."""

SWEEPS = 8
"""Enough for double precision, whatever the matrix: from a few on, each sweep doubles the digits."""
APART = 2.0**-17
"""The least difference of two values for derivatives, relative to the larger: about the third root of what
rounds, where second derivatives are best."""
LEAST = 2.0**-26
"""The same, relative to the matrix: beside small values, functions (logarithms) may bend more."""


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


def _stopped(rows: Rows) -> Rows:
    return [tuple(x.stop_gradient() for x in row) for row in rows]


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


def _scaled(a: Quantity, *, wide: bool = False) -> tuple[Rows, Expr]:
    """A matrix over its largest entry, and that entry, a constant: squares neither over- nor underflow.

    Half precision is widened: dozens of roundings would leave little of it. With `wide`, all are float64.
    """
    working = t.float64 if wide else _working(a)
    parts = [x.apply(f"to_{working.code}") for x in a.parts]
    sizes = [x.stop_gradient().apply("abs") for x in parts]
    largest = reduce(lambda p, q: (p > q).select(p, q), sizes)
    scale = (largest > 0.0).select(largest, largest.lift(1.0))
    return rows_of(Quantity(a.type, tuple(x / scale for x in parts))), scale


def _working(a: Quantity) -> type[t.Scalar]:
    """The scalar type to compute with."""
    scalar: type[t.Scalar] = a.type.scalar
    return scalar if t.bits_of(scalar) >= 32 else t.float32


def _result(a: Quantity, values: Sequence[Quantity], smooth: Smooth) -> tuple[Quantity, ...]:
    """Factors, in the scalar type of the matrix, with the derivatives of `smooth`."""
    scalar, found, rest = a.type.scalar, [], iter(smooth)
    for q in values:
        kind = t.vector(q.type.length, scalar) if t.is_vector(q.type) else t.matrix(q.type.shape, scalar)
        parts = (x.apply(f"to_{scalar.code}").differentiated_as(*next(rest)) for x in q.parts)
        found.append(Quantity(kind, tuple(parts)))
    return tuple(found)


def _flat(rows: Rows) -> list[Expr]:
    return [x for row in rows for x in row]


# Beside repeated values ------------------------------------------------------------------------------------


def _orthonormal(rows: Rows) -> Rows:
    """A rotation in float64, from one that is rounded (Gram and Schmidt)."""
    columns: list[Row] = []
    for column in _transposed([tuple(x.apply("to_f64") for x in row) for row in rows]):
        for other in columns:
            along = inner(other, column)
            column = tuple(x - along * y for x, y in zip(column, other, strict=True))
        length = inner(column, column).apply("sqrt")
        columns.append(tuple(x / length for x in column))
    return _stopped(_transposed(columns))


def _apart(values: Sequence[Expr], *, least: float | None = None) -> list[Expr]:
    """Falling values, moved so that they are apart, with the same mean; none below `least`."""
    zero = values[0].lift(0.0)
    above = [zero]  # of each value, from the last to the first: how far it is above the last
    for low, high in zip(values[:0:-1], values[-2::-1], strict=True):
        gap, apart = high - low, _larger(APART * _larger(high.apply("abs"), low.apply("abs")), LEAST)
        above.append(above[-1] + _larger(gap, apart))
    lowest = (total(values) - total(above)) * (1.0 / len(values))
    if least is not None:
        lowest = _larger(lowest, least)
    return [lowest + x for x in reversed(above)]


def _larger(x: Expr, y: Expr | float) -> Expr:
    return (x > y).select(x, x.lift(y))


def _displaced(rows: Rows, moved: Sequence[Expr], side: float) -> Rows:
    """A matrix with numbers, as constants, added to its diagonal or (side -1) taken from it."""
    return [
        tuple(x + side * moved[i].stop_gradient() if i == j else x for j, x in enumerate(row))
        for i, row in enumerate(rows)
    ]


def _both(beside: Callable[[float], list[Expr]]) -> Smooth:
    """Components on both sides."""
    return list(zip(beside(1.0), beside(-1.0), strict=True))


def _floor(a: Quantity) -> float:
    """Return the error that rounding can cause in an entry of a matrix whose largest entry is 1."""
    return 64.0 * float(np.finfo(_working(a).numpy).eps)


WIDE_FLOOR = 64.0 * float(np.finfo(np.float64).eps)
"""The same in float64."""


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
    rows = _stopped(rows)
    start = [rows, _identity(scale, size), _identity(scale, size)]
    p, u, v = _repeated(SWEEPS if size > 2 else 2, start, lambda state: _sweep(state, 0.0))
    u, v = _ordered(p, u, v)
    p = _product(_transposed(u), _product(rows, v))
    p, u, v = _sweep(_sweep([p, u, v], _floor(a)), _floor(a))
    values = matrix(u), vector([p[k][k] * scale for k in range(size)]), matrix(v)
    found = _result(a, values, _smooth_svd(a, u, v))
    return found[0], found[1], found[2]


def _smooth_svd(a: Quantity, u: Rows, v: Rows) -> Smooth:
    """The factors with derivatives, near those found."""
    rows, scale = _scaled(a, wide=True)
    u, v = _orthonormal(u), _orthonormal(v)
    p = _product(_transposed(u), _product(_stopped(rows), v))
    p, u, v = _repeated(2, [p, u, v], lambda state: _sweep(state, WIDE_FLOOR))
    size = len(p)
    sigma = [p[k][k] for k in range(size)]
    sign = [x.lift(1.0) for x in sigma]
    if size > 2:
        sign[-1] = (sigma[-1] < 0.0).select(-1.0, sign[-1])
    sizes = [x * s for x, s in zip(sigma, sign, strict=True)]
    moved = [(x - y) * s for x, y, s in zip(_apart(sizes, least=0.0), sizes, sign, strict=True)]
    p = _product(_transposed(u), _product(rows, v))

    def beside(side: float) -> list[Expr]:
        state = [_displaced(p, moved, side), u, v]
        diagonal, left, right = _sweep(_sweep(state, WIDE_FLOOR), WIDE_FLOOR)
        return [*_flat(left), *(diagonal[k][k] * scale for k in range(size)), *_flat(right)]

    return _both(beside)


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


def _symmetric(rows: Rows) -> Rows:
    return [
        tuple((x + y) * 0.5 for x, y in zip(*pair, strict=True))
        for pair in zip(rows, _transposed(rows), strict=True)
    ]


@composite(
    "eig3", "Two values q, d of a symmetric 3 by 3 matrix q diag(d) qᵀ, q a rotation; d in no certain order."
)
def eig3(A: Quantity) -> tuple[Quantity, Quantity]:
    require_shape(A, (3, 3))
    rows, scale = _scaled(A)
    mean = _symmetric(_stopped(rows))
    _, q = _repeated(SWEEPS, [mean, _identity(scale, 3)], lambda state: _symmetric_sweep(state, 0.0))
    p = _product(_transposed(q), _product(mean, q))
    p, q = _symmetric_sweep(_symmetric_sweep([p, q], _floor(A)), _floor(A))
    values = matrix(q), vector([p[k][k] * scale for k in range(3)])
    found = _result(A, values, _smooth_eig(A, q))
    return found[0], found[1]


def _smooth_eig(a: Quantity, q: Rows) -> Smooth:
    """The factors with derivatives, near those found."""
    rows, scale = _scaled(a, wide=True)
    mean, q = _symmetric(rows), _orthonormal(q)
    p = _product(_transposed(q), _product(_stopped(mean), q))
    p, q = _repeated(2, [p, q], lambda state: _symmetric_sweep(state, WIDE_FLOOR))
    values = [p[k][k] for k in range(3)]
    moved = [x - y for x, y in zip(_apart_unsorted(values), values, strict=True)]
    p = _product(_transposed(q), _product(mean, q))

    def beside(side: float) -> list[Expr]:
        state = [_displaced(p, moved, side), q]
        diagonal, vectors = _symmetric_sweep(_symmetric_sweep(state, WIDE_FLOOR), WIDE_FLOOR)
        return [*_flat(vectors), *(diagonal[k][k] * scale for k in range(3))]

    return _both(beside)


def _apart_unsorted(values: Sequence[Expr]) -> list[Expr]:
    """`_apart` of three values in any order."""
    x, y, z = values
    x_first, y_first, x_before = x >= y, y >= z, x >= z
    highest = x_first.select(x_before.select(x, z), y_first.select(y, z))
    lowest = x_first.select(y_first.select(z, y), x_before.select(z, x))
    # Of equal values, those that come first count as larger.
    first = x_first.apply("and", x_before), y_first.apply("and", x_first.apply("not")), None
    last = None, x_first.apply("and", y_first.apply("not")), x_before.apply("and", y_first)
    middle = total(values) - highest - lowest
    high, mid, low = _apart([highest, middle, lowest])
    found = []
    for place in range(3):
        is_first = first[place] or x_before.apply("or", y_first).apply("not")
        is_last = last[place] or x_first.apply("or", x_before).apply("not")
        found.append(is_first.select(high, is_last.select(low, mid)))
    return found


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
    r, q = _triangular(_stopped(rows), _identity(scale, 3))
    values = matrix(q), matrix(_upper(r, scale))
    found = _result(A, values, _smooth_qr(A, q))
    return found[0], found[1]


def _smooth_qr(a: Quantity, q: Rows) -> Smooth:
    """The factors with derivatives, near those found: of matrices whose first columns are independent."""
    rows, scale = _scaled(a, wide=True)
    q = _orthonormal(q)
    r, q = _stopped_pair(_triangular(_product(_transposed(q), _stopped(rows)), q))
    zero = scale.lift(0.0)
    # One that is zero is moved away from it, to both sides; the others stay.
    moved = [*((r[k][k] > APART).select(zero, zero + APART) for k in range(2)), zero]
    start = _product(_transposed(q), rows)

    def beside(side: float) -> list[Expr]:
        upper, turned = _triangular(_displaced(start, moved, side), q)
        return [*_flat(turned), *_flat(_upper(upper, scale))]

    return _both(beside)


def _stopped_pair(pair: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
    return _stopped(pair[0]), _stopped(pair[1])


def _upper(r: Rows, scale: Expr) -> Rows:
    zero = scale.lift(0.0)
    return [tuple(x * scale if i <= j else zero for j, x in enumerate(row)) for i, row in enumerate(r)]
