"""A complete engine of plain NumPy: the example for adapting another engine to the debugger.

An engine gives the debugger arrays (`array`), operations that run again on any memory (`Launch`), and a
recorder (`Tape`). Its own reverse pass reads what memory holds at the end, as those of most engines do: a
value that is overwritten after its use makes gradients wrong.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapedebug.contract import Access, Engine, KernelSource, Parameter, Values
from tapedebug.operations import (
    FunctionSource,
    HostArray,
    HostOperation,
    Memory,
    OperationTape,
    Region,
    RunsInFloat64,
    caller_place,
)

# in the order in which they were made: the arrays of a set come in another order in each process
_arrays: weakref.WeakKeyDictionary[array, None] = weakref.WeakKeyDictionary()
_tape: Tape | None = None


# ------------------------------------------------------------------------------------------------ arrays


class array(HostArray):
    """Float32 numbers, or integers, with a gradient: `array([1, 2, 3])`; `x[1:3]` is a view."""

    def __init__(self, values: Any, requires_grad: bool = True, region: Region | None = None) -> None:
        if region is None:
            values = np.array(values)
            values = values.astype(np.float32) if values.dtype.kind == "f" else values
            requires_grad = requires_grad and values.dtype.kind == "f"
            region = Region(values, np.zeros_like(values) if requires_grad else None)
        super().__init__(values, region, requires_grad)
        _arrays[self] = None

    def __getitem__(self, index: Any) -> array:
        return array(self.values[index], self.requires_grad, self.region)

    @property
    def grad(self) -> Values:
        """The gradient, which can be written to."""
        assert self.gradient is not None
        return self.gradient


def zeros(*shape: int) -> array:
    return array(np.zeros(shape))


# -------------------------------------------------------------------------------------------- operations


class Function:
    """A function of arrays and numbers that returns the new values of one array, and its vjp.

    Args:
        forward: The function; a parameter that it does not name, `writes`, follows those that it does.
        writes: The parameter that it writes. If it is one of those that it reads, it works in place.
        needs: The parameters whose values the vjp reads.
    """

    def __init__(self, forward: Callable[..., Any], writes: str, needs: Sequence[str]) -> None:
        self.forward, self.writes, self.needs = forward, writes, needs
        self.reads = list(inspect.signature(forward).parameters)
        self.params = self.reads if writes in self.reads else [*self.reads, writes]
        self.vjp: Callable[..., Any] | None = None

    def adjoint(self, vjp: Callable[..., Any]) -> None:
        """Set `vjp(g, *reads)`, which returns the adjoint of each thing read; None for none."""
        self.vjp = vjp

    def __call__(self, *args: Any) -> None:
        """Run, and record on the tape that records."""
        launch = Launch(self, args)
        if _tape is None:
            launch.forward(program_values(launch.regions))
        else:
            _tape.record(launch, lambda: launch.forward(program_values(launch.regions)))


def operation(writes: str = "out", needs: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Function]:
    return lambda forward: Function(forward, writes, needs)


class Launch(HostOperation):
    """One call of a function, as an operation that runs on any memory."""

    def __init__(self, function: Function, args: Sequence[Any]) -> None:
        reads, params = function.reads, function.params
        accesses = [
            Access(
                number,
                name,
                args[number],
                reads=name in reads,
                writes=name == function.writes,
                needs_before=name in function.needs,
                active=args[number].requires_grad,
            )
            for number, name in enumerate(params)
            if isinstance(args[number], array)
        ]
        place = caller_place([__name__])
        super().__init__(function.forward.__name__, args, params, accesses, place, code=function)
        self.function = function
        self.regions = {access.array.region for access in accesses}
        self.out = args[params.index(function.writes)]
        self.dim = self.out.shape
        self.has_adjoint = function.vjp is not None
        kinds = [
            Parameter(n, "array" if isinstance(a, array) else "float", isinstance(a, array))
            for n, a in zip(params, args, strict=True)
        ]
        self.capabilities[KernelSource] = FunctionSource(function.forward, kinds, function.vjp)
        self.capabilities[RunsInFloat64] = self  # NumPy computes in whatever precision the memory has

    def inputs(self, values: Memory) -> list[Any]:
        given = self.args[: len(self.function.reads)]
        return [values.view(arg) if isinstance(arg, array) else arg for arg in given]

    def forward(self, values: Memory) -> None:
        values.view(self.out)[...] = self.function.forward(*self.inputs(values))

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        assert self.function.vjp is not None
        g = adjoint.view(self.out).copy()
        adjoint.view(self.out)[...] = 0  # what is overwritten has no influence any more
        found = self.function.vjp(g, *self.inputs(before))
        for arg, part in zip(self.args, found if isinstance(found, tuple) else (found,), strict=False):
            if part is not None:
                adjoint.view(arg)[...] += part


def program_values(regions: Any) -> Memory:
    """Return the program's own memory."""
    return Memory({region: region.values for region in regions})


def program_gradients(regions: Any) -> Memory:
    """Return the program's own gradients; of constants they go nowhere."""
    found = {r: np.zeros_like(r.values) if r.gradients is None else r.gradients for r in regions}
    return Memory(found)


# -------------------------------------------------------------------------------------------------- tape


class Tape(OperationTape):
    """Records what functions do inside a `with` block; `backward` adds to gradients."""

    def __init__(self) -> None:
        super().__init__(Engine("NumPy", np.__version__))

    def __enter__(self) -> Tape:
        global _tape
        for each in _arrays:
            self.watch(each)
        self.begin()
        _tape = self
        return self

    def __exit__(self, *error: object) -> None:
        global _tape
        _tape = None
        self.note_names(array, sys._getframe(1))
        self.end()

    def backward(self, loss: array) -> None:
        with self.reverse_pass({loss: np.ones(loss.shape)}, loss, caller_place([__name__])):
            values, adjoint = program_values(self.regions), program_gradients(self.regions)
            loss.grad[...] = 1
            for launch in reversed(self.operations):
                if launch.has_adjoint:
                    launch.vjp(values, values, adjoint)

    def zero(self) -> None:
        """Set all gradients to zero."""
        self.note_zeroed(caller_place([__name__]))
        for region in self.regions:
            if region.gradients is not None:
                region.gradients[...] = 0
