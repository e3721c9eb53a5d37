"""`Diagnosis.timings`: each step of a diagnosis with its estimated and its measured time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.diagnose import diagnose
from tapedebug.diagnose.formatting import format_timings
from tapedebug.diagnose.registry import RULES
from tapedebug.diagnose.rule import CrossTapeRule
from tapedebug.diagnose.rules.unused import Unused
from tapedebug.diagnose.timings import PER_OPERATION, TWIN, Cost, StepTimer, estimated, seconds_per_run
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
    assert all(timing.estimate is not None for timing in found.timings)
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


def launches(*seconds: float, backward: float | None = None) -> Trace:
    """A trace of launches of one kernel that took some seconds."""
    trace: Trace = recorded()[0].trace()
    one = trace.launches[0]
    trace.launches = [replace(one, seconds=each, backward_seconds=backward) for each in seconds]
    return trace


@pytest.mark.parametrize("first", [1e-3, 7.0])
@pytest.mark.parametrize("others", [0, 1, 2, 9])
def test_the_compilation_in_a_first_launch_is_no_part_of_a_run(first: float, others: int) -> None:
    found = seconds_per_run(launches(first, *[1e-3] * others, backward=1e-3))
    assert found == pytest.approx(TWIN * 1e-3 * (others + 1), rel=0.2)


def test_a_launch_without_an_adjoint_counts_as_it_was_measured() -> None:
    found = seconds_per_run(launches(0.5))
    assert found == pytest.approx(TWIN * 0.5, rel=0.01)


@wp.kernel
def shift_down(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i + 1]


@wp.kernel
def grow(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _ in range(n):
        s = s * s
    y[i] = s


@wp.func
def cubed(x: float) -> float:
    return x * x * x


@wp.func_grad(cubed)
def adj_cubed(x: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * x * x * adj_ret


@wp.kernel
def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cubed(x[i])


def estimates(launch: Callable[[Any, Any], None], rounds: int = 1, **options: bool) -> dict[str, float]:
    """The estimate of each step of the diagnosis of some launches on `x` and `y`."""
    tape = wp.Tape()
    x, y, loss = k.vector([0.1, 0.2, 0.3, 0.4]), k.vector([0.0] * 4), k.vector([0.0])
    with tape:
        for _ in range(rounds):
            launch(x, y)
        wp.launch(k.total, 4, [y, loss])
    tape.backward(loss)
    found = diagnose(tape, **options)
    return {timing.step: timing.estimate for timing in found.timings if timing.estimate is not None}


def plain(x: Any, y: Any) -> None:
    wp.launch(k.square, 4, [x], [y])


@pytest.mark.parametrize(
    ("rule", "launch"),
    [
        ("race", lambda x, y: (wp.launch(shift_down, 3, [x]), plain(x, y))),
        ("warp-limitation", lambda x, y: wp.launch(grow, 4, [x, 3], [y])),
        ("custom-grad", lambda x, y: wp.launch(cube, 4, [x], [y])),
    ],
)
def test_a_rule_that_measures_something_is_expected_to_take_time(rule: str, launch: Any) -> None:
    """Each is estimated to read the trace only, unless the tape has what the rule measures."""
    few = 2 * 2 * PER_OPERATION
    assert estimates(plain, as_warp=True)[rule] <= few
    assert estimates(launch, as_warp=True)[rule] > few


def test_warps_adjoints_take_no_time_in_programs_for_this_engine() -> None:
    found = estimates(lambda x, y: wp.launch(grow, 4, [x, 3], [y]))
    assert found["warp-limitation"] <= 2 * 2 * PER_OPERATION


def test_more_conflicts_take_longer() -> None:
    def shifts(n: int) -> Callable[[Any, Any], None]:
        def launch(x: Any, y: Any) -> None:
            big = wp.zeros(n + 1, dtype=float, requires_grad=True)
            wp.launch(shift_down, n, [big])
            plain(x, y)

        return launch

    assert estimates(shifts(2000))["race"] > 5 * estimates(shifts(50))["race"]


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
