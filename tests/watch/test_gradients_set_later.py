"""Gradients that arrays get or lose between the recording of a tape of Warp and its reverse pass."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as td

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


def recorded(x_grad=True, y_grad=True):
    """A tape of `loss = sum(x²)`, and its arrays, before the reverse pass."""
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=x_grad)
    y = wp.zeros(3, dtype=float, requires_grad=y_grad)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
    return tape, x, y, loss


def message(session):
    (tape,) = session.tapes
    found = td.diagnose(tape, progress=False)
    loud = [(item.rule, item.arrays) for item in found.findings if item.severity != "info"]
    return found.verdict, loud, [note for note in found.coverage.notes if "requires_grad" in note]


@pytest.mark.parametrize("late", ["x", "y"])
def test_warp_computes_a_gradient_that_is_asked_for_after_the_launches(late):
    with td.watch_warp() as session:
        tape, x, y, loss = recorded(x_grad=late != "x", y_grad=late != "y")
        (x if late == "x" else y).requires_grad = True
        tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 4.0, 6.0]
    verdict, loud, (note,) = message(session)
    assert (verdict, loud) == ("AGREE", [])
    assert f"requires_grad of {late} was set to True at" in note
    assert "after the tape recorded operation 0 (square)" in note


def test_a_gradient_that_is_dropped_before_backward_ends_there():
    with td.watch_warp() as session:
        tape, x, y, loss = recorded()
        y.requires_grad = False
        tape.backward(loss)
    assert x.grad.numpy().tolist() == [0.0, 0.0, 0.0]
    verdict, loud, (note,) = message(session)
    assert (verdict, loud) == ("WRONG", [("disconnected", ["y", "x"])])
    assert "requires_grad of y was set to False at" in note


def test_the_gradient_of_an_input_that_is_dropped_before_backward_is_not_checked():
    with td.watch_warp() as session:
        tape, x, _, loss = recorded()
        x.requires_grad = False
        tape.backward(loss)
    assert x.grad is None
    verdict, loud, (note,) = message(session)
    assert (verdict, loud) == ("NOT CHECKED", [("disconnected", ["x"])])
    assert "requires_grad of x was set to False at" in note


def test_a_gradient_that_comes_with_a_seed_is_passed_on():
    with td.watch_warp() as session:
        tape, x, y, _ = recorded(y_grad=False)
        tape.backward(grads={y: wp.array([1.0, 1.0, 1.0], dtype=float)})
    assert x.grad.numpy().tolist() == [2.0, 4.0, 6.0]
    assert message(session)[:2] == ("AGREE", [])


def test_a_gradient_that_is_exchanged_before_backward_is_the_one_that_counts():
    with td.watch_warp() as session:
        tape, x, _, loss = recorded()
        x.grad = wp.zeros(3, dtype=float)
        tape.backward(loss)
        np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0, 6.0])
    assert message(session)[:2] == ("AGREE", [])


def test_a_struct_keeps_the_gradients_that_its_arrays_had_as_fields():
    with td.watch_warp() as session:
        old, then = programs.State(), programs.State()
        for state, asked in ((old, False), (then, True)):
            state.q, state.v = (wp.array([1.0, 2.0], dtype=float, requires_grad=asked) for _ in range(2))
            state.k = 2.0
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(programs.advance, 2, [old, then, 0.1])
            wp.launch(programs.total, 2, [then.q], [loss])
        old.q.requires_grad = True
        tape.backward(loss)
    assert not old.q.grad.numpy().any()
    assert message(session)[:2] == ("NOT CHECKED", [("disconnected", ["old.q", "old.v"])])
