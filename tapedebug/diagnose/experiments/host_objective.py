"""Compares the gradient of a number computed off the tape with the gradient that was consumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import HOST_SUM_MULTIPLE
from tapedebug.contract import FrameValues, OutsideReads, RecordedTape
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.experiments.seeds import final_values, gradients_from, seeded
from tapedebug.diagnose.gradient_pattern import GradientPattern, find_pattern
from tapedebug.diagnose.trace_analysis.host_numbers import HostNumber, UnknownExpression, numbers

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

READS = 8
"""Largest number of reads whose use in the program is analysed: the last ones."""
ELEMENTS = 1 << 10
"""Arrays up to this size get a number's derivative element by element."""
SAMPLED = 64
"""In larger arrays, this many evenly spread elements are differentiated; their derivatives must be equal."""
STEP = 1e-4
"""Step of the central differences, relative to the largest value."""
STEPS = (1e-3, 5e-4)
"""Steps of the central differences along the inputs, relative to the largest input."""

FAILS = (UnknownExpression, ArithmeticError, AttributeError, IndexError, TypeError, ValueError)
"""Exceptions that the evaluation of an expression with other values may raise."""


@dataclass(frozen=True, slots=True)
class HostObjective:
    """A number that the program computes from an array, off the tape.

    Attributes:
        array: The id of the array.
        number: The expression of the number; None if it is not known.
        frames: The frames that read the array.
        found: The relation of the consumed gradient to that of the number; None if the expression is not a
            single number, or its derivative is not known.
        unknown: The use of the array is not known.
    """

    array: int
    number: HostNumber | None
    frames: tuple[FrameValues, ...]
    found: GradientPattern | None
    unknown: bool = False


def find_host_objectives(replay: Replay, consumed: Mapping[int, Values]) -> Iterator[HostObjective]:
    """Yield the numbers that the program computes from arrays that the tape wrote."""
    written = {version.array for version in replay.recorded.trace.versions if version.written_by is not None}
    tape: RecordedTape = replay.recorded.tape
    outside = tape.capability(OutsideReads)
    reads = [
        (own, tuple(read.frames))
        for read in (() if outside is None else outside.reads())
        if read.array is not None
        and (own := replay.recorded.id_of(read.array)) is not None
        and own in written
        and read.frames
    ]
    for array, frames in reads[-READS:]:
        made = numbers(frames)
        if made is None:
            yield HostObjective(array, None, frames, None, unknown=True)
        for number in made or ():
            values = np.asarray(final_values(replay, array), np.float64)
            slope = _slope(number, values)
            if slope is None:
                unknown = number.passed and _is_array(number, values)
                yield HostObjective(array, number, frames, None, unknown=unknown)
                continue
            yield HostObjective(
                array, number, frames, find_pattern(consumed, gradients_from(replay, {array: slope}))
            )


def _slope(number: HostNumber, values: Values) -> Values | None:
    """Return the derivative of a number by the values of an array; None if it is no single number.

    For a large array the number must be a multiple of its sum.
    """
    size = values.size
    if not size or not np.isfinite(values).all():
        return None
    try:
        if np.ndim(number.value(values)) != 0:
            return None
        places = np.arange(size) if size <= ELEMENTS else np.linspace(0, size - 1, SAMPLED).astype(int)
        slope = _differences(number, values, places)
        if size > ELEMENTS:
            rest = float(number.value(values)) - float(number.value(np.zeros_like(values)))
            total, mean = float(values.sum()), float(slope.mean())
            same = np.abs(slope - mean).max() <= HOST_SUM_MULTIPLE * abs(mean)
            if not (same and abs(rest - mean * total) <= HOST_SUM_MULTIPLE * abs(rest)):
                return None
            slope = np.full(size, mean)
    except FAILS:
        return None
    return slope.reshape(values.shape) if np.isfinite(slope).all() else None


def _is_array(number: HostNumber, values: Values) -> bool:
    """Return True if the value passed to a function is an array of numbers."""
    try:
        return np.ndim(number.value(values)) > 0
    except FAILS:
        return False


def _differences(number: HostNumber, values: Values, places: Values) -> Values:
    """Return the derivatives by some of the values, by central differences."""
    step = STEP * (float(np.abs(values).max()) or 1.0)
    at = values.copy()
    flat, found = at.reshape(-1), np.zeros(places.size)
    for position, place in enumerate(places):
        original = flat[place]
        flat[place] = original + step
        above = float(number.value(at))
        flat[place] = original - step
        found[position] = (above - float(number.value(at))) / (2 * step)
        flat[place] = original
    return found


def slopes_along(replay: Replay, item: HostObjective, consumed: Mapping[int, Values]) -> tuple[float, float]:
    """Return a number's slope along the consumed gradient, by that gradient and by float64 differences."""
    size = float(np.sqrt(sum(float((v.astype(np.float64) ** 2).sum()) for v in consumed.values())))
    direction = {leaf: values.astype(np.float64) / size for leaf, values in consumed.items()}
    starts = {leaf: replay._shadow().values(replay.arrays[leaf]).astype(np.float64) for leaf in direction}
    scale = max(float(np.abs(values).max(initial=0.0)) for values in starts.values()) or 1.0
    assert item.number is not None
    number: Callable[[Any], Any] = item.number.value
    shadow = replay._shadow(double=True)

    def at(step: float) -> float:
        shadow.forward(stop=0)
        for leaf, values in direction.items():
            shadow.set(replay.arrays[leaf], starts[leaf] + step * values)
        shadow.forward(start=0)
        return float(number(np.asarray(shadow.values(replay.arrays[item.array]), np.float64)))

    one, two = ((at(h * scale) - at(-h * scale)) / (2 * h * scale) for h in STEPS)
    return size, (4 * two - one) / 3


def began_from(replay: Replay, item: HostObjective) -> bool:
    """Return True if the reverse pass started from the array that was read."""
    return item.array in seeded(replay)
