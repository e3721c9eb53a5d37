"""Copies, fills and functions with a backward of their own, as operations of a watched tape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tapedebug.contract import Access, Irreplayable, Place, Values, share_bytes
from tapedebug.operations import (
    ExactAdjoint,
    HostOperation,
    Memory,
    ProgramReverse,
    PushesTangents,
    RunsInFloat64,
    Step,
)
from tapedebug.watch.memory import WatchedArray


class CopyOperation(HostOperation):
    """`warp.copy`, also as part of `clone` and `assign`.

    Args:
        dest: The array that is written.
        src: The array that is read, of the same shape, or as many elements if both are contiguous.
        call_site: The place in the program.
        taped: Warp's tape has recorded it.
        accumulates: Warp's adjoint adds to the gradient of `src` and zeroes that of `dest`. Before Warp 1.19
            it copies one over the other.
        reversed_parts: The parts of destination and source that Warp's adjoint uses in place of `dest` and
            `src`: before Warp 1.15 it exchanges the two offsets.
    """

    def __init__(
        self,
        dest: WatchedArray,
        src: WatchedArray,
        call_site: Place,
        taped: bool,
        accumulates: bool,
        reversed_parts: tuple[WatchedArray, WatchedArray] | None = None,
    ) -> None:
        active = dest.requires_grad and src.requires_grad
        super().__init__(
            name="copy",
            args=[dest, src],
            params=["dest", "src"],
            accesses=[
                Access(0, "dest", dest, reads=False, writes=True, active=active),
                Access(1, "src", src, reads=True, writes=False, active=active),
            ],
            call_site=call_site,
            kind="copy",
        )
        self.dest, self.src = dest, src
        self.taped, self.accumulates, self.reversed_parts = taped, accumulates, reversed_parts
        self.capabilities[ExactAdjoint] = self
        self.capabilities[PushesTangents] = self
        self.capabilities[RunsInFloat64] = self
        self.capabilities[ProgramReverse] = self

    def arrays_changed(self, changed: Callable[[WatchedArray], WatchedArray]) -> None:
        """Use other arrays of the contract in place of those of the program."""
        self.dest, self.src = changed(self.dest), changed(self.src)

    def forward(self, values: Memory) -> None:
        """Copy the values."""
        dest, src = self._views(values)
        dest[...] = src

    def push(self, values: Memory, tangents: Memory, *, float64: bool, detached: bool) -> None:
        """Copy the values and their tangents."""
        self.forward(values)
        if not self.dest.is_float or (detached and not self.dest.requires_grad):
            return
        dest, src = self._views(tangents)
        dest[...] = src if not detached or self.src.requires_grad else 0

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Add the adjoint of `dest` to that of `src`, and zero it."""
        if self.dest.requires_grad:
            dest, src = self._views(adjoint)
            if self.src.requires_grad:
                src += dest
            dest[...] = 0

    def program_vjp(self, step: Step, values: Memory, adjoint: Memory) -> None:
        """Reverse the operation as the program did."""
        if not self.taped:
            return
        if self.accumulates:
            self.vjp(values, values, adjoint)
        else:
            dest, src = self._views(adjoint, self.reversed_parts)
            src[...] = dest

    def note(self, later: Iterable[Access]) -> str:
        """Return how Warp's adjoint differs from the exact one where that may change a gradient, or "".

        Args:
            later: The accesses of later operations.
        """
        if self.accumulates or not (self.taped and self.src.requires_grad and self.dest.requires_grad):
            return ""
        if self.reversed_parts is not None:
            return (
                "before Warp 1.15 the adjoint of a copy of a part exchanges dest_offset and src_offset, and "
                "it replaces the gradient of the source instead of adding to it"
            )
        if any(access.active and share_bytes(access.array, self.src) for access in later):
            return (
                "before Warp 1.19 the adjoint of a copy replaces the gradient of the source instead of "
                "adding to it: what operations after the copy added is lost"
            )
        return ""

    def _views(
        self, memory: Memory, arrays: tuple[WatchedArray, WatchedArray] | None = None
    ) -> tuple[Values, Values]:
        dest, src = (memory.view(array) for array in arrays or (self.dest, self.src))
        if dest.shape == src.shape and dest.dtype == src.dtype:
            return dest, src
        return dest.reshape(-1), src.reshape(-1).view(dest.dtype)


class FillOperation(HostOperation):
    """`fill_` or `zero_`: all elements get one value. Warp's tape does not record it.

    Args:
        array: The array.
        call_site: The place in the program.
        method: The name of the method.
    """

    def __init__(self, array: WatchedArray, call_site: Place, method: str) -> None:
        super().__init__(
            name="fill",
            args=[array, 0.0],
            params=["array", "value"],
            accesses=[Access(0, "array", array, reads=False, writes=True, active=array.requires_grad)],
            call_site=call_site,
            kind="fill",
        )
        self.array, self.method = array, method
        self.value: Values = np.zeros(array.element_shape, array.scalar_dtype)
        self.capabilities[ExactAdjoint] = self
        self.capabilities[PushesTangents] = self
        self.capabilities[RunsInFloat64] = self
        self.capabilities[ProgramReverse] = self

    def note_value(self) -> None:
        """Store the value that the array holds now as the one that it was filled with."""
        if self.array.size:
            first = WatchedArray(self.array.region, self.array.offset, (1,), (0,), self.array.element)
            self.value = np.asarray(first.current()[0])
            self.args = [self.array, self.value.tolist()]

    def arrays_changed(self, changed: Callable[[WatchedArray], WatchedArray]) -> None:
        """Use another array of the contract in place of that of the program."""
        self.array = changed(self.array)

    def forward(self, values: Memory) -> None:
        """Fill the array."""
        values.view(self.array)[...] = self.value

    def push(self, values: Memory, tangents: Memory, *, float64: bool, detached: bool) -> None:
        """Fill the array, and zero its tangent."""
        self.forward(values)
        if not detached or self.array.requires_grad:
            tangents.view(self.array)[...] = 0

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Zero the adjoint: the former values have no influence any more."""
        if self.array.requires_grad:
            adjoint.view(self.array)[...] = 0

    def program_vjp(self, step: Step, values: Memory, adjoint: Memory) -> None:
        """Do nothing, as the program's reverse pass did."""


class OpaqueFunction(HostOperation):
    """A function of `record_func`, which only runs in reverse.

    Args:
        name: The name of the function.
        arrays: The arrays that it was recorded with.
        call_site: The place in the program.
    """

    def __init__(self, name: str, arrays: Sequence[WatchedArray], call_site: Place) -> None:
        super().__init__(
            name=name,
            args=arrays,
            params=[f"arrays[{number}]" for number in range(len(arrays))],
            accesses=[
                Access(number, f"arrays[{number}]", array, reads=True, writes=False)
                for number, array in enumerate(arrays)
            ],
            call_site=call_site,
            kind="func",
        )
        self.capabilities[Irreplayable] = self

    def reason(self) -> str:
        """Return why it cannot be run again, as a clause."""
        return f"record {self.index} is a custom function ({self.name}), of which only the reverse is known"

    def arrays_changed(self, changed: Callable[[WatchedArray], WatchedArray]) -> None:
        """Do nothing: it is not replayed."""

    def forward(self, values: Memory) -> None:
        """Do nothing: it has no forward."""

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Do nothing: it is not replayed."""
