"""The effect of a change on a tape: on its values, its loss and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import FLOAT32_RUNS_DIFFER
from tapedebug.contract import Replay as TapeReplay
from tapedebug.contract import TangentReplay

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

Values = np.ndarray[Any, Any]


@dataclass(slots=True, frozen=True)
class Effect:
    """The differences of a changed run from the plain one.

    Attributes:
        changed: The number of scalars that differ, in the first compared launch with a difference.
        numbers: The number of scalars compared there.
        largest: The largest difference.
        loss: The relative change of the loss; None if there is no loss.
        gradient: The relative change of the gradient, ‖difference‖ / ‖gradient‖; None if not measured.
        displaced: The effect was measured with displaced inputs, not with those of the tape.
        at_least: The loss and the gradient were compared until the effect was proved, and may change by more.
    """

    changed: int = 0
    numbers: int = 0
    largest: float = 0.0
    loss: float | None = None
    gradient: float | None = None
    displaced: bool = False
    at_least: bool = False

    def worst(self, other: Effect) -> Effect:
        """Return the larger value of each attribute."""
        return Effect(
            max(self.changed, other.changed),
            max(self.numbers, other.numbers),
            max(self.largest, other.largest),
            _larger(self.loss, other.loss),
            _larger(self.gradient, other.gradient),
            self.displaced or other.displaced,
            self.at_least or other.at_least,
        )


def _larger(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)


def difference(plain: Sequence[Values], other: Sequence[Values]) -> Effect:
    """Compare arrays scalar by scalar; NaN equals NaN."""
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
    """Return the relative change of a number: inf if it was zero, or if the change is not finite."""
    if before == after or (before != before and after != after):
        return 0.0
    gap = abs(after - before)
    return gap / abs(before) if before and np.isfinite(gap) else float("inf")


def beyond_rounding(change: float, shadow: TapeReplay) -> float:
    """Return a relative change, or 0 if it may be rounding."""
    return change if shadow.is_float64 or change >= FLOAT32_RUNS_DIFFER else 0.0


def loss_of(replay: Replay, shadow: TapeReplay) -> float:
    """Return the loss that a replay has computed."""
    return float(sum((shadow.values(a) * seed).sum() for a, seed in replay.seeds.items()))


def slope_of(replay: Replay, shadow: TangentReplay) -> float:
    """Return the tangent of the loss that a replay has computed."""
    return float(sum((shadow.tangent(a) * seed).sum() for a, seed in replay.seeds.items()))
