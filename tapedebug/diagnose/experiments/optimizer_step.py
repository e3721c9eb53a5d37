"""Compares the step of an input with the gradient that was read before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import float_info, is_float
from tapedebug.autograd.thresholds import STEP_ALONG_GRADIENT, STEP_BEYOND_CHANCE, STEP_IS_MULTIPLE
from tapedebug.contract import Array, Values, ValueSamples
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.gradient_history import GradientHistory
from tapedebug.trace import Event

Floats = np.ndarray[Any, np.dtype[np.float64]]

FEW = 3
"""Smallest number of nonzero gradient entries that are compared: with one, any step is a multiple."""


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """One step of an input.

    Attributes:
        step: The change of its entries.
        read: The gradient that had been read.
        floor: The largest rounding error of an entry of `step`.
    """

    step: Floats
    read: Floats
    floor: float


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of steps to gradients.

    Attributes:
        name: The steps are a multiple of the gradients, or only roughly parallel.
        rate: The learning rate that fits best.
        spread: The relative residual of that fit.
        rests: At least one gradient was zero, and the input did not move for any such gradient.
    """

    name: Literal["multiple", "along"]
    rate: float
    spread: float
    rests: bool = False


def optimizer_step(
    case: RuleContext,
    following: RuleContext | None,
    history: GradientHistory,
    event: Event,
    read: Event,
    update: Event,
) -> OptimizerStep | None:
    """Return the step of an input after a reverse pass; None if its values are no longer known.

    Args:
        case: The tape.
        following: The tape that was recorded next, if it is known.
        history: The history of the input.
        event: The reverse pass.
        read: The read of the gradient.
        update: The first write of the input after the pass.
    """
    samples: ValueSamples | None = case.rerun.recorded.tape.capability(ValueSamples)
    if samples is None:
        return None
    a: Array = case.rerun.arrays[history.info.id]
    later = [item for item in history.events if item.clock > update.clock]
    again = next((item for item in later if item.kind == "write" and item.of == "values"), None)
    before = samples.at_event(a, "values", update.clock)
    after = samples.sample(a.current()) if again is None else samples.at_event(a, "values", again.clock)
    if before is None and event.tape == case.trace.tape.id:  # written through NumPy, which emits no event
        before = samples.sample(case.rerun._shadow().values(a))
        if again is not None:
            after = _found_by(samples, following, a, later)
    glance = samples.at_event(a, "gradient", read.clock)
    if glance is None or before is None or after is None or not is_float(before.dtype):
        return None
    if not before.shape == after.shape == glance.shape:
        return None
    rounding = 4 * float(float_info(before.dtype).eps) * float(np.abs(before).max(initial=0.0))
    return OptimizerStep(after.astype(np.float64) - before, glance.astype(np.float64), rounding)


def _found_by(
    samples: ValueSamples, following: RuleContext | None, a: Array, later: Sequence[Event]
) -> Values | None:
    """Return samples of an array as the next tape found it, if the next pass belongs to that tape."""
    after = next((item for item in later if item.kind == "backward"), None)
    if following is None or after is None or after.tape != following.trace.tape.id:
        return None
    own = following.rerun.recorded.id_of(a)
    if own is None:
        return None
    return samples.sample(following.rerun._shadow().values(following.rerun.arrays[own]))


def relation(steps: Sequence[OptimizerStep]) -> Relation | None:
    """Return the relation of steps, all by one update rule, to the gradients read before them."""
    step = np.concatenate([each.step for each in steps])
    read = np.concatenate([each.read for each in steps])
    with np.errstate(all="ignore"):
        size, length = float(read @ read), float(np.linalg.norm(step))
    if not np.isfinite(size + length) or size == 0 or length == 0:
        return None
    rate = -float(step @ read) / size
    rest = float(np.linalg.norm(step + rate * read))
    floor = float(np.sqrt(sum(each.floor**2 * each.step.size for each in steps)))
    count = int(np.count_nonzero(read))
    still = [bool(np.abs(each.step).max() <= each.floor) for each in steps if not each.read.any()]
    rests = bool(still) and all(still)
    if count >= FEW and rest <= STEP_IS_MULTIPLE * length + floor and floor < 0.1 * length:
        return Relation("multiple", rate, rest / length, rests)
    cosine = rate * np.sqrt(size) / length
    if cosine >= STEP_ALONG_GRADIENT and cosine * np.sqrt(count) >= STEP_BEYOND_CHANCE:
        return Relation("along", rate, rest / length, rests)
    return None
