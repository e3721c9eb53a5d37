"""Two parameters of one launch that share memory: threads see what others wrote, and are reversed in turn."""

from typing import Any

import numpy as np
import pytest

import tapedebug as wp

SEEDS = np.array([1.0, 10.0, 100.0, 1000.0])


@wp.kernel
def doubled(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = 2.0 * a[i]


@wp.kernel
def from_ahead(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = 2.0 * a[i + 1]


@wp.kernel
def to_ahead(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i + 1] = 2.0 * a[i]


@wp.kernel
def added(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(b, i, 2.0 * a[i])


@wp.kernel
def multiplied(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = a[i] * a[i] + b[i]


def behind(x: Any) -> list[Any]:
    return [x[0:3], x[1:4]]


def ahead(x: Any) -> list[Any]:
    return [x[1:4], x[0:3]]


def same(x: Any) -> list[Any]:
    return [x, x]


CASES = [
    (doubled, behind, [8421.0, 0.0, 0.0, 0.0]),
    (doubled, ahead, [0.0, 2.0, 20.0, 1200.0]),
    (doubled, same, [2.0, 20.0, 200.0, 1000.0]),
    (from_ahead, same, [0.0, 2.0, 20.0, 1200.0]),
    (to_ahead, same, [8421.0, 0.0, 0.0, 0.0]),
    (added, behind, [8421.0, 4210.0, 2100.0, 1000.0]),
    (multiplied, behind, None),
    (multiplied, ahead, None),
]


@pytest.mark.parametrize(("kernel", "views", "expected"), CASES, ids=lambda v: getattr(v, "key", ""))
def test_gradients_are_those_of_the_threads_in_order(kernel: Any, views: Any, expected: Any) -> None:
    x = wp.array([1.0, 2.0, 0.5, 1.5], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, 3, views(x))
    tape.backward(grads={x: SEEDS})
    found = x.grad.numpy()
    if expected is not None:
        assert found.tolist() == expected
    for unit in np.eye(4):
        dot = tape.replay(dtype=wp.float64, stop=0).push({x: unit}).tangent(x)
        assert found @ unit == pytest.approx(dot @ SEEDS, rel=1e-5)
    replayed = tape.replay(dtype=wp.float64).backward({x: SEEDS}).gradient(x)
    np.testing.assert_allclose(replayed, found, rtol=1e-5)


def test_apart_or_element_by_element_nothing_is_copied() -> None:
    x = wp.array(np.ones(8), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(doubled, 4, [x[0:4], x[4:8]])
        wp.launch(doubled, 8, [x, x])
    assert [record.inplace_saves for record in tape.records] == [(), ()]
    assert tape.preserved_bytes == 0
