"""Replays of a tape of executable operations that carry tangents along."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapedebug._float_types import is_float
from tapedebug.contract import A, Array, Values
from tapedebug.operations.memory import Memory
from tapedebug.operations.operation import ExecutableOperation, PushesTangents, Step
from tapedebug.operations.replay import OperationReplay

if TYPE_CHECKING:
    from tapedebug.operations.tape import OperationTape

Push: TypeAlias = Callable[[Memory, Memory, bool], None]
"""Function that runs one operation with values and tangents, which are perhaps detached."""


class OperationTangentReplay(OperationReplay):
    """A `contract.TangentReplay` of an `OperationTape` whose operations all push tangents.

    Args:
        tape: The tape.
        float64: Hold float32 and float16 values as float64.

    Attributes:
        tangents: The tangents of all values.
        lost: Always empty: every operation has a tangent.
    """

    def __init__(self, tape: OperationTape, float64: bool = False) -> None:
        super().__init__(tape, float64)
        self.keep_memory()  # launches are bound to this memory and to that of the tangents
        self.tangents = Memory.zeros(self.sizes, self.wide)
        self.lost: list[str] = []
        self._detached: bool | None = None  # None while values run forward alone
        self._pushes: list[Push | None] = [
            None if step is None else self._push_of(operation)
            for step, operation in zip(self._steps, self.operations, strict=True)
        ]

    def _push_of(self, operation: ExecutableOperation) -> Push | None:
        pushing: PushesTangents | None = operation.capability(PushesTangents)
        if pushing is None:
            return None
        run, float64 = pushing.push, self.is_float64
        return lambda values, tangents, detached: run(values, tangents, float64=float64, detached=detached)

    def use_push(self, index: int, push: Push) -> None:
        """Run another function for an operation in all further calls of `push`."""
        self._pushes[index] = push

    def push(
        self,
        tangents: Mapping[A, Values] | None,
        start: int = 0,
        stop: int | None = None,
        on_operation: Callable[[Any], Any] | None = None,
        detached: bool = False,
    ) -> OperationTangentReplay:
        """Run the operations `start … stop-1` with tangents; see `contract.TangentReplay.push`."""
        if tangents is not None:
            for content in self.tangents.bytes.values():
                content[:] = 0
            for array, values in tangents.items():
                self.tangents.view(self._known(array))[...] = values
        self._detached = detached
        try:
            self.forward(start, stop, on_operation)
        finally:
            self._detached = None
        return self

    def tangent(self, array: Array, /) -> Values:
        """Return a copy of the tangent of an array now."""
        return self.tangents.view(self._known(array)).copy()

    def inner(self, other: OperationReplay) -> tuple[float, float]:
        """Return the inner product of all tangents here with all adjoints of another replay, in float64.

        Returns:
            The product, and the sum of the absolute values of its terms.
        """
        total = size = 0.0
        for region, scalar in self._float_regions():
            whole = self.sizes[region] * self.tangents.scale(region) // scalar.itemsize * scalar.itemsize
            dots, adjoints = (
                memory.bytes[region][:whole].view(scalar).astype(np.float64, copy=False)
                for memory in (self.tangents, other.adjoint)
            )
            both = (dots != 0) & (adjoints != 0)  # zero times infinity counts as zero
            terms = dots[both] * adjoints[both]
            total += float(terms.sum())
            size += float(np.abs(terms).sum())
        return total, size

    def _float_regions(self) -> Iterator[tuple[Hashable, np.dtype[Any]]]:
        """Yield the regions that have tangents, with the type of the scalars in this replay's memory."""
        for region, arrays in self.tape.regions.items():
            kinds = {array.scalar_dtype for array in arrays if is_float(array.scalar_dtype)}
            for kind in kinds if self.tangents.scale(region) == 1 else {np.dtype(np.float64)}:
                yield region, kind

    def load_outside(self, index: int) -> None:
        """Load the outside writes just before an operation; their values are constants, but for updates."""
        super().load_outside(index)
        if self._detached is not None:
            for write in self.tape.injections(index):
                if self._is_step(write):
                    continue
                self.tangents.range(write.region, write.start, write.start + write.content.size)[:] = 0

    def _advance(self, index: int, step: Step) -> None:
        push = self._pushes[index]
        if self._detached is None or push is None:
            step.forward(self.memory)
        else:
            push(self.memory, self.tangents, self._detached)
