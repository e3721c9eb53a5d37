"""The newest diagnosis of a tape, which may be deferred until somebody asks for it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.diagnose import Diagnosis, diagnose
from tapedebug.diagnose.latest import defer_diagnosis, latest_diagnosis
from tests.autograd import kernels as k

pytestmark = pytest.mark.unoptimized


class Deferred:
    """A tape whose diagnosis is deferred, and the number of times that it was diagnosed."""

    def __init__(self) -> None:
        self.count = 0
        x, self.loss = k.vector([1.0, 2.0]), k.vector([0.0])
        with wp.Tape() as self.tape:
            wp.launch(k.total, 2, [x, self.loss])
        self.tape.backward(self.loss)
        self.x = x

        def diagnosed(tape: Any) -> Diagnosis:
            self.count += 1
            return diagnose(tape)

        defer_diagnosis(self.tape, diagnosed)


def test_a_deferred_diagnosis_runs_once_when_it_is_asked_for() -> None:
    case = Deferred()
    assert case.count == 0
    found = latest_diagnosis(case.tape, same_passes=True)
    assert found is not None and found.verdict == "AGREE"
    assert latest_diagnosis(case.tape) is found and case.count == 1


def test_another_diagnosis_replaces_a_deferred_one() -> None:
    case = Deferred()
    found = diagnose(case.tape)
    assert latest_diagnosis(case.tape) is found and case.count == 0


@pytest.mark.parametrize("change", ["records", "reset", "backward"])
def test_a_tape_that_has_changed_has_no_deferred_diagnosis(change: str) -> None:
    case = Deferred()
    if change == "records":
        with case.tape:
            wp.launch(k.total, 2, [case.x, case.loss])
    elif change == "reset":
        case.tape.reset()
    else:
        case.tape.backward(case.loss)
    assert latest_diagnosis(case.tape) is None and case.count == 0


def test_a_new_deferred_diagnosis_hides_an_older_one() -> None:
    case = Deferred()
    old = latest_diagnosis(case.tape)
    new = diagnose(case.tape, inputs=[case.x])
    defer_diagnosis(case.tape, lambda tape: new)
    assert latest_diagnosis(case.tape) is new is not old


def test_a_deferred_diagnosis_keeps_no_tape_alive() -> None:
    with wp.Tape() as tape:
        wp.launch(k.total, 2, [k.vector([1.0, 2.0]), k.vector([0.0])])
    defer_diagnosis(tape, diagnose)
    gone = weakref.ref(tape)
    del tape
    gc.collect()
    assert gone() is None
