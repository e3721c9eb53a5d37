"""Measures what overwrites do to the gradients: each kind alone, and all together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapedebug.diagnose import _words as words
from tapedebug.diagnose._experiment import Change, Experiment, Values, relative_errors
from tapedebug.diagnose._overwritten import Group
from tapedebug.trace import Trace

WRONG = 1e-3
"""A gradient that differs by more than this, relatively, is wrong: as in the end-to-end check."""
NOTICED = 1e-5
"""Below this a difference is at the level of float32 rounding, and the gradient no worse for it."""
MEASURED = 16
"""How many groups of overwrites are measured one by one; each costs a reverse pass."""


class Study:
    """The measurements.

    Args:
        trace: The tape.
        experiment: Runs it again.
        groups: Its overwrites. Those of the same launch and parameter that are wrong in place already are
            taken out again: they are one mistake.

    Attributes:
        right: Gradients where all adjoints see what their launches saw.
        errors: For the groups that were measured, by `id`, how far off they put the gradient of each input.
        gradients: The same with both values, where they are furthest apart.
        together: How far off all of them put it.
    """

    def __init__(self, trace: Trace, experiment: Experiment, groups: list[Group]) -> None:
        self.trace = trace
        self.experiment = experiment
        self.groups = groups
        self.right: Mapping[int, Values] = {}
        self.errors: dict[int, dict[str, float]] = {}
        self.gradients: dict[int, dict[str, Any]] = {}
        self.together: dict[str, float] = {}
        pairs = [(pair.array, pair.clobberer) for group in groups for pair in group.pairs]
        self.changes = experiment.changes(list(dict.fromkeys(pairs)))
        if not experiment.blocked:
            self.right = experiment.gradients()
        if self.right:
            self._measure()

    def total(self, group: Group) -> Change:
        """The change of the first overwrite, with the largest difference of all."""
        found = [
            self.changes[key] for pair in group.pairs if (key := (pair.array, pair.clobberer)) in self.changes
        ]
        if not found:
            return Change(0, 0, 0.0)
        return Change(
            found[0].elements, max(item.changed for item in found), max(item.largest for item in found)
        )

    def _measure(self) -> None:
        for group in self.groups[:MEASURED]:
            if not group.needed:
                self._poison(group)
            elif group.in_place:
                self._enter(group, self.experiment.gradients(left=group.careless()))
        known = {
            reader
            for group in self.groups
            if group.in_place and max(self.errors.get(id(group), {}).values(), default=0) > 0
            for reader in group.careless()
        }
        for group in list(self.groups):
            if group.first.back:
                group.pairs = [pair for pair in group.pairs if (pair.reader, pair.param) not in known]
                if not group.pairs:
                    self.groups.remove(group)
        needed = [group for group in self.groups if group.needed]
        for group in needed[:MEASURED]:
            if not group.in_place or known.intersection(group.careless()):
                self._enter(group, self.experiment.gradients(careless=group.careless()))
        careless = [pair for group in needed for pair in group.careless()]
        self.together = self.compared(self.experiment.gradients(careless=careless))

    def _enter(self, group: Group, wrong: Mapping[int, Values]) -> None:
        self.errors[id(group)] = self.compared(wrong)
        self.gradients[id(group)] = furthest(self.trace, self.right, wrong)

    def _poison(self, group: Group) -> None:
        """Where no adjoint needs any version of an array, NaN in all of it must not matter."""
        arrays = {pair.array for pair in group.pairs}
        if not any(version.needed_by for version in self.trace.versions if version.array in arrays):
            self.errors[id(group)] = self.compared(self.experiment.gradients(poisoned=arrays))

    def compared(self, wrong: Mapping[int, Values]) -> dict[str, float]:
        """How far off gradients are, by the label of the input."""
        errors = relative_errors(self.right, wrong)
        return {self.trace.arrays[array].label: error for array, error in errors.items()}


def furthest(trace: Trace, right: Mapping[int, Values], wrong: Mapping[int, Values]) -> dict[str, Any]:
    """For each input whose gradient differs the element where it does most, with both values."""
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


def told(gradients: Mapping[str, Any], errors: Mapping[str, float]) -> str:
    """` (1.8 in place of 2.91 for throw[0])`: for the input that is furthest off, where it is that most."""
    found = gradients.get(max(errors, key=lambda label: errors[label]))
    if found is None:
        return ""
    right, wrong = words.number(found["right"]), words.number(found["wrong"])
    return "" if right == wrong else f" ({wrong} in place of {right} for {found['element']})"


def off(errors: Mapping[str, float], verb: str) -> str:
    """`throw would be off by 38 %, that of x0 by 2 %`: at most three, the largest first."""
    order = [item for item in sorted(errors.items(), key=lambda item: -item[1]) if item[1] > 0][:3]
    parts = [f"{label} {verb}off by {words.percent(error)}" for label, error in order[:1]]
    return ", that of ".join([*parts, *(f"{label} by {words.percent(error)}" for label, error in order[1:])])
