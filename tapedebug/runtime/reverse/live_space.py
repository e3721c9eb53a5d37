"""The address space of the user's own reverse pass: values and adjoints of live arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.runtime.launch.plan import NOTHING
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Bytes
from tapedebug.runtime.tape.buffer_versions import InplaceSave, SavedValue, elements_of
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.runtime.foreign_engine import ForeignReverse

Values = np.ndarray[Any, Any]


class LiveSpace:
    """The user's arrays: values in place (or the preserved copies), adjoints in `.grad`."""

    f64 = False
    moved = False
    live = True
    rounded = False

    def __init__(self, mode: str, foreign: ForeignReverse | None = None) -> None:
        self.foreign = foreign
        self.preserves = mode in {"preserve", "error"}
        self.guarded = not self.preserves

    def value(self, a: array) -> int:
        """Return the address of the values."""
        return a.ptr

    def adjoint(self, a: array) -> int:
        """Return the address of the gradient."""
        buffer = a.buffer
        return (buffer.adjoint or buffer.gradient()).address + a.ptr - buffer.address

    def value_view(self, a: array) -> Values:
        """Return the values as a NumPy view."""
        return a._numpy_view()

    def adjoint_view(self, a: array) -> Values:
        """Return the gradient as a NumPy view."""
        gradient = a.grad
        assert gradient is not None
        return gradient._numpy_view()

    def stretch(self, a: array) -> int:
        """Return 1: the strides are those of the user's memory."""
        return 1

    def preserved(self, record: Record, need: SavedValue) -> Bytes | None:
        """Return the preserved copy, if the mode uses it."""
        return need.copy if self.preserves else None

    def inplace_save(self, record: Record, save: InplaceSave) -> Bytes:
        """Return the pre-launch values."""
        assert save.copy is not None
        return save.copy

    def in_memory(self, record: Record) -> frozenset[int]:
        """Return all replayed parameters if the mode keeps no copies."""
        return NOTHING if self.preserves else record.replay

    def offset(self, a: array, start: int) -> int:
        """Return the bytes from `start` to the first element."""
        return a.ptr - a.buffer.address - start

    def call(self, record: Record) -> None:
        """Run a custom reverse function while the arrays hold the values that it was recorded with."""
        swapped = []
        try:
            for need, a in zip(record.needs, record.args, strict=True):
                if self.preserves and need.copy is not None:
                    place = elements_of(a.buffer.data, a)
                    swapped.append((place, place.copy()))
                    place[...] = elements_of(need.copy, a, need.start)
            assert record.func is not None
            record.func()
        finally:
            for place, now in reversed(swapped):
                place[...] = now
