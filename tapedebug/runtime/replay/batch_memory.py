"""Memory for the rows of a batch: each has its own copy of values that differ, and shares the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug.runtime.launch.plan import LaunchPlan, Runner
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.block_allocator import MARGIN
from tapedebug.runtime.memory.buffer import ALIGNMENT, Buffer, Bytes
from tapedebug.runtime.replay.shadow_memory import ShadowBuffer, Values, aligned
from tapedebug.runtime.replay.shadow_space import ShadowSpace
from tapedebug.runtime.reverse.argument_table import ArgumentTable, Columns
from tapedebug.runtime.reverse.inplace_saves import shares_views
from tapedebug.runtime.tape.buffer_versions import InplaceSave
from tapedebug.runtime.tape.record import Record

Words = np.ndarray[Any, np.dtype[np.uint64]]


class BatchMemory:
    """A block of bytes, once for each row.

    Attributes:
        stride: Bytes from one row to the next; there is an unused margin between rows, too.
        address: The address of the first row.
        each: (rows, bytes), the memory.
    """

    def __init__(self, nbytes: int, count: int) -> None:
        self.stride = stride_of(nbytes)
        self._block = aligned(self.stride * count)
        self.address = address_of(self._block)
        self.each: Bytes = self._block.reshape(count, self.stride)[:, :nbytes]
        self._used = 0

    def clear(self, count: int) -> None:
        """Zero a number of rows, which count as used from now on."""
        self.each[: min(count, self._used)] = 0
        self._used = max(count, self._used)

    def view(self, buffer: ShadowBuffer, a: array, count: int) -> Values:
        """Return `a` in the first rows of a copy of its buffer: (count, …, components)."""
        return buffer.seen(a, self._block, (count,), (self.stride,))


def stride_of(nbytes: int) -> int:
    """Return the bytes from one row to the next."""
    return -(-(nbytes + MARGIN) // ALIGNMENT) * ALIGNMENT


class BatchAddressSpace(ShadowSpace):
    """The values, adjoints and tangents of a batch: addresses in the first row, and strides to the next.

    Args:
        space: The space of the shadow; needed values that a run has overwritten are shared with it.

    Attributes:
        values, adjoints, dots: The memory of buffers that each row has a copy of.
        count: The number of rows that run.
    """

    def __init__(self, space: ShadowSpace) -> None:
        vars(self).update(vars(space))
        self.values: dict[Buffer, BatchMemory] = {}
        self.adjoints: dict[Buffer, BatchMemory] = {}
        self.dots: dict[Buffer, BatchMemory] = {}
        self.count = 1

    def value(self, a: array) -> int:
        """Return the address of the values in the first row."""
        rows = self.values.get(a.buffer)
        return super().value(a) if rows is None else rows.address + self._offset(a)

    def adjoint(self, a: array) -> int:
        """Return the address of the adjoint in the first row."""
        return self.adjoints[a.buffer].address + self._offset(a)

    def dot(self, a: array) -> int:
        """Return the address of the tangent in the first row."""
        return self.dots[a.buffer].address + self._offset(a)

    def value_view(self, a: array) -> Values:
        """Return the values: (count, …) if rows have their own, otherwise one array for all."""
        rows = self.values.get(a.buffer)
        return super().value_view(a) if rows is None else rows.view(self.buffers[a.buffer], a, self.count)

    def adjoint_view(self, a: array) -> Values:
        """Return the adjoint, (count, …)."""
        return self.adjoints[a.buffer].view(self.buffers[a.buffer], a, self.count)

    def dot_view(self, a: array) -> Values:
        """Return the tangent, (count, …)."""
        return self.dots[a.buffer].view(self.buffers[a.buffer], a, self.count)

    def shift(self, a: array) -> int:
        """Return the bytes from the values in one row to those in the next; 0 if they are shared."""
        rows = self.values.get(a.buffer)
        return 0 if rows is None else rows.stride

    def _offset(self, a: array) -> int:
        return (a.ptr - a.buffer.address) * self.buffers[a.buffer].scale


class BatchArgumentTable(ArgumentTable):
    """Packed arguments for the first row, and the increments for each further one.

    Attributes:
        shift: (words,), the increments.
        fresh: Of in-place launches, the memory in which their adjoints repeat stores, and its content before
            they run.
    """

    alone = False

    def __init__(self, records: list[Record], space: BatchAddressSpace, capacity: int) -> None:
        self.rows = space
        self.capacity = capacity
        super().__init__(records, space)
        self.shift: Words = np.zeros_like(self.memory)
        self.fresh: list[tuple[BatchMemory, InplaceSave]] = []

    def forward(self, record: Record) -> int:
        """Return the address of a record's packed arguments in the first row, for a forward run."""
        address, base = super().forward(record), self.base[record.index]
        for p, slot in record.plan.value_slots:
            self.shift[base + slot] = self.rows.shift(record.args[p])
        return address

    def tangent(self, record: Record) -> int:
        """Return the same address for a run with tangents."""
        address, base = self.forward(record), self.base[record.index]
        for p, slot in record.plan.dotted(False):
            a = record.args[p]
            self.words[base + slot] = self.rows.dot(a)
            self.shift[base + slot] = self.rows.dots[a.buffer].stride
        return address

    def at(self, address: int) -> int:
        """Return the index of the word at an address."""
        return (address - self.start) // 8

    def _fill(self, plan: LaunchPlan, records: list[Record], columns: Columns) -> None:
        super()._fill(plan, records, columns)
        begin = np.array([self.base[r.index] for r in records])
        for p, slot in plan.adjoint_slots:
            self.shift[begin + slot] = [self.rows.adjoints[a.buffer].stride for a in columns[p]]

    def _replaying(self, record: Record, base: int) -> tuple[Runner, int]:
        """Return an adjoint that repeats stores in memory of each row."""
        slots, memory = dict(record.plan.value_slots), self.rows.in_memory(record)
        for save in record.inplace_saves:
            if memory.issuperset(save.params):
                continue
            rows = BatchMemory(self.rows.inplace_values[save].size, self.capacity)
            self.fresh.append((rows, save))
            for p in save.params:
                self.words[base + slots[p]] = rows.address + self.rows.offset(record.args[p], save.start)
                self.shift[base + slots[p]] = rows.stride
        entry = self._entry(record.plan, record.replay - memory, memory, shares_views(record))
        return entry, self.start + 8 * base

    def renew(self, count: int) -> None:
        """Restore the values that in-place launches start from, in a number of rows."""
        for rows, save in self.fresh:
            rows.each[:count] = self.rows.inplace_values[save]

    def spread(self) -> Words:
        """Return the arguments of all rows: (capacity, words)."""
        numbers = np.arange(self.capacity, dtype=np.uint64)
        found: Words = self.memory + numbers[:, None] * self.shift
        return found
