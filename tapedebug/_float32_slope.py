"""Derivatives of functions that compute in float32: fits to several displacements, with a measured error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

STEPS = (0.1, 0.03, 0.01, 0.003, 1e-3, 1e-4)
"""Relative displacements, of which the best is used."""
KINKED = 10.0
"""Slopes on both sides that differ by this many times their error are those of a kink."""
STABLE = 0.2
"""The difference of these slopes must be as stable, relatively, from one step to the next."""


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
    function: Callable[[float], float], noise: float, steps: Sequence[float] = STEPS
) -> FittedSlope:
    """Return the derivative of a function at 0.

    For each of several steps a cubic is fitted to seven points: its residual is the noise, its change from
    step to step the truncation error.

    Args:
        function: The function of one number.
        noise: A lower bound of the noise of its values: few roundings can look like a smooth curve.
        steps: The displacements, the largest first.
    """
    points = np.arange(-3, 4) / 3
    basis = np.stack([np.ones(7), points, points**2, points**3], 1)
    spread = float(np.sqrt(np.linalg.inv(basis.T @ basis)[1, 1]))
    best, last = FittedSlope(np.nan, np.inf, np.nan, np.nan, False), np.nan
    gaps: list[float] = []
    for step in steps:
        values = np.array([function(float(point * step)) for point in points])
        if not np.isfinite(values).all():
            continue
        fitted = np.linalg.lstsq(basis, values, rcond=None)[0]
        residual = max(float(np.linalg.norm(values - basis @ fitted)) / np.sqrt(3), noise)
        found = float(fitted[1]) / step
        error = 2 * residual * spread / step + (abs(found - last) if last == last else np.inf)
        left, right = _one_sided(values, step)
        gaps.append(right - left)
        kink = len(gaps) > 1 and _is_kink(gaps[-2:], noise / step)
        last = found
        if error < best.error:
            best = FittedSlope(found, error, left, right, best.kink)
        if kink:
            best = FittedSlope(found, abs(right - left), left, right, True)
    return best


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
