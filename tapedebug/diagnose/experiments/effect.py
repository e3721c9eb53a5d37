"""The effect of a change on a tape: on its values, its loss and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.autograd.thresholds import FLOAT32_RUNS_DIFFER
from tapedebug.contract import Replay as TapeReplay
from tapedebug.contract import TangentReplay

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

Values = np.ndarray[Any, Any]


@dataclass(slots=True, frozen=True)
class Effect:
    """How far a changed run differs.

    Attributes:
        changed: How many numbers have another value, in the first launch of those looked at that leaves any.
        numbers: Of how many.
        largest: By up to how much.
        loss: The relative change of the loss; None where none is known.
        gradient: That of the gradient, ‖difference‖ / ‖gradient‖; None where it was not measured.
        displaced: It shows where the inputs are displaced, and not with those of the tape.
    """

    changed: int = 0
    numbers: int = 0
    largest: float = 0.0
    loss: float | None = None
    gradient: float | None = None
    displaced: bool = False

    def worst(self, other: Effect) -> Effect:
        """The larger of each."""
        return Effect(
            max(self.changed, other.changed),
            max(self.numbers, other.numbers),
            max(self.largest, other.largest),
            _larger(self.loss, other.loss),
            _larger(self.gradient, other.gradient),
            self.displaced or other.displaced,
        )


def _larger(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)


def difference(plain: Sequence[Values], other: Sequence[Values]) -> Effect:
    """Compare arrays, number by number; NaN is as good as NaN."""
    changed, numbers, largest = 0, 0, 0.0
    for before, after in zip(plain, other, strict=True):
        differs = ~((before == after) | ((before != before) & (after != after)))
        changed, numbers = changed + int(differs.sum()), numbers + differs.size
        if differs.any():
            with np.errstate(all="ignore"):
                gap = np.abs(after.astype(np.float64) - before.astype(np.float64))
            largest = max(largest, float(np.max(gap[differs])))
    return Effect(changed, numbers, largest)


def relative(before: float, after: float) -> float:
    """How much a number changed, as a part of it: inf where it was zero or is not finite."""
    if before == after or (before != before and after != after):
        return 0.0
    gap = abs(after - before)
    return gap / abs(before) if before and np.isfinite(gap) else float("inf")


def beyond_rounding(change: float, shadow: TapeReplay) -> float:
    """A relative change, or 0 where it may be rounding."""
    return change if shadow.is_float64 or change >= FLOAT32_RUNS_DIFFER else 0.0


def loss_of(replay: Replay, shadow: TapeReplay) -> float:
    """The loss, as a shadow computed it."""
    return float(sum((shadow.values(a) * seed).sum() for a, seed in replay.seeds.items()))


def slope_of(replay: Replay, shadow: TangentReplay) -> float:
    """The slope of the loss, as a shadow pushed it."""
    return float(sum((shadow.tangent(a) * seed).sum() for a, seed in replay.seeds.items()))
