"""Measures the effect of overwrites on the gradients: each group alone, and all together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tapedebug.diagnose.experiments.experiment import Experiment, ValueChange, Values, relative_errors
from tapedebug.diagnose.gradient_diff import largest_difference
from tapedebug.diagnose.trace_analysis.overwrites import OverwriteGroup
from tapedebug.trace import Trace

MEASURED = 16
"""Largest number of groups of overwrites that are measured one by one; each costs a reverse pass."""


class OverwriteEffects:
    """The measured effects of overwrites.

    Args:
        trace: The tape.
        experiment: The experiment on it.
        groups: Its overwrites.

    Attributes:
        right: The gradients if all adjoints read the values of their launches.
        errors: The relative error of the gradient of each input, by `id` of the measured group.
        gradients: The element of each gradient with the largest error, with both values, by the same `id`.
        together: The relative error of the gradient of each input with all overwrites.
    """

    def __init__(self, trace: Trace, experiment: Experiment, groups: list[OverwriteGroup]) -> None:
        self.trace = trace
        self.experiment = experiment
        self.groups = groups
        self.right: Mapping[int, Values] = {}
        self.errors: dict[int, dict[str, float]] = {}
        self.gradients: dict[int, dict[str, Any]] = {}
        self.together: dict[str, float] = {}
        self.changes = experiment.changes(
            list({(pair.array, pair.clobberer): None for group in groups for pair in group.pairs})
        )
        if not experiment.blocked:
            self.right = experiment.gradients()

    def total(self, group: OverwriteGroup) -> ValueChange:
        """Return the change of the first overwrite that changes a value: messages name the first."""
        found = [
            self.changes[key] for pair in group.pairs if (key := (pair.array, pair.clobberer)) in self.changes
        ]
        if not found:
            return ValueChange(0, 0, 0.0)
        return next((change for change in found if change.changed), found[0])

    def measured(self) -> Iterator[OverwriteGroup]:
        """Yield the groups in their order, each once its effect is measured.

        Pairs whose launch and parameter already have a wrong in-place overwrite are removed: both are one
        mistake. So in-place overwrites are measured first, as is the effect of all groups together.
        """
        if not self.right:
            yield from self.groups
            return
        first = {id(group) for group in self.groups[:MEASURED]}
        for group in self.groups[:MEASURED]:
            if group.needed and group.in_place:
                self._enter(group, self.experiment.gradients(left=group.unpreserved()))
        known = {
            reader
            for group in self.groups
            if group.in_place and max(self.errors.get(id(group), {}).values(), default=0) > 0
            for reader in group.unpreserved()
        }
        for group in list(self.groups):
            if group.first.back:
                group.pairs = [pair for pair in group.pairs if (pair.reader, pair.param) not in known]
                if not group.pairs:
                    self.groups.remove(group)
        needed = [group for group in self.groups if group.needed]
        unpreserved = [pair for group in needed for pair in group.unpreserved()]
        self.together = self.compared(self.experiment.gradients(unpreserved=unpreserved))
        lost = {
            id(group)
            for group in needed[:MEASURED]
            if not group.in_place or known.intersection(group.unpreserved())
        }
        for group in self.groups:
            if id(group) in lost:
                self._enter(group, self.experiment.gradients(unpreserved=group.unpreserved()))
            elif not group.needed and id(group) in first:
                self._poison(group)
            yield group

    def _enter(self, group: OverwriteGroup, wrong: Mapping[int, Values]) -> None:
        self.errors[id(group)] = self.compared(wrong)
        self.gradients[id(group)] = largest_difference(self.trace, self.right, wrong)

    def _poison(self, group: OverwriteGroup) -> None:
        """Measure a group whose arrays no adjoint needs: filling them with NaN must not change gradients."""
        arrays = {pair.array for pair in group.pairs}
        if not any(version.needed_by for version in self.trace.versions if version.array in arrays):
            self.errors[id(group)] = self.compared(self.experiment.gradients(poisoned=arrays))

    def compared(self, wrong: Mapping[int, Values]) -> dict[str, float]:
        """Return the relative errors of gradients, by the label of the input."""
        errors = relative_errors(self.right, wrong)
        return {self.trace.arrays[array].label: error for array, error in errors.items()}
