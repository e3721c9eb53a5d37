"""What depends on the order of threads: the tape once more, with launches that take them otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.diagnose.experiments._effect import (
    Effect,
    Values,
    beyond_rounding,
    difference,
    loss_of,
    relative,
    slope_of,
)

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments._replay import Replay
    from tapedebug.diagnose.experiments._schedules import Schedule
    from tapedebug.runtime._call_list import CallList

DIRECTIONS = 2
"""Along how many random directions the slope of the loss is compared."""


class Orders:
    """Runs of a tape some of whose launches take their threads otherwise.

    Args:
        replay: The tape.
        launches: Those launches.
        seen: Those of them whose values are compared, each with the arrays that matter.
        schedules: How they take their threads.
    """

    def __init__(
        self,
        replay: Replay,
        launches: Collection[int],
        seen: Mapping[int, Sequence[Any]],
        schedules: Sequence[Schedule],
    ) -> None:
        self.replay = replay
        self.launches = sorted(launches)
        self.seen = seen
        self.schedules = schedules
        self.directions = [] if replay.blocked else _directions(replay)

    def effect(self) -> Effect:
        """The largest effect of the schedules."""
        plain, found = self._written(None), Effect()
        for schedule in self.schedules:
            found = found.worst(_first_difference(plain, self._written(schedule)))
        if not found.changed or self.replay.blocked:
            return found
        shadow = self.replay._shadow(double=True)
        loss, slopes = self._slopes(None)
        size = _size(self.replay)
        for schedule in self.schedules:
            other, moved = self._slopes(schedule)
            gradient = None
            if size is not None and self.directions:
                gradient = float(np.sqrt(np.mean(np.square(moved - slopes)))) / size
                gradient = beyond_rounding(gradient if np.isfinite(gradient) else float("inf"), shadow)
            found = found.worst(
                Effect(loss=beyond_rounding(relative(loss, other), shadow), gradient=gradient)
            )
        return found

    def _written(self, schedule: Schedule | None) -> list[list[Values]]:
        """What each of the launches leaves in the arrays."""
        shadow = self.replay._shadow()
        self._reschedule(shadow, shadow._forward[1], schedule)
        found: list[list[Values]] = []

        def look(record: Any) -> None:
            if record.index in self.seen:
                found.append([shadow.values(a) for a in self.seen[record.index]])

        shadow.forward(stop=max(self.seen) + 1, on_launch=look)
        return found

    def _slopes(self, schedule: Schedule | None) -> tuple[float, Values]:
        """The loss, and its slopes along the directions."""
        shadow = self.replay._shadow(double=True)
        if not self.directions:
            self._reschedule(shadow, shadow._forward[1], schedule)
            shadow.forward()
            return loss_of(self.replay, shadow), np.zeros(0)
        shadow.push({}, stop=0)  # makes the table that is changed
        for _, calls in shadow._pushes.values():
            self._reschedule(shadow, calls, schedule)
        slopes = []
        for direction in self.directions:
            shadow.push(direction)
            slopes.append(slope_of(self.replay, shadow))
        return loss_of(self.replay, shadow), np.array(slopes)

    def _reschedule(self, shadow: Any, calls: CallList, schedule: Schedule | None) -> None:
        for index in self.launches if schedule is not None else ():
            run, threads, where = calls[index]
            assert schedule is not None
            calls[index] = (schedule(shadow, index, run), threads, where)


def _directions(replay: Replay) -> list[Mapping[Any, Values]]:
    rng = np.random.default_rng(11)
    shadow, arrays = replay._shadow(), [replay.arrays[leaf] for leaf in replay.leaves]

    def direction() -> Mapping[Any, Values]:
        return {a: np.asarray(rng.normal(size=shadow.values(a).shape)) for a in arrays}

    return [direction() for _ in range(DIRECTIONS)] if arrays else []


def _size(replay: Replay) -> float | None:
    """‖gradient‖; None where it is zero or not finite."""
    total = sum(float(np.sum(np.square(g.astype(np.float64)))) for g in replay.gradients().values())
    return float(np.sqrt(total)) if np.isfinite(total) and total > 0 else None


def _first_difference(plain: Sequence[Sequence[Values]], other: Sequence[Sequence[Values]]) -> Effect:
    """Of the first launch that leaves other values."""
    effects = (difference(*pair) for pair in zip(plain, other, strict=True))
    return next((effect for effect in effects if effect.changed), Effect())
