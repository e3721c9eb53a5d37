"""The five verdicts, and the rules for the verdict on one entry of a Jacobian."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug.autograd.array_types import Bools, Floats, Selection
from tapedebug.autograd.options import is_number
from tapedebug.autograd.thresholds import FLOAT32_RESOLUTION

Verdict = Literal["AGREE", "KINK", "UNDECIDABLE", "NONDETERMINISTIC", "WRONG"]

VERDICTS: tuple[Verdict, ...] = ("AGREE", "KINK", "UNDECIDABLE", "NONDETERMINISTIC", "WRONG")
"""The verdicts from best to worst: a whole gets the worst verdict of its parts."""

AGREE, KINK, UNDECIDABLE, NONDETERMINISTIC, WRONG = range(5)
SUSPECT = 5  # differs by more than tolerance and error bar: WRONG, unless float32 rounding explains it

Codes = np.ndarray[Any, np.dtype[np.int8]]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of `verdicts`; UNDECIDABLE if there are none, since nothing was checked."""
    return max(verdicts, key=VERDICTS.index, default="UNDECIDABLE")


@dataclass(frozen=True, slots=True)
class Reference:
    """Finite differences of the entries of one Jacobian; all arrays have its shape (m, n), float64.

    Attributes:
        value, bar: The derivative and its error bar; NaN where the entry was not evaluated.
        left, right: One-sided slopes.
        kink: bool, True where they differ at all small steps.
        largest: The largest magnitude of a single entry, if `value` includes combinations of entries.
    """

    value: Floats
    bar: Floats
    left: Floats
    right: Floats
    kink: Bools
    largest: float | None = None

    def part(self, which: Selection) -> Reference:
        """Return some of the entries, by any NumPy index."""
        return Reference(
            self.value[which], self.bar[which], self.left[which], self.right[which], self.kink[which],
            self.scale,
        )  # fmt: skip

    def beside(self, other: Reference) -> Reference:
        """Return these entries followed by further ones; one-dimensional."""
        pairs = zip(self._parts(), other._parts(), strict=True)
        return Reference(*(np.concatenate(pair) for pair in pairs))  # type: ignore[arg-type]

    def copy(self) -> Reference:
        """Return a copy that can be changed."""
        return Reference(*(part.copy() for part in self._parts()))  # type: ignore[arg-type]

    def put(self, which: Selection, other: Reference) -> None:
        """Replace some of the entries, by any NumPy index."""
        for mine, new in zip(self._parts(), other._parts(), strict=True):
            mine[which] = new

    def _parts(self) -> tuple[Floats | Bools, ...]:
        return self.value, self.bar, self.left, self.right, self.kink

    @property
    def scale(self) -> float:
        """The largest magnitude of the finite entries (0 if there are none)."""
        if self.largest is not None:
            return self.largest
        finite = np.abs(self.value[np.isfinite(self.value)])
        return float(finite.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The condition of Warp's documentation: `|AD - FD| <= atol + rtol * |FD|`."""

    atol: float
    rtol: float

    def of(self, reference: Floats) -> Floats:
        """Return the tolerated difference of each entry."""
        allowed: Floats = self.atol + self.rtol * np.abs(reference)
        return allowed

    def checked(self) -> Tolerance:
        """Return these tolerances if they are valid.

        Raises:
            GradcheckError: A tolerance is negative, NaN, or not a number.
        """
        if not all(is_number(tolerance) and tolerance >= 0 for tolerance in (self.atol, self.rtol)):
            raise GradcheckError(
                f"tolerances must not be negative; got atol={self.atol!r}, rtol={self.rtol!r}",
                hint="leave them at atol=1e-3, rtol=1e-2",
            )
        return self


def judge(
    ad: Floats, reference: Reference, tolerance: Tolerance, rounding: float = FLOAT32_RESOLUTION
) -> Codes:
    """Give each entry AGREE, KINK, UNDECIDABLE, WRONG or SUSPECT.

    Args:
        ad: (m, n), the gradient that is checked.
        reference: Finite differences of the same entries.
        tolerance: The tolerances that were given.
        rounding: The relative spacing of the gradient's floating-point numbers.
    """
    # A bar need not be finer than the gradient, or than the tolerance at the largest entry.
    share = min(FLOAT32_RESOLUTION, max(tolerance.rtol, rounding))
    with np.errstate(all="ignore"):
        value, bar = reference.value, reference.bar
        allowed = tolerance.of(value)
        error = np.abs(ad - value)
        known = bar <= np.maximum(allowed, share * reference.scale)
        # Beside larger entries, the relative precision of a zero derivative is not known.
        vanish = (np.abs(value) <= bar) & (np.abs(ad) <= bar)
        known |= vanish & (bar <= FLOAT32_RESOLUTION * reference.scale)
        codes = np.full(ad.shape, UNDECIDABLE, dtype=np.int8)
        codes[known & (error <= allowed + bar)] = AGREE
        # No step changed the output in its last bit, and AD is 0 as well: how fine the bar is does
        # not matter (beside 1e9, float64 shows no slope below 1e-3).
        codes[np.isfinite(bar) & (value == 0) & (ad == 0)] = AGREE
        codes[np.isfinite(bar) & (error > allowed + bar)] = SUSPECT
        codes[np.isinf(ad) & known] = WRONG
        kink = reference.kink & ~(
            (np.abs(ad - reference.left) <= allowed) & (np.abs(ad - reference.right) <= allowed)
        )
        low, high = np.minimum(reference.left, reference.right), np.maximum(reference.left, reference.right)
        between = (ad >= low - allowed) & (ad <= high + allowed)
        # A function that jumps to the point and on from it (sign) has no slope on either side.
        lone = np.isfinite(ad) & (bar > 0.5 * np.abs(value)) & (high - low <= 0.05 * np.abs(value))
        codes[kink] = np.where(between | lone, KINK, WRONG)[kink]
        codes[np.isnan(ad)] = (
            WRONG  # "the check succeeds if the autodiff gradients contain no NaN values and …"
        )
    return codes


def by_atol_alone(ad: Floats, reference: Reference, tolerance: Tolerance, codes: Codes) -> Bools:
    """Return the entries that agree only because `atol` tolerates a difference that `rtol` would not."""
    with np.errstate(all="ignore"):
        error = np.abs(ad - reference.value) - reference.bar
        relative = error > tolerance.rtol * np.abs(reference.value)
        visible = error > 10 * FLOAT32_RESOLUTION * reference.scale
    alone: Bools = (codes == AGREE) & relative & visible
    return alone
