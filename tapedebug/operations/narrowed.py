"""Steps that compute in float32 or float16 only, on memory that holds such values as float64."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from tapedebug.contract import Access
from tapedebug.operations.memory import Memory
from tapedebug.operations.operation import Step


class NarrowOperation(Step, Protocol):
    """A step that computes in the precision of the program, with its accesses."""

    @property
    def accesses(self) -> Sequence[Access]:
        """The use that it makes of each array."""


class NarrowMemory:
    """The memory of the program's precision that all such steps of a replay share, and of other replays.

    Each step rounds into it what it uses, so that nothing has to stay in it.

    Args:
        sizes: The size in bytes of each region of the program.
        before: Memory for the values; by default new memory.
        adjoint: Memory for the adjoints; by default new memory.
    """

    def __init__(
        self, sizes: Mapping[Hashable, int], before: Memory | None = None, adjoint: Memory | None = None
    ) -> None:
        self._sizes, self._before, self._adjoint = sizes, before, adjoint

    @cached_property
    def before(self) -> Memory:
        """The values that a step runs on, or those before it."""
        return self._before or Memory.zeros(self._sizes)

    @cached_property
    def after(self) -> Memory:
        """The values after a step."""
        return Memory.zeros(self._sizes)

    @cached_property
    def adjoint(self) -> Memory:
        """The adjoints."""
        return self._adjoint or Memory.zeros(self._sizes)


class _Range(NamedTuple):
    """The scalars of an access in wide and in narrow memory, with the bits of the latter."""

    wide: np.ndarray[Any, Any]
    narrow: np.ndarray[Any, Any]
    bits: np.ndarray[Any, Any]
    is_written: bool


class NarrowedStep:
    """An operation on wide memory: its values are rounded to those of the program, and its results widened.

    Elements that it leaves unchanged keep their float64 values.

    Args:
        operation: The operation, which has no float64 form.
        memory: The memory that it runs on.
        reads_after: Its adjoint reads the values after it, too: only an `ExactAdjoint` does.
    """

    def __init__(
        self, operation: NarrowOperation, memory: NarrowMemory, *, reads_after: bool = False
    ) -> None:
        self._operation, self._memory, self._reads_after = operation, memory, reads_after

    def forward(self, values: Memory) -> None:
        """Run the operation on rounded values."""
        narrow = self._memory.before
        ranges = self._rounded(values, narrow)
        written = [(each, each.bits.copy()) for each in ranges if each.is_written]
        self._operation.forward(narrow)
        _widen(written)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run the adjoint on rounded values and adjoints."""
        narrow = self._memory
        self._rounded(before, narrow.before, given=True)
        found = narrow.before
        if self._reads_after and after is not before:
            found = narrow.after
            self._rounded(after, found, given=True)
        ranges = [(each, each.bits.copy()) for each in self._rounded(adjoint, narrow.adjoint)]
        self._operation.vjp(narrow.before, found, narrow.adjoint)
        _widen(ranges)

    def _rounded(self, wide: Memory, narrow: Memory, *, given: bool = False) -> list[_Range]:
        """Round what the operation uses, or what its adjoint is given of the values; return the ranges."""
        key = self, narrow, given
        ranges: list[_Range] | None = wide.bound.get(key)
        if ranges is None:
            used = [
                each
                for each in self._operation.accesses
                if not given or each.reads or each.needs_before or each.needs_after
            ]
            ranges = wide.bound[key] = [_range(wide, narrow, each) for each in used]
        with np.errstate(over="ignore", invalid="ignore"):
            for each in ranges:
                each.narrow[:] = each.wide
        return ranges


def _range(wide: Memory, narrow: Memory, access: Access) -> _Range:
    array = access.array
    content = wide.range(array.region, array.start, array.stop)
    target = narrow.range(array.region, array.start, array.stop)
    dtype = wide.wide.get(array.region)
    if dtype is not None:
        bits = target.view(f"u{dtype.itemsize}")
        return _Range(content.view(np.float64), target.view(dtype), bits, access.writes)
    return _Range(content, target, target, access.writes)


def _widen(ranges: list[tuple[_Range, np.ndarray[Any, Any]]]) -> None:
    """Write the elements whose bits differ from those before to wide memory."""
    for each, before in ranges:
        np.copyto(each.wide, each.narrow, where=each.bits != before)
