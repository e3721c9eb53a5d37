"""Describes the difference of two gradients: its size, and the element where it is largest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapedebug.autograd.subjects.long_vectors import BLOCK, blocks, norm
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.trace import Trace


def largest_difference(
    trace: Trace, right: Mapping[int, Values], wrong: Mapping[int, Values]
) -> dict[str, Any]:
    """Return for each gradient that differs the element with the largest difference and both values."""
    found: dict[str, Any] = {}
    for leaf, good in right.items():
        bad, info = wrong[leaf], trace.arrays[leaf]
        largest, flat = _largest(good.ravel(), bad.ravel())
        if largest > 0:
            place = tuple(int(k) for k in np.unravel_index(flat, good.shape))
            outer, inner = place[: len(info.shape)], place[len(info.shape) :]
            element = info.label + "".join(
                f"[{', '.join(map(str, part))}]" for part in (outer, inner) if part
            )
            found[info.label] = {
                "element": element,
                "right": float(good[place]),
                "wrong": float(bad[place]),
                "norm_right": _norm(good.ravel()),
                "norm_wrong": _norm(bad.ravel()),
            }
    return found


def _largest(good: Values, bad: Values) -> tuple[float, int]:
    """Return the largest difference of two elements, infinite if one is NaN, and the first place of it."""
    most, place = 0.0, 0
    for at in blocks(good.size):
        one, other = good[at], bad[at]
        with np.errstate(all="ignore"):
            apart = np.abs(other.astype(np.float64) - one.astype(np.float64))
        apart[np.isnan(apart)] = np.inf
        apart[(one == other) | (np.isnan(one) & np.isnan(other))] = 0.0
        if apart.max() > most:
            most, place = float(apart.max()), at.start + int(apart.argmax())
    return most, place


def _norm(values: Values) -> float:
    return norm(values) if values.size > BLOCK else float(np.linalg.norm(values.astype(np.float64)))


def worst_element(gradients: Mapping[str, Any], errors: Mapping[str, float]) -> str:
    """Return ` (1.8 in place of 2.91 for throw[0])` for the element with the largest error."""
    found = gradients.get(max(errors, key=lambda label: errors[label]))
    if found is None:
        return ""
    right, wrong = words.number(found["right"]), words.number(found["wrong"])
    return "" if right == wrong else f" ({wrong} in place of {right} for {found['element']})"


def off_by(errors: Mapping[str, float], verb: str) -> str:
    """Return `throw would be off by 38 %, that of x0 by 2 %`: at most three inputs, largest error first."""
    order = [item for item in sorted(errors.items(), key=lambda item: -item[1]) if item[1] > 0][:3]
    parts = [f"{label} {verb}off by {words.percent(error)}" for label, error in order[:1]]
    return ", that of ".join([*parts, *(f"{label} by {words.percent(error)}" for label, error in order[1:])])
