"""Gradients that a program of Warp reads before the first tape that uses their arrays."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tapedebug as td
from tapedebug.watch import shared_history

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


def cloned(gradient):
    return wp.clone(gradient)


def listed(gradient):
    return wp.array(gradient.list(), dtype=float)


def through_numpy(gradient):
    return wp.array(np.array(gradient.numpy()), dtype=float)


def fit(fetch, early):
    """Three steps of descent; `early` fetches each gradient before the pass that computes it."""
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    for _ in range(3):
        fetched = fetch(x.grad) if early else None
        y, loss = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
        x.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)
        if not early:
            fetched = fetch(x.grad)
        wp.launch(programs.descend, dim=3, inputs=[x, fetched])
    return x


@pytest.mark.parametrize("fetch", [cloned, listed, through_numpy])
def test_a_gradient_that_is_fetched_before_its_pass_is_stale_from_the_first_step_on(fetch):
    with td.watch_warp() as session:
        fit(fetch, early=True)
    found = td.diagnose(session.tapes, progress=False)
    assert found.verdict == "WRONG"
    loud = [(item.rule, item.severity) for item in found.findings if item.severity != "info"]
    assert loud == [("stale-gradient", "error")]  # one line, three steps


def test_one_that_is_fetched_after_its_pass_is_right():
    with td.watch_warp() as session:
        fit(cloned, early=False)
    for tape in session.tapes:
        found = td.diagnose(tape, progress=False)
        assert (found.verdict, [f for f in found.findings if f.severity != "info"]) == ("AGREE", [])


def test_reads_of_arrays_that_are_no_gradients_or_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(shared_history, "EARLY", 4)
    with td.watch_warp() as session:
        kept = [wp.zeros(3, dtype=float) for _ in range(3)]
        for array in kept:
            array.numpy()
        for _ in range(20):
            wp.zeros(3, dtype=float).numpy()
        gc.collect()
        known = session._recording.history._early
        assert len(known) <= 4
        assert [read.array() for read in list(known.values())[:3]] == kept


@pytest.mark.parametrize("when", ["before the tape", "before backward", "zeroed after it", "the seed"])
def test_a_gradient_that_is_filled_before_a_pass_adds_to_it(when):
    with td.watch_warp() as session:
        x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
        y, loss = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
        if when != "before backward" and when != "the seed":
            x.grad.fill_(1.0)
        if when == "zeroed after it":
            x.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        if when == "before backward":
            x.grad.fill_(1.0)
        if when == "the seed":
            loss.grad.fill_(1.0)
            tape.backward()
        else:
            tape.backward(loss)
        x.grad.numpy()
    found = td.diagnose(session.tapes, progress=False)
    loud = [item for item in found.findings if item.severity != "info"]
    assert found.verdict == "AGREE"
    if when in ("zeroed after it", "the seed"):
        assert loud == []
        return
    (finding,) = loud
    assert (finding.rule, finding.severity, finding.arrays) == ("accumulated", "warning", ["x"])
    assert "was filled with a number other than 0 at test_early_reads.py:" in finding.message
    assert finding.message.endswith(
        "The pass alone gives a norm of 7.48; with what it was filled with it was 9.11, 1.22 times that."
    )
