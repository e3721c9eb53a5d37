"""Replays with a symptom removed: non-finite numbers replaced, adjoints past a flat operation.

NaN in a gradient hides whatever else is wrong with it, and so does a gradient of 0. With finite numbers in
place of those that are none, and some adjoint beyond the operation that has no slope, the rest can be seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.runtime.replay.shadow import Shadow

if TYPE_CHECKING:
    from tapedebug.runtime.replay.shadow import OnLaunch, Shadow
    from tapedebug.runtime.tape.record import Record


@dataclass(frozen=True, slots=True)
class ShadowPatch:
    """What is done in each run.

    Attributes:
        finite: Values that are not finite are replaced by 0, and such adjoints by some as large as those that
            came in: where all of an array were NaN, nothing further up would have any else.
        kicks: For launches, the parameters that get such an adjoint once the launch's own has run.
    """

    finite: bool = False
    kicks: Mapping[int, Collection[int]] = field(default_factory=dict)

    def __call__(self, shadow: Shadow) -> None:
        """Fix all runs of a new shadow."""
        fixed: Any = shadow
        fixed.__class__ = _fixed_shadow()
        fixed.after_forward, fixed.after_adjoint, fixed.incoming = self._values, self._adjoints, 1.0

    def _values(self, shadow: Shadow, record: Record) -> None:
        for p in record.written if self.finite else ():
            values = shadow._buffer(record.args[p]).view(record.args[p])
            if values.dtype.kind == "f":
                values[~np.isfinite(values)] = 0

    def _adjoints(self, shadow: Shadow, record: Record) -> None:
        for p in record.active if self.finite else ():
            values = shadow._buffer(record.args[p]).view(record.args[p], adjoint=True)
            bad = ~np.isfinite(values)
            if bad.any():
                values[bad] = _some(shadow, record, values)[bad]
        for p in self.kicks.get(record.index, ()):
            values = shadow._buffer(record.args[p]).view(record.args[p], adjoint=True)
            values += _some(shadow, record, values)
        _look_ahead(shadow, record)


def _some(shadow: Any, record: Record, like: Any) -> Any:
    """Adjoints of the size of those that came in, and else the same in each run."""
    return shadow.incoming * np.random.default_rng(record.index).uniform(0.5, 1.0, like.shape)


def _look_ahead(shadow: Any, record: Record) -> None:
    """Note how large the adjoints are that come into the launch before this one."""
    if record.index:
        before = shadow.records[record.index - 1]
        views = (
            shadow._buffer(before.args[p]).view(before.args[p], True) for p in before.active & before.writes
        )
        largest = [np.max(np.abs(values), initial=0.0, where=np.isfinite(values)) for values in views]
        shadow.incoming = float(max(largest, default=0.0)) or shadow.incoming


@functools.cache
def _fixed_shadow() -> type[Shadow]:
    class FixedShadow(Shadow):
        """A shadow that is fixed after each launch."""

        after_forward: Callable[[Shadow, Record], None]
        after_adjoint: Callable[[Shadow, Record], None]

        def _run(self, calls: Any, start: int, stop: Any, on_operation: Any, *args: Any, **more: Any) -> Any:
            def then(record: Record) -> None:
                self.after_forward(self, record)
                _tell(on_operation, record)

            return super()._run(calls, start, stop, then, *args, **more)

        incoming: float

        def _seed(self, seeds: Any) -> None:
            super()._seed(seeds)
            self.incoming = max((float(np.max(np.abs(seed))) for seed in seeds.values()), default=1.0)

        def backward(self, *args: Any, on_operation: Any = None, **options: Any) -> Any:
            def then(record: Record) -> None:
                self.after_adjoint(self, record)
                _tell(on_operation, record)

            options["on_operation"] = then
            return super().backward(*args, **options)

    return FixedShadow


def _tell(on_operation: OnLaunch | None, record: Record) -> None:
    if on_operation is not None:
        on_operation(record)
