"""Directions in which the inputs of slow tapes are displaced: jointly, and fewer than of fast ones."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._time_limit import OutOfTime
from tapedebug.autograd import end_to_end
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes import effort, input_check, joint_directions
from tapedebug.autograd.tapes import end_to_end as check
from tapedebug.autograd.tapes.directional import _largest
from tapedebug.autograd.tapes.effort import DirectionPlan, Effort, plan_directions
from tapedebug.autograd.tapes.joint_directions import JointDirections
from tests.autograd import kernels as k
from tests.autograd.test_entry_bisection import one_of_them

pytestmark = pytest.mark.unoptimized


def inputs(count: int) -> list[Any]:
    rng = np.random.default_rng(5)
    return [k.vector(rng.uniform(0.5, 1.5, 40)) for _ in range(count)]


def squares(arrays: list[Any], mode: str = "preserve", overwritten: int = -1) -> tuple[wp.Tape, Any]:
    """Record the sum of squares of arrays; one of them may be overwritten afterwards."""
    loss, other = k.vector([0.0]), k.vector(np.ones(40))
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        for number, x in enumerate(arrays):
            y = wp.zeros_like(x)
            wp.launch(k.square, 40, [x], [y])
            wp.launch(k.total, 40, [y, loss])
            if number == overwritten:
                wp.launch(k.identity, 40, [other], [x])
    return tape, loss


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Each evaluation of a loss in float64 adds an item."""
    counted: list[bool] = []
    plain = WholeTape.loss

    def loss(self: WholeTape, changes: Any = None, *, single: bool = False) -> float:
        counted.extend([True] * (not single))
        return plain(self, changes, single=single)

    monkeypatch.setattr(WholeTape, "loss", loss)
    return counted


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tape counts as too slow to displace each input by itself, however busy the machine is."""
    monkeypatch.setattr(effort, "PATIENCE", 0.0)
    monkeypatch.setattr(effort, "SLOWEST", float("inf"))
    monkeypatch.setattr(effort, "OVERDRAWN", float("inf"))


def test_inputs_of_a_slow_tape_are_displaced_together(losses: list[bool], slow: None) -> None:
    arrays = inputs(10)
    result = end_to_end(*squares(arrays), arrays)
    assert result.verdict == "AGREE"
    assert len(losses) < 40, "each input by itself takes 364"
    note = "of 10 inputs, 9 were displaced together in random directions, 1 one by one"
    assert result.coverage.notes == (note,)
    together = [check for check in result.inputs if check.probes[0].inputs == 9]
    assert [len(check.probes) for check in together] == [2] * 9
    assert "against finite differences (2 directions; most along a random direction of 9" in str(result)


@pytest.mark.parametrize(("kinks", "count"), [(True, 0), (False, 1)])
def test_two_inputs_beside_one_with_a_kink_are_displaced_one_by_one(
    kinks: bool, count: int, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    plain = JointDirections._displace

    def displace(self: JointDirections, group: Any, number: int) -> Any:
        groups.append(len(group))
        return plain(self, group, number)

    monkeypatch.setattr(JointDirections, "_displace", displace)
    monkeypatch.setattr(effort, "SAMPLE", 1)
    values = np.linspace(0.0 if kinks else 0.5, 1.0, 40)
    arrays = [k.vector(values), k.vector(np.linspace(0.5, 1.0, 40)), k.vector(np.linspace(0.5, 1.0, 40))]
    loss, tape = k.vector([0.0]), wp.Tape()
    with tape:
        for x in arrays:
            y = wp.zeros_like(x)
            wp.launch(k.absolute, 40, [x], [y])
            for _ in range(3 if x is arrays[0] else 1):
                wp.launch(k.total, 40, [y, loss])
    result = end_to_end(tape, loss, arrays)
    assert {check.verdict for check in result.inputs[1:]} == {"AGREE"}
    assert any(probe.verdict == "KINK" for probe in result.inputs[0].probes) is kinks
    assert len(set(groups)) == count


@wp.kernel
def bent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.abs(x[i]) + 2.0 * x[i]


@pytest.mark.parametrize("is_slow", [True, False])
def test_random_directions_of_an_input_with_a_kink_are_left_after_two_steps(
    is_slow: bool, request: pytest.FixtureRequest
) -> None:
    if is_slow:
        request.getfixturevalue("slow")
    ends = np.linspace(-1.0, -0.5, 20)  # the largest slope is that at 0
    arrays = [k.vector(np.append(np.full(20, start), ends)) for start in (0.0, -0.5, -0.5)]
    loss, tape = k.vector([0.0]), wp.Tape()
    with tape:
        for x in arrays:
            y = wp.zeros_like(x)
            wp.launch(bent, 40, [x], [y])
            for _ in range(30 if x is arrays[0] else 1):  # so it is displaced by itself
                wp.launch(k.total, 40, [y, loss])
    result = end_to_end(tape, loss, arrays)
    first = result.inputs[0]
    assert (first.verdict, first.probes[0].entry, first.probes[0].is_brief) == ("KINK", (0,), False)
    assert first.kink == pytest.approx((30.0, 90.0))
    random = [probe for probe in first.probes if probe.entry is None and probe.verdict == "KINK"]
    assert random and all(probe.is_brief is is_slow for probe in random)
    assert [check.verdict for check in result.inputs[1:]] == ["AGREE", "AGREE"]
    note = (
        f"random directions of {first.name} were left after two steps, which show a kink: the loss has a "
        "proven one at an entry"
    )
    assert (note in result.coverage.notes) is is_slow


def test_inputs_for_which_there_is_no_time_are_told(slow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = inputs(4)
    plan, late = plan_directions, []

    def hasty(*args: Any) -> Any:
        return replace(plan(*args), deadline=0.0)

    def checkpoint() -> None:
        if late:
            raise OutOfTime("time was up")

    monkeypatch.setattr(check, "plan_directions", hasty)
    result = end_to_end(*squares(arrays), arrays, checkpoint=checkpoint, each=late.append)
    assert result.verdict == "AGREE"
    assert not result
    assert len(result.inputs) == 1
    assert len(result.left_out) == 3
    assert f"not compared, as time was up: {', '.join(result.left_out)}" in result.coverage.notes


def test_a_direction_takes_more_runs_if_parts_compute_in_float32() -> None:
    assert Effort.within(36, 3, effort.FITTED_RUNS) == Effort(1, 1)
    assert Effort.within(36, 3) == Effort(3, 3)


def test_inputs_of_a_fast_tape_are_not(losses: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "PATIENCE", 1e9)
    arrays = inputs(10)
    result = end_to_end(*squares(arrays), arrays)
    assert result.coverage.notes == ()
    assert [len(check.probes) for check in result.inputs] == [9] * 10
    assert len(losses) > 300


def test_a_wrong_input_is_displaced_by_itself_too(slow: None) -> None:
    arrays = inputs(6)
    result = end_to_end(*squares(arrays, "ignore", overwritten=3), arrays)
    assert [check.verdict == "WRONG" for check in result.inputs] == [number == 3 for number in range(6)]
    assert any(probe.entry is not None for probe in result.inputs[3].probes)
    assert result.coverage.summary.endswith(
        "off by 27 %: values that the adjoint needs were overwritten before the reverse pass"
    )


@pytest.mark.parametrize("error", [1e-2, 1e-4])
def test_one_wrong_entry_of_one_of_many_inputs_is_found(error: float, slow: None) -> None:
    arrays = inputs(8)
    loss = k.vector([0.0])
    with wp.Tape() as tape:
        for number, x in enumerate(arrays):
            factor = 1.0 - error if number == 5 else 1.0
            wp.launch(one_of_them, 40, inputs=[x, 11, factor, loss])
    result = end_to_end(tape, loss, arrays)
    assert [check.verdict == "WRONG" for check in result.inputs] == [number == 5 for number in range(8)]
    assert "differences of the loss at x#6[11]" in result.coverage.summary


def test_a_single_input_of_a_slow_tape_gets_fewer_directions(slow: None) -> None:
    arrays = inputs(1)
    result = end_to_end(*squares(arrays), arrays)
    assert (result.verdict, len(result.inputs[0].probes)) == ("AGREE", 3)
    assert result.coverage.notes == (
        "each gradient was compared in 3 directions only, as each takes 6 runs of the tape",
    )


@pytest.mark.parametrize(
    ("seconds", "count", "expected"),
    [
        (1e-4, 3, (0, 15)),  # 27 directions of 0.6 ms
        (5e-3, 1, (0, 15)),  # at most 15 of 30 ms
        (1e-2, 1, (0, 8)),  # 8 of 60 ms fit into half a second
        (1.0, 1, (0, 3)),  # 20 runs are affordable
        (5e-3, 12, (3, 4)),  # 108 of 30 ms
        (1.0, 12, (2, 2)),
        (1e-4, 24, (3, 15)),
    ],
)
def test_the_plan_follows_from_the_time_of_a_run(
    seconds: float, count: int, expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def loss() -> float:
        now[0] += seconds
        return 0.0

    monkeypatch.setattr(effort._time_limit, "now", lambda: now[0])
    monkeypatch.setattr(time, "process_time", lambda: 10 * now[0])
    program: Any = SimpleNamespace(
        loss=loss, base_seconds=None, is_narrow=False, inputs=[SimpleNamespace(size=100)] * count
    )
    plan = plan_directions(program, 3, 30.0)
    assert (plan.together, plan.alone.entries + plan.alone.random) == expected


def test_directions_of_an_input() -> None:
    assert [Effort(12, 3).of(size) for size in (1, 2, 12, 13)] == [1, 5, 15, 9]


def test_the_largest_entries_are_the_first_of_equal_ones() -> None:
    gradient = np.array([1.0, -3.0, np.nan, 2.0, 3.0, 2.0, 2.0])
    for count in range(9):
        order = np.argsort(-np.abs(np.nan_to_num(gradient, nan=np.inf)), kind="stable")[:count]
        assert sorted(_largest(gradient, count).tolist()) == sorted(order.tolist())


def test_no_input_of_the_slowest_tapes_is_displaced_by_itself(
    slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "SLOWEST", 0.0)
    arrays = inputs(10)
    result = end_to_end(*squares(arrays), arrays)
    assert result.verdict == "AGREE"
    note = "of 10 inputs, 10 were displaced together in random directions, 0 one by one"
    assert result.coverage.notes == (note,)
    wrong = end_to_end(*squares(arrays, "ignore", overwritten=3), arrays)
    assert [item.verdict for item in wrong.inputs].index("WRONG") == 3


def test_the_coverage_says_how_often_the_effect_of_rounding_was_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = inputs(2)
    assert end_to_end(*squares(arrays), arrays).coverage.notes == ()
    monkeypatch.setattr(check, "SLOW", 0.0)
    note = (
        "the effect of float32 rounding on the gradient was sampled once, and multiplied by 2: each sample "
        "takes a reverse pass"
    )
    assert end_to_end(*squares(arrays), arrays).coverage.notes == (note,)
    monkeypatch.setattr(check, "SENSITIVE", 0.0)  # where rounding matters, nothing is saved
    assert end_to_end(*squares(arrays), arrays).coverage.notes == ()


def test_the_first_joint_direction_is_a_result_when_time_is_up(slow: None) -> None:
    arrays = inputs(12)
    tape, loss = squares(arrays)
    directions: list[int] = []
    displace = JointDirections._displace

    def counted(self: JointDirections, group: Any, number: int) -> Any:
        found = displace(self, group, number)
        directions.append(number)
        return found

    def expire() -> None:
        if directions:
            raise OutOfTime("time was up")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JointDirections, "_displace", counted)
        patch.setattr(check, "plan_directions", lambda *_: DirectionPlan(Effort(1, 1), 2, 0))
        result = end_to_end(tape, loss, arrays, checkpoint=expire)
    assert (result.verdict, directions) == ("AGREE", [0])
    assert [len(each.probes) for each in result.inputs] == [1] * 12


def test_inputs_that_no_joint_direction_tells_apart_are_undecidable_when_time_is_up(slow: None) -> None:
    arrays = inputs(6)
    loss = k.vector([0.0])
    with wp.Tape() as tape:
        for number, x in enumerate(arrays):
            wp.launch(one_of_them, 40, inputs=[x, 11, 0.9 if number == 3 else 1.0, loss])
    directions: list[int] = []
    displace = JointDirections._displace

    def counted(self: JointDirections, group: Any, number: int) -> Any:
        if directions:
            raise OutOfTime("time was up")
        directions.append(number)
        return displace(self, group, number)

    def expire() -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JointDirections, "_displace", counted)
        patch.setattr(check, "plan_directions", lambda *_: DirectionPlan(Effort(1, 1), 2, 0))
        result = end_to_end(tape, loss, arrays, checkpoint=expire)
    assert {each.verdict for each in result.inputs} == {"UNDECIDABLE"}
    note = (
        "of 6 inputs, 0 were displaced together in random directions, 0 one by one; there was no time to "
        "tell the other 6 apart"
    )
    assert note in result.coverage.notes


def test_a_group_that_one_direction_does_not_confirm_is_divided_at_once(slow: None) -> None:
    arrays = inputs(8)
    loss = k.vector([0.0])
    with wp.Tape() as tape:
        for number, x in enumerate(arrays):
            wp.launch(one_of_them, 40, inputs=[x, 11, 0.9 if number == 3 else 1.0, loss])
    displaced: list[tuple[int, int]] = []
    displace = JointDirections._displace

    def counted(self: JointDirections, group: Any, number: int) -> Any:
        displaced.append((len(group), number))
        return displace(self, group, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JointDirections, "_displace", counted)
        patch.setattr(check, "plan_directions", lambda *_: DirectionPlan(Effort(1, 1), 2, 0))
        result = end_to_end(tape, loss, arrays)
    assert [each.verdict for each in result.inputs].count("WRONG") == 1
    assert displaced[:2] == [(8, 0), (4, 0)]  # and not (8, 1)


def test_a_verdict_that_needs_more_time_is_undecidable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = inputs(1)
    tape, loss = squares(arrays)

    def late(*_: Any, **__: Any) -> Any:
        raise OutOfTime("time was up")

    monkeypatch.setattr(input_check, "_weighed", late)
    result = end_to_end(tape, loss, arrays)
    assert result.verdict == "UNDECIDABLE"
    assert result.is_partial
    assert result.inputs[0].reason == "there was no time to tell an error from rounding"


def test_an_input_that_time_did_not_suffice_for_is_not_counted_as_displaced(slow: None) -> None:
    arrays = inputs(5)
    tape, loss = squares(arrays)
    alone: list[Any] = []
    probe = joint_directions.probe_input

    def hasty(program: Any, port: Any, *rest: Any, **options: Any) -> Any:
        if alone:
            raise OutOfTime("time was up")
        alone.append(port)
        return probe(program, port, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_directions, "probe_input", hasty)
        patch.setattr(check, "plan_directions", lambda *_: DirectionPlan(Effort(1, 1), 2, 2))
        result = end_to_end(tape, loss, arrays)
    note = "of 5 inputs, 0 were displaced together in random directions, 1 one by one"
    assert result.coverage.notes[0] == note
