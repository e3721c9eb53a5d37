"""The address space of a mirrored launch: private memory of a replay, or any memory of its regions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

import numpy as np

from tapedebug.lang import types
from tapedebug.operations.memory import Bytes, Memory
from tapedebug.runtime.launch.plan import NOTHING
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.array import Values, array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.tape.buffer_versions import InplaceSave, SavedValue
from tapedebug.runtime.tape.record import Record


class MemorySpace:
    """An address space (see `argument_table.AddressSpace`) of one launch.

    Args:
        regions: The region of each buffer.
        before: The values before the launch.
        after: The values after it, for the arrays in `late`.
        adjoint: The adjoints; not used in a forward run.
        late: The arrays whose values after the launch the adjoint reads.
        f64: Float32 and float16 values are held as float64.
    """

    moved = True
    live = False
    rounded = False
    foreign = None

    def __init__(
        self,
        regions: Mapping[Buffer, Hashable],
        before: Memory,
        after: Memory,
        adjoint: Memory,
        late: Collection[array],
        f64: bool,
    ) -> None:
        self.f64 = f64
        self.guarded = before is after  # values of another time may hold other indices
        self._regions, self._late = regions, {id(a) for a in late}
        self._before, self._after, self._adjoint = before, after, adjoint

    def value(self, a: array) -> int:
        """Return the address of the values."""
        return self._address(a, self._after if id(a) in self._late else self._before)

    def adjoint(self, a: array) -> int:
        """Return the address of the adjoint."""
        return self._address(a, self._adjoint)

    def _address(self, a: array, memory: Memory) -> int:
        region = self._regions.get(a.buffer)
        if region is None:  # memory of this engine: the indices of a whole axis, or an array without elements
            return a.ptr
        scale = memory.scale(region)
        return address_of(memory.bytes[region]) + (a.ptr - a.buffer.address) * scale

    def value_view(self, a: array) -> Values:
        """Return the values as a NumPy view."""
        return self._view(a, self._after if id(a) in self._late else self._before)

    def adjoint_view(self, a: array) -> Values:
        """Return the adjoint as a NumPy view."""
        return self._view(a, self._adjoint)

    def _view(self, a: array, memory: Memory) -> Values:
        region = self._regions.get(a.buffer)
        if region is None:
            return a.numpy()
        scale = memory.scale(region)
        scalar = types.numpy_dtype(a.dtype) if scale == 1 else np.dtype(np.float64)
        inner = types.value_shape(a.dtype)
        steps = tuple(scalar.itemsize * int(np.prod(inner[axis + 1 :])) for axis in range(len(inner)))
        strides = tuple(step * scale for step in a.strides) + steps
        offset = (a.ptr - a.buffer.address) * scale
        return np.ndarray(a.shape + inner, scalar, memory.bytes[region].data, offset, strides)

    def stretch(self, a: array) -> int:
        """Return the ratio of the strides, in scalars, to those in the program's memory."""
        scale = self._before.scale(self._regions.get(a.buffer))
        return 1 if scale == 1 else scale * types.numpy_dtype(a.dtype).itemsize // 8

    def preserved(self, record: Record, need: SavedValue) -> Bytes | None:
        """Return None: the memory of this space holds the values that the record saw."""
        return None

    def inplace_save(self, record: Record, save: InplaceSave) -> Bytes:
        """Return the values that an in-place launch started from."""
        region = self._regions[record.args[save.params[0]].buffer]
        return self._before.range(region, save.start, save.stop)

    def in_memory(self, record: Record) -> frozenset[int]:
        """Return the parameters whose stores are not repeated: all if memory is that of another time."""
        return record.replay if self.guarded else NOTHING

    def offset(self, a: array, start: int) -> int:
        """Return the bytes from `start` to the first element."""
        scale = self._before.scale(self._regions.get(a.buffer))
        return (a.ptr - a.buffer.address - start) * scale

    def call(self, record: Record) -> None:
        """Do nothing: a launch has no custom reverse function."""
