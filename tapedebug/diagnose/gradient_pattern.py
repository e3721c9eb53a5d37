"""Recognises the pattern of a wrong gradient: zero, negated, N times too large, transposed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import FACTOR_EXPLAINS
from tapedebug.diagnose.experiments.experiment import Values


@dataclass(frozen=True, slots=True)
class GradientPattern:
    """The relation of two gradients.

    Attributes:
        name: ``"equal"``, ``"zero"``, ``"sign"``, ``"factor"``, ``"transposed"``; ``"other"``.
        ratio: The factor that fits the gradient best.
        spread: The relative residual of that fit.
    """

    name: str
    ratio: float
    spread: float


def find_pattern(consumed: Mapping[int, Values], right: Mapping[int, Values]) -> GradientPattern:
    """Compare gradients of the same arrays, all together."""
    shared = [key for key in right if key in consumed]
    got = [consumed[key].astype(np.float64) for key in shared]
    want = [right[key].astype(np.float64) for key in shared]
    one = np.concatenate([np.ravel(values) for values in got]) if got else np.zeros(0)
    two = np.concatenate([np.ravel(values) for values in want]) if want else np.zeros(0)
    size, scale = float(np.dot(two, two)), float(np.linalg.norm(one))
    if not np.isfinite(size + scale) or (size == 0 and scale > 0):
        return GradientPattern("other", float("nan"), float("inf"))
    if scale == 0:
        return GradientPattern("equal" if size == 0 else "zero", 1.0 if size == 0 else 0.0, 0.0)
    ratio = float(np.dot(one, two)) / size
    spread = float(np.linalg.norm(one - ratio * two)) / scale
    if spread <= FACTOR_EXPLAINS:
        name = (
            "equal"
            if abs(ratio - 1) <= FACTOR_EXPLAINS
            else "sign"
            if abs(ratio + 1) <= FACTOR_EXPLAINS
            else "factor"
        )
        return GradientPattern(name, ratio, spread)
    square = all(values.ndim == 2 and values.shape[0] == values.shape[1] for values in want)
    if square and all(np.allclose(g, w.T, rtol=FACTOR_EXPLAINS) for g, w in zip(got, want, strict=True)):
        return GradientPattern("transposed", 1.0, 0.0)
    return GradientPattern("other", ratio, spread)


def factor_words(ratio: float, sizes: Mapping[int, str]) -> str:
    """Return `64 times (the elements of error)` for a factor that is a size, `1/64 of (…)` for 1/size."""
    for count, what in sizes.items():
        if count > 1 and abs(ratio - count) <= FACTOR_EXPLAINS * count:
            return f"{count} times ({what})"
        if count > 1 and abs(ratio * count - 1) <= FACTOR_EXPLAINS:
            return f"1/{count} of ({what})"
    return f"{ratio:.6g} times"
