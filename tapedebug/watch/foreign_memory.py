"""Memory that a reverse pass reads but that its tape does not use: arrays that structs got later."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Hashable, Iterable
from typing import Any, cast

import numpy as np

from tapedebug._float_types import is_short_float
from tapedebug.contract import Access, Array, Values
from tapedebug.operations import Memory, Region, SnapshotBudget
from tapedebug.operations.memory import NARROW, Copied, fetched


class ForeignMemory:
    """The values and gradients of arrays outside a tape, as they are when its reverse pass begins.

    Args:
        accesses: The accesses of a launch; those to regions of the tape are left out.
        regions: The regions of the tape.
        budget: The budget that counts the copies as long as this object lives.

    Attributes:
        is_complete: The budget allowed all copies.
    """

    def __init__(
        self, accesses: Iterable[Access], regions: Collection[object], budget: SnapshotBudget
    ) -> None:
        self.is_complete = True
        self._values: list[tuple[Array, Copied]] = []
        self._gradients: list[tuple[Array, Values]] = []
        taken = 0
        for array in dict.fromkeys(access.array for access in accesses):
            region = cast("Region", array.region)
            if region in regions or not array.size:
                continue
            nbytes = array.stop - array.start
            if not budget.take(nbytes):
                self.is_complete = False
                break
            taken += nbytes
            self._values.append((array, region.copied(array.start, array.stop)))
            gradient = array.current_gradient() if array.requires_grad else None
            if gradient is not None:
                self._gradients.append((array, gradient))
        if taken:
            weakref.finalize(self, budget.release, taken)

    def beside(self, memory: Memory) -> Memory:
        """Return a memory that shares the regions of another one, with the values of these arrays added."""
        found, added = self._extended(memory)
        for array, content in self._values:
            if array.region in added:
                found.load(array.region, fetched(content), array.start)
        return found

    def adjoints_beside(self, memory: Memory) -> Memory:
        """Return the same with the gradients of these arrays."""
        found, added = self._extended(memory)
        for region in added:
            found.bytes[region][:] = 0
        for array, gradient in self._gradients:
            if array.region in added:
                found.view(array)[...] = gradient
        return found

    def _extended(self, memory: Memory) -> tuple[Memory, frozenset[Region]]:
        """Return a memory with the regions of these arrays added, made once, and the added regions."""
        found: tuple[Memory, frozenset[Region]] | None = memory.bound.get(self)
        if found is None:
            arrays = {
                cast("Region", array.region): array
                for array, _ in self._values
                if array.region not in memory.bytes
            }
            short: dict[Hashable, np.dtype[Any]] = {
                region: array.scalar_dtype
                for region, array in arrays.items()
                if is_short_float(array.scalar_dtype) and not region.nbytes % array.scalar_dtype.itemsize
            }
            wide = {**memory.wide, **short} if memory.wide else NARROW
            extra = Memory.zeros({region: region.nbytes for region in arrays}, wide)
            both = Memory({**memory.bytes, **extra.bytes}, wide) if arrays else memory
            found = memory.bound[self] = both, frozenset[Region](arrays)
        return found
