"""Threads of mirrored launches in other orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tapedebug.contract import Array, Replay, ThreadSchedule, Values
from tapedebug.operations import Memory, OperationReplay, OperationTangentReplay
from tapedebug.watch.mirror.mirrored_launch import Bound, MirroredLaunch, MirroredStep


class Scheduled(Protocol):
    """A launch that this engine can perhaps run."""

    @property
    def mirrored(self) -> MirroredLaunch | None:
        """The launch as this engine runs it; None if it is not mirrored."""


class MirroredThreadScheduling:
    """The capability `contract.ThreadScheduling` of a tape with mirrored launches.

    Args:
        launches: The launches of the tape, by index. The threads of those that Warp alone can run stay in
            their order.
    """

    def __init__(self, launches: Mapping[int, Scheduled]) -> None:
        self._launches = launches

    def reschedule(
        self, replay: Replay, schedules: Mapping[int, ThreadSchedule], /, *, tangents: bool = False
    ) -> None:
        """Make a replay run the threads of some launches by schedules, in all its further runs."""
        assert isinstance(replay, OperationReplay)
        for index, schedule in schedules.items():
            mirror = self._launches[index].mirrored
            step = None if mirror is None else mirror.in_float64 if replay.is_float64 else mirror
            if step is None:
                continue
            scheduled = _ScheduledStep(step, schedule)
            if tangents:
                assert isinstance(replay, OperationTangentReplay)
                replay.use_push(index, scheduled.push)
            else:
                replay.use(index, scheduled)

    def views(self, replay: Replay, array: Array, /) -> Sequence[Values]:
        """Return writable views of the values of an array in a replay, and of its tangents if it has some."""
        assert isinstance(replay, OperationReplay)
        memories = [replay.memory]
        if isinstance(replay, OperationTangentReplay):
            memories.append(replay.tangents)
        return [memory.view(array) for memory in memories]


class _ScheduledStep:
    """A launch whose threads run by a schedule.

    Args:
        step: The launch.
        schedule: The schedule.
    """

    def __init__(self, step: MirroredStep, schedule: ThreadSchedule) -> None:
        self._step, self._schedule = step, schedule

    def forward(self, values: Memory) -> None:
        """Run the kernel."""
        self._run(self._step.bound(values))

    def push(self, values: Memory, tangents: Memory, detached: bool) -> None:
        """Run the kernel with its tangent."""
        self._run(self._step.bound_tangents(values, tangents, detached))

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run the adjoint, whose threads stay in their order."""
        self._step.vjp(before, after, adjoint)

    def _run(self, bound: Bound) -> None:
        run, threads, address, _ = bound
        self._schedule(lambda low, high: run(low, high, address), threads)
