"""Capabilities: replays whose launches run their threads in another order, or several at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from tapedebug.contract.program import Array, Replay, Values

RunThreads: TypeAlias = Callable[[int, int], None]
"""Runs the threads `low … high-1` of a launch, in order."""

ThreadSchedule: TypeAlias = Callable[[RunThreads, int], None]
"""Function that runs the threads of a launch, given a function that runs a range and their number."""


class ThreadScheduling(Protocol):
    """Launches whose threads run in any order, to find results that depend on the order."""

    def reschedule(
        self, replay: Replay, schedules: Mapping[int, ThreadSchedule], /, *, tangents: bool = False
    ) -> None:
        """Make a replay run the threads of some launches by schedules, in all its further runs.

        Args:
            replay: A replay of the tape.
            schedules: The schedules, by launch.
            tangents: Replace what `push` runs, not what `forward` runs; the replay is a `TangentReplay`.
        """

    def views(self, replay: Replay, array: Array, /) -> Sequence[Values]:
        """Return writable views of the values of an array in a replay, and of its tangents if it has some.

        They are valid while a schedule runs.
        """
