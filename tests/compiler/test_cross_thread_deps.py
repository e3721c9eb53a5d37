"""Threads that read or overwrite what others of the same launch wrote: run in order, reversed in reverse."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient


@wp.kernel
def recurrence(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i > 0:
        y[i] = y[i - 1] * x[i] + wp.sin(y[i - 1])


@wp.kernel
def prefix_sum(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i + 1 < n:
        y[i + 1] = y[i] + x[i]


@wp.kernel
def handed_on(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    before = wp.atomic_add(y, 0, x[i] * x[i])
    x[i] = before * x[i]


@wp.kernel
def last_wins(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i // 2] = x[i] * x[i]


@wp.kernel
def first_clears(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i == 0:
        y[0] = 0.0
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.kernel
def looped(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(1, i + 1):
        while y[i] < 2.0 + y[i - k] * 0.1:
            y[i] = y[i] * y[i] + 1.0 + y[i - k] * x[k] * x[k]


@wp.kernel
def grid(x: wp.array(dtype=float, ndim=2), y: wp.array(dtype=float, ndim=2), n: int):
    i, j = wp.tid()
    if i > 0 and j > 0:
        y[i, j] = y[i - 1, j] * x[i, j] + y[i, j - 1] * y[i - 1, j - 1]


@wp.kernel
def own_index(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i] = y[i] * x[i]


@pytest.mark.parametrize(
    "kernel", [recurrence, prefix_sum, handed_on, last_wins, first_clears, looped], ids=lambda k: k.key
)
@pytest.mark.parametrize("seed", range(3))
def test_threads_in_order(kernel, seed):
    x, y = np.random.default_rng(seed).uniform(0.2, 1.2, (2, 6)).astype(np.float32)
    check_gradient(kernel, 6, [x, y, 6], tolerance=1e-6)


def test_threads_in_order_on_two_axes():
    x, y = np.random.default_rng(0).uniform(0.2, 1.2, (2, 4, 5)).astype(np.float32)
    check_gradient(grid, (4, 5), [x, y, 0], tolerance=1e-6)


def test_threads_that_keep_to_their_index_are_not_slowed_down():
    code = own_index.source("adjoint")
    assert "starts" not in code
    assert "for t in range(lo, hi):" in code
    assert "for t in range(hi - 1, lo - 1, -1):" in prefix_sum.source("adjoint")
    assert "starts" not in prefix_sum.source("adjoint")
    assert "starts" in recurrence.source("adjoint")
