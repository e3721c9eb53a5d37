"""Replays reversed in parts: the gradients of a whole reverse pass, to the bit, in less memory."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.replay import partial_reversal
from tapedebug.runtime.replay.partial_reversal import PartialReversal, _blocks
from tapedebug.runtime.replay.shadow import Shadow

N = 40_000


@wp.kernel
def swing(x: wp.array(dtype=float), v: wp.array(dtype=float), k: wp.array(dtype=float), dt: float):
    i = wp.tid()
    v[i] = v[i] - k[i] * wp.sin(x[i]) * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def blend(x: wp.array(dtype=float), old: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * old[i]


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i] + out[i])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_reversal, "LEAST_SAVED", 1 << 18)


def simulation(steps: int = 12, *, outside: bool = False) -> tuple[wp.Tape, Any, Any]:
    """Return a tape in place, with a value that is read long after it was written, its loss and an input."""
    x0, k = (wp.array(np.linspace(a, 2.0, N), dtype=float, requires_grad=True) for a in (-1.0, 0.5))
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        x, v, old, out = wp.clone(x0), *(wp.zeros(N, dtype=float, requires_grad=True) for _ in range(3))
        for step in range(steps):
            wp.launch(swing, N, inputs=[x, v, k, 0.1])
            if step == 2:
                wp.copy(old, x)
            if step == 7:
                wp.launch(blend, N, inputs=[x, old], outputs=[out])
                if outside:
                    v.assign(np.linspace(0.1, 0.3, N))
        wp.launch(total, N, inputs=[x, out, loss])
    return tape, loss, x0


@pytest.mark.parametrize("dtype", [None, wp.float64])
@pytest.mark.parametrize("outside", [False, True])
def test_gradients_are_those_of_a_whole_reverse_pass(dtype: Any, outside: bool) -> None:
    tape, loss, x0 = simulation(outside=outside)
    whole, parts = Shadow(tape.tracker, dtype), Shadow(tape.tracker, dtype)
    assert parts.reverses_in_parts and parts._partial is not None
    assert sum(len(block) - 1 for block in parts._partial.blocks) > 2
    seeds = {loss: np.full(1, 0.5)}
    moved = np.linspace(-0.5, 1.0, N)
    for displaced in (False, True):
        for shadow in (whole, parts):
            shadow.reset()
            if displaced:
                shadow.set(x0, moved)
        whole.forward(0).backward(seeds)
        parts.gradients_in_parts(seeds)
        assert any(whole.gradient(a).any() for a in tape.tracker.states)
        for a in tape.tracker.states:
            np.testing.assert_array_equal(parts.gradient(a), whole.gradient(a))
    parts.reset().forward(0)
    np.testing.assert_array_equal(parts.values(loss), whole.reset().forward(0).values(loss))
    parts.backward(seeds)
    np.testing.assert_array_equal(parts.gradient(x0), whole.backward(seeds).gradient(x0))


def test_values_are_kept_for_one_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, loss, _ = simulation()
    sizes: list[int] = []
    real = partial_reversal._backward

    def backward(shadow: Shadow, start: int, stop: int) -> None:
        kept = {
            id(c): c.nbytes for c in [*shadow.space.copies.values(), *shadow.space.inplace_values.values()]
        }
        sizes.append(sum(kept.values()))
        real(shadow, start, stop)

    monkeypatch.setattr(partial_reversal, "_backward", backward)
    shadow = Shadow(tape.tracker, wp.float64)
    shadow.gradients_in_parts({loss: np.ones(1)})
    whole = sum(partial_reversal._saved_by(shadow, record) for record in shadow.records)
    assert len(sizes) > 2 and max(sizes) < whole / 2
    assert not shadow.space.copies and not shadow.space.inplace_values


def test_a_replay_that_is_dropped_is_freed_at_once() -> None:
    tape, loss, _ = simulation()
    shadow = Shadow(tape.tracker, wp.float64)
    shadow.gradients_in_parts({loss: np.ones(1)})
    gone = weakref.ref(shadow)
    gc.disable()
    try:
        del shadow
        assert gone() is None
    finally:
        gc.enable()


def test_an_interrupted_reversal_leaves_a_replay_that_starts_over() -> None:
    tape, loss, x0 = simulation()
    shadow = Shadow(tape.tracker, wp.float64)
    seeds, calls = {loss: np.ones(1)}, 0

    def pulse() -> None:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt

    shadow.pulse = pulse
    with pytest.raises(KeyboardInterrupt):
        shadow.gradients_in_parts(seeds)
    shadow.pulse = None
    right = Shadow(tape.tracker, wp.float64).forward(0).backward(seeds).gradient(x0)
    np.testing.assert_array_equal(shadow.reset().forward(0).backward(seeds).gradient(x0), right)
    np.testing.assert_array_equal(shadow.reset().gradients_in_parts(seeds).gradient(x0), right)


def test_tapes_that_save_little_are_reversed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, _, _ = simulation()
    monkeypatch.setattr(partial_reversal, "LEAST_SAVED", 1 << 30)
    assert PartialReversal.of(Shadow(tape.tracker, wp.float64)) is None


@pytest.mark.parametrize("count", [1, 2, 7, 100, 3000])
@pytest.mark.parametrize("state", [1, 16, 1000])
def test_a_division_covers_all_records_in_three_runs(count: int, state: int) -> None:
    blocks = _blocks([16] * count, state)
    edges = [0, *(block[-1] for block in blocks)]
    assert edges[-1] == count and [block[0] for block in blocks] == edges[:-1]
    again = sum(stop - block[0] for block in blocks for _, stop in pairwise(block))
    parts = sum(len(block) - 1 for block in blocks)
    assert blocks[-1][0] + again <= partial_reversal.MOST_RUNS * count + parts  # whole launches
    largest = max(stop - start for block in blocks for start, stop in pairwise(block))
    if count >= 7:
        assert (len(blocks) - 1) * state + 16 * largest <= 16 * count / 2


def test_an_input_that_is_set_again_later_comes_back() -> None:
    """No launch writes `k`: memory keeps the input until other values are set in the middle."""
    tape, loss, _ = simulation()
    (k,) = {r.args[2] for r in tape.tracker.records if r.name == "swing"}
    shadow = Shadow(tape.tracker)
    shadow.set(k, np.full(N, 0.7))
    right = shadow.forward(0).values(loss)
    shadow.forward(0, 5)
    shadow.set(k, np.full(N, 0.1))
    assert shadow.forward(5).values(loss) != right
    np.testing.assert_array_equal(shadow.forward(0).values(loss), right)
    np.testing.assert_array_equal(shadow.reset().values(k), k.numpy())
