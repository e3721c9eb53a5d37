"""Describes the difference of two gradients: its size, and the element where it is largest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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
        with np.errstate(all="ignore"):
            apart = np.abs(bad.astype(np.float64) - good.astype(np.float64))
        apart[np.isnan(apart)] = np.inf
        apart[(good == bad) | (np.isnan(good) & np.isnan(bad))] = 0.0
        if apart.size and apart.max() > 0:
            place = tuple(int(k) for k in np.unravel_index(int(apart.argmax()), apart.shape))
            outer, inner = place[: len(info.shape)], place[len(info.shape) :]
            element = info.label + "".join(
                f"[{', '.join(map(str, part))}]" for part in (outer, inner) if part
            )
            found[info.label] = {
                "element": element,
                "right": float(good[place]),
                "wrong": float(bad[place]),
                "norm_right": float(np.linalg.norm(good.astype(np.float64))),
                "norm_wrong": float(np.linalg.norm(bad.astype(np.float64))),
            }
    return found


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
