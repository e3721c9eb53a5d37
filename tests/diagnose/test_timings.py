"""`Diagnosis.timings`: each step of a diagnosis with its estimated and its measured time."""

from __future__ import annotations

import time
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.diagnose import diagnose
from tapedebug.diagnose.formatting import format_timings
from tapedebug.diagnose.registry import RULES
from tapedebug.diagnose.rule import CrossTapeRule
from tapedebug.diagnose.rules.unused import Unused
from tapedebug.diagnose.timings import Cost, StepTimer, estimated, seconds_per_run
from tapedebug.trace import Timing, Trace
from tapedebug.trace.json_codec import trace_from_json
from tests.autograd import kernels as k

pytestmark = pytest.mark.unoptimized


def recorded() -> tuple[wp.Tape, Any]:
    """A tape of two launches, and its loss."""
    x, y, loss = k.vector([1.0, 2.0, 3.0]), k.vector([0.0] * 3), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 3, [x], [y])
        wp.launch(k.total, 3, [y, loss])
    tape.backward(loss)
    return tape, loss


def test_each_step_is_listed_once_and_the_times_add_up_to_the_diagnosis() -> None:
    diagnose(recorded()[0])  # compiles and imports, partly between the steps
    tape, _ = recorded()
    began = time.perf_counter()
    found = diagnose(tape)
    took = time.perf_counter() - began
    steps = [timing.step for timing in found.timings]
    assert steps[0] == "end-to-end check" and steps[1] == "summaries of values"
    codes = {rule.code for rule in RULES if not (isinstance(rule, CrossTapeRule) and rule.several_tapes)}
    assert codes <= set(steps) and len(set(steps)) == len(steps)
    assert all(timing.estimate is not None for timing in found.timings if timing.step in codes)
    assert all(timing.completed and timing.seconds >= 0 for timing in found.timings)
    assert 0.3 * took < sum(timing.seconds for timing in found.timings) <= took
    assert trace_from_json(found.trace.to_json()).timings == found.timings


def test_several_tapes_list_the_steps_of_each() -> None:
    found = diagnose([recorded()[0], recorded()[0]])
    assert [timing.step for timing in found.timings].count("overwrite") == 2
    assert [timing.step for timing in found.timings].count("end-to-end check") == 2


def test_a_step_inside_another_is_not_counted_twice() -> None:
    timings: list[Timing] = []
    timer = StepTimer(timings)
    for _ in range(2):
        with timer.measure("outer", 1.0), timer.measure("inner"):
            time.sleep(0.02)
    outer, inner = timings
    assert (outer.step, outer.estimate, inner.step, inner.estimate) == ("outer", 2.0, "inner", None)
    assert outer.seconds < 0.02 < 0.04 <= inner.seconds


def test_a_step_that_an_error_ends_is_not_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Unused, context: object) -> None:
        raise wp.TapedebugError("no")

    monkeypatch.setattr(Unused, "check", fail)
    found = {timing.step: timing for timing in diagnose(recorded()[0]).timings}
    assert [step for step, timing in found.items() if not timing.completed] == ["unused"]


def test_estimates_grow_with_the_tape_and_with_a_run() -> None:
    trace: Trace = recorded()[0].trace()
    run = seconds_per_run(trace)
    assert run is not None and 0 < run < 10
    few = estimated(trace, Cost(), None)
    assert few is not None and 0 < few < 1e-3
    assert estimated(trace, Cost(3.0), None) is None
    assert estimated(trace, Cost(3.0), 2.0) == pytest.approx(6.0 + few)
    observed = estimated(trace, Cost(3.0, 1.0), 2.0)
    assert observed is not None and observed > 6.0 + few


def test_slow_steps_are_printed_by_themselves_and_the_others_together() -> None:
    timings = [
        Timing(step="unused", seconds=0.001),
        Timing(step="overwrite", estimate=0.5, seconds=1.25),
        Timing(step="race", seconds=0.02, completed=False),
        Timing(step="seed", seconds=0.004),
    ]
    assert format_timings(timings) == [
        "  time: overwrite: 1.25 s (estimated 0.50 s)",
        "  time: race: 0.02 s, not completed",
        "  time: 2 other steps: 0.01 s",
    ]
    assert format_timings([]) == []
