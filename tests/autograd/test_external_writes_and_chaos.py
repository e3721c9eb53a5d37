"""Two things that a check end to end must not confuse with a wrong adjoint, or miss."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end


@wp.kernel
def squares(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


@wp.kernel
def logistic(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.9 * x[i] * (1.0 - x[i])


def recorded(mode):
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(squares, 3, inputs=[x, loss])
    return tape, x, loss


@pytest.mark.parametrize("mode", ["ignore", "warn", "preserve"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_between_recording_and_backward_is_what_the_reverse_pass_saw(mode, when):
    tape, x, loss = recorded(mode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wp.OverwriteWarning)
        if when == "before":
            x.assign(np.full(3, 5.0))  # the late write
        tape.backward(loss)
        x.assign(np.full(3, 7.0))  # an optimiser's step: nothing that the gradient saw
    consumed = x.grad.numpy()
    found = end_to_end(tape)
    np.testing.assert_allclose(found.inputs[0].consumed, consumed)
    np.testing.assert_allclose(found.inputs[0].reference, [2.0, 4.0, 6.0])
    notes = [note for note in found.coverage.notes if note.startswith("written after")]
    if mode == "preserve" or when == "after":
        assert found.verdict == "AGREE"
        assert notes == []
        return
    line = next(
        n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "# the late write" in text
    )
    assert found.verdict == "WRONG"
    assert notes == [f"written after the tape recorded, before backward: x (at {__file__}:{line})"]


def test_a_replay_has_the_late_write_only_while_it_runs_backward():
    tape, x, loss = recorded("ignore")
    x.assign(np.full(3, 5.0))
    shadow = tape.replay()
    shadow.backward({loss: np.ones(1)}, consume="current")
    np.testing.assert_array_equal(shadow.gradient(x), [10.0, 10.0, 10.0])
    np.testing.assert_array_equal(shadow.values(x), [1.0, 2.0, 3.0])
    shadow.backward({loss: np.ones(1)}, consume="versions")
    np.testing.assert_array_equal(shadow.gradient(x), [2.0, 4.0, 6.0])


def chaos(steps):
    x = wp.array([0.3, 0.41], dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        state = x
        for _ in range(steps):
            following = wp.zeros_like(x)
            wp.launch(logistic, 2, inputs=[state], outputs=[following])
            state = following
        wp.launch(squares, 2, inputs=[state, loss])
    return tape, loss


def test_a_chaotic_run_is_undecidable_where_rounding_has_taken_over():
    tape, loss = chaos(25)
    found = end_to_end(tape, loss)
    assert found.rel_error > 0.01  # far beyond any tolerance, and yet no mistake
    assert found.verdict == "UNDECIDABLE"


def test_a_wrong_adjoint_of_a_chaotic_run_is_still_wrong(monkeypatch):
    from tapedebug.runtime.launch.plan import KernelPlan

    right = KernelPlan.adjoint_run

    def wrong_in_float32(plan, replay, f64, *options):
        run = right(plan, replay, f64, *options)
        if f64 or plan.kernel is not logistic:
            return run
        return lambda lo, hi, where: run(lo + 1, hi, where)  # the first thread gets no derivative

    monkeypatch.setattr(KernelPlan, "adjoint_run", wrong_in_float32)
    tape, loss = chaos(25)
    assert end_to_end(tape, loss).verdict == "WRONG"
