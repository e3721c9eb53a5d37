"""The history that all watched tapes share, on tapes of the reference engine: Warp is not needed."""

from __future__ import annotations

import gc

import pytest

import tapedebug as td
from tapedebug.operations import caller_place
from tapedebug.watch import shared_history
from tapedebug.watch.shared_history import SharedHistory, WatchedHistory
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import square, total


class SharedTape(Tape):
    def __init__(self, shared):
        super().__init__()
        self.history = WatchedHistory(shared, self)

    def begin(self):
        self.history.tape_begins()
        super().begin()


def one_pass(shared, x):
    """A tape of the sum of squares that has run backward."""
    y, loss = zeros(*x.shape), zeros(1)
    with SharedTape(shared) as tape:
        square(x, y)
        total(y, loss)
    tape.backward(loss)
    return tape


def fit(between, shared=None, passes=2):
    """Passes over tapes of their own; `between` runs after each with input, history and tapes."""
    shared, x = shared or SharedHistory(), array([1.0, 2.0])
    tapes = []
    for _ in range(passes):
        tapes.append(one_pass(shared, x))
        between(x, shared, tapes)
    return tapes


def noted_step(x, shared, tapes):
    """An optimizer whose read and write Warp's functions make, so that both are seen."""
    shared.note_gradient("read", x, "launch", caller_place(), x.grad)
    x.values[...] -= 0.25 * x.grad
    at = shared.note_write(x, "launch", caller_place())
    for tape in tapes:
        tape.note_outside(x, "launch", caller_place(), at)


def unseen_step(x, shared, tapes):
    shared.note_gradient("read", x, "numpy", caller_place(), x.grad)
    x.values[...] -= 0.25 * x.grad


def step_through_a_view(x, shared, tapes):
    if not hasattr(step_through_a_view, "view"):
        step_through_a_view.view = x.grad[:]
        shared.note_gradient("read", x, "numpy", caller_place(), x.grad, step_through_a_view.view)
    x.values[...] -= 0.25 * step_through_a_view.view


def step_and_zero(x, shared, tapes):
    noted_step(x, shared, tapes)
    x.grad[...] = 0
    shared.note_gradient("zero", x, "zero_", caller_place())


def step_and_momentum(x, shared, tapes):
    unseen_step(x, shared, tapes)
    x.grad[...] *= 0.5


def read(x, shared, tapes):
    shared.note_gradient("read", x, "numpy", caller_place(), x.grad)


def read_and_zero(x, shared, tapes):
    read(x, shared, tapes)
    x.grad[...] = 0
    shared.note_gradient("zero", x, "zero_", caller_place())


def nothing(x, shared, tapes):
    pass


def found(tapes):
    return [(item.severity, item.rule) for item in td.diagnose(tapes).findings]


CASES = {
    "noted step": (noted_step, [("error", "accumulated")]),
    "unseen step": (unseen_step, [("error", "accumulated")]),
    "step and zero": (step_and_zero, []),
    "step and momentum": (step_and_momentum, []),
    "batches": (read, [("info", "accumulated")]),
    "nothing": (nothing, []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_gradient_of_an_earlier_tape_is_judged_by_what_happened_in_between(case):
    between, expected = CASES[case]
    assert found(fit(between)) == expected


def test_the_finding_names_both_tapes_and_the_gradient_of_the_pass_alone():
    result = td.diagnose(fit(noted_step))
    (finding,) = result.findings
    assert "The gradient of x was not zero when backward ran at test_shared_history.py:" in finding.message
    assert "its norm was 4.47. x was updated since the pass before" in finding.message
    assert (
        "The pass alone gives a norm of 2.24; with the leftover gradient it was 6.71, 3 times that"
        in finding.message
    )
    assert (result.verdict, finding.call_site.function) == ("WRONG", "one_pass")


def test_a_view_of_the_gradient_reads_it_without_a_call():
    tapes = fit(step_through_a_view)
    assert found(tapes) == [("error", "accumulated")]
    events = td.trace.record(tapes[1]).events
    viewed = [
        event.numbers.get("viewed") for event in events if event.kind == "backward" and event.of != "tape"
    ]
    assert viewed == [None, 1.0]


@pytest.mark.parametrize("shares", [False, True])
def test_another_library_that_shares_a_gradient_reads_it_without_a_call(shares):
    shared, x = SharedHistory(), array([1.0, 2.0])
    if shares:
        shared.note_viewed(x)
    tapes = []
    for _ in range(2):
        tapes.append(one_pass(shared, x))
        x.values[...] -= 0.25 * x.grad
    assert found(tapes) == ([("error", "accumulated")] if shares else [])


def test_each_write_of_values_is_one_event():
    for step, count in ((noted_step, 2), (unseen_step, 1)):  # the last unseen step was not looked for
        for tape in fit(step):
            writes = [e for e in td.trace.record(tape).events if (e.kind, e.of) == ("write", "values")]
            assert len(writes) == count, step


def test_the_history_keeps_no_memory_alive_and_forgets_its_events():
    shared = SharedHistory()
    tapes = fit(noted_step, shared)
    assert len(shared._regions) == 1
    del tapes
    gc.collect()
    assert len(shared._regions) == 0


def test_the_first_tapes_of_a_long_loop_are_still_diagnosed(monkeypatch):
    monkeypatch.setattr(shared_history, "KEPT", 16)
    tapes = fit(noted_step, passes=40)
    assert tapes[0].history.dropped > 0
    assert found(tapes[:2]) == [("error", "accumulated")]
    assert found(tapes[-2:]) == [("error", "accumulated")]


def test_passes_on_both_sides_of_a_gap_are_not_compared(monkeypatch):
    monkeypatch.setattr(shared_history, "KEPT", 4)
    for passes in (9, 10, 11):
        assert found(fit(read_and_zero, passes=passes)) == []


def test_of_many_events_the_last_are_kept_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(shared_history, "KEPT", 4)
    tapes = fit(step_and_zero, passes=10)
    history = tapes[-1].history
    of_memory = [event for event in history.events() if event.region is not None]
    assert 4 <= len(of_memory) <= 8
    assert history.dropped % 2 == 0
    assert history.dropped > 0
    assert found(tapes[-2:]) == []
