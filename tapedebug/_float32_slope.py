"""Derivatives of functions that compute in float32: fits to several displacements, with a measured error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tapedebug._time_limit import OutOfTime, compared

STEPS = (0.1, 0.1 / 3, 0.1 / 9, 0.1 / 27, 0.1 / 81, 1e-4)
"""Relative displacements, of which the best is used. All but the last share points with the one before."""
POINTS = np.arange(-3, 4) / 3
BASIS = np.stack([np.ones(7), POINTS, POINTS**2, POINTS**3], 1)
FIT = np.linalg.pinv(BASIS)
SPREAD = float(np.sqrt(np.linalg.inv(BASIS.T @ BASIS)[1, 1]))
INTERPOLATED = np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / 20
"""The weights with which the values at the points give the slope of the polynomial through all of them."""
KINKED = 10.0
"""Slopes on both sides that differ by this many times their error are those of a kink."""
STABLE = 0.2
"""The difference of these slopes must be as stable, relatively, from one step to the next."""

WORSE = 2
"""Successive displacements with over twice the least error: with still shorter ones rounding only grows."""


class FittedSlope(NamedTuple):
    """A derivative.

    Attributes:
        value: The derivative.
        error: Its error: what remains of truncation, and rounding.
        left: The slope on the left at the step that was used.
        right: The slope on the right.
        kink: These differ, however small the step.
    """

    value: float
    error: float
    left: float
    right: float
    kink: bool


def fitted_slope(
    function: Callable[[float], float],
    noise: float,
    steps: Sequence[float] = STEPS,
    enough: Callable[[float], float] = lambda _: 0.0,
    confirms: Callable[[float, float], bool] = lambda *_: False,
) -> FittedSlope:
    """Return the derivative of a function at 0.

    For each of several steps a cubic is fitted to seven points: its residual is the noise, its change from
    step to step the truncation error. Of a single step the latter is the difference to the polynomial through
    all points. That shows nothing of the function at smaller displacements, so it may confirm a derivative
    that is known otherwise, but not refute it.

    Args:
        function: The function of one number.
        noise: A lower bound of the noise of its values: few roundings can look like a smooth curve.
        steps: The displacements, the largest first.
        enough: Function of a slope that returns the error at which no shorter displacement is tried.
        confirms: Function of a slope and its error that returns True if they confirm what is known. Then the
            first displacement is a result if time is up.

    Raises:
        OutOfTime: Time was up before there was a result, which usually takes two displacements; after that,
            the error is that of those so far.
    """
    start = function(0.0)
    shared: dict[float, float] = {}  # values at a third of a displacement, which may be the next one
    best, last = FittedSlope(np.nan, np.inf, np.nan, np.nan, False), np.nan
    gaps: list[float] = []
    alone: FittedSlope | None = None  # of the first displacement, if it is a result
    levels = worse = 0
    for step in steps:
        if 2 * noise * SPREAD / step > best.error:  # rounding alone makes a larger error with shorter ones
            break
        ends = [shared.get(_rounded(side * step)) for side in (-1.0, 1.0)]
        try:
            values = np.array([_value(function, start, ends, place, step) for place in range(7)])
        except OutOfTime:
            if not np.isfinite(best.error):
                if alone is None:
                    raise
                best = alone
            break
        shared = {_rounded(float(POINTS[place] * step)): float(values[place]) for place in (2, 4)}
        if not np.isfinite(values).all():
            continue
        if len(set(values.tolist())) < levels:  # displacements that vanish in rounding: a staircase
            break
        levels = levels or len(set(values.tolist()))
        fitted = FIT @ values
        residual = max(float(np.linalg.norm(values - BASIS @ fitted)) / np.sqrt(3), noise)
        found = float(fitted[1]) / step
        rounding = 2 * residual * SPREAD / step
        error = rounding + (abs(found - last) if last == last else np.inf)
        left, right = _one_sided(values, step)
        if last != last:
            single = rounding + 2 * abs(found - float(INTERPOLATED @ values) / step)
            if confirms(found, single):
                alone = FittedSlope(found, single, left, right, False)
        gaps.append(right - left)
        kink = len(gaps) > 1 and _is_kink(gaps[-2:], noise / step)
        last = found
        worse = worse + 1 if error > 2 * best.error else 0
        if error < best.error:
            best = FittedSlope(found, error, left, right, best.kink)
        if kink:
            best = FittedSlope(found, abs(right - left), left, right, True)
        elif best.error <= enough(best.value) or worse == WORSE:
            break
        if alone is not None or np.isfinite(best.error):
            compared()
    return best


def _rounded(displacement: float) -> float:
    """Return a displacement without its last digits: thirds are not exact."""
    return float(f"{displacement:.9g}")


def _value(
    function: Callable[[float], float], start: float, ends: Sequence[float | None], place: int, step: float
) -> float:
    """Return the value at one of the seven points, which may be known at the ends."""
    known = {0: ends[0], 3: start, 6: ends[1]}.get(place)
    return function(float(POINTS[place] * step)) if known is None else known


def fitted_slopes(
    function: Callable[[float], np.ndarray[tuple[int], np.dtype[np.float64]]], scale: float = 1.0
) -> list[FittedSlope]:
    """Return the derivatives of several results of a function at 0, each as `fitted_slope` does.

    Args:
        function: The function of one number; returns all results, (m,).
        scale: The displacement of which `STEPS` are parts.
    """
    known: dict[float, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}

    def at(step: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if step not in known:
            known[step] = function(step)
        return known[step]

    start = at(0.0)
    noise = float(np.finfo(np.float32).eps) * np.abs(start)
    steps = [scale * step for step in STEPS]
    moves = np.zeros(start.shape, bool)
    for step in steps:
        for point in POINTS:
            moves |= at(float(point * step)) != start

    def fitted(row: int) -> FittedSlope:
        least = float(noise[row])
        if not moves[row]:
            return FittedSlope(0.0, 2 * least * SPREAD / steps[0], 0.0, 0.0, False)
        return fitted_slope(lambda step: float(at(step)[row]), least, steps)

    return [fitted(row) for row in range(start.size)]


def slope(function: Callable[[float], float], noise: float) -> tuple[float, float]:
    """Return the derivative of a function at 0 and its error; see `fitted_slope`."""
    found = fitted_slope(function, noise)
    return found.value, found.error


def _one_sided(values: np.ndarray[tuple[int], np.dtype[np.float64]], step: float) -> tuple[float, float]:
    """Return the slopes of parabolas through the value at 0 and those at thirds of the step on each side."""
    first, second = step / 3, 2 * step / 3
    found = [
        (second**2 * (one - values[3]) - first**2 * (two - values[3]))
        / (first * second**2 - second * first**2)
        for one, two in ((values[4], values[5]), (values[2], values[1]))
    ]
    return -float(found[1]), float(found[0])


def _is_kink(gaps: Sequence[float], rounding: float) -> bool:
    """Return True if one-sided slopes differ by more than rounding, and by as much at both steps."""
    before, now = gaps
    large = min(abs(before), abs(now)) > KINKED * 6 * rounding
    return large and abs(now - before) <= STABLE * abs(now)
