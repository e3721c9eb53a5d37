"""A rule that is interrupted, out of time or broken keeps its findings, and the coverage says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._progress import OutOfTime, Progress
from tapedebug.diagnose import registry
from tapedebug.diagnose.rule import Rule
from tapedebug.diagnose.rules.accumulated import Accumulated
from tapedebug.diagnose.rules.nonfinite import Nonfinite
from tapedebug.diagnose.so_far import INTERRUPTED
from tapedebug.trace import Finding, Trace
from tests.autograd import kernels as k

pytestmark = pytest.mark.unoptimized


@wp.kernel
def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def inputs() -> tuple[Any, Any, Any]:
    """Two inputs and a loss."""
    return k.vector([1.0, 2.0, 3.0]), k.vector([4.0, 5.0, 6.0]), k.vector([0.0])


def overwritten() -> wp.Tape:
    (x, z, loss), y, u = inputs(), k.vector(np.zeros(3)), k.vector(np.zeros(3))
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(k.square, 3, [x], [y])
        wp.launch(k.square, 3, [z], [u])
        wp.launch(twice, 3, [y], [x])
        wp.copy(z, y)
        wp.launch(k.total, 3, [y, loss])
        wp.launch(k.total, 3, [u, loss])
    tape.backward(loss)
    return tape


def disconnected() -> wp.Tape:
    (x, z, loss), y, u = inputs(), wp.zeros(3, dtype=float), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(k.square, 3, [x], [y])
        wp.launch(twice, 3, [z], [u])
        wp.launch(k.total, 3, [y, loss])
        wp.launch(k.total, 3, [u, loss])
    tape.backward(loss)
    return tape


def stale() -> wp.Tape:
    (x, z, loss), y, u = inputs(), k.vector(np.zeros(3)), k.vector(np.zeros(3))
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(k.square, 3, [x], [y])
        wp.launch(k.square, 3, [z], [u])
        wp.launch(k.total, 3, [y, loss])
        wp.launch(k.total, 3, [u, loss])
    x.fill_(7.0)
    z.fill_(8.0)
    tape.backward(loss)
    return tape


def launched_twice() -> wp.Tape:
    (x, z, loss), y, u = inputs(), k.vector(np.zeros(3)), k.vector(np.zeros(3))
    with wp.Tape() as tape:
        wp.launch(k.square, 3, [x], [y])
        wp.launch(twice, 3, [z], [u])
        wp.launch(k.total, 3, [y, loss])
        wp.launch(k.total, 3, [y, loss])
        wp.launch(k.total, 3, [u, loss])
        wp.launch(k.total, 3, [u, loss])
    tape.backward(loss)
    return tape


PROGRAMS = {
    "overwrite": overwritten,
    "disconnected": disconnected,
    "stale-value": stale,
    "duplicate-launch": launched_twice,
}


@pytest.fixture
def after_the_first(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, BaseException], None]:
    """Raises an error at the first step of an experiment after the first finding of a rule."""

    def set_up(code: str, error: BaseException) -> None:
        armed = False
        pulse, checked = Progress.pulse, registry._checked

        def found(rule: Rule, finding: Finding) -> Finding:
            nonlocal armed
            armed = armed or rule.code == code
            return checked(rule, finding)

        def step(progress: Progress) -> None:
            nonlocal armed
            if armed:
                armed = False
                raise error
            pulse(progress)

        monkeypatch.setattr(registry, "_checked", found)
        monkeypatch.setattr(Progress, "pulse", step)

    return set_up


@pytest.mark.parametrize("code", PROGRAMS)
def test_the_programs_have_several_findings_of_a_rule(code: str) -> None:
    assert len(wp.diagnose(PROGRAMS[code]()).by_rule(code)) > 1


@pytest.mark.parametrize("code", PROGRAMS)
def test_an_interrupt_keeps_the_first_finding(
    code: str, after_the_first: Callable[[str, BaseException], None]
) -> None:
    tape = PROGRAMS[code]()
    seen: list[Trace] = []
    after_the_first(code, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        wp.diagnose(tape, so_far=seen.append)
    last = seen[-1]
    assert [finding.rule for finding in last.findings].count(code) == 1
    assert last.coverage.partial
    assert f"{code} was cut short after 1 finding: interrupted" in last.coverage.notes
    (left,) = [note for note in last.coverage.notes if note.startswith(INTERRUPTED)]
    assert code not in left and "race" in left and left.endswith("accumulated, stale-gradient")


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_time_limit_keeps_the_first_finding(
    code: str, after_the_first: Callable[[str, BaseException], None]
) -> None:
    tape = PROGRAMS[code]()
    after_the_first(code, OutOfTime("time was up"))
    found = wp.diagnose(tape)
    assert len(found.by_rule(code)) == 1
    assert found.coverage.partial
    assert f"{code} was cut short after 1 finding: time was up" in found.coverage.notes
    assert code not in found.rules and "wrong-adjoint" in found.rules


def test_an_error_in_a_rule_keeps_its_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rule: Nonfinite, context: Any) -> Any:
        yield Finding(rule="nonfinite", severity="info", message="One.")
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Nonfinite, "check", broken)
    found = wp.diagnose(disconnected())
    assert [finding.message for finding in found.by_rule("nonfinite")] == ["One."]
    assert (
        "nonfinite was cut short after 1 finding: an error in tapedebug (ZeroDivisionError: division by "
        "zero); please report it"
    ) in found.coverage.notes


def test_a_rule_may_return_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(rule="nonfinite", severity="info", message="One.")
    monkeypatch.setattr(Nonfinite, "check", lambda rule, context: [finding])
    found = wp.diagnose(disconnected())
    assert [finding.message for finding in found.by_rule("nonfinite")] == ["One."]
    assert "nonfinite" in found.rules


def test_a_rule_about_several_tapes_keeps_its_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(rule: Accumulated, contexts: Any) -> Any:
        yield contexts[1], Finding(rule="accumulated", severity="info", message="One.")
        raise KeyboardInterrupt

    monkeypatch.setattr(Accumulated, "check", interrupted)
    seen: dict[str, Trace] = {}
    with pytest.raises(KeyboardInterrupt):
        wp.diagnose([disconnected(), disconnected()], so_far=lambda t: seen.update({t.recording: t}))
    first, second = seen.values()
    assert [finding.message for finding in second.findings if finding.rule == "accumulated"] == ["One."]
    assert "accumulated was cut short after 1 finding: interrupted" in first.coverage.notes
    assert f"{INTERRUPTED}stale-gradient, truncated, not-reversed" in first.coverage.notes
