"""Kernels in lanes whose indices are read from memory: in some blocks they count, in others not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.llvm.simd import vectorize
from tests.compiler.harness import twin
from tests.compiler.simd_comparison import compare, is_in_lanes, results, scalar_functions

Floats = wp.array(dtype=float)
Vectors = wp.array(dtype=wp.vec3)
Indices = wp.array(dtype=int)
RNG = np.random.default_rng(11)
pytestmark = pytest.mark.sweep(most=2)

N = 1700
"""Threads: more than are run at once where blocks are left one after the other."""


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with scalar_functions():
        yield


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(0.2, 1.4, shape)


def rows_of_a_grid() -> np.ndarray:
    """Runs of 52 that follow each other, as the corners of the squares of a net."""
    return np.array([53 * row + column for row in range(N // 52 + 1) for column in range(52)])[:N]


PATTERNS: dict[str, Callable[[], np.ndarray]] = {
    "counting": lambda: np.arange(N),
    "runs": rows_of_a_grid,
    "shuffled": lambda: RNG.permutation(N),
    "one element": lambda: np.full(N, 7),
    "pairs": lambda: np.arange(N) // 2,
    "backwards": lambda: np.arange(N)[::-1],
    "from the end": lambda: np.arange(N) - N,
    "across zero": lambda: np.arange(N) - 40,
    "shuffled in part": lambda: np.concatenate([RNG.permutation(N // 2), np.arange(N // 2, N)]),
    "but for one": lambda: np.where(np.arange(N) == 5 * 16 + 3, 0, np.arange(N)),
}


@pytest.fixture(params=PATTERNS)
def which(request: pytest.FixtureRequest) -> np.ndarray:
    return PATTERNS[request.param]().astype(np.int32)


def room_for(which: np.ndarray) -> int:
    """Elements that an array needs which is indexed so, and some more."""
    return max(N, int(which.max())) + 60


def exact(kernel: Any, args: list[Any]) -> bool:
    """True if the forward results are the same, to the last bit, in lanes and thread by thread."""
    found = [
        results(kernel, N, twin(args), f64=True, lanes=on, replay=frozenset())["forward"]
        for on in (True, False)
    ]
    return all(one.tobytes() == two.tobytes() for one, two in zip(*found, strict=True))


@wp.kernel
def springs(x: Vectors, first: Indices, second: Indices, force: Vectors):
    i = wp.tid()
    a = first[i]
    b = second[i]
    d = x[b] - x[a]
    f = d * (wp.length(d) - 1.0)
    wp.atomic_add(force, a, f)
    wp.atomic_sub(force, b, f)


def test_additions_to_elements_that_are_read(bits: int, which: np.ndarray) -> None:
    size = room_for(which)
    second = which + np.int32(54)
    args = [uniform(size, 3), which, second, np.zeros((size, 3))]
    assert is_in_lanes(springs) and is_in_lanes(springs, "adjoint")
    compare(springs, N, args, exact=False)


@wp.kernel
def gathered(x: Vectors, q: wp.array(dtype=wp.vec2), s: Floats, which: Indices, y: Vectors, z: Floats):
    i = wp.tid()
    k = which[i]
    y[i] = wp.cross(x[k], x[i]) * q[k][1]
    z[i] = s[k] * s[k - 1] + q[k][0]


def test_elements_that_are_read(bits: int, which: np.ndarray) -> None:
    size = room_for(which)
    args = [uniform(size, 3), uniform(size, 2), uniform(size), which, np.zeros((N, 3)), np.zeros(N)]
    assert is_in_lanes(gathered)
    assert exact(gathered, args)
    compare(gathered, N, args, exact=False)


@wp.kernel
def stored(x: Vectors, which: Indices, y: Vectors, z: Floats):
    i = wp.tid()
    y[which[i]] = x[i] * 2.0
    z[which[i]] = x[i][1]


def test_stores_to_elements_that_are_read(bits: int, which: np.ndarray) -> None:
    size = room_for(which)
    args = [uniform(N, 3), which, np.zeros((size, 3)), np.zeros(size)]
    assert is_in_lanes(stored)
    assert exact(stored, args)


@wp.kernel
def counted(x: Floats, which: Indices, total: Floats, number: Indices):
    i = wp.tid()
    k = which[i]
    wp.atomic_add(total, k, x[i])
    wp.atomic_add(total, k + 1, x[i] * x[i])
    wp.atomic_add(number, k, 1)


def test_additions_of_numbers(bits: int, which: np.ndarray) -> None:
    size = room_for(which)
    assert is_in_lanes(counted)
    compare(counted, N, [uniform(N), which, np.zeros(size), np.zeros(size, np.int32)], exact=False)


@wp.kernel
def from_two_lists(x: Floats, first: Indices, second: Indices, total: Floats):
    i = wp.tid()
    a, b, c = first[i], second[i], x[i]
    wp.atomic_add(total, a, c)
    wp.atomic_add(total, b, 2.0 * c)


def test_lists_are_not_taken_for_each_other(bits: int, which: np.ndarray) -> None:
    second = ((which + 3) % N).astype(np.int32)
    assert is_in_lanes(from_two_lists)
    compare(from_two_lists, N, [uniform(N), which, second, np.zeros(room_for(which))], exact=False)


@wp.kernel
def through_two(x: Floats, inner: Indices, outer: Indices, total: Floats):
    i = wp.tid()
    wp.atomic_add(total, outer[inner[i]], x[i])


def test_lists_of_lists(bits: int, which: np.ndarray) -> None:
    which = which % N
    outer = np.roll(np.arange(N), 3).astype(np.int32)
    assert is_in_lanes(through_two)
    compare(through_two, N, [uniform(N), which, outer, np.zeros(N)], exact=False)


@wp.kernel
def after_a_store(x: Floats, which: Indices, y: Floats, total: Floats):
    i = wp.tid()
    y[i] = x[i]
    wp.atomic_add(total, which[i], x[i])


def test_a_block_that_has_stored_is_not_left(bits: int, which: np.ndarray) -> None:
    """Here the index is read after a store, which must not happen twice."""
    size = room_for(which)
    compare(after_a_store, N, [uniform(N), which, np.zeros(N), np.zeros(size)], exact=False)
    assert not is_in_lanes(after_a_store)


def test_long_kernels_are_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_in_lanes(springs)
    monkeypatch.setattr(vectorize, "TWICE", 20)
    assert not is_in_lanes(springs)


def spread(first: wp.bool) -> Any:
    """A kernel that adds in a loop, to elements that are read before or after another loop."""

    def kernel(x: Floats, turns: Indices, which: Indices, total: Floats):
        i = wp.tid()
        k = wp.int32(0)
        if wp.static(first):
            k = which[i]
        a = x[i]
        for _n in range(turns[i]):
            a = a * 0.9
        if wp.static(not first):
            k = which[i]
        for n in range(turns[i]):
            wp.atomic_add(total, k + n, a)

    return wp.Kernel(func=kernel, key=f"spread_{first}")


@pytest.mark.parametrize("first", [True, False])
def test_no_loop_runs_twice(bits: int, which: np.ndarray, first: bool) -> None:
    kernel, turns = spread(first), RNG.integers(0, 5, N).astype(np.int32)
    assert not is_in_lanes(kernel) or first
    compare(kernel, N, [uniform(N), turns, np.abs(which), np.zeros(room_for(which))], exact=False)


@wp.kernel
def of_a_grid(x: wp.array2d(dtype=float), which: wp.array2d(dtype=int), total: Floats):
    i, j = wp.tid()
    wp.atomic_add(total, which[i, j], x[i, j])


def test_blocks_of_a_row_are_not_left(bits: int) -> None:
    which = np.arange(40 * 50, dtype=np.int32).reshape(40, 50)
    assert not is_in_lanes(of_a_grid)
    compare(of_a_grid, (40, 50), [uniform(40, 50), which, np.zeros(2000)], exact=False)


@wp.kernel
def in_a_branch(x: Vectors, which: Indices, y: Vectors, n: int):
    i = wp.tid()
    if i > 20 and i < n - 5:
        k = which[i]
        wp.atomic_add(y, k, x[k] + x[i])


def test_indices_that_are_read_in_a_branch(bits: int, which: np.ndarray) -> None:
    size = room_for(which)
    compare(in_a_branch, N, [uniform(size, 3), which, np.zeros((size, 3)), N], exact=False)


@wp.kernel
def grid_neighbours(x: Vectors, v: Vectors, side: int, y: Vectors):
    i = wp.tid()
    col = i - (i // side) * side
    total = v[i]
    if col > 0:
        total = total + wp.cross(x[i - 1], x[i])
    if i >= side:
        total = total + x[i - side] * 2.0
    y[i] = total


def test_vectors_of_neighbours_but_at_the_ends(bits: int) -> None:
    """Memory before the first element is read in no block, also if the index of a neighbour lies there."""
    assert is_in_lanes(grid_neighbours) and is_in_lanes(grid_neighbours, "adjoint")
    args = [uniform(N, 3), uniform(N, 3), 41, np.zeros((N, 3))]
    assert exact(grid_neighbours, args)
    compare(grid_neighbours, N, args, exact=False)


@wp.kernel
def rows_and_columns(
    side: int, wide: wp.int64, shift: int, row: Indices, column: Indices, long: wp.array(dtype=wp.int64)
):
    i = wp.tid()
    k = i - shift
    row[i] = k // side + (k / side) * 1000
    column[i] = k % side
    long[i] = wp.int64(k) // wide * wp.int64(100000) + wp.int64(k) % wide


@pytest.mark.parametrize("side", [1, 3, 15, 16, 17, 100, 256, 2**31 - 1, 0, -1, -20, -(2**31)])
@pytest.mark.parametrize("shift", [0, 40, -(2**31) + 900])
def test_rows_and_columns_of_threads(bits: int, side: int, shift: int) -> None:
    """Also of numbers that are negative, or pass the largest one."""
    rest = [np.zeros(N, np.int32), np.zeros(N, np.int32), np.zeros(N, np.int64)]
    assert is_in_lanes(rows_and_columns)
    assert exact(rows_and_columns, [side, side * 3, shift, *rest])
