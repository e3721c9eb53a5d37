"""Measures what overwrites do to the gradients: each kind alone, and all together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapedebug.diagnose.experiments.experiment import Experiment, ValueChange, Values, relative_errors
from tapedebug.diagnose.gradient_diff import largest_difference
from tapedebug.diagnose.trace_analysis.overwrites import OverwriteGroup
from tapedebug.trace import Trace

MEASURED = 16
"""How many groups of overwrites are measured one by one; each costs a reverse pass."""


class OverwriteEffects:
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

    def __init__(self, trace: Trace, experiment: Experiment, groups: list[OverwriteGroup]) -> None:
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

    def total(self, group: OverwriteGroup) -> ValueChange:
        """The change of the first overwrite, with the largest difference of all."""
        found = [
            self.changes[key] for pair in group.pairs if (key := (pair.array, pair.clobberer)) in self.changes
        ]
        if not found:
            return ValueChange(0, 0, 0.0)
        return ValueChange(
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

    def _enter(self, group: OverwriteGroup, wrong: Mapping[int, Values]) -> None:
        self.errors[id(group)] = self.compared(wrong)
        self.gradients[id(group)] = largest_difference(self.trace, self.right, wrong)

    def _poison(self, group: OverwriteGroup) -> None:
        """Where no adjoint needs any version of an array, NaN in all of it must not matter."""
        arrays = {pair.array for pair in group.pairs}
        if not any(version.needed_by for version in self.trace.versions if version.array in arrays):
            self.errors[id(group)] = self.compared(self.experiment.gradients(poisoned=arrays))

    def compared(self, wrong: Mapping[int, Values]) -> dict[str, float]:
        """How far off gradients are, by the label of the input."""
        errors = relative_errors(self.right, wrong)
        return {self.trace.arrays[array].label: error for array, error in errors.items()}
