"""Traced sparsity: never an entry too few, on kernels and functions of every kind."""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator"

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd.sparse.pattern import Pattern, traced
from tapedebug.autograd.subjects.subject import subject_of
from tests.autograd import sparse_kernels as k


def subject(case: k.Case) -> Any:
    return subject_of(case.kernel, case.dim, case.inputs, case.outputs, None, None, in_place=True)


def exact(program: Any, source: Any, target: Any) -> np.ndarray:
    """A Jacobian by tangents of the float64 twin, column by column."""
    found = np.empty((target.size, source.size))
    for column, direction in enumerate(np.eye(source.size)):
        found[:, column] = program.push({source: direction})[target]
    return found


@pytest.mark.parametrize("name", k.CASES)
def test_no_entry_is_missing(name: str) -> None:
    case = k.CASES[name]()
    program = subject(case).program
    patterns = traced(program)
    assert patterns is not None
    for (source, target), pattern in patterns.items():
        matrix = exact(program, source, target)
        assert pattern.shape == matrix.shape
        missing = (matrix != 0) & (pattern.dense() == 0)
        assert not missing.any(), f"{source.name}, {target.name}: {np.argwhere(missing)}"


@pytest.mark.parametrize("name", [name for name in k.CASES if k.CASES[name]().counts])
def test_no_entry_is_too_many_where_the_kernel_says_so(name: str) -> None:
    case = k.CASES[name]()
    program = subject(case).program
    patterns = traced(program)
    assert patterns is not None
    counted = {
        (program.inputs.index(source), program.outputs.index(target)): len(pattern)
        for (source, target), pattern in patterns.items()
    }
    assert {key: counted[key] for key in case.counts} == case.counts


def pattern_of(function: Any, dim: Any, inputs: Any, outputs: Any = None) -> Any:
    patterns = traced(subject_of(function, dim, inputs, outputs, None, None).program)
    return None if patterns is None else next(iter(patterns.values()))


def test_patterns_are_kept_until_what_decides_changes() -> None:
    x, y, index = k.numbers(9), k.nothing(6), k.integers([3, 3, 0, 8, 1, 3])
    first = pattern_of(k.gathered, 6, [x, index], [y])
    x.assign(np.ones(9))
    assert pattern_of(k.gathered, 6, [x, index], [y]) is first
    index.assign([0, 1, 2, 3, 4, 5])
    second = pattern_of(k.gathered, 6, [x, index], [y])
    assert second.columns.tolist() == [0, 1, 2, 3, 4, 5]
    index.assign([3, 3, 0, 8, 1, 3])
    assert pattern_of(k.gathered, 6, [x, index], [y]) is first
    assert pattern_of(k.gathered, 5, [x, index], [y]).rows.tolist() == [0, 1, 2, 3, 4]


def test_branches_that_depend_on_values_are_traced_again() -> None:
    u, out = k.numbers(12), k.nothing(12)
    u.assign(np.ones(12))
    assert np.array_equal(
        pattern_of(k.upwind, 12, [u], [out]).dense(), np.eye(12) + np.eye(12, k=-1) + np.eye(12, k=11)
    )
    u.assign(-np.ones(12))
    assert np.array_equal(
        pattern_of(k.upwind, 12, [u], [out]).dense(), np.eye(12) + np.eye(12, k=1) + np.eye(12, k=-11)
    )


def test_numbers_of_the_launch_decide_too() -> None:
    x, y = k.numbers(12), k.nothing(12)
    counts = [len(pattern_of(k.window, 12, [x, width], [y])) for width in (1, 3, 12)]
    assert counts == [12, 12 + 11 + 10, 78]


def test_the_values_of_a_tape_decide_and_not_those_of_now() -> None:
    x, y, index = k.numbers(9), k.nothing(6), k.integers([3, 3, 0, 8, 1, 3])

    def function(x: Any) -> Any:
        wp.launch(k.gathered, 6, [x, index], [y])
        return y

    program = subject_of(function, None, [x], None, None, None).program
    index.assign([0, 0, 0, 0, 0, 0])
    patterns = traced(program)
    assert patterns is not None
    (pattern,) = patterns.values()
    assert pattern.columns.tolist() == [3, 3, 0, 8, 1, 3]


def two_launches(x: Any) -> Any:
    y, z = k.nothing(12), k.nothing(12)
    wp.launch(k.tridiagonal, 12, [x], [y])
    wp.launch(k.tridiagonal, 12, [y], [z])
    return z


def ping_pong(x: Any) -> Any:
    a, b = k.nothing(12), k.nothing(12)
    wp.copy(a, x)
    for _ in range(3):
        wp.launch(k.tridiagonal, 12, [a], [b])
        a, b = b, a
    b.zero_()
    wp.launch(k.every_second, 12, [a], [b])
    return b


def viewed(x: Any) -> Any:
    y = k.nothing(12)
    wp.launch(k.tridiagonal, 6, [x[6:]], [y[:6]])
    wp.launch(k.tridiagonal, 6, [x[::2]], [y[6:]])
    return y


@pytest.mark.parametrize(("function", "count"), [(two_launches, 54), (ping_pong, 36), (viewed, 32)])
def test_launches_one_after_the_other(function: Any, count: int) -> None:
    program = subject_of(function, None, [k.numbers(12)], None, None, None).program
    patterns = traced(program)
    assert patterns is not None
    (((source, target), pattern),) = patterns.items()
    assert not ((exact(program, source, target) != 0) & (pattern.dense() == 0)).any()
    assert len(pattern) == count


def test_what_cannot_be_known_is_none() -> None:
    big = k.numbers(3000)
    assert pattern_of(k.neighbours, 3000, [big, 100.0], [k.nothing(3000)]) is None, "9 million entries"


def test_an_index_outside_its_array_gives_no_pattern() -> None:
    assert pattern_of(k.window, 1, [k.numbers(9), 1], [k.nothing(9)]) is not None
    assert pattern_of(k.far_away, 9, [k.numbers(9)], [k.nothing(9)]) is None


def test_rows_and_columns_that_were_chosen() -> None:
    pattern = Pattern.of((3, 4), np.array([2, 0, 0, 0]), np.array([1, 3, 2, 2]))
    assert list(zip(pattern.rows.tolist(), pattern.columns.tolist(), strict=True)) == [(0, 2), (0, 3), (2, 1)]
    assert pattern.only_rows(np.array([2])).columns.tolist() == [1]
    assert pattern.only_columns(np.array([2, 1])).rows.tolist() == [0, 2]


def test_threads_may_trace_at_once() -> None:
    def trace(n: int) -> int:
        found = pattern_of(k.tridiagonal, n, [k.numbers(n)], [k.nothing(n)])
        return len(found)

    sizes = [5 + n % 30 for n in range(240)]  # more than are kept
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(trace, sizes)) == [3 * n - 2 for n in sizes]


def test_what_a_sum_is_added_to_stays_a_part_of_it() -> None:
    def function(x: Any, y: Any) -> Any:
        wp.launch(k.added_in_place, 6, [x], [y])
        return y

    program = subject_of(function, None, [k.numbers(12), k.numbers(12, seed=2)], None, None, None).program
    patterns = traced(program)
    assert patterns is not None
    x_by, y_by = (pattern.dense() for pattern in patterns.values())
    assert np.array_equal(x_by, np.diag([1.0] * 6 + [0.0] * 6))
    assert np.array_equal(y_by, np.eye(12)), "also where nothing was added"
