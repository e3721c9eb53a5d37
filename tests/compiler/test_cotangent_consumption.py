"""Adjoints that use up what comes in: of which arrays each element is taken once, and may as well stay."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.effects import differentiable
from tests.compiler.harness import run


@wp.kernel
def mapped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def vectors(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = x[i] * 2.0


@wp.kernel
def either(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if x[i, j] > 0.5:
        y[i, j] = x[i, j] * x[i, j]
    elif j > 0:
        y[i, j] = x[i, j - 1]


@wp.kernel
def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]
    y[i] = x[i] * 3.0


@wp.kernel
def perhaps_twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]
    if x[i] > 0.5:
        y[i] = x[i] * 3.0


@wp.kernel
def added_before(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, x[i])
    y[i] = 2.0


@wp.kernel
def added_after(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]
    wp.atomic_add(y, i, x[i])


@wp.kernel
def looped(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for _ in range(n):
        y[i] = x[i]


@wp.kernel
def elsewhere(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i % n] = x[i]


@wp.kernel
def read_too(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * y[i]


@wp.kernel
def two_elements(x: wp.array(dtype=float), y: wp.array2d(dtype=float), k: int):
    i = wp.tid()
    y[i, 0] = x[i]
    y[i, k] = x[i] * 2.0


@wp.kernel
def summed(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, x[i])


ONCE = {
    mapped: {"y"},
    vectors: {"y"},
    either: {"y"},
    added_after: {"y"},  # both terms read the same adjoint, and then it is used up
    twice: set(),
    perhaps_twice: set(),
    added_before: set(),  # the term is lost: its adjoint must be the zero that the store leaves
    looped: set(),
    elsewhere: set(),
    read_too: set(),
    two_elements: set(),
    summed: set(),  # never used up
}


def once(kernel) -> set[str]:
    info = kernel.adjoint_info(differentiable(kernel.params))
    return {kernel.params[p].name for p in info.once}


@pytest.mark.parametrize("kernel", ONCE, ids=lambda kernel: kernel.key)
def test_of_what_each_element_is_taken_once(kernel) -> None:
    assert once(kernel) == ONCE[kernel]


@pytest.mark.parametrize("kernel", ONCE, ids=lambda kernel: kernel.key)
def test_which_adjoints_are_only_read(kernel) -> None:
    active = differentiable(kernel.params)
    assert kernel.adjoint_info(active).changes == (active - {1} if kernel is summed else active)


def test_what_is_only_read_is_what_it_was() -> None:
    x, seed = np.full(40, 0.5, np.float32), np.arange(40, dtype=np.float32)
    given = np.zeros_like(x), seed.copy()
    run(summed, 40, [x, np.zeros(40, np.float32)], adjoints=list(given), lanes=True)
    np.testing.assert_array_equal(given, (seed, seed))


@pytest.mark.parametrize("kernel", [mapped, vectors, either, added_after], ids=lambda kernel: kernel.key)
def test_what_may_stay_stays(kernel) -> None:
    rng = np.random.default_rng(0)
    shape = {"vectors": (40, 3), "either": (5, 9)}.get(kernel.key, (40,))
    dim = shape if kernel is either else shape[0]
    x, y, seed = (rng.uniform(0.1, 1.0, shape).astype(np.float32) for _ in range(3))
    found = []
    for kept in (frozenset(), frozenset({1})):
        given = np.zeros_like(x), seed.copy()
        run(kernel, dim, [x.copy(), y.copy()], adjoints=list(given), kept=kept, lanes=True)
        found.append(given)
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[1][1], seed)
    assert not np.array_equal(found[0][1], seed)


def test_what_is_taken_twice_is_refused() -> None:
    with pytest.raises(ValueError) as caught:
        twice.adjoint(differentiable(twice.params), unconsumed=frozenset({1}))
    assert str(caught.value) == "adj_twice: takes adjoints of [1] more than once"
