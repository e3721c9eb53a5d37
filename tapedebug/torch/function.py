"""`torch.function`: a module or function of tensors as one operation of a tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from tapedebug._errors import LaunchError
from tapedebug.contract import GradientStop
from tapedebug.lang import types
from tapedebug.runtime import array, zeros
from tapedebug.runtime.launch.launch_python import run_operation
from tapedebug.runtime.launch.python_operation import Float32OnlyError, PythonOperation, not_recording
from tapedebug.runtime.state import here, refuse_at_another_time
from tapedebug.runtime.tape.record import call_site
from tapedebug.torch.call import NotInFloat64Error, Slot, TorchCall, Values
from tapedebug.torch.gradients import StateArray
from tapedebug.torch.library import load_torch
from tapedebug.torch.state import State
from tapedebug.torch.stops import find_stops

Result: TypeAlias = "array | tuple[array, ...]"


def function(module: Callable[..., Any], name: str | None = None) -> TorchFunction:
    """Return a PyTorch module or function as a function of arrays, which tapes record like a launch.

    `net = tapedebug.torch.function(policy)` is called with arrays, and returns arrays:
    `action = net(state)`, or `net(state, out=action)` for an array that exists. It is reversed by
    `Tape.backward`, with PyTorch's autograd, replayed in float32 and float64, checked and diagnosed.

    Parameters of the module take part: `Tape.backward` adds to their `.grad`, from where an optimizer reads
    it. Buffers that the module changes while it runs, such as those of batch normalization in training, are
    outputs of the operation. Replays draw the same random numbers (dropout), and run with the same `training`
    flags.

    Args:
        module: A `torch.nn.Module`, or a function of tensors. Parameters of modules that a function closes
            over or names take part, too.
        name: The name in messages and diagrams; by default that of the function, or of the module's class.

    Raises:
        TapedebugError: PyTorch is not installed.
        LaunchError: `module` cannot be called.
    """
    load_torch("tapedebug.torch.function")
    if not callable(module):
        raise LaunchError(
            f"torch.function: {module!r} cannot be called", hint="pass a torch.nn.Module or a function"
        )
    return TorchFunction(module, name or getattr(module, "__name__", None) or type(module).__name__)


class TorchFunction:
    """A PyTorch module or function as a function of arrays; see `function`.

    Args:
        module: The module or function.
        name: Its name in messages.

    Attributes:
        module: The module or function.
        name: Its name in messages.
    """

    def __init__(self, module: Callable[..., Any], name: str) -> None:
        self.module, self.name = module, name
        self._arrays: dict[int, StateArray] = {}
        self._found: list[State] = []

    def __repr__(self) -> str:
        return f"<tapedebug.torch.function of {self.name}>"

    def __call__(self, *args: object, out: array | Sequence[array] | None = None, **kwargs: object) -> Result:
        """Run the module on the values of arrays, and record that on the active tape.

        Args:
            args: The arguments: arrays are passed as tensors of their values, an array of n `vec3` as one of
                shape (n, 3). Other objects are passed unchanged.
            out: The array that gets the result, or a tuple of arrays for several results. Left out, the
                results are new arrays of scalars, of the shapes of the tensors that the module returns.
            kwargs: Keyword arguments, likewise.

        Returns:
            `out`, or the new array, or a tuple of new arrays.

        Raises:
            LaunchError: No argument is an array, the module returns something else than tensors, or its
                result does not fit `out`. It changes an argument, a parameter or an undeclared tensor in
                place, or uses a tensor that was computed outside it. In each case all arrays and tensors are
                as before, and nothing is recorded.
        """
        try:
            return self._run(args, kwargs, out)
        except LaunchError as error:
            raise error.with_traceback(None) from None

    def _run(
        self, args: Sequence[object], kwargs: Mapping[str, object], out: array | Sequence[array] | None
    ) -> Result:
        torch = load_torch("tapedebug.torch.function")
        refuse_at_another_time(f"torch.function of {self.name}")
        given: list[array] = []
        call = TorchCall(
            torch,
            self.name,
            self.module,
            [_slot(value, given) for value in args],
            {key: _slot(value, given) for key, value in kwargs.items()},
            self._names(args, kwargs),
            self._found,
        )
        self._check(call, args, kwargs, given)
        start = perf_counter()
        with not_recording():
            found = call.first([a._numpy_view().copy() for a in given])
        elapsed = perf_counter() - start
        self._found = [state for state in call.states if state.owner is None]
        states = [self._array(torch, state) for state in call.states]
        into = self._results(
            call, out, found, any(a.requires_grad for a in (*given, *(s.array for s in states)))
        )
        changed = [states[call.states.index(state)].array for state in call.changed]
        operation = _operation(call, [*given, *(s.array for s in states)], [*into, *changed])
        tape = here.thread.tape
        if tape is not None:
            for state in states:
                tape.name_array(state.array, self._full_name(state.state))
                state.link()
                if state.array.requires_grad:
                    tape.before_backward.append(state.link)
        run_operation(operation, call_site(), (found, elapsed))
        if out is not None:
            return out if isinstance(out, array) else tuple(out)
        return into[0] if len(into) == 1 else tuple(into)

    def _full_name(self, state: State) -> str:
        """Return the name of a tensor in diagrams: with that of the module, if it is one of its own."""
        is_module = state.owner is not None and not hasattr(self.module, "__code__")
        return f"{self.name}.{state.name}" if is_module else state.name

    def _names(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[str]:
        """Return the names of the parameters that arrays are passed for."""
        shown = getattr(self.module, "forward", self.module)
        try:
            bound = inspect.signature(shown).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):
            bound = {}
        named = {id(value): name for name, value in bound.items()}
        several = [*enumerate(args), *kwargs.items()]
        return [
            named.get(id(value)) or (key if isinstance(key, str) else f"args[{key}]")
            for key, value in several
            if isinstance(value, array)
        ]

    def _check(
        self, call: TorchCall, args: Sequence[object], kwargs: Mapping[str, object], given: Sequence[array]
    ) -> None:
        if not given:
            kinds = ", ".join(type(value).__name__ for value in (*args, *kwargs.values())) or "nothing"
            raise call.error(
                f"no argument is an array; got {kinds}",
                "pass arrays; to compute with tensors, call the module itself",
            )
        for a, name in zip(given, call.names, strict=True):
            if types.is_struct(a.dtype):
                raise call.error(
                    f"{name} is an array of structs, which have no tensor",
                    "pass a field of it, such as a['x']",
                )

    def _array(self, torch: ModuleType, state: State) -> StateArray:
        """Return the array over a tensor; the same one as long as the tensor keeps its memory."""
        known = self._arrays.get(id(state.tensor))
        if known is None or known.state.tensor is not state.tensor or not known.holds:
            known = self._arrays[id(state.tensor)] = StateArray(torch, state)
        return known

    def _results(
        self,
        call: TorchCall,
        out: array | Sequence[array] | None,
        found: Sequence[Values],
        requires_grad: bool,
    ) -> list[array]:
        """Return the arrays for the results: those of `out`, or new ones."""
        if out is None:
            return [
                zeros(
                    v.shape,
                    dtype=types.from_numpy(v.dtype),
                    requires_grad=requires_grad and v.dtype.kind == "f",
                )
                for v in found[: call.outputs]
            ]
        into = [out] if isinstance(out, array) else out
        if not isinstance(into, list | tuple) or not all(
            isinstance(a, array) and not types.is_struct(a.dtype) for a in into
        ):
            raise call.error(
                f"out must be an array, or a tuple of arrays; got {out!r}", "pass out=array, or leave it out"
            )
        if len(into) != call.outputs:
            raise call.error(
                f"it returns {call.outputs} tensor{'s' * (call.outputs != 1)}, and out has {len(into)} "
                f"array{'s' * (len(into) != 1)}",
                "pass one array for each tensor that it returns",
            )
        return list(into)


def _slot(value: object, given: list[array]) -> object:
    """Return the argument; for an array its place among the arrays `given`, to which it is added."""
    if not isinstance(value, array):
        return value
    given.append(value)
    return Slot(len(given) - 1)


def _operation(call: TorchCall, reads: Sequence[array], writes: Sequence[array]) -> PythonOperation:
    states = [state.name for state in call.states]
    results = ["output"] if call.outputs == 1 else [f"output[{number}]" for number in range(call.outputs)]
    names = [*call.names, *states, *results, *(state.name for state in call.changed)]
    return PythonOperation(
        _Forward(call),
        _Repeated(call.backward),
        _Repeated(call.jvp),
        call.name,
        reads,
        writes,
        names,
        "torch.function",
        _Autograd(call, reads),
    )


class _Repeated:
    """A function of a call; what it cannot do in float64 is an error that the engine knows."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    def __call__(self, *values: object) -> Any:
        try:
            return self._run(*values)
        except NotInFloat64Error as error:
            raise Float32OnlyError(str(error)) from None


class _Forward(_Repeated):
    """The function itself, whose source is that of the user's function."""

    def __init__(self, call: TorchCall) -> None:
        super().__init__(call.forward)
        self.__wrapped__ = getattr(call.function, "forward", call.function)


class _Autograd:
    """The capability `contract.LibraryAdjoint` of a call."""

    library = "PyTorch"

    def __init__(self, call: TorchCall, reads: Sequence[array]) -> None:
        self._call, self._reads = call, reads

    def stops(self) -> Sequence[GradientStop]:
        """Return the calls that end the gradient of a value on which the results depend."""
        return find_stops(self._call, [np.array(a._numpy_view()) for a in self._reads])
