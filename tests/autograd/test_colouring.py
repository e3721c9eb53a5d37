"""Compressions: every entry stands alone in its run, and there are few runs."""

import numpy as np
import pytest

from tapedebug.autograd.sparse.colouring import Compression, compress, transposed
from tapedebug.autograd.sparse.pattern import Pattern

BY = ("rows", "columns", "fewest")


def pattern_of(matrix: np.ndarray) -> Pattern:
    return Pattern.of(matrix.shape, *np.nonzero(matrix))


def arrow(n: int) -> Pattern:
    matrix = np.eye(n, dtype=bool)
    matrix[0] = matrix[:, 0] = True
    return pattern_of(matrix)


def five_points(side: int) -> Pattern:
    line = np.eye(side) + np.eye(side, k=1) + np.eye(side, k=-1)
    return pattern_of((np.kron(line, np.eye(side)) + np.kron(np.eye(side), line)) > 0)


def recovered(compression: Compression, matrix: np.ndarray) -> np.ndarray:
    pulled = compression.seeds @ matrix if compression.rows else None
    pushed = compression.directions @ matrix.T if compression.columns else None
    return compression.pattern.dense(compression.values(pulled, pushed))


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(
    "pattern", [arrow(40), five_points(9), pattern_of(np.ones((4, 7)))], ids=["arrow", "five", "dense"]
)
def test_all_entries_come_back(pattern: Pattern, by: str) -> None:
    matrix = pattern.dense(np.random.default_rng(1).normal(size=len(pattern)))
    assert np.array_equal(recovered(compress(pattern, by), matrix), matrix)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", BY)
def test_of_any_matrix_all_entries_come_back(by: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        m, n, density = *random.integers(1, 13, size=2), random.random()
        matrix = random.integers(1, 100, size=(m, n)) * (random.random((m, n)) < density) * 1.0
        compression = compress(pattern_of(matrix), by)  # type: ignore[arg-type]
        assert np.array_equal(recovered(compression, matrix), matrix)
        assert len(compression) <= {"rows": m, "columns": n, "fewest": min(m, n)}[by]


def test_runs_are_few() -> None:
    tridiagonal = pattern_of(np.eye(100) + np.eye(100, k=1) + np.eye(100, k=-1))
    assert [len(compress(tridiagonal, by)) for by in BY] == [3, 3, 3]  # type: ignore[arg-type]
    assert 5 <= len(compress(five_points(30))) <= 8
    blocks = pattern_of(np.kron(np.eye(20), np.ones((3, 5))))
    assert [len(compress(blocks, by)) for by in BY] == [3, 5, 3]  # type: ignore[arg-type]


def test_an_arrow_takes_three_runs_by_rows_and_columns_together() -> None:
    pattern = arrow(500)
    assert [len(compress(pattern, by)) for by in BY] == [500, 500, 3]  # type: ignore[arg-type]
    assert {compress(pattern).rows, compress(pattern).columns} == {1, 2}


def test_more_colours_than_a_word_has_bits() -> None:
    wide = pattern_of(np.kron(np.eye(4), np.ones((150, 150))))
    assert [len(compress(wide, by)) for by in BY] == [150, 150, 150]  # type: ignore[arg-type]


def test_rows_without_entries_need_no_run_of_their_own() -> None:
    pattern = Pattern.of((5, 5), np.array([1, 3]), np.array([2, 2]))
    assert [len(compress(pattern, by)) for by in BY] == [2, 1, 1]  # type: ignore[arg-type]
    empty = Pattern.of((3, 4), np.zeros(0, int), np.zeros(0, int))
    assert recovered(compress(empty), np.zeros((3, 4))).shape == (3, 4)


def test_compressions_are_kept_with_the_pattern() -> None:
    pattern = arrow(20)
    assert compress(pattern) is compress(pattern)
    with pytest.raises(ValueError, match="compress: by is 'rows', 'columns' or 'fewest', not 'row'"):
        compress(pattern, "row")  # type: ignore[arg-type]


def test_turned_sorts_by_columns() -> None:
    pattern = five_points(4)
    rows, columns, places = transposed(pattern.rows, pattern.columns, 16)
    order = np.lexsort((pattern.rows, pattern.columns))
    assert np.array_equal(places, order)
    assert np.array_equal(rows, pattern.rows[order])
    assert np.array_equal(columns, pattern.columns[order])
