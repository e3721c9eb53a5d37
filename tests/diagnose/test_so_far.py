"""A diagnosis reports what it has found while it runs, and Ctrl-C does not lose it."""

from __future__ import annotations

import pytest

import tapedebug as wp
from tapedebug.diagnose.attribute_causes import attribute_causes
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.diagnose.rules._disconnected_finding import NO_DATA_FLOW, DisconnectedFinding
from tapedebug.diagnose.so_far import INTERRUPTED, WAITING
from tapedebug.trace import Trace
from tests.wrong_tape import total, wrong_tape


def waiting(trace: Trace, start: str) -> list[str]:
    """The rules that the coverage of an unfinished diagnosis lists."""
    notes = [note.removeprefix(start) for note in trace.coverage.notes if note.startswith(start)]
    return notes[0].split(", ") if notes else []


def stopped(at: str) -> tuple[list[Trace], list[str]]:
    """The traces that a diagnosis reports which Ctrl-C ends at a step, and its steps."""
    seen: list[Trace] = []
    steps: list[str] = []

    def stop(step: str) -> None:
        steps.append(step)
        if step == at:
            raise KeyboardInterrupt

    tape, _, _ = wrong_tape()
    with pytest.raises(KeyboardInterrupt):
        wp.diagnose(tape, progress=stop, so_far=seen.append)
    return seen, steps


def test_the_verdict_comes_first_then_each_finding() -> None:
    seen: list[Trace] = []
    tape, _, _ = wrong_tape()
    found = wp.diagnose(tape, so_far=seen.append)
    seen = seen[1:]  # the first is of one of the two inputs
    assert found.verdict == "WRONG" and {trace.verdict for trace in seen} == {"WRONG"}
    assert seen[0].findings == [] and "nonfinite" in waiting(seen[0], WAITING)
    assert seen[0].checks and all(trace.coverage.partial for trace in seen)
    left = [len(waiting(trace, WAITING)) for trace in seen]
    assert left == sorted(left, reverse=True) and left[-1] == 0 < left[0]
    first = next(trace for trace in seen if trace.findings)
    assert waiting(first, WAITING), "the first finding comes before the last rule has run"
    assert [(each.rule, each.severity) for each in seen[-1].findings] == [
        (each.rule, each.severity) for each in found.findings
    ]
    # What was reported is a copy: the diagnosis goes on without changing it.
    assert not found.coverage.partial and not waiting(found.trace, WAITING)
    assert [each.id for each in seen[-1].findings] == list(range(len(seen[-1].findings)))


def test_ctrl_c_keeps_the_verdict_with_an_error_that_has_its_numbers() -> None:
    seen, steps = stopped("looking for custom-grad")
    assert steps[-1] == "looking for custom-grad"
    last = seen[-1]
    assert last.verdict == "WRONG" and last.coverage.partial
    assert "nonfinite" not in waiting(last, INTERRUPTED) and "overwrite" in waiting(last, INTERRUPTED)
    (error,) = [each for each in last.findings if each.severity == "error"]
    assert "the diagnosis was interrupted before its cause was found: at " in error.message
    assert error.location is not None and error.fix


def test_ctrl_c_keeps_the_findings() -> None:
    seen, _ = stopped("looking for wrong-adjoint")
    assert waiting(seen[-1], INTERRUPTED) == ["wrong-adjoint", "accumulated", "stale-gradient"]
    assert [each.rule for each in seen[-1].findings] == [each.rule for each in seen[-2].findings] != []


def test_inputs_are_reported_before_there_is_a_verdict() -> None:
    seen: list[Trace] = []
    x, v = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(2))
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
        wp.launch(total, dim=2, inputs=[v], outputs=[loss])
    tape.backward(loss)
    found = wp.diagnose(tape, so_far=seen.append)
    first = seen[0]
    assert (first.verdict, first.coverage.partial) == ("NOT CHECKED", True)
    assert [(check.input, check.verdict) for check in first.checks] == [("x", "AGREE")]
    assert first.coverage.summary == "the gradients of 1 of 2 inputs were compared"
    assert seen[1].verdict == "AGREE" and len(seen[1].checks) == 2
    assert found.verdict == "AGREE" and found.coverage.summary != first.coverage.summary


def test_before_the_verdict_there_is_nothing_to_keep() -> None:
    seen, _ = stopped("comparing the gradient with differences of the loss")
    assert seen == []


def test_a_finding_is_attributed_once_however_often_it_is_reported() -> None:
    cause = RuleFinding(rule="unused", severity="warning", message="Swapped.", inputs=["x"])
    finding = DisconnectedFinding(
        rule="disconnected", severity="warning", message="Cut.", kind=NO_DATA_FLOW, inputs=["x"]
    )
    for _ in range(2):
        attribute_causes([cause, finding])
    assert (finding.severity, finding.message) == ("info", "Cut. See unused for the reason.")
