"""A gradient that has faded is measured by the one that the loop of tapes began with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp

N = 16


@wp.kernel
def misfit(x: wp.array(dtype=float), t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    third = 0.3333333 * x[i]
    r = (third + 1.0) - (0.3333333 * t[i] + 1.0)
    wp.atomic_add(loss, 0, r * r)


def tapes_at(*distances: float) -> list[wp.Tape]:
    t = np.random.default_rng(2).uniform(1.0, 2.0, N)
    target = wp.array(t, dtype=float)
    found = []
    for distance in distances:
        x = wp.array(t * (1.0 + distance), dtype=float, requires_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(misfit, N, [x, target], [loss])
        tape.backward(loss)
        found.append(tape)
    return found


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change of the gradient around the inputs is unknown, as near kinks."""
    monkeypatch.setattr("tapedebug.autograd.tapes.resolution._rate", lambda *given: 0.0)


@pytest.mark.usefixtures("unmeasured")
def test_a_gradient_that_has_faded_is_measured_by_the_one_that_the_loop_began_with() -> None:
    (alone,) = tapes_at(1e-6)
    assert wp.diagnose(alone).verdict == "UNDECIDABLE"
    diagnosis = wp.diagnose(tapes_at(1e-1, 1e-6))
    assert diagnosis.verdict == "AGREE", str(diagnosis)
    last = diagnosis.traces[1]
    assert "beside the gradient that the loop began with: x" in last.coverage.summary
    (note,) = [note for note in last.coverage.notes if note.startswith("x: float32 rounding puts it off by")]
    assert "of the gradient that" in note
    assert [check.verdict for check in last.checks] == ["AGREE"]


@pytest.mark.usefixtures("unmeasured")
def test_a_gradient_that_has_not_faded_enough_stays_undecided() -> None:
    diagnosis = wp.diagnose(tapes_at(2e-6, 1e-6))
    assert diagnosis.verdict == "UNDECIDABLE"
    assert "float32 rounding moves it by" in str(diagnosis).replace("\n  ", " ")


def test_one_that_grows_is_not_measured_by_the_first(monkeypatch: Any) -> None:
    monkeypatch.setattr("tapedebug.autograd.tapes.resolution._rate", lambda *given: 0.0)
    assert wp.diagnose(tapes_at(1e-6, 1e-1)).traces[0].verdict == "UNDECIDABLE"
