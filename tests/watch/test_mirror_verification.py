"""Launches that two engines can run, on one tape: their results and adjoints compared. Warp is not needed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tapedebug import _time_limit
from tapedebug._time_limit import OutOfTime
from tapedebug.contract import Access, Engine, KernelSource, Parameter
from tapedebug.operations import (
    ExactAdjoint,
    HostArray,
    HostOperation,
    Memory,
    OperationTape,
    Region,
    caller_place,
)
from tapedebug.watch.mirror import (
    AdjointComparison,
    MirroredLaunch,
    mirror_kernel,
    verification,
    verify_mirrors,
)
from tapedebug.watch.mirror.comparison import ROUNDING
from tests.watch import warp_stand_in as stand_in
from tests.watch.warp_stand_in import warp as wp


@stand_in.kernel
def curve(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.0 * x[i] * x[i] + 1.0


@stand_in.kernel
def grow(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i] * y[i]


@stand_in.kernel
def cancel(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 10000.0 * x[i] - 9999.9 * x[i]


class CurveOfNumPy:
    """`curve`, run by another engine."""

    def __init__(self, x: HostArray, y: HostArray, slope: float, offset: float) -> None:
        self.x, self.y, self.slope, self.offset = x, y, slope, offset

    def forward(self, values: Memory) -> None:
        values.view(self.y)[...] = 3 * values.view(self.x) ** 2 + self.offset

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        incoming = adjoint.view(self.y).copy()
        adjoint.view(self.y)[...] = 0
        adjoint.view(self.x)[...] += self.slope * before.view(self.x) * incoming


class GrowOfNumPy(CurveOfNumPy):
    """`grow`, run by another engine."""

    def forward(self, values: Memory) -> None:
        values.view(self.x)[...] = values.view(self.x) ** 2 * values.view(self.y)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        incoming = adjoint.view(self.x).copy()
        x, y = before.view(self.x), before.view(self.y)
        adjoint.view(self.x)[...] = 2 * x * y * incoming
        adjoint.view(self.y)[...] += x**2 * incoming


class CancelOfNumPy(CurveOfNumPy):
    """`cancel`, run by another engine, which rounds less."""

    def forward(self, values: Memory) -> None:
        x = values.view(self.x).astype(np.float64)
        values.view(self.y)[...] = (10000.0 - float(np.float32(9999.9))) * x + self.offset

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        incoming = adjoint.view(self.y).astype(np.float64)
        adjoint.view(self.y)[...] = 0
        adjoint.view(self.x)[...] += self.slope * (10000.0 - float(np.float32(9999.9))) * incoming


class Launch(HostOperation):
    """A launch with a mirror, whose adjoint is the exact one."""

    def __init__(self, kernel: Any, x: HostArray, y: HostArray, slope: float = 6.0, offset: float = 1.0):
        in_place = kernel is grow
        accesses = [
            Access(0, "x", x, reads=True, writes=in_place, needs_before=True, needs_after=in_place),
            Access(1, "y", y, reads=in_place, writes=not in_place, needs_before=in_place),
        ]
        super().__init__(kernel.key, [x, y], ["x", "y"], accesses, caller_place(), code=kernel, dim=(3,))
        own = {grow: GrowOfNumPy, cancel: CancelOfNumPy}.get(kernel, CurveOfNumPy)
        self.native = own(x, y, slope, offset)
        self.mirrored: MirroredLaunch | None = MirroredLaunch(
            mirror_kernel(kernel), 3, [x, y], {(0, ""): x, (1, ""): y}
        )
        self.reason = ""
        self.capabilities[ExactAdjoint] = self

    def refuse_mirror(self, reason: str) -> None:
        self.mirrored, self.reason = None, reason

    def forward(self, values: Memory) -> None:
        self.native.forward(values)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        (self.mirrored or self.native).vjp(before, after, adjoint)


def host(*values: float) -> HostArray:
    content = np.array(values, np.float32)
    return HostArray(content, Region(content, np.zeros_like(content)), True)


def recorded(*launches: Launch) -> OperationTape:
    tape = OperationTape(Engine("NumPy", np.__version__), listed=False)
    tape.begin()
    for launch in launches:
        regions = {access.array.region: access.array.region.values for access in launch.accesses}
        tape.record(launch, lambda launch=launch, regions=regions: launch.forward(Memory(regions)))
    tape.end()
    return tape


def chain(**second: float) -> tuple[OperationTape, dict[int, Launch], list[HostArray]]:
    x, y, z = host(1, 2, 3), host(0, 0, 0), host(0, 0, 0)
    launches = [Launch(curve, x, y), Launch(curve, y, z, **second)]
    return recorded(*launches), dict(enumerate(launches)), [x, y, z]


def test_right_adjoint_kernels_show_no_difference() -> None:
    tape, launches, (_, _, z) = chain()
    comparison = AdjointComparison(tape, launches)
    comparison.measure({z: np.ones(3)})
    assert comparison.differences == {}
    assert comparison.given == {0: "before", 1: "before"}


def test_a_wrong_adjoint_kernel_is_found_at_its_launch_only() -> None:
    tape, launches, (_, _, z) = chain(slope=3.0)
    comparison = AdjointComparison(tape, launches)
    comparison.measure({z: np.ones(3)})
    assert list(comparison.differences) == [1]
    (wrong,) = comparison.differences[1]
    assert (wrong.access.name, wrong.index) == ("x", (2,))
    assert (wrong.mirrored, wrong.native) == (6 * 28, 3 * 28)


def test_of_many_launches_a_sample_is_compared_and_all_of_a_kernel_that_is_wrong(monkeypatch) -> None:
    monkeypatch.setattr(verification, "COMPARED", 3)
    for slope, wrong in (6.0, []), (5.0, [4, 3, 2, 1, 0]):
        arrays = [host(1, 1, 1), *(host(0, 0, 0) for _ in range(5))]
        launches = [Launch(curve, x, y, slope) for x, y in pairwise(arrays)]
        tape = recorded(*launches)
        comparison = AdjointComparison(tape, dict(enumerate(launches)))
        comparison.measure({arrays[-1]: np.full(3, 1e-9)})
        assert sorted(comparison.differences, reverse=True) == wrong
        assert sorted(comparison.given) == ([0, 1, 2, 3, 4] if wrong else [0, 2, 4])
        assert comparison.left_out == ({} if wrong else {"curve": (3, 5)})


def test_the_effect_of_a_wrong_adjoint_kernel_can_be_replayed() -> None:
    tape, launches, (x, _, z) = chain(slope=3.0)
    comparison = AdjointComparison(tape, launches)
    comparison.measure({z: np.ones(3)})
    found = []
    for chosen in ([], [1]):
        replay = tape.new_replay()
        comparison.backward(replay, {z: np.ones(3)}, chosen)
        found.append(replay.gradient(x))
    right, wrong = found
    values = np.array([1.0, 2, 3])
    np.testing.assert_allclose(right, 6 * (3 * values**2 + 1) * 6 * values)
    np.testing.assert_allclose(wrong, right / 2)


def test_what_rounding_loses_where_terms_cancel_is_no_difference() -> None:
    for slope, wrong in (1.0, []), (0.9, [0]):
        x, y = host(1, 2, 3), host(0, 0, 0)
        launches = {0: Launch(cancel, x, y, slope, offset=0.0)}
        tape = recorded(*launches.values())
        comparison = AdjointComparison(tape, launches)
        comparison.measure({y: np.array([1 / 3, 1 / 7, 1 / 11], np.float32)})
        assert list(comparison.differences) == wrong

    # the same difference is significant by its size alone
    replay = tape.new_replay()
    replay.forward()
    replay.backward({y: np.array([1 / 3, 1 / 7, 1 / 11], np.float32)})
    right = 0.099609375 * np.array([1 / 3, 1 / 7, 1 / 11])
    assert np.max(np.abs(replay.gradient(x) - right)) > 10 * ROUNDING * np.max(right)


def test_an_in_place_launch_is_compared_with_the_closer_values() -> None:
    x, y = host(1, 2, 3), host(0.5, 1, 2)
    launches = {0: Launch(grow, x, y)}
    tape = recorded(*launches.values())
    comparison = AdjointComparison(tape, launches)
    comparison.measure({x: np.ones(3)})
    assert comparison.differences == {}
    assert comparison.given == {0: "before"}


def test_a_mirror_with_other_results_is_refused_for_all_launches_of_the_kernel() -> None:
    tape, launches, _ = chain(offset=2.0)
    verify_mirrors(tape, launches)
    assert [launch.mirrored for launch in launches.values()] == [None, None]
    assert launches[0].reason == ("its results differ from this engine's: y[0] is 50 in Warp and 49 here")


def test_a_mirror_that_rounds_where_terms_cancel_is_kept() -> None:
    for exact, reason in (True, ""), (False, "its results differ from this engine's: y["):
        x, y = host(1 / 3, 1 / 7, 1 / 11), host(0, 0, 0)
        launch = Launch(cancel, x, y, offset=0.0 if exact else 0.01)
        tape = recorded(launch)
        assert launch.mirrored is not None
        own = y.region.values.view(np.float32).astype(np.float64)
        there = Memory({each.region: each.region.values.copy() for each in (x, y)})
        launch.mirrored.forward(there)
        assert np.max(np.abs(there.view(y) - own)) > 10 * ROUNDING * np.max(own), "they differ by their size"
        verify_mirrors(tape, {0: launch})
        assert (launch.mirrored is not None) == exact
        assert launch.reason.startswith(reason)


def test_a_mirror_with_the_same_results_is_kept() -> None:
    tape, launches, _ = chain()
    verify_mirrors(tape, launches)
    assert all(launch.mirrored is not None for launch in launches.values())


def test_launches_without_a_mirror_are_reversed_as_they_are() -> None:
    tape, launches, (x, _, z) = chain(slope=3.0)
    launches[1].refuse_mirror("it is not trusted")
    comparison = AdjointComparison(tape, launches)
    comparison.measure({z: np.ones(3)})
    assert comparison.differences == {}
    assert list(comparison.given) == [0]
    replay = tape.new_replay()
    comparison.backward(replay, {z: np.ones(3)}, [1])
    values = np.array([1.0, 2, 3])
    np.testing.assert_allclose(replay.gradient(x), 3 * (3 * values**2 + 1) * 6 * values)


def test_the_tape_replays_as_before_after_a_comparison() -> None:
    tape, launches, (_, _, z) = chain(slope=3.0)
    AdjointComparison(tape, launches).measure({z: np.ones(3)})
    replay = tape.new_replay()
    assert replay.forward().matches_live()


def test_parameters_are_described() -> None:
    _, launches, _ = chain()
    assert launches[0].mirrored is not None
    source = launches[0].mirrored.capability(KernelSource)
    assert source is not None
    assert list(source.parameters) == [
        Parameter("x", "array(dtype=float32)", True),
        Parameter("y", "array(dtype=float32)", True),
    ]


class Expired:
    """A time limit that has expired after some tests."""

    counts_compilation = True

    def __init__(self, tests: int) -> None:
        self.tests = tests

    def now(self) -> float:
        return 0.0

    def remaining(self) -> float:
        return 100.0

    def compared(self) -> None:
        pass

    def pulse(self) -> None:
        self.tests -= 1
        if self.tests < 0:
            raise OutOfTime("time was up")


def test_mirrors_that_were_not_compared_in_time_are_refused() -> None:
    x, y = host(1, 2, 3), host(1, 1, 1)
    launches = [Launch(curve, x, y), Launch(grow, x, y)]
    tape = recorded(*launches)
    with _time_limit.enforced(Expired(0)):
        verify_mirrors(tape, dict(enumerate(launches)))
    assert [launch.reason for launch in launches] == [verification.LATE] * 2


def test_on_later_tapes_one_launch_of_each_kernel_is_compared(monkeypatch) -> None:
    ran = []
    forward = MirroredLaunch.forward
    monkeypatch.setattr(
        MirroredLaunch, "forward", lambda self, values: (ran.append(self), forward(self, values))
    )
    compared: set[Any] = set()
    for count in 3, 1:
        arrays = [host(1, 2, 3), *(host(0, 0, 0) for _ in range(4))]
        launches = [Launch(curve, x, y) for x, y in pairwise(arrays)]
        ran.clear()
        verify_mirrors(recorded(*launches), dict(enumerate(launches)), compared)
        assert len(ran) == count
    assert compared == {curve}


def test_a_mirror_that_takes_too_long_to_compile_is_tried_once(monkeypatch) -> None:
    x, y, z = host(1, 2, 3), host(0, 0, 0), host(0, 0, 0)
    launches = [Launch(curve, x, y), Launch(curve, y, z)]
    tape = recorded(*launches)
    tries = []

    def slow(launch: MirroredLaunch, values: Memory) -> None:
        tries.append(launch)
        error = OutOfTime("compiling it would take about 9 s, and 2 s were left")
        error.step = "compiling it"
        raise error

    monkeypatch.setattr(MirroredLaunch, "forward", slow)
    verify_mirrors(tape, dict(enumerate(launches)))
    assert len(tries) == 1
    assert [launch.reason for launch in launches] == ["there was no time for compiling it"] * 2
