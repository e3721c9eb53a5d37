"""Find launches that recompute an earlier result, by value numbering.

A version that is rewritten with the same values is a new version without new content. Each version therefore
gets a value number, determined by the launch that wrote it and the numbers it read; equal numbers mean equal
values.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.trace_analysis.dependencies import overlaps
from tapedebug.trace import Launch, Trace

Number = int
"""Value numbers. Numbers refer to numbers, so a thousand steps nest no deeper than one."""


@dataclass(slots=True)
class Repeats:
    """Launches with the same effect, in order.

    `array` is the array to which they add, through `param`; None if they write the same values again.
    """

    launches: list[Launch] = field(default_factory=list)
    array: int | None = None
    param: int = 0


@dataclass(slots=True)
class _Sum:
    """The values added to an array since it was last overwritten."""

    shares: dict[Number, Repeats] = field(default_factory=dict)
    state: bool = False
    """True if it was read and then added to again, as when a time loop advances its state."""


class ValueNumbers:
    """One pass over the launches of a trace.

    Attributes:
        sums: Values that were added more than once.
        same: Values that were written over the same values.
        again: Indices of the launches that repeat an earlier one in either way.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.sums: list[Repeats] = []
        self.same: list[Repeats] = []
        self.again: set[int] = set()
        self._current: dict[int, Number] = {}
        self._adding: dict[int, _Sum] = {}
        self._written: dict[Number, Repeats] = {}
        self._numbers: dict[Hashable, Number] = {}
        buffers: dict[int, list[int]] = {}
        for info in trace.arrays:
            buffers.setdefault(info.buffer, []).append(info.id)
        self._over = [
            [
                other
                for other in buffers[info.buffer]
                if other != info.id and overlaps(info, trace.arrays[other])
            ]
            for info in trace.arrays
        ]
        outside: dict[int, set[int]] = {}
        for version in trace.versions:
            if version.version and version.written_by is None:
                outside.setdefault(version.array, set()).add(version.version)
        self._outside = outside
        self._first = {version.array: version for version in trace.versions if version.version == 0}
        for launch in trace.launches:
            self._enter(launch)

    def _of(self, *what: Hashable) -> Number:
        """Return the number of a computed value."""
        return self._numbers.setdefault(what, len(self._numbers))

    def _fresh(self) -> Number:
        """Return a number that differs from all others."""
        return self._of("fresh", len(self._numbers))

    def _number(self, array: int, version: int | None = None) -> Number:
        if version in self._outside.get(array, ()):
            outside = self._of("outside", array, version)
            if self._current.get(array) != outside:
                self._begin(array, outside)
        known = self._current.get(array)
        if known is None:
            info, value = self.trace.arrays[array], self._first[array].value
            zeros = value is not None and self._zero_before(array)
            known = self._of("zeros", info.dtype, *info.shape) if zeros else self._of("before", array)
            self._current[array] = known
        return known

    def _begin(self, array: int, number: Number) -> None:
        """Record that an array has new values from now on."""
        self._current[array] = number
        self._adding[array] = _Sum()
        for other in self._over[array]:
            self._current[other] = self._fresh()
            self._adding[other] = _Sum(state=True)

    def _enter(self, launch: Launch) -> None:
        adds = {param for param, arg in enumerate(launch.args) if arg.writes and self._adds(launch, param)}
        reads = tuple(
            self._number(arg.array, arg.read_version)
            if arg.array is not None and arg.reads and param not in adds
            else None
            for param, arg in enumerate(launch.args)
        )
        for param, arg in enumerate(launch.args):
            if arg.array is not None and arg.reads and param not in adds:
                for array in (arg.array, *self._over[arg.array]):
                    self._sum(array).state = True
        key = self._of(launch.kind, launch.kernel, launch.name, tuple(launch.dim), _given(launch), reads)
        if launch.kind not in ("kernel", "copy"):
            key = self._fresh()
        stores = [param for param, arg in enumerate(launch.args) if arg.writes and param not in adds]
        repeated = [self._store(launch, param, self._of("stored", key, param)) for param in stores]
        added = [self._add(launch, param, self._of("added", key, param)) for param in adds]
        known = self._written.get(key)
        if stores and known is not None and (all(added) or not adds):
            self.again.add(launch.index)  # perhaps into another array
        elif added and all(added) and not stores:
            self.again.add(launch.index)
        if repeated and all(repeated) and not adds and known is not None:
            known.launches.append(launch)
            if len(known.launches) == 2:
                self.same.append(known)
        elif stores:
            self._written[key] = Repeats([launch])

    def _store(self, launch: Launch, param: int, number: Number) -> bool:
        array = launch.args[param].array
        assert array is not None
        if self._current.get(array) == number:
            return True
        self._begin(array, number)
        return False

    def _add(self, launch: Launch, param: int, share: Number) -> bool:
        """Record the values that a launch adds; return True if they have been added before."""
        array = launch.args[param].array
        assert array is not None
        total = self._sum(array)
        before = self._number(array)
        known = total.shares.get(share)
        self._current[array] = self._of("sum", before, share)
        for other in self._over[array]:
            self._current[other] = self._fresh()
            self._sum(other).state = True
        if total.state:
            return False
        if known is None:
            total.shares[share] = Repeats([launch], array, param)
            return False
        known.launches.append(launch)
        if len(known.launches) == 2:
            self.sums.append(known)
        return True

    def _sum(self, array: int) -> _Sum:
        known = self._adding.get(array)
        if known is None:
            known = self._adding[array] = _Sum(state=not self._zero_before(array))
        return known

    def _zero_before(self, array: int) -> bool:
        """True unless an array is known to have held other values than zeros before the tape."""
        first = self._first[array].value
        return first is None or not (first.nan or first.inf or first.norm)

    def _adds(self, launch: Launch, param: int) -> bool:
        """True if a launch may only add to a parameter, by `+=` or `y[i] = y[i] + …`."""
        kernel, arg = words.kernel_of(self.trace, launch), launch.args[param]
        if kernel is None or arg.needed:
            return False
        kinds = {access.kind for access in kernel.accesses if access.param == param}
        return kinds == {"atomic"} or (arg.reads and arg.writes)


def _given(launch: Launch) -> tuple[Any, ...]:
    """Return the inputs besides the values read, such as the shapes of arrays that a kernel queries."""
    return tuple(
        repr(arg.value) if arg.array is None else arg.array if not (arg.reads or arg.writes) else None
        for arg in launch.args
    )
