"""Functions on a tape that run again: a `record_func` with a forward, for tapes of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from tapedebug._float_types import is_float
from tapedebug.contract import Access, Array, KernelSource, LibraryAdjoint, Parameter, Place, Values
from tapedebug.operations.function_source import FunctionSource
from tapedebug.operations.memory import Memory
from tapedebug.operations.operation import (
    ExactAdjoint,
    HostOperation,
    ReadsStoredValues,
    RunsInFloat64,
)

T = TypeVar("T")


class ReplayableFunction:
    """A function that a program puts on its engine's tape as a reverse function, with all that runs it again.

    The program calls `tape.record_func(function, arrays)`. A debugger that watches the tape recognizes it,
    calls `run`, and records a `FunctionOperation`.

    Args:
        name: Its name in messages.
        forward: Takes the values of `reads`; returns those of `writes`, as a tuple.
        backward: Takes the values of `reads` and the adjoints of `writes`, as two tuples; returns the
            adjoints of `reads`, None for no gradient.
        reads: The program's arrays that it reads.
        writes: The program's arrays that it writes completely.
        names: The names of `reads` and `writes`, in this order.
        write: Writes the results to the program's arrays.
        reverse: Runs as a part of the program's reverse pass.
        shown: The function whose source is shown.
        library: The library that computes the adjoint.
        labels: Names for arrays that have none in a variable.

    Attributes:
        has_run: The results have been written.
    """

    def __init__(
        self,
        name: str,
        forward: Callable[..., Sequence[Values]],
        backward: Callable[[Sequence[Values], Sequence[Values]], Sequence[Values | None]],
        reads: Sequence[object],
        writes: Sequence[object],
        names: Sequence[str],
        write: Callable[[], None],
        reverse: Callable[[], None],
        shown: Callable[..., Any],
        library: LibraryAdjoint | None = None,
        labels: Sequence[tuple[object, str]] = (),
    ) -> None:
        self.name, self.forward, self.backward = name, forward, backward
        self.reads, self.writes, self.names = reads, writes, names
        self.shown, self.library, self.labels = shown, library, labels
        self._write, self._reverse = write, reverse
        self.has_run = False

    @property
    def __name__(self) -> str:
        return self.name

    def run(self) -> None:
        """Write the results, once."""
        if not self.has_run:
            self.has_run = True
            self._write()

    def __call__(self) -> None:
        """Run as a part of the program's reverse pass."""
        self._reverse()


class FunctionOperation(HostOperation):
    """A `ReplayableFunction` as an operation of a tape.

    Args:
        function: The function.
        reads: The arrays of the contract for those that it reads.
        writes: The arrays of the contract for those that it writes.
        call_site: The place in the program.
    """

    def __init__(
        self, function: ReplayableFunction, reads: Sequence[Array], writes: Sequence[Array], call_site: Place
    ) -> None:
        self.function = function
        self.sources, self.targets = list(reads), list(writes)
        several = list(dict.fromkeys([*reads, *writes]))
        names = dict(reversed([*zip([*reads, *writes], function.names, strict=True)]))
        accesses = [
            Access(
                number,
                names[array],
                array,
                reads=array in reads,
                writes=array in writes,
                needs_before=array in reads,
                active=array.requires_grad,
            )
            for number, array in enumerate(several)
        ]
        super().__init__(
            name=function.name,
            args=several,
            params=[names[array] for array in several],
            accesses=accesses,
            call_site=call_site,
            kind="python",
            code=(FunctionOperation, function.name),
        )
        parameters = [Parameter(a.name, f"array(dtype={a.array.dtype_name})", True) for a in accesses]
        self.capabilities[ExactAdjoint] = self
        self.capabilities[ReadsStoredValues] = self
        if hasattr(function.shown, "__code__"):
            source = FunctionSource(function.shown, parameters)
            source.enable_backward = True
            self.capabilities[KernelSource] = source
        if function.library is not None:
            self.capabilities[LibraryAdjoint] = function.library
        self._in_float64: bool | None = None

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol; `RunsInFloat64` if a trial succeeds."""
        if kind is RunsInFloat64:
            if self._in_float64 is None:
                self._in_float64 = self._try_float64()
            return cast("T", self) if self._in_float64 else None
        return super().capability(kind)

    def _try_float64(self) -> bool:
        given = [a.current() for a in self.sources]
        wide = [v.astype("float64") if is_float(v.dtype) else v for v in given]
        try:
            found = self.function.forward(*wide)
        except Exception:  # whatever it raises: it then runs in the types of the program
            return False
        return all(not is_float(v.dtype) or v.dtype.itemsize == 8 for v in found)

    def arrays_changed(self, changed: Callable[[Any], Any]) -> None:
        """Use other arrays of the contract in place of those of the program."""
        self.sources = [changed(array) for array in self.sources]
        self.targets = [changed(array) for array in self.targets]

    def forward(self, values: Memory) -> None:
        """Run the function on the values in memory."""
        found = self.function.forward(*(values.view(a).copy() for a in self.sources))
        for array, result in zip(self.targets, found, strict=True):
            values.view(array)[...] = result

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Consume the adjoints of what it writes, and add to those of what it reads."""
        given = [before.view(a).copy() for a in self.sources]
        arriving = []
        for array in self.targets:
            view = adjoint.view(array)
            arriving.append(view.copy() if array.requires_grad else np.zeros_like(view))
            if array.requires_grad:
                view[...] = 0
        for array, found in zip(self.sources, self.function.backward(given, arriving), strict=True):
            if found is not None and array.requires_grad:
                adjoint.view(array)[...] += found
