"""Large seeds stay where the caller has them, until somebody is about to change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime._lent import Lent

N = 40_000


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def taped(n: int = N) -> tuple[wp.Tape, Any, Any]:
    x = wp.array(np.linspace(0.5, 1.5, n).astype(np.float32), dtype=float, requires_grad=True)
    y = wp.zeros(n, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, n, [x, y])
    return tape, x, y


def seed(n: int = N) -> np.ndarray:
    return np.cos(np.arange(n)).astype(np.float32)


def held(tape: wp.Tape) -> Any:
    (found,) = tape.backward_calls[-1]._seeds.values()
    return found


def by_numpy(g: Any) -> None:
    g.numpy()[...] = 5.0


WAYS: dict[str, Callable[[Any], Any]] = {
    "launch": lambda g: wp.launch(square, N, [wp.ones(N, dtype=float), g]),
    "fill": lambda g: g.fill_(7.0),
    "zero": lambda g: g.zero_(),
    "assign": lambda g: g.assign(np.ones(N, np.float32)),
    "copy": lambda g: wp.copy(g, wp.ones(N, dtype=float)),
    "numpy": by_numpy,
    "part": lambda g: g[100:200].fill_(3.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_is_copied_when_it_is_about_to_change(way: str) -> None:
    tape, x, y = taped()
    g = wp.array(seed(), dtype=float)
    tape.backward(grads={y: g})
    assert isinstance(held(tape), Lent)
    assert held(tape).nbytes == 0
    np.testing.assert_array_equal(tape.backward_calls[-1].seeds[y], seed())
    WAYS[way](g)
    assert not np.array_equal(g.numpy(), seed())
    np.testing.assert_array_equal(tape.backward_calls[-1].seeds[y], seed())
    assert held(tape).nbytes == 4 * N
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * seed(), rtol=1e-6)


def test_passes_from_one_seed_that_changes_between_them() -> None:
    tape, x, y = taped()
    g = wp.array(seed(), dtype=float)
    for k in range(3):
        g.assign(seed() * (k + 1))
        tape.zero()
        tape.backward(grads={y: g})
        np.testing.assert_allclose(x.grad.numpy(), 2 * (k + 1) * x.numpy() * seed(), rtol=1e-6)
    g.zero_()
    np.testing.assert_array_equal(tape.backward_calls[-1].seeds[y], seed() * 3)
    assert wp.diagnose(tape).verdict == "AGREE"


def test_a_view_that_is_closed_without_a_change_needs_no_copy() -> None:
    tape, _, y = taped()
    g = wp.array(seed(), dtype=float)
    tape.backward(grads={y: g})
    view = g.numpy()
    assert held(tape).nbytes == 4 * N
    del view
    assert held(tape).nbytes == 0


def test_what_is_not_lent() -> None:
    tape, x, y = taped()
    whole = wp.array(np.repeat(seed(), 2), dtype=float)
    window = wp.array(seed(), dtype=float)
    view = window.numpy()
    y.grad.assign(seed())
    for given in (seed(), whole[::2], window, y.grad, x):
        tape.backward(grads={y: given})
        assert isinstance(held(tape), np.ndarray)
    del view
    tape, _, y = taped(50)
    tape.backward(grads={y: wp.array(seed(50), dtype=float)})
    assert isinstance(held(tape), np.ndarray)


def test_gradients_are_kept_for_interrupts_where_a_pass_takes_long() -> None:
    """How long a pass takes is known after the first; before, how long the launches took stands for it."""
    tape, x, y = taped()
    x.grad.fill_(1.0)
    tape.records[0].elapsed = 10.0
    g = wp.array(seed(), dtype=float)
    tape.backward(grads={y: g})
    first = tape.backward_calls[-1].peak_bytes
    tape.backward(grads={y: g})
    assert first - tape.backward_calls[-1].peak_bytes >= 4 * N
