"""The effect of the order of threads: the tape replayed with launches in other orders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import BoundsError
from tapedebug.diagnose.experiments.effect import (
    Effect,
    Values,
    beyond_rounding,
    difference,
    loss_of,
    relative,
    slope_of,
)
from tapedebug.diagnose.experiments.replay import Replay, perturbed

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.thread_schedules import Schedule
    from tapedebug.runtime.launch.call_list import CallList

DIRECTIONS = 2
"""Along how many random directions the slope of the loss is compared."""
SCALE = 1e-3
"""How far inputs are displaced, as a part of their typical size."""
SEEN = 1e-6
"""An effect on the loss or its gradient above this is seen without displacing anything."""
DUST = 1e-9
"""A slope below this part of the loss is rounding, where the gradient is 0."""
_SMALLEST = 1e-300


class ThreadOrders:
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
        """The largest effect of the schedules, on the tape's own inputs or on inputs displaced a little.

        One set of values shows little: a sum of zeros is the same in every order, and an extreme that comes
        first is never replaced.
        """
        found = self._effect()
        seen = (found.gradient or 0.0) > SEEN or (found.loss or 0.0) > SEEN
        if self.replay.blocked or not self.replay.leaves or seen:
            return found
        try:
            other = replace(self._effect(displaced=True), displaced=True)
        except BoundsError:  # the displaced values lead outside of an array
            return found
        return max(found, other, key=lambda effect: (effect.gradient or 0.0, effect.loss or 0.0))

    def _effect(self, displaced: bool = False) -> Effect:
        plain, found = self._written(None, displaced), Effect()
        for schedule in self.schedules:
            found = found.worst(_first_difference(plain, self._written(schedule, displaced)))
        if self.replay.blocked:
            return found
        shadow = self.replay._shadow(double=True)
        loss, slopes = self._slopes(None, displaced)
        if displaced and not (np.isfinite(loss) and np.isfinite(slopes).all()):
            return Effect()
        for schedule in self.schedules:
            other, moved = self._slopes(schedule, displaced)
            gradient = self._change(slopes, moved, loss)
            found = found.worst(
                Effect(
                    loss=beyond_rounding(relative(loss, other), shadow),
                    gradient=None if gradient is None else beyond_rounding(gradient, shadow),
                )
            )
        return found

    def _change(self, slopes: Values, moved: Values, loss: float) -> float | None:
        """The relative change of the gradient, from that of slopes along random directions."""
        if not self.directions:
            return None
        size = _norm(self.replay)
        if size is None:
            return None
        change, size = _rms(moved - slopes), max(size, _rms(slopes))
        if not np.isfinite(change):
            return float("inf")
        if size == 0:
            return float("inf") if change > DUST * max(abs(loss), _SMALLEST) else 0.0
        return change / size

    def _shadow(self, displaced: bool, *, double: bool = False) -> Any:
        """The tape in private memory, perhaps with its inputs displaced."""
        shadow: Any = self.replay._shadow(double=double)
        rng = np.random.default_rng(5)  # each input its own way: equal ones must not stay equal
        for leaf in self.replay.leaves if displaced else ():
            a = self.replay.arrays[leaf]
            shadow.set(a, perturbed(shadow.values(a), SCALE, rng))
        return shadow

    def _written(self, schedule: Schedule | None, displaced: bool) -> list[list[Values]]:
        """What each of the launches leaves in the arrays."""
        shadow = self._shadow(displaced)
        self._reschedule(shadow, shadow._forward[1], schedule)
        found: list[list[Values]] = []

        def look(record: Any) -> None:
            if record.index in self.seen:
                found.append([shadow.values(a) for a in self.seen[record.index]])

        shadow.forward(stop=max(self.seen) + 1, on_operation=look)
        return found

    def _slopes(self, schedule: Schedule | None, displaced: bool) -> tuple[float, Values]:
        """The loss, and its slopes along the directions."""
        shadow = self._shadow(displaced, double=True)
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


def _norm(replay: Replay) -> float | None:
    """‖gradient‖; None where it is not finite."""
    total = sum(float(np.sum(np.square(g.astype(np.float64)))) for g in replay.gradients().values())
    return float(np.sqrt(total)) if np.isfinite(total) else None


def _rms(values: Values) -> float:
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(values))))


def _first_difference(plain: Sequence[Sequence[Values]], other: Sequence[Sequence[Values]]) -> Effect:
    """Of the first launch that leaves other values."""
    effects = (difference(*pair) for pair in zip(plain, other, strict=True))
    return next((effect for effect in effects if effect.changed), Effect())
