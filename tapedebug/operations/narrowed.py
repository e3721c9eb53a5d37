"""Steps that compute in float32 only, on memory that holds float32 values as float64."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from tapedebug.contract import Access
from tapedebug.operations.memory import Memory
from tapedebug.operations.operation import ExecutableOperation


class NarrowedStep:
    """An operation on wide memory: its values are rounded to float32, and its results widened.

    Elements that it leaves unchanged keep their float64 values.

    Args:
        operation: The operation, which has no float64 form.
    """

    def __init__(self, operation: ExecutableOperation) -> None:
        self._operation = operation
        self._memories: tuple[Memory, Memory, Memory] | None = None

    def forward(self, values: Memory) -> None:
        """Run the operation on rounded values."""
        narrow = self._narrow()[0]
        accesses = self._operation.accesses
        for access in accesses:
            _round(values, narrow, access)
        found = [(access, _content(narrow, access).copy()) for access in accesses if access.writes]
        self._operation.forward(narrow)
        for access, before in found:
            _widen(narrow, values, access, before)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run the adjoint on rounded values and adjoints."""
        given, left, narrow = self._narrow()
        accesses = self._operation.accesses
        for access in accesses:
            _round(before, given, access)
            _round(after, left, access)
            _round(adjoint, narrow, access)
        found = [(access, _content(narrow, access).copy()) for access in accesses]
        self._operation.vjp(given, left, narrow)
        for access, old in found:
            _widen(narrow, adjoint, access, old)

    def _narrow(self) -> tuple[Memory, Memory, Memory]:
        if self._memories is None:
            sizes: dict[Hashable, int] = {
                access.array.region: access.array.region.nbytes for access in self._operation.accesses
            }
            self._memories = Memory.zeros(sizes), Memory.zeros(sizes), Memory.zeros(sizes)
        return self._memories


def _content(memory: Memory, access: Access) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    array = access.array
    found: np.ndarray[tuple[int], np.dtype[np.uint8]] = memory.range(array.region, array.start, array.stop)
    return found


def _round(wide: Memory, narrow: Memory, access: Access) -> None:
    content, target = _content(wide, access), _content(narrow, access)
    if access.array.region in wide.wide:
        with np.errstate(over="ignore", invalid="ignore"):
            target.view(np.float32)[:] = content.view(np.float64)
    else:
        target[:] = content


def _widen(
    narrow: Memory, wide: Memory, access: Access, before: np.ndarray[tuple[int], np.dtype[np.uint8]]
) -> None:
    """Write the elements that differ from those before to wide memory."""
    content, target = _content(narrow, access), _content(wide, access)
    if access.array.region in wide.wide:
        changed = content.view(np.uint32) != before.view(np.uint32)
        target.view(np.float64)[changed] = content.view(np.float32)[changed]
    else:
        target[:] = content
