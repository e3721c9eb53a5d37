"""Derivatives by differences with an error bar: step sweep, Richardson extrapolation, left and right slopes.

A difference is only as good as its step: too large and it misses curvature, too small and it drowns in
rounding. Here the step is swept downward, the central differences are extrapolated to step zero (Ridders,
Adv. Eng. Software 4 (1982) 75, doi:10.1016/S0141-1195(82)80057-0), and each entry stops where its own error
estimate is smallest. The functions are evaluated in float64 (the kernel's twin), so that for a smooth
function 1e-10 relative is usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

RATIO = 8.0  # between steps; a power of two keeps x ± h exact
MAX_STEPS = 11  # from 1e-4 down to 1e-13
EPSILON = float(np.finfo(np.float64).eps)
STABLE = 0.02  # one-sided slopes (or jumps) that change less than this from step to step have converged


@dataclass(frozen=True, slots=True)
class Slope:
    """Derivatives of m outputs along one direction, at displacement 0.

    Attributes:
        value: (m,) float64, the extrapolated central difference; NaN where no step gave a finite one.
        bar: (m,) float64, the error bar of `value`: what is left of truncation, and rounding.
        left, right: (m,) float64, one-sided slopes at the smallest step.
        kink: (m,) bool, where the one-sided slopes differ however small the step, or the function jumps.
        evaluations: How often the function was called.
    """

    value: Floats
    bar: Floats
    left: Floats
    right: Floats
    kink: Bools
    evaluations: int


def first_step(eps: float, magnitude: float) -> float:
    """The largest step of the sweep: `eps`, or more where float64 could not resolve it at `magnitude`."""
    return float(2.0 ** round(math.log2(max(eps, magnitude * 2.0**-27, 1e-300))))


def slope(
    f: Callable[[float], Floats],
    at_zero: Floats,
    *,
    eps: float,
    magnitude: float,
    enough: Callable[[Floats], Floats],
    max_steps: int = MAX_STEPS,
) -> Slope:
    """Differentiate `f` at 0.

    Args:
        f: Maps a displacement to the m outputs there, (m,) float64.
        at_zero: f(0).
        eps: The largest step of the sweep (it is rounded to a power of two).
        magnitude: Of the displaced value: steps far below its float64 resolution are not taken.
        enough: Maps derivatives (m,) to the error bars (m,) at which the sweep may stop.
        max_steps: How many steps are tried at most, each `RATIO` times smaller than the last.
    """
    sweep = _Sweep(at_zero)
    if not math.isfinite(magnitude):
        return sweep.result()
    h = first_step(eps, magnitude)
    with np.errstate(all="ignore"):
        for _ in range(max_steps):
            sweep.add(h, f(h), f(-h), enough)
            if sweep.settled:
                break
            h /= RATIO
            if h < magnitude * EPSILON * 16:
                break
    return sweep.result()


class _Sweep:
    """The state of one sweep: the last row of the extrapolation table, and what is known of kinks."""

    def __init__(self, at_zero: Floats) -> None:
        self.at_zero = at_zero
        self.previous: list[Floats] = []
        self.best = np.full(at_zero.shape, np.nan)
        self.bar = np.full(at_zero.shape, np.inf)
        self.floor = np.full(at_zero.shape, np.inf)  # the part of `bar` that is rounding
        self.target = self.bar
        self.sides: tuple[Floats, Floats] | None = None  # f(h), f(-h) at the step before
        self.stable = np.zeros(at_zero.shape, dtype=int)  # for how many steps in a row it looked like a kink
        self.left = self.right = self.best
        self.settled = False
        self.steps = 0

    def add(self, h: float, up: Floats, down: Floats, enough: Callable[[Floats], Floats]) -> None:
        """Take in f(h) and f(-h)."""
        size = np.maximum(np.maximum(np.abs(up), np.abs(down)), np.abs(self.at_zero))
        noise = 4 * EPSILON * size / h
        row = [(up - down) / (2 * h)]
        for column, above in enumerate(self.previous, start=1):
            factor = RATIO ** (2 * column)
            row.append((factor * row[-1] - above) / (factor - 1))
            error = 2 * np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - above)) + noise
            better = error < self.bar
            self.best = np.where(better, row[-1], self.best)
            self.bar = np.where(better, error, self.bar)
            self.floor = np.where(better, noise, self.floor)
        self._drop_refuted(row, noise)
        self.target = target = enough(self.best)
        open_kink = self._look_for_kink(h, up, down, noise, target)
        self.previous = row
        self.steps += 1
        unsure = ~(self.bar <= target) & (~(noise > target) | (self.steps < 3))
        self.settled = self.steps > 1 and not bool((open_kink | unsure).any())

    def _drop_refuted(self, row: list[Floats], noise: Floats) -> None:
        """Give up estimates that smaller steps contradict: beside a kink, large steps can agree by chance."""
        if not self.previous:
            return
        change = np.abs(row[0] - self.previous[0])  # of a smooth function, 63 times what is left
        refuted = np.abs(row[0] - self.best) > self.bar + change / 8 + 2 * noise
        self.best = np.where(refuted, row[0], self.best)
        self.bar = np.where(refuted, 2 * change + noise, self.bar)

    def _look_for_kink(self, h: float, up: Floats, down: Floats, noise: Floats, target: Floats) -> Bools:
        """Update `stable`; return where the slopes differ in a way that a smooth function would not show."""
        right, left = (up - self.at_zero) / h, (self.at_zero - down) / h
        gap = np.abs(right - left)
        suspicious: Bools = np.zeros(gap.shape, dtype=bool)
        if self.sides is not None:
            last_up, last_down = self.sides
            # A smooth function's gap is h f'': it shrinks with the step.
            bent = (gap > np.abs(self.right - self.left) / 3) & (gap > 2 * noise + target)
            corner = (
                bent
                & (np.abs(right - self.right) <= STABLE * gap)
                & (np.abs(left - self.left) <= STABLE * gap)
            )
            # Before a jump, f(h) and f(-h) do not come closer to f(0), however small the step.
            height = np.maximum(np.abs(up - self.at_zero), np.abs(self.at_zero - down))
            still = np.maximum(np.abs(up - last_up), np.abs(down - last_down)) <= STABLE * height
            jump = still & (height > h * (2 * noise + target))
            suspicious = bent | jump
            self.stable = np.where(corner | jump, self.stable + 1, 0)
        self.sides, self.left, self.right = (up, down), left, right
        return suspicious

    def result(self) -> Slope:
        """The slopes, once the sweep is over."""
        kink = self.stable >= 2
        # Differences that still scatter at the smallest step, and not by rounding, have not found the slope
        # (a chaotic map): it may be any multiple of their scatter.
        lost = (
            ~(self.bar <= np.maximum(self.target, 0.1 * np.abs(self.best)))
            & (self.bar > 100 * self.floor)
            & ~kink
        )
        self.bar = np.where(lost, np.inf, self.bar)
        return Slope(self.best, self.bar, self.left, self.right, kink, 2 * self.steps)
