"""Measures the effect of the order of threads, by replays with other thread orders."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._errors import BoundsError
from tapedebug.autograd.thresholds import FLOAT64_RUNS_DIFFER, ORDER_SLOPE_ROUNDING
from tapedebug.contract import Array, Operation, TangentReplay, Tangents, ThreadScheduling
from tapedebug.contract import Replay as TapeReplay
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

DIRECTIONS = 2
"""Random directions along which the slope of the loss is compared."""
SCALE = 1e-3
"""The displacement of inputs, relative to their typical size."""
_SMALLEST = 1e-300


class ThreadOrders:
    """Runs of a tape in which some launches run their threads in another order.

    Args:
        replay: The tape.
        scheduling: The capability that runs threads in other orders.
        launches: The launches.
        seen: The launches whose values are compared, each with the arrays to compare.
        schedules: The orders.
        enough: The change of the gradient from which on the loss and the gradient are compared no further.
    """

    def __init__(
        self,
        replay: Replay,
        scheduling: ThreadScheduling,
        launches: Collection[int],
        seen: Mapping[int, Sequence[Array]],
        schedules: Sequence[Schedule],
        enough: float = math.inf,
    ) -> None:
        self.replay = replay
        self.scheduling = scheduling
        self.launches = sorted(launches)
        self.seen = seen
        self.schedules = schedules
        self.enough = enough
        self.directions = [] if replay.blocked else _directions(replay)

    def effect(self) -> Effect:
        """Return the largest effect of the schedules, on the tape's own inputs or on displaced ones.

        One set of values may hide an effect: a sum of zeros is the same in every order, and an extreme value
        that comes first is never replaced.
        """
        found = self._effect()
        seen = (found.gradient or 0.0) > FLOAT64_RUNS_DIFFER or (found.loss or 0.0) > FLOAT64_RUNS_DIFFER
        if self.replay.blocked or not self.replay.leaves or seen:
            return found
        try:
            other = replace(self._effect(displaced=True), displaced=True)
        except BoundsError:  # a displaced value led to an index out of bounds
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
        for number, schedule in enumerate(self.schedules, 1):
            other, moved = self._slopes(schedule, displaced)
            gradient = self._change(slopes, moved, loss)
            found = found.worst(
                Effect(
                    loss=beyond_rounding(relative(loss, other), shadow),
                    gradient=None if gradient is None else beyond_rounding(gradient, shadow),
                )
            )
            if (found.gradient or 0.0) > self.enough:
                return replace(found, at_least=number < len(self.schedules))
        return found

    def _change(self, slopes: Values, moved: Values, loss: float) -> float | None:
        """Return the relative change of the gradient, estimated from slopes along random directions."""
        if not self.directions:
            return None
        size = _norm(self.replay)
        if size is None:
            return None
        change, size = _rms(moved - slopes), max(size, _rms(slopes))
        if not np.isfinite(change):
            return float("inf")
        if size == 0:
            return float("inf") if change > ORDER_SLOPE_ROUNDING * max(abs(loss), _SMALLEST) else 0.0
        return change / size

    def _displace(self, shadow: TapeReplay) -> None:
        rng = np.random.default_rng(5)  # each input has its own: equal inputs must not stay equal
        for leaf in self.replay.leaves:
            a = self.replay.arrays[leaf]
            shadow.set(a, perturbed(shadow.values(a), SCALE, rng))

    def _written(self, schedule: Schedule | None, displaced: bool) -> list[list[Values]]:
        """Return the values that each compared launch leaves in its arrays."""
        shadow = self.replay._shadow()
        if displaced:
            self._displace(shadow)
        self._reschedule(shadow, schedule)
        found: list[list[Values]] = []

        def look(record: Operation) -> None:
            if record.index in self.seen:
                found.append([shadow.values(a) for a in self.seen[record.index]])

        shadow.forward(stop=max(self.seen) + 1, on_operation=look)
        return found

    def _slopes(self, schedule: Schedule | None, displaced: bool) -> tuple[float, Values]:
        """Return the loss, and its slopes along the directions."""
        if not self.directions:
            plain = self.replay._shadow(double=True)
            if displaced:
                self._displace(plain)
            self._reschedule(plain, schedule)
            plain.forward()
            return loss_of(self.replay, plain), np.zeros(0)
        shadow: TangentReplay = self.replay.tangents()
        if displaced:
            self._displace(shadow)
        self._reschedule(shadow, schedule, tangents=True)
        slopes = []
        for direction in self.directions:
            shadow.push(direction)
            slopes.append(slope_of(self.replay, shadow))
        return loss_of(self.replay, shadow), np.array(slopes)

    def _reschedule(self, shadow: TapeReplay, schedule: Schedule | None, *, tangents: bool = False) -> None:
        if schedule is not None:

            def views(a: Array) -> Sequence[Values]:
                return self.scheduling.views(shadow, a)

            chosen = {index: schedule(index, views) for index in self.launches}
            self.scheduling.reschedule(shadow, chosen, tangents=tangents)


def _directions(replay: Replay) -> list[Mapping[Array, Values]]:
    if replay.recorded.tape.capability(Tangents) is None:
        return []
    rng = np.random.default_rng(11)
    shadow, arrays = replay._shadow(), [replay.arrays[leaf] for leaf in replay.leaves]

    def direction() -> Mapping[Array, Values]:
        return {a: np.asarray(rng.normal(size=shadow.values(a).shape)) for a in arrays}

    return [direction() for _ in range(DIRECTIONS)] if arrays else []


def _norm(replay: Replay) -> float | None:
    """Return ‖gradient‖; None if it is not finite."""
    total = sum(float(np.sum(np.square(g.astype(np.float64)))) for g in replay.gradients().values())
    return float(np.sqrt(total)) if np.isfinite(total) else None


def _rms(values: Values) -> float:
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(values))))


def _first_difference(plain: Sequence[Sequence[Values]], other: Sequence[Sequence[Values]]) -> Effect:
    """Return the difference at the first launch that leaves other values."""
    effects = (difference(*pair) for pair in zip(plain, other, strict=True))
    return next((effect for effect in effects if effect.changed), Effect())
