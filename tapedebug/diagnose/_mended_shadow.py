"""Replays with a symptom taken away: numbers that are not finite replaced, adjoints past a flat operation.

NaN in a gradient hides whatever else is wrong with it, and so does a gradient of 0. With finite numbers in
place of those that are none, and some adjoint beyond the operation that has no slope, the rest can be seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tapedebug.runtime.record import Record
    from tapedebug.runtime.replay import OnLaunch, Shadow


@dataclass(frozen=True, slots=True)
class Mend:
    """What is done in each run.

    Attributes:
        finite: Values that are not finite are replaced by 0, and such adjoints by some of about 1: where all
            of an array were NaN, nothing further up would have any else.
        kicks: For launches, the parameters that get some adjoint once the launch's own has run.
    """

    finite: bool = False
    kicks: Mapping[int, Collection[int]] = field(default_factory=dict)

    def __call__(self, shadow: Shadow) -> None:
        """Mend all runs of a new shadow."""
        mended: Any = shadow
        mended.__class__ = _mended_shadow()
        mended.after_forward, mended.after_adjoint = self._values, self._adjoints

    def _values(self, shadow: Shadow, record: Record) -> None:
        for p in record.plan.written if self.finite else ():
            values = shadow._buffer(record.args[p]).view(record.args[p])
            if values.dtype.kind == "f":
                values[~np.isfinite(values)] = 0

    def _adjoints(self, shadow: Shadow, record: Record) -> None:
        for p in record.active if self.finite else ():
            values = shadow._buffer(record.args[p]).view(record.args[p], adjoint=True)
            bad = ~np.isfinite(values)
            if bad.any():
                values[bad] = _some(record, values)[bad]
        for p in self.kicks.get(record.index, ()):
            values = shadow._buffer(record.args[p]).view(record.args[p], adjoint=True)
            values += _some(record, values)


def _some(record: Record, like: Any) -> Any:
    """Adjoints of about 1, the same in each run."""
    return np.random.default_rng(record.index).uniform(0.5, 1.0, like.shape)


@functools.cache
def _mended_shadow() -> type[Shadow]:
    from tapedebug.runtime.replay import Shadow

    class MendedShadow(Shadow):
        """A shadow that is mended after each launch."""

        after_forward: Callable[[Shadow, Record], None]
        after_adjoint: Callable[[Shadow, Record], None]

        def _run(self, calls: Any, start: int, stop: Any, on_launch: Any, *args: Any, **more: Any) -> Any:
            def then(record: Record) -> None:
                self.after_forward(self, record)
                _tell(on_launch, record)

            return super()._run(calls, start, stop, then, *args, **more)

        def backward(self, *args: Any, on_launch: Any = None, **options: Any) -> Any:
            def then(record: Record) -> None:
                self.after_adjoint(self, record)
                _tell(on_launch, record)

            options["on_launch"] = then
            return super().backward(*args, **options)

    return MendedShadow


def _tell(on_launch: OnLaunch | None, record: Record) -> None:
    if on_launch is not None:
        on_launch(record)
