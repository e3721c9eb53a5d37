"""The five verdicts, and how one entry of a Jacobian gets its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug.autograd.differences import Bools, Floats

Verdict = Literal["AGREE", "KINK", "UNDECIDABLE", "NONDETERMINISTIC", "WRONG"]

VERDICTS: tuple[Verdict, ...] = ("AGREE", "KINK", "UNDECIDABLE", "NONDETERMINISTIC", "WRONG")
"""From best to worst: a whole gets the worst verdict of its parts."""

AGREE, KINK, UNDECIDABLE, NONDETERMINISTIC, WRONG = range(5)
SUSPECT = 5  # differs by more than tolerance and error bar: WRONG, unless float32 rounding explains it

Codes = np.ndarray[Any, np.dtype[np.int8]]

FLOAT32_SHARE = 1e-7
"""Of a pair's largest entry: an error bar below it is finer than float32 gradients can be."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of `verdicts`; UNDECIDABLE where there is none, since nothing was checked."""
    return max(verdicts, key=VERDICTS.index, default="UNDECIDABLE")


@dataclass(frozen=True, slots=True)
class Reference:
    """What finite differences say of the entries of one Jacobian; all arrays have its shape (m, n), float64.

    Attributes:
        value, bar: The derivative and its error bar; NaN where the entry was not evaluated.
        left, right: One-sided slopes.
        kink: bool, where they differ however small the step.
    """

    value: Floats
    bar: Floats
    left: Floats
    right: Floats
    kink: Bools

    @property
    def scale(self) -> float:
        """The largest finite entry in magnitude (0 where there is none)."""
        finite = np.abs(self.value[np.isfinite(self.value)])
        return float(finite.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The documents' condition: `|AD - FD| <= atol + rtol * |FD|`."""

    atol: float
    rtol: float

    def of(self, reference: Floats) -> Floats:
        """The tolerated difference of each entry."""
        allowed: Floats = self.atol + self.rtol * np.abs(reference)
        return allowed

    def checked(self) -> Tolerance:
        """Itself.

        Raises:
            GradcheckError: A tolerance is negative or NaN.
        """
        if not (self.atol >= 0 and self.rtol >= 0):
            raise GradcheckError(
                f"tolerances must not be negative; got atol={self.atol!r}, rtol={self.rtol!r}",
                mend="leave them at atol=1e-3, rtol=1e-2",
            )
        return self


def judge(ad: Floats, reference: Reference, tolerance: Tolerance) -> Codes:
    """Give each entry AGREE, KINK, UNDECIDABLE, WRONG or SUSPECT.

    Args:
        ad: (m, n), the gradient that is checked.
        reference: Differences of the same entries.
        tolerance: The tolerances that were given.
    """
    with np.errstate(all="ignore"):
        value, bar = reference.value, reference.bar
        allowed = tolerance.of(value)
        error = np.abs(ad - value)
        known = bar <= np.maximum(allowed, FLOAT32_SHARE * reference.scale)
        codes = np.full(ad.shape, UNDECIDABLE, dtype=np.int8)
        codes[known & (error <= allowed + bar)] = AGREE
        codes[np.isfinite(bar) & (error > allowed + bar)] = SUSPECT
        codes[np.isinf(ad) & known] = WRONG
        kink = reference.kink & ~(
            (np.abs(ad - reference.left) <= allowed) & (np.abs(ad - reference.right) <= allowed)
        )
        low, high = np.minimum(reference.left, reference.right), np.maximum(reference.left, reference.right)
        between = (ad >= low - allowed) & (ad <= high + allowed)
        codes[kink] = np.where(between, KINK, WRONG)[kink]
        codes[np.isnan(ad)] = (
            WRONG  # "the check succeeds if the autodiff gradients contain no NaN values and …"
        )
    return codes


def by_atol_alone(ad: Floats, reference: Reference, tolerance: Tolerance, codes: Codes) -> Bools:
    """Entries that agree only because `atol` forgives a difference that `rtol` would not."""
    with np.errstate(all="ignore"):
        error = np.abs(ad - reference.value) - reference.bar
        relative = error > tolerance.rtol * np.abs(reference.value)
        visible = error > 10 * FLOAT32_SHARE * reference.scale
    alone: Bools = (codes == AGREE) & relative & visible
    return alone
