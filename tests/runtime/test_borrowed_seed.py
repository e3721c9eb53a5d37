"""Large seeds stay where the caller has them, until somebody is about to change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.reverse.borrowed_seed import BorrowedSeed

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
    assert isinstance(held(tape), BorrowedSeed)
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


def test_one_watch_serves_all_passes_from_a_seed() -> None:
    tape, x, y = taped()
    g = wp.array(seed(), dtype=float)
    tape.backward(grads={y: g})
    first = held(tape)
    tape.backward(grads={y: g})
    assert held(tape) is first
    g.assign(2 * seed())
    assert first.nbytes == 4 * N
    np.testing.assert_array_equal(tape.backward_calls[-1].seeds[y], seed())
    tape.zero()
    tape.backward(grads={y: g})
    assert held(tape) is not first and held(tape).nbytes == 0
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.numpy() * seed(), rtol=1e-6)
    again = [event.again for event in tape.tracker.log.events if event.kind == "backward"]
    assert again == [False, True, False]


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
    """The first pass measures how long a pass takes; before it, the times of the launches are used."""
    tape, x, y = taped()
    x.grad.fill_(1.0)
    tape.records[0].elapsed = 10.0
    g = wp.array(seed(), dtype=float)
    tape.backward(grads={y: g})
    first = tape.backward_calls[-1].peak_bytes
    tape.backward(grads={y: g})
    assert first - tape.backward_calls[-1].peak_bytes >= 4 * N


# Seeds that launches read where they are -------------------------------------------------------------------


def gradient_memory(tape: wp.Tape) -> Any:
    """Return the launches that find their adjoint in a seed."""
    return tape._prepared.lending._borrowed


def lent_pass(tape: wp.Tape, seeds: dict[Any, Any]) -> int:
    """The second pass on, when it is known what passes leave; gives how many adjoints were not copied."""
    for _ in range(2):
        tape.zero()
        tape.backward(grads=seeds)
    return sum(len(places) for places in gradient_memory(tape).values())


def test_a_seed_is_read_where_it_is() -> None:
    tape, x, y = taped()
    g = wp.array(seed(), dtype=float)
    assert lent_pass(tape, {y: g}) == 1
    np.testing.assert_array_equal(g.numpy(), seed())
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * seed(), rtol=1e-6)
    assert not y.grad.numpy().any()


def test_seeds_of_all_kinds_take_turns() -> None:
    tape, x, y = taped()
    first, other = wp.array(seed(), dtype=float), wp.array(2 * seed(), dtype=float)
    expected = 2 * x.numpy() * seed()
    x_grad = x.grad
    for given, factor in [(first, 1), (first, 1), (other, 2), (3 * seed(), 3), (other, 2), (first, 1)]:
        tape.zero()
        tape.backward(grads={y: given})
        assert bool(gradient_memory(tape)) is (isinstance(given, wp.array))
        np.testing.assert_allclose(x_grad._numpy_view(), factor * expected, rtol=1e-6)
        assert not y.grad._numpy_view().any()


def test_what_somebody_left_in_the_gradient_is_replaced_all_the_same() -> None:
    tape, x, y = taped()
    g = wp.array(seed(), dtype=float)
    assert lent_pass(tape, {y: g}) == 1
    y.grad.fill_(5.0)
    tape.zero()
    y.grad.fill_(5.0)
    tape.backward(grads={y: g})
    assert not gradient_memory(tape)
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * seed(), rtol=1e-6)
    assert not y.grad.numpy().any()


def test_another_seed_of_the_same_array_costs_no_new_table() -> None:
    tape, x, y = taped()
    assert lent_pass(tape, {y: wp.array(seed(), dtype=float)}) == 1
    calls, x_grad = tape._prepared.calls, x.grad
    starts = calls._starts
    for factor in (2.0, 3.0):
        tape.zero()
        tape.backward(grads={y: wp.array(factor * seed(), dtype=float)})
        np.testing.assert_allclose(x_grad._numpy_view(), factor * 2 * x.numpy() * seed(), rtol=1e-6)
    assert starts and calls._starts is starts


def test_a_seed_that_is_not_finite_is_found_where_that_is_looked_for() -> None:
    tape, _, y = taped()
    g = wp.array(np.where(np.arange(N) == 7, np.nan, seed()).astype(np.float32), dtype=float)
    wp.config.verify_fp = True
    try:
        with pytest.raises(wp.TapedebugError, match="nan"):
            tape.backward(grads={y: g})
    finally:
        wp.config.verify_fp = False


@wp.kernel
def two_outputs(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = x[i] * x[i]
    else:
        y[i] = x[i]
    z[i] = 3.0 * x[i]


def test_of_two_seeds_of_one_launch_each_may_be_read_where_it_is() -> None:
    x = wp.array(np.linspace(0.5, 1.5, N).astype(np.float32), dtype=float, requires_grad=True)
    y, z = (wp.zeros(N, dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(two_outputs, N, [x, y, z])
    g, h = (wp.array(factor * seed(), dtype=float) for factor in (1.0, -2.0))
    slope = np.where(np.arange(N) % 2 == 0, 2 * x.numpy(), 1.0)
    for given, number in (({y: g, z: h}, 2), ({y: g}, 1), ({z: h}, 1), ({y: g, z: -2 * seed()}, 1)):
        assert lent_pass(tape, given) == number
        expected = slope * seed() * (y in given) - 6 * seed() * (z in given)
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6)
        assert not y.grad.numpy().any() and not z.grad.numpy().any()


@wp.kernel
def half_of_it(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 1.0:
        y[i] = x[i] * x[i]


@wp.kernel
def onward(y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    z[i] = y[i] + 1.0


def test_where_seeds_are_copied() -> None:
    """The seed is copied if a pass leaves some of it, if others add to it, or if elements are used twice."""
    g = wp.array(seed(), dtype=float)
    tape, _, y = taped()
    with tape:
        wp.launch(onward, N, [y, wp.zeros(N, dtype=float, requires_grad=True)])
    assert lent_pass(tape, {y: g}) == 0
    x, y = (wp.ones(N, dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(half_of_it, N, [x, y])
    assert lent_pass(tape, {y: g}) == 0
    with wp.Tape() as tape:
        wp.launch(square, N, [x, y])
        wp.launch(square, N, [x, y])
    assert lent_pass(tape, {y: g}) == 0
    y.retain_grad = True
    with wp.Tape() as tape:
        wp.launch(square, N, [x, y])
    assert lent_pass(tape, {y: g}) == 0
    np.testing.assert_array_equal(y.grad.numpy(), seed())


def test_adjoint_launches_leave_adjoints_of_the_callers_where_they_are() -> None:
    _, x, y = taped()
    g, into = wp.array(seed(), dtype=float), wp.zeros(N, dtype=float)
    for arrays in ((into, g), (into, wp.array(np.repeat(seed(), 2), dtype=float)[::2])):
        into.zero_()
        wp.launch(square, N, [x, y], adj_inputs=[arrays[0], arrays[1]], adjoint=True)
        np.testing.assert_array_equal(arrays[1].numpy(), seed())
        np.testing.assert_allclose(into.numpy(), 2 * x.numpy() * seed(), rtol=1e-6)
