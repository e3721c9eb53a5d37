"""Rule `stagnation`: additions that rounding loses, told apart from rounding that does not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose.rules import stagnation
from tapedebug.runtime.launch.call_list import CallList
from tapedebug.trace import Finding


@wp.kernel
def step(x: wp.array(dtype=float), v: wp.array(dtype=float), dt: float):
    i = wp.tid()
    x[i] = x[i] + dt * v[i]


@wp.kernel
def step_to(x: wp.array(dtype=float), v: wp.array(dtype=float), dt: float, x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = x[i] + dt * v[i]


@wp.kernel
def miss(x: wp.array(dtype=float), goal: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - goal[i]) * (x[i] - goal[i]))


@wp.kernel
def add_up(x: wp.array(dtype=float), total: wp.array(dtype=wp.float16)):
    wp.atomic_add(total, 0, wp.float16(x[wp.tid()]))


@wp.kernel
def square(total: wp.array(dtype=wp.float16), loss: wp.array(dtype=float)):
    loss[0] = wp.float32(total[0]) * wp.float32(total[0])


def moved(origin: float, dt: float = 0.01, rounds: int = 40, *, buffers: bool = False) -> Any:
    """A tape that moves two points from `origin`, in place or from buffer to buffer."""
    x = wp.array([origin, origin + 5.0], dtype=float, requires_grad=True)
    v = wp.array([1.2, 0.9], dtype=float, requires_grad=True)
    goal = wp.array([origin + 2.0, origin + 7.0], dtype=float)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(rounds):
            if buffers:
                x_next = wp.zeros(2, dtype=float, requires_grad=True)
                wp.launch(step_to, dim=2, inputs=[x, v, dt], outputs=[x_next])
                x = x_next
            else:
                wp.launch(step, dim=2, inputs=[x, v, dt])
        wp.launch(miss, dim=2, inputs=[x, goal], outputs=[loss])
    tape.backward(loss)
    return tape


def messages(tape: Any) -> list[Finding]:
    return wp.diagnose(tape, progress=False).by_rule("stagnation")


@pytest.mark.parametrize("buffers", [False, True])
def test_steps_that_are_lost_far_from_the_origin(buffers: bool) -> None:
    [finding] = messages(moved(443_000.0, buffers=buffers))
    assert finding.severity == "warning"
    assert len(finding.launches) == 40
    evidence = finding.evidence
    assert (evidence["dtype"], evidence["spacing"], evidence["added"]) == ("float32", 0.03125, 0.0)
    assert evidence["exact"] == pytest.approx(0.48, rel=1e-6)
    assert evidence["short"] == 2
    assert evidence["loss"] == 8.0
    right = (2.0 - 0.48) ** 2 + (2.0 - 0.36) ** 2
    assert evidence["loss_if_kept"] == pytest.approx(right, abs=0.1)  # to the distance of two numbers
    assert evidence["loss_moves"] == 0.0
    assert evidence["loss_moves_in_float64"] == pytest.approx(-0.0264, abs=3e-4)
    assert (
        "In 40 launches an element should change by 0.48, and changes by 0; 2 of 2 are short."
        in finding.message
    )
    assert (
        "displacing v by 1% changes the loss by -0.0264 in float64, and by 0 in the program"
        in finding.message
    )
    assert finding.fix.startswith("give x the dtype wp.float64, or add up the changes") or buffers


@pytest.mark.parametrize(
    ("origin", "dt"),
    [(0.0, 0.01), (443.0, 0.01), (443_000.0, 1.0)],
    ids=["at the origin", "near it", "by large steps"],
)
def test_steps_that_count_are_none_of_it(origin: float, dt: float) -> None:
    assert messages(moved(origin, dt)) == []


def test_lost_steps_that_the_loss_does_not_depend_on_are_none_of_it() -> None:
    assert messages(moved(443_000.0, dt=1e-9)) == []


@pytest.mark.parametrize(("count", "found"), [(1000, False), (6000, True)])
def test_a_sum_of_halves_stops(count: int, found: bool) -> None:
    x = wp.array(np.full(count, 1.0), dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=wp.float16, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(add_up, dim=count, inputs=[x], outputs=[total])
        wp.launch(square, dim=1, inputs=[total], outputs=[loss])
    tape.backward(loss)
    findings = messages(tape)
    assert len(findings) == found
    for finding in findings:
        assert (finding.evidence["added"], finding.evidence["exact"]) == (2048.0, 6000.0)
        assert finding.arrays == ["total", "x"]
        assert finding.fix.startswith("give total the dtype float, or")


def test_only_the_launches_that_are_measured_run_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    additions, run = stagnation._additions, CallList.run
    measured, ran = [], []

    def noted(*args: Any) -> Any:
        measured.append(args[0].index)
        with monkeypatch.context() as patch:
            patch.setattr(
                CallList, "run", lambda self, a, b, **k: (ran.append(range(a, b)), run(self, a, b, **k))[1]
            )
            return additions(*args)

    monkeypatch.setattr(stagnation, "_additions", noted)
    assert messages(moved(443_000.0))
    assert len(measured) > 40
    assert ran == [range(k, k + 1) for k in measured for _ in range(2)]  # in float32, then in float64
