"""Threads of mirrored launches on a tape: conflicts, elements, other orders, tangents. Warp is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapedebug.contract import Engine
from tapedebug.operations import (
    ExactAdjoint,
    HostArray,
    HostOperation,
    Memory,
    OperationTangentReplay,
    OperationTape,
    PushesTangents,
    Region,
    RunsInFloat64,
    caller_place,
)
from tapedebug.watch.mirror import (
    MirroredElementTracking,
    MirroredLaunch,
    MirroredThreadScheduling,
    mirror_kernel,
)
from tests.watch import warp_stand_in as stand_in
from tests.watch.warp_stand_in import warp as wp

pytestmark = pytest.mark.unoptimized


@stand_in.kernel
def shifted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i + 1]


@stand_in.kernel
def summed(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i] + x[i + 1]


@stand_in.kernel
def even(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[2 * i] = x[i]


@stand_in.kernel
def halved(x: wp.array(dtype=float), y: wp.array(dtype=wp.float16)):
    i = wp.tid()
    y[i] = wp.float16(x[i] * x[i])


@stand_in.kernel
def doubled(y: wp.array(dtype=wp.float16), z: wp.array(dtype=wp.float64)):
    i = wp.tid()
    z[i] = wp.float64(y[i]) * wp.float64(y[i])


class Launch(HostOperation):
    """A launch that runs as its mirror."""

    def __init__(self, kernel: Any, dim: int, *arrays: HostArray, known: bool = True) -> None:
        mirror = MirroredLaunch(
            mirror_kernel(kernel), dim, arrays, {(n, ""): a for n, a in enumerate(arrays)}
        )
        names = [access.name for access in mirror.accesses]
        super().__init__(kernel.key, arrays, names, mirror.accesses, caller_place(), dim=(dim,))
        self.mirrored = mirror
        self.tracked = mirror if known else None
        for kind in (ExactAdjoint, PushesTangents, RunsInFloat64):
            self.capabilities[kind] = mirror.capability(kind)

    def forward(self, values: Memory) -> None:
        self.mirrored.forward(values)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        self.mirrored.vjp(before, after, adjoint)


def host(*values: float, grad: bool = True, dtype: Any = np.float32) -> HostArray:
    content = np.array(values, dtype)
    return HostArray(content, Region(content, np.zeros_like(content)), grad)


def recorded(*launches: Launch) -> OperationTape:
    tape = OperationTape(Engine("NumPy", np.__version__), listed=False)
    tape.begin()
    for launch in launches:
        memory = Memory({access.array.region: access.array.region.values for access in launch.accesses})
        tape.record(launch, lambda launch=launch, memory=memory: launch.forward(memory))
    tape.end()
    return tape


def tracking(*launches: Launch) -> tuple[OperationTape, MirroredElementTracking]:
    tape = recorded(*launches)
    return tape, MirroredElementTracking(tape, dict(enumerate(launches)))


def test_threads_that_race_are_found_with_their_elements_and_lines() -> None:
    x, y = host(1, 2, 3, 4), host(0, 0, 0)
    tape, found = tracking(Launch(shifted, 3, x, y), Launch(summed, 3, x))
    assert found.suspects().kinds == [[0], [1]]  # the second reads beyond its own index, too
    conflicts = found.conflicts(tape.new_replay(), [0, 1])
    (race,) = conflicts.races
    assert (race.launch, race.param, race.elements) == (1, 0, {1, 2})
    assert race.second is not None
    assert (race.second.kind, race.first.kind) == ("read", "write")
    assert race.pairs == [(0, 1), (1, 2)]
    assert race.first.span is not None
    assert race.first.span.file == __file__
    assert not conflicts.outside
    np.testing.assert_array_equal(x.values, [4, 7, 10, 4])  # the program's arrays are as they were


def test_an_index_outside_of_its_array_is_found_with_its_thread() -> None:
    x, y = host(1, 2, 3), host(0, 0, 0)
    tape, found = tracking(Launch(shifted, 3, x, y))
    (outside,) = found.conflicts(tape.new_replay(), [0]).outside
    assert (outside.launch, outside.param, outside.index, outside.length) == (0, 0, (3,), 3)
    assert (outside.threads, outside.side.kind) == ([2], "read")


def test_the_elements_that_a_launch_reads_and_writes_are_known() -> None:
    x, y = host(1, 2, 3, 4), host(0, 0, 0, 0, 0)
    tape, found = tracking(Launch(even, 3, x, y))
    masks = found.accessed(tape.new_replay(), [(0, x, "read"), (0, y, "write"), (0, y, "read")])
    assert masks is not None
    assert masks[0, x, "read"].tolist() == [True, True, True, False]
    assert masks[0, y, "write"].tolist() == [True, False, True, False, True]
    assert not masks[0, y, "read"].any()


def test_launches_that_only_the_other_engine_runs_are_listed() -> None:
    x, y = host(1, 2, 3, 4), host(0, 0, 0)
    tape, found = tracking(Launch(shifted, 3, x, y, known=False))
    assert found.suspects().kinds == []
    assert found.suspects().untracked[0] == (
        "1 launch of shifted is run by Warp alone: the accesses of threads were not tracked"
    )
    assert found.accessed(tape.new_replay(), [(0, x, "read")]) is None


@pytest.mark.parametrize("float64", [False, True])
def test_threads_run_in_another_order(float64: bool) -> None:
    x = host(1, 2, 3, 4)
    launch = Launch(summed, 3, x)
    replay = recorded(launch).new_replay(float64=float64)
    MirroredThreadScheduling({0: launch}).reschedule(replay, {0: backwards})
    replay.forward()
    np.testing.assert_array_equal(replay.values(x), [16, 14, 10, 4])  # each reads what the next wrote


def backwards(run: Any, threads: int) -> None:
    for thread in reversed(range(threads)):
        run(thread, thread + 1)


@pytest.mark.parametrize("float64", [False, True])
def test_tangents_are_those_of_differences(float64: bool) -> None:
    x, y = host(1, 2, 3, 4), host(0, 0, 0)
    replay = OperationTangentReplay(recorded(Launch(shifted, 3, x, y), Launch(summed, 2, y)), float64)
    direction = np.array([1.0, 0, 0, -1])
    replay.push({x: direction})
    x0, y1 = np.array([1.0, 2, 3, 4]), np.array([2.0, 0, -3])  # dy = dx[i] x[i+1] + x[i] dx[i+1]
    np.testing.assert_array_equal(replay.values(y)[2], x0[2] * x0[3])
    np.testing.assert_allclose(replay.tangent(y), [2 * y1[0] + y1[1], 2 * y1[1] + y1[2], y1[2]])
    assert not replay.lost


def test_tangents_stop_at_arrays_without_a_gradient_if_they_are_detached() -> None:
    x, y, z = host(1, 2, 3, 4), host(0, 0, 0, 0, grad=False), host(0, 0, 0)
    replay = OperationTangentReplay(recorded(Launch(shifted, 3, x, y), Launch(shifted, 3, y, z)), True)
    replay.push({x: np.ones(4)})
    assert replay.tangent(z).any()
    replay.push({x: np.ones(4)}, detached=True)
    assert not replay.tangent(z).any()


def test_products_of_tangents_and_adjoints_agree_at_each_operation() -> None:
    x, y = host(1, 2, 3, 4), host(0, 0, 0)
    tape = recorded(Launch(shifted, 3, x, y), Launch(summed, 2, y))
    there, back = OperationTangentReplay(tape, True), tape.new_replay(float64=True).forward()
    found = []
    for cut in (0, 1, 2):
        there.push({x: np.array([1.0, -2, 0.5, 3])}, stop=cut)
        back.backward({y: np.array([1.0, 2, 3])}, stop=cut)
        found.append(there.inner(back)[0])
    np.testing.assert_allclose(found, found[0], rtol=1e-14)
    assert found[0]


def test_arrays_of_all_floating_point_types_take_part_in_float64_replays() -> None:
    x, y, z = host(0.1, 0.3), host(0, 0, dtype=np.float16), host(0, 0, dtype=np.float64)
    tape = recorded(Launch(halved, 2, x, y), Launch(doubled, 2, y, z))
    start = np.array([0.1, 0.3], np.float32).astype(float)
    rounded = (start**2).astype(np.float16).astype(float)
    np.testing.assert_array_equal(tape.new_replay().forward().values(z), rounded**2)
    there, back = OperationTangentReplay(tape, True), tape.new_replay(float64=True).forward()
    np.testing.assert_allclose(back.values(z), start**4, rtol=1e-15)
    found = []
    for cut in (0, 1, 2):  # with the product in float32, in float16, and in float64 arrays
        there.push({x: np.array([1.0, -2])}, stop=cut)
        back.backward({z: np.array([1.0, 2])}, stop=cut)
        found.append(there.inner(back)[0])
    np.testing.assert_allclose(back.gradient(x), 0)
    np.testing.assert_allclose(found, 4 * (start[0] ** 3 - 4 * start[1] ** 3), rtol=1e-14)
