"""Finite differences with error bars: step sweep, Richardson extrapolation, left and right slopes.

A difference is only as good as its step: too large a step misses curvature, too small a step is dominated by
rounding. Here the step is swept downward, the central differences are extrapolated to step zero (Ridders,
Adv. Eng. Software 4 (1982) 75, doi:10.1016/S0141-1195(82)80057-0), and each entry uses the step at which its
own error estimate is smallest. The functions are evaluated in float64 (the kernel's twin), so that a smooth
function usually reaches 1e-10 relative. Many directions are swept together; each ends when it has converged.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tapedebug import _time_limit
from tapedebug._dataclass import dataclass
from tapedebug._time_limit import OutOfTime
from tapedebug.autograd.array_types import Bools, Floats, Indices
from tapedebug.autograd.thresholds import FUNCTION_ROUNDING, SLOPE_CONVERGED, SLOPE_CONVERGED_STEPS

LEAST_STEPS = 3  # of a sweep that a time limit ends: with fewer it has no result
RATIO = 8.0  # between steps; a power of two keeps x ± h exact
MAX_STEPS = 11  # from 1e-4 down to 1e-13
EPSILON = float(np.finfo(np.float64).eps)
TINY = 2.0**-16  # of the largest step: a value below it has a scale of its own, which that step is far beyond
NEAR = 2.0**-7  # times such a value: the largest step of its own sweep
RESOLVED = 4.0  # times its noise: a difference of both slopes that steps can still show to be a curve
CLEAR = 16.0  # the same, for a step that alone has to show it
BEFORE_SKIPPING = 2  # steps in a row in which slopes at a kink converge: those in between are skipped then
SHOWN_DIGITS = 3.0
"""Digits in which the slopes of two steps agree at a kink that needs no proof. With a largest step of 1e-3, a
curve in its place would be narrower than a few float32 roundings of the input."""
AFAR = RATIO**3  # times the largest step: where to look again for a kink that smaller steps lost
DIGITS = SLOPE_CONVERGED_STEPS * -math.log10(
    SLOPE_CONVERGED
)  # as rare by chance: by how many digits slopes agree, in all steps


@dataclass(frozen=True, slots=True)
class DerivativeEstimate:
    """Derivatives of m outputs along one direction, at displacement 0: all arrays (m,).

    From `slopes`, along k directions: all arrays (k, m).

    Attributes:
        value: float64, the extrapolated central difference; NaN where no step gave a finite one.
        bar: float64, the error bar of `value`: the remaining truncation error, and rounding.
        left, right: float64, one-sided slopes at the smallest step.
        kink: bool, True where the one-sided slopes differ at all small steps, or the function jumps.
        evaluations: Number of calls of the function.
        perhaps: bool, True where a kink appeared in too few steps to be certain, and smaller steps showed
            none; None if not requested.
        is_brief: The kink was shown by two steps and not confirmed by smaller ones; see `slope`.
    """

    value: Floats
    bar: Floats
    left: Floats
    right: Floats
    kink: Bools
    evaluations: int
    perhaps: Bools | None = None
    is_brief: bool = False


def first_step(eps: float, magnitude: float) -> float:
    """Return the largest step of the sweep: `eps`, or more if float64 cannot resolve it at `magnitude`."""
    return float(2.0 ** round(math.log2(max(eps, magnitude * 2.0**-27, 1e-300))))


def slope(
    f: Callable[[float], Floats],
    at_zero: Floats,
    *,
    eps: float,
    magnitude: float,
    enough: Callable[[Floats], Floats],
    max_steps: int = MAX_STEPS,
    is_kink: Callable[[float, float], bool] | None = None,
) -> DerivativeEstimate:
    """Differentiate `f` at 0.

    Args:
        f: Maps a displacement to the m outputs there, (m,) float64.
        at_zero: f(0).
        eps: The largest step of the sweep (it is rounded to a power of two).
        magnitude: Magnitude of the displaced value: steps far below its float64 resolution are not taken.
        enough: Maps derivatives (m,) to the error bars (m,) at which the sweep may stop.
        max_steps: The largest number of steps, each `RATIO` times smaller than the last.
        is_kink: Given where a kink needs no proof: returns True if two slopes differ by enough for one. Then
            the second step that shows them on both sides, in `SHOWN_DIGITS`, is the last.
    """

    def both(which: Indices, steps: Floats) -> tuple[Floats, Floats]:
        h = float(steps[0])
        return f(h)[None], f(-h)[None]

    found = slopes(
        both,
        at_zero,
        eps=eps,
        magnitudes=np.array([magnitude]),
        enough=enough,
        max_steps=max_steps,
        is_kink=is_kink,
    )
    return DerivativeEstimate(
        found.value[0],
        found.bar[0],
        found.left[0],
        found.right[0],
        found.kink[0],
        found.evaluations,
        is_brief=found.is_brief,
    )


def slopes(
    f: Callable[[Indices, Floats], tuple[Floats, Floats]],
    at_zero: Floats,
    *,
    eps: float,
    magnitudes: Floats,
    enough: Callable[[Floats], Floats],
    max_steps: int = MAX_STEPS,
    is_kink: Callable[[float, float], bool] | None = None,
) -> DerivativeEstimate:
    """Differentiate along k directions at once.

    A value that is tiny compared with `eps` is swept a second time, with steps of its own size.

    Args:
        f: Maps indices of directions, and a displacement along each, to the outputs there and at the opposite
            displacements, (·, m) float64 each.
        at_zero: The outputs without displacement, (m,).
        eps: See `slope`.
        magnitudes: (k,), magnitudes of the displaced values; see `slope`.
        enough: Maps derivatives (·, m) to error bars, one direction in each row; see `slope`.
        max_steps: See `slope`.
        is_kink: See `slope`; for one output along one direction.
    """
    found = _swept(f, at_zero, np.full(len(magnitudes), eps), magnitudes, enough, max_steps, is_kink)
    with contextlib.suppress(OutOfTime):
        found = _looked_at_from_afar(f, at_zero, found, eps, magnitudes, enough, max_steps)
    tiny: Indices = np.flatnonzero((magnitudes > 0) & (magnitudes < eps * TINY))
    if not len(tiny):
        return found

    def of_tiny(which: Indices, steps: Floats) -> tuple[Floats, Floats]:
        return f(tiny[which], steps)

    near = _swept(of_tiny, at_zero, magnitudes[tiny] * NEAR, magnitudes[tiny], enough, max_steps)
    _take_nearer(found, near, tiny, enough)
    return replace(found, evaluations=found.evaluations + near.evaluations)


def _looked_at_from_afar(
    f: Callable[[Indices, Floats], tuple[Floats, Floats]],
    at_zero: Floats,
    found: DerivativeEstimate,
    eps: float,
    magnitudes: Floats,
    enough: Callable[[Floats], Floats],
    max_steps: int,
) -> DerivativeEstimate:
    """Return `found` with the kinks that only larger steps show, as rounding in the function hides them."""
    assert found.perhaps is not None
    lines: Indices = np.flatnonzero(found.perhaps.any(axis=1))
    if not len(lines):
        return found

    def of_lines(which: Indices, steps: Floats) -> tuple[Floats, Floats]:
        return f(lines[which], steps)

    largest = np.full(len(lines), eps * AFAR)
    far = _swept(of_lines, at_zero, largest, magnitudes[lines], enough, max_steps)
    confirmed = far.kink & found.perhaps[lines]
    for name in ("left", "right", "kink"):
        whole = getattr(found, name)
        whole[lines] = np.where(confirmed, getattr(far, name), whole[lines])
    return replace(found, evaluations=found.evaluations + far.evaluations)


def _take_nearer(
    found: DerivativeEstimate, near: DerivativeEstimate, lines: Indices, enough: Callable[[Floats], Floats]
) -> None:
    """Replace slopes of `found` by those of shorter steps where these are certain, or contradict."""
    with np.errstate(all="ignore"):
        bar = found.bar[lines]
        apart = ~(np.abs(near.value - found.value[lines]) <= near.bar + bar)
        better = (near.bar <= enough(near.value)) | (near.bar <= bar) | (apart & np.isfinite(near.bar))
    for name in ("value", "bar", "left", "right", "kink"):
        whole = getattr(found, name)
        whole[lines] = np.where(better, getattr(near, name), whole[lines])


def _swept(
    f: Callable[[Indices, Floats], tuple[Floats, Floats]],
    at_zero: Floats,
    largest: Floats,
    magnitudes: Floats,
    enough: Callable[[Floats], Floats],
    max_steps: int,
    is_kink: Callable[[float, float], bool] | None = None,
) -> DerivativeEstimate:
    """Return `slopes` for the largest steps `largest`, (k,).

    At a kink of a single function of one variable, steps are skipped: after those at which slopes converge
    follow the smallest that rounding leaves, until slopes agree in as many steps or digits as make a kink,
    and the last shows no curve. If slopes agree in enough digits before, it is the only one that follows. If
    one does not confirm the kink, the sweep goes on where it was.

    Raises:
        OutOfTime: Time was up before `LEAST_STEPS` steps; after them, the error bars are those of the steps
            so far.
    """
    total = (len(magnitudes), len(at_zero))
    unknown = np.full(total, np.nan)
    no, maybe = np.zeros(total, bool), np.zeros(total, bool)
    found = DerivativeEstimate(unknown, np.full(total, np.inf), unknown.copy(), unknown.copy(), no, 0, maybe)
    active: Indices = np.flatnonzero(np.isfinite(magnitudes))
    if not len(active):
        return found
    steps = np.array([first_step(*sizes) for sizes in zip(largest[active], magnitudes[active], strict=True)])
    least = magnitudes[active] * EPSILON * 16
    sweep = _Sweep(at_zero, len(active))
    evaluations = 0
    number, skips = 0, total == (1, 1)
    before: tuple[int, Floats, _Sweep] | None = None  # the sweep before it skipped steps
    with np.errstate(all="ignore"):
        while True:
            try:
                up, down = f(active, steps)
            except OutOfTime:
                if number < LEAST_STEPS:
                    raise
                sweep = sweep if before is None else before[-1]
                sweep.finish(np.ones(len(active), bool), active, found)
                break
            evaluations += 2 * len(active)
            sweep.add(steps[:, None], up, down, enough)
            number += 1
            if number == LEAST_STEPS:
                _time_limit.compared()
            if is_kink is not None and sweep.shows_kink(is_kink):
                sweep.finish(np.ones(len(active), bool), active, found)
                found.kink[active] = True
                return replace(found, evaluations=evaluations, is_brief=True)
            steps = steps / RATIO
            done = np.logical_or(sweep.settled, steps < least)
            if number == max_steps:
                done[:] = True
            if before is not None and not sweep.confirms_kink(bool(done.all())):
                number, steps, sweep = before
                before, skips, done = None, False, sweep.settled
            elif skips and not done.any():
                room = int(np.log(steps[0] / least[0]) / np.log(RATIO)) + 1 if least[0] else max_steps
                skipped, shorter = sweep.superfluous(min(max_steps - number, room))
                if skipped:
                    before = before or (number, steps, copy.deepcopy(sweep))
                    sweep.skip(skipped)
                    number, steps = number + skipped, steps / (RATIO**skipped * shorter)
            if not done.any():
                continue
            sweep.finish(done, active, found)
            if done.all():
                break
            active, steps, least = active[~done], steps[~done], least[~done]
            sweep.keep(~done)
    return replace(found, evaluations=evaluations)


def _steps_above(noise: float, now: float, most: int) -> int:
    """Return after how many steps, of `most`, rounding is still below `noise`; it is `now` at this one."""
    count = most
    while count > 0 and now * RATIO**count > noise:
        count -= 1
    return count


class _Sweep:
    """The state of a sweep along k directions: the last row of the extrapolation table, and the kinks."""

    def __init__(self, at_zero: Floats, count: int) -> None:
        shape = (count, len(at_zero))
        self.at_zero = at_zero
        self.previous: list[Floats] = []
        self.best = np.full(shape, np.nan)
        self.bar = np.full(shape, np.inf)
        self.floor = np.full(shape, np.inf)  # the part of `bar` that is rounding
        self.noise = np.full(shape, np.inf)  # rounding at the step before
        self.target = self.bar
        self.sides: tuple[Floats, Floats] | None = None  # f(h), f(-h) at the step before
        self.stable = np.zeros(shape, dtype=np.int8)  # for how many steps in a row it looked like a kink
        self.left = self.right = self.best
        self.digits = np.zeros(shape)  # by how many it agreed in these steps, together
        self.corner_left = self.corner_right = self.best  # the slopes that agreed best
        self.finest = np.zeros(shape)  # and by how many
        self.certain: Bools = np.zeros(shape, dtype=bool)  # a kink, and smaller steps would not show more
        self.lost: Bools = np.zeros(shape, dtype=bool)  # smaller steps show nothing of them, nor of a curve
        self.seen, self.perhaps = self.lost.copy(), self.lost.copy()  # the same of slopes that agreed by less
        self.second: Floats | None = None  # f(h) + f(-h) - 2 f(0) at the step before
        self.grain = np.zeros(shape)  # rounding within the function, if larger than that of its value
        self.still: Bools = np.zeros(shape, dtype=bool)  # outputs that no step has changed
        self.least = self.bar  # and the slopes that the largest step would have shown
        self.settled: Bools = np.zeros(count, dtype=bool)
        self.steps = 0
        self.skipped = False

    def add(self, h: Floats, up: Floats, down: Floats, enough: Callable[[Floats], Floats]) -> None:
        """Add f(h) and f(-h), with h of shape (k, 1)."""
        size = np.maximum(np.maximum(np.abs(up), np.abs(down)), np.abs(self.at_zero))
        noise = (4 * EPSILON * size + 2 * self._grain(up, down, size)) / h
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
        self._hold_still(h, up, down, size)
        self.target = target = enough(self.best)
        open_kink = self._look_for_kink(h, up, down, noise, target)
        self.previous = row
        self.steps += 1
        # Rounding grows as steps shrink, unless the values shrink with them (x² beside 0).
        hopeless = (noise > target) & (noise >= self.noise) & (self.steps >= 3)
        self.noise = noise
        unsure = ~(self.bar <= target) & ~hopeless
        if self.steps > 1:
            self.settled = np.logical_not(np.logical_or(open_kink, unsure).any(axis=1))

    def superfluous(self, left: int) -> tuple[int, float]:
        """Return how many of the `left` steps that could follow need not be taken to confirm a kink.

        The second number is by how much the step after them is to be shorter than usual.
        """
        gap = float(abs(self.right[0, 0] - self.left[0, 0]))
        noise = float(self.noise[0, 0])
        if self.is_confirmed().all():
            # Only a step that is as small as can be is missing.
            return max(0, _steps_above(gap / RESOLVED, noise, left) - 1), 1.0
        if self.skipped or self.stable[0, 0] != BEFORE_SKIPPING:
            return 0, 1.0
        if self.digits[0, 0] >= DIGITS:
            # So it is here, and no step before it shows less noise than a curve would.
            found = _steps_above(gap / CLEAR, noise, left)
            rest = gap / CLEAR / (noise * RATIO**found) if noise and found < left else 1.0
            return max(0, found - 1), 2.0 ** min(math.log2(RATIO) - 1, math.floor(math.log2(rest)))
        # Slopes agree as far as they must until rounding is as large as that.
        found = _steps_above(SLOPE_CONVERGED * gap, noise, left)
        enough = self.digits[0, 0] >= DIGITS + math.log10(SLOPE_CONVERGED)
        return max(0, found - (1 if enough else SLOPE_CONVERGED_STEPS - BEFORE_SKIPPING)), 1.0

    def is_confirmed(self) -> Bools:
        """True where slopes agree in enough steps; of a sweep that skipped some, also if in enough digits."""
        found: Bools = self.stable >= SLOPE_CONVERGED_STEPS
        if self.skipped:
            found = found | ((self.stable >= BEFORE_SKIPPING) & (self.digits >= DIGITS))
        return found

    def confirms_kink(self, at_end: bool) -> bool:
        """True if the steps after those that were skipped show the same kink; so far, except at the end."""
        return bool(self.is_confirmed().all() or (self.stable.all() and not at_end))

    def shows_kink(self, is_kink: Callable[[float, float], bool]) -> bool:
        """True if a function of one variable has slopes on both sides that two steps agree in."""
        left, right = float(self.left[0, 0]), float(self.right[0, 0])
        return bool(self.stable[0, 0] and self.digits[0, 0] >= SHOWN_DIGITS) and is_kink(left, right)

    def skip(self, count: int) -> None:
        """Go on as if `count` steps had been taken."""
        self.steps += count
        self.skipped = True
        self.previous = []  # the table is that of steps with one ratio

    def _grain(self, up: Floats, down: Floats, size: Floats) -> Floats:
        """Return how much rounding inside the function changes it, for example when large terms cancel.

        The second difference of a smooth function shrinks with the square of the step, until only rounding is
        left.
        """
        second = np.abs((up - self.at_zero) + (down - self.at_zero))
        if self.second is not None:
            grainy = (second > self.second / 3) & (second <= FUNCTION_ROUNDING * size)
            self.grain = np.where(grainy, np.maximum(self.grain, second), self.grain)
        self.second = second
        return self.grain

    def _hold_still(self, h: Floats, up: Floats, down: Floats, size: Floats) -> None:
        """Bound the slopes of outputs that do not change in their last bit, even at the largest step."""
        still = (up == self.at_zero) & (down == self.at_zero)
        if self.steps == 0:
            self.still, self.least = still, EPSILON * size / h
            return
        self.still &= still
        self.bar = np.where(self.still, np.minimum(self.bar, self.least), self.bar)

    def _drop_refuted(self, row: list[Floats], noise: Floats) -> None:
        """Drop estimates that smaller steps contradict: beside a kink, large steps can agree by chance."""
        if not self.previous:
            return
        change = np.abs(row[0] - self.previous[0])  # of a smooth function, 63 times what is left
        refuted = np.abs(row[0] - self.best) > self.bar + change / 8 + 2 * noise
        if refuted.any():
            self.best = np.where(refuted, row[0], self.best)
            self.bar = np.where(refuted, 2 * change + noise, self.bar)

    def _look_for_kink(self, h: Floats, up: Floats, down: Floats, noise: Floats, target: Floats) -> Bools:
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
                & (np.abs(right - self.right) <= SLOPE_CONVERGED * gap)
                & (np.abs(left - self.left) <= SLOPE_CONVERGED * gap)
            )
            # Before a jump, f(h) and f(-h) do not come closer to f(0), however small the step.
            height = np.maximum(np.abs(up - self.at_zero), np.abs(self.at_zero - down))
            still = np.maximum(np.abs(up - last_up), np.abs(down - last_down)) <= SLOPE_CONVERGED * height
            jump = still & (height > h * (2 * noise + target))
            suspicious = bent | jump
            size = np.maximum(np.maximum(np.abs(up), np.abs(down)), np.abs(self.at_zero))
            straight = np.abs((up - self.at_zero) + (down - self.at_zero)) <= 16 * EPSILON * size
            blurred = ~corner & self._is_blurred(right, left, noise)
            kept = np.where(blurred, self.stable, 0)
            self.stable = np.where(corner | jump, self.stable + 1, kept).astype(np.int8)
            self._hold_corner(corner, bent, right, left, straight, blurred)
            # At the next step, a curve could not be told from rounding any more.
            last = RESOLVED * RATIO * noise > gap
            self.certain = self.is_confirmed() & last & ~jump
            suspicious &= ~self.certain
        self.sides, self.left, self.right = (up, down), left, right
        return suspicious

    def _is_blurred(self, right: Floats, left: Floats, noise: Floats) -> Bools:
        """True where slopes are those of the corner before, as far as rounding lets them be compared."""
        apart = np.abs(self.corner_right - self.corner_left)
        off = np.maximum(np.abs(right - self.corner_right), np.abs(left - self.corner_left))
        blurred: Bools = (off <= 2 * noise) & (2 * noise > SLOPE_CONVERGED * apart)
        return blurred

    def _hold_corner(
        self, corner: Bools, bent: Bools, right: Floats, left: Floats, straight: Bools, blurred: Bools
    ) -> None:
        """Record a kink that smaller steps do not show because of rounding.

        `acos(cos x)` is |x|, but once the cosine is rounded to 1, x is lost. Two steps show a kink if their
        slopes agree in many digits. A smooth function that is nearly linear on both sides shows its curvature
        at smaller steps; a rounded one loses its kink abruptly. Blurred steps show neither.
        """
        if not (corner.any() or self.seen.any()):
            return
        change = np.maximum(np.abs(right - self.right), np.abs(left - self.left))
        digits = -np.log10(np.clip(change / np.abs(right - left), 1e-8, 1.0))
        stable = self.digits >= DIGITS
        self.digits = np.where(corner, self.digits + digits, np.where(stable, self.digits, 0.0))
        finer = corner & (digits > self.finest)
        self.finest = np.where(finer, digits, self.finest)
        self.corner_left = np.where(finer, left, self.corner_left)
        self.corner_right = np.where(finer, right, self.corner_right)
        # Beside a kink, smaller steps show the slope of one side; what is rounded shows the mean of both.
        aside = np.abs(right + left - self.corner_left - self.corner_right)
        inside = aside <= 0.5 * np.abs(self.corner_right - self.corner_left)
        nothing = ~corner & ((straight & inside) | blurred)
        self.lost |= stable & nothing
        self.perhaps |= self.seen & nothing
        curve = ~corner & ~bent & ~nothing & ~self.lost
        self.digits[curve] = 0.0
        self.seen = (self.seen | corner) & ~curve

    def keep(self, which: Bools) -> None:
        """Continue with some of the directions."""
        self.previous = [row[which] for row in self.previous]
        self.best, self.bar, self.floor = self.best[which], self.bar[which], self.floor[which]
        self.target, self.stable = self.target[which], self.stable[which]
        self.noise = self.noise[which]
        self.left, self.right = self.left[which], self.right[which]
        self.corner_left, self.corner_right = self.corner_left[which], self.corner_right[which]
        self.digits, self.finest, self.lost = self.digits[which], self.finest[which], self.lost[which]
        self.seen, self.perhaps = self.seen[which], self.perhaps[which]
        self.certain = self.certain[which]
        self.grain, self.still, self.least = self.grain[which], self.still[which], self.least[which]
        if self.second is not None:
            self.second = self.second[which]
        if self.sides is not None:
            self.sides = self.sides[0][which], self.sides[1][which]

    def finish(self, which: Bools, active: Indices, into: DerivativeEstimate) -> None:
        """Write the slopes along the directions `which`, a subset of the `active` ones."""
        best, bar, lines = self.best[which], self.bar[which], active[which]
        lost = self.lost[which]
        kink = self.stable[which] >= min(SLOPE_CONVERGED_STEPS, max(2, self.steps - 3))
        kink |= lost | self.is_confirmed()[which]
        # Differences that still scatter at the smallest step, and not by rounding, have not found the slope
        # (a chaotic map): it may be any multiple of their scatter.
        scattered = (
            ~(bar <= np.maximum(self.target[which], 0.1 * np.abs(best)))
            & (bar > 100 * self.floor[which])
            & ~kink
        )
        into.value[lines], into.bar[lines] = best, np.where(scattered, np.inf, bar)
        held = lost | self.certain[which]
        into.left[lines] = np.where(held, self.corner_left[which], self.left[which])
        into.right[lines] = np.where(held, self.corner_right[which], self.right[which])
        into.kink[lines] = kink
        assert into.perhaps is not None
        into.perhaps[lines] = self.perhaps[which] & ~kink
