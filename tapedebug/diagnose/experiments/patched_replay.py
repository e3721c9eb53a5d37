"""Replays with a symptom removed: non-finite numbers replaced, adjoints past a flat operation.

NaN in a gradient hides whatever else is wrong with it, and so does a gradient of 0. With finite numbers in
their place, and some adjoint beyond the operation that has no slope, the rest can be seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tapedebug.contract import Array, Operation, Replay, Values


@dataclass(frozen=True, slots=True)
class ReplayPatch:
    """The changes that are made during each run.

    Attributes:
        finite: Values that are not finite are replaced by 0, and such adjoints by some as large as those that
            came in: where all of an array were NaN, nothing further up would have any else.
        kicks: For launches, the parameters that get such an adjoint once the launch's own has run.
    """

    finite: bool = False
    kicks: Mapping[int, Collection[int]] = field(default_factory=dict)

    def apply(self, replay: Replay, operations: Sequence[Operation], seeds: Mapping[Array, Values]) -> None:
        """Patch all runs of a new replay, whose reverse passes begin with these seeds."""
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
    """The size of the adjoints that come into the next operation of the reverse pass."""
    next: int = -1
    """The index of that operation; another one begins a new pass."""

    def patch_values(self, replay: Replay, operation: Operation) -> None:
        """Replace the values that an operation wrote and that are not finite."""
        for p in operation.written if self.patch.finite else ():
            values = replay.values(operation.args[p])
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                values[~np.isfinite(values)] = 0
                replay.set(operation.args[p], values)

    def patch_adjoints(self, replay: Replay, operation: Operation) -> None:
        """Replace the adjoints that are not finite once that of an operation ran, and add the kicks."""
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
        """Return adjoints of the size of those that came in, and else the same in each run."""
        size = np.random.default_rng(operation.index).uniform(0.5, 1.0, like.shape)
        return np.asarray(self.incoming * size)

    def _look_ahead(self, replay: Replay, operation: Operation) -> None:
        """Note the size of the adjoints that come into the operation before this one."""
        if operation.index:
            before = self.operations[operation.index - 1]
            found = [replay.gradient(before.args[p]) for p in set(before.active) & set(before.writes)]
            largest = [np.max(np.abs(values), initial=0.0, where=np.isfinite(values)) for values in found]
            self.incoming = float(max(largest, default=0.0)) or self.incoming
