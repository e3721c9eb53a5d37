"""Replays with a symptom removed: non-finite numbers replaced, adjoints added beyond a flat operation.

A NaN in a gradient hides all its other errors, and so does a gradient of 0. Finite numbers in their place,
and an artificial adjoint beyond the operation that has no slope, make the other errors visible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float
from tapedebug.contract import Array, Operation, Replay, Values


@dataclass(frozen=True, slots=True)
class ReplayPatch:
    """The changes that are made during each run.

    Attributes:
        finite: Replaces non-finite values by 0, and non-finite adjoints by numbers as large as the incoming
            adjoints: zeros would leave earlier launches without an adjoint if a whole array were NaN.
        kicks: The parameters, by launch, that get such an adjoint after the launch's own adjoint has run.
    """

    finite: bool = False
    kicks: Mapping[int, Collection[int]] = field(default_factory=dict)

    def apply(self, replay: Replay, operations: Sequence[Operation], seeds: Mapping[Array, Values]) -> None:
        """Patch all runs of a new replay, whose reverse passes start from these seeds."""
        seed_size = max((float(np.max(np.abs(seed))) for seed in seeds.values()), default=1.0)
        run = _PatchedRun(self, operations, seed_size, seed_size)
        replay.after_operation, replay.after_adjoint = run.patch_values, run.patch_adjoints


@dataclass(slots=True)
class _PatchedRun:
    """The state of the runs of one replay."""

    patch: ReplayPatch
    operations: Sequence[Operation]
    seed_size: float
    incoming: float
    """The size of the adjoints that enter the next operation of the reverse pass."""
    next: int = -1
    """The index of that operation; any other index starts a new pass."""

    def patch_values(self, replay: Replay, operation: Operation) -> None:
        """Replace the non-finite values that an operation wrote."""
        for p in operation.written if self.patch.finite else ():
            values = replay.values(operation.args[p])
            if is_float(values.dtype) and not np.isfinite(values).all():
                values[~np.isfinite(values)] = 0
                replay.set(operation.args[p], values)

    def patch_adjoints(self, replay: Replay, operation: Operation) -> None:
        """Replace the non-finite adjoints after the adjoint of an operation ran, and add the kicks."""
        if operation.index != self.next:
            self.incoming = self.seed_size
        self.next = operation.index - 1
        for p in operation.active if self.patch.finite else ():
            values = replay.gradient(operation.args[p])
            bad = ~np.isfinite(values)
            if bad.any():
                values[bad] = self._some(operation, values)[bad]
                replay.set_gradient(operation.args[p], values)
        for p in self.patch.kicks.get(operation.index, ()):
            values = replay.gradient(operation.args[p])
            replay.set_gradient(operation.args[p], values + self._some(operation, values))
        self._look_ahead(replay, operation)

    def _some(self, operation: Operation, like: Values) -> Values:
        """Return random adjoints of the size of the incoming ones, the same in each run."""
        size = np.random.default_rng(operation.index).uniform(0.5, 1.0, like.shape)
        return np.asarray(self.incoming * size)

    def _look_ahead(self, replay: Replay, operation: Operation) -> None:
        """Store the size of the adjoints that enter the operation before this one."""
        if operation.index:
            before = self.operations[operation.index - 1]
            found = [replay.gradient(before.args[p]) for p in set(before.active) & set(before.writes)]
            largest = [np.max(np.abs(values), initial=0.0, where=np.isfinite(values)) for values in found]
            self.incoming = float(max(largest, default=0.0)) or self.incoming
