"""`torch.function`: a module or function of tensors as one operation of a tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any

from tapedebug._errors import LaunchError
from tapedebug.contract import GradientStop
from tapedebug.runtime import array
from tapedebug.runtime.launch.python_operation import not_recording
from tapedebug.torch.call import Slot, TorchCall
from tapedebug.torch.library import load_torch
from tapedebug.torch.own_arrays import OwnArrays
from tapedebug.torch.state import State
from tapedebug.torch.stops import find_stops
from tapedebug.torch.warp_arrays import WarpArrays, installed_warp


def function(module: Callable[..., Any], name: str | None = None) -> TorchFunction:
    """Return a PyTorch module or function as a function of arrays, which tapes record like a launch.

    `net = tapedebug.torch.function(policy)` is called with arrays, and returns arrays:
    `action = net(state)`, or `net(state, out=action)` for an array that exists. It is reversed by
    `Tape.backward`, with PyTorch's autograd, replayed in float32 and float64, checked and diagnosed.

    Parameters of the module take part: `Tape.backward` adds to their `.grad`, from where an optimizer reads
    it. Buffers that the module changes while it runs, such as those of batch normalization in training, are
    outputs of the operation. Replays draw the same random numbers (dropout), and run with the same `training`
    flags.

    Arrays of NVIDIA Warp (`import warp`) are accepted, too: the call is put on its tape with `record_func`,
    and `watch_warp` replays and checks it.

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
        self._arrays: dict[tuple[type, int], Any] = {}
        self._found: list[State] = []

    def __repr__(self) -> str:
        return f"<tapedebug.torch.function of {self.name}>"

    def __call__(self, *args: object, out: object = None, **kwargs: object) -> Any:
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

    def _run(self, args: Sequence[object], kwargs: Mapping[str, object], out: object) -> Any:
        torch = load_torch("tapedebug.torch.function")
        values: list[Any] = [*args, *kwargs.values()]
        kind, engine = _engine_of(torch, values)
        engine.refuse(self.name)
        places = [place for place, value in enumerate(values) if isinstance(value, kind)]
        given = [values[place] for place in places]
        slots = {place: Slot(number) for number, place in enumerate(places)}
        passed = [slots.get(place, value) for place, value in enumerate(values)]
        call = TorchCall(
            torch,
            self.name,
            self.module,
            passed[: len(args)],
            dict(zip(kwargs, passed[len(args) :], strict=True)),
            self._names(args, kwargs, places),
            self._found,
        )
        self._check(call, engine, values, given)
        start = perf_counter()
        with not_recording():
            found = call.first([engine.values(a) for a in given], keep=engine.keeps_values)
        elapsed = perf_counter() - start
        self._found = [state for state in call.states if state.owner is None]
        states = [self._array(engine, state) for state in call.states]
        reads = [*given, *(state.array for state in states)]
        needed = any(a.requires_grad for a in reads)
        if out is None:
            into = [engine.new(v, needed) for v in found[: call.outputs]]
        else:
            into = _listed(call, kind, engine, out)
        changed = [states[call.states.index(state)].array for state in call.changed]
        results = ["output"] if call.outputs == 1 else [f"output[{n}]" for n in range(call.outputs)]
        names = [
            *call.names,
            *(state.name for state in call.states),
            *results,
            *(state.name for state in call.changed),
        ]
        labels = [self._full_name(state) for state in call.states]
        library = _Autograd(call, engine, reads)
        engine.record(call, reads, states, [*into, *changed], (found, elapsed), names, labels, library)
        if out is not None:
            return out if isinstance(out, kind) else tuple(into)
        return into[0] if len(into) == 1 else tuple(into)

    def _full_name(self, state: State) -> str:
        """Return the name of a tensor in diagrams: with that of the module, if it is one of its own."""
        is_module = state.owner is not None and not hasattr(self.module, "__code__")
        return f"{self.name}.{state.name}" if is_module else state.name

    def _names(
        self, args: Sequence[object], kwargs: Mapping[str, object], places: Sequence[int]
    ) -> list[str]:
        """Return the names of the parameters that arrays are passed for."""
        try:
            parameters = [
                *inspect.signature(getattr(self.module, "forward", self.module)).parameters.values()
            ]
        except (TypeError, ValueError):
            parameters = []
        own = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        placed = [*own[: len(args)], *(f"args[{number}]" for number in range(len(own), len(args)))]
        names = [*placed, *kwargs]
        return [names[place] for place in places]

    def _check(
        self,
        call: TorchCall,
        engine: OwnArrays | WarpArrays,
        values: Sequence[object],
        given: Sequence[Any],
    ) -> None:
        if not given:
            kinds = ", ".join(type(value).__name__ for value in values) or "nothing"
            raise call.error(
                f"no argument is an array; got {kinds}",
                "pass arrays; to compute with tensors, call the module itself",
            )
        for a, name in zip(given, call.names, strict=True):
            obstacle = engine.obstacle(a)
            if obstacle is not None:
                raise call.error(f"{name} {obstacle[0]}", obstacle[1])

    def _array(self, engine: OwnArrays | WarpArrays, state: State) -> Any:
        """Return the array over a tensor; the same one as long as the tensor keeps its memory."""
        key = type(engine), id(state.tensor)
        known = self._arrays.get(key)
        if known is None or known.state.tensor is not state.tensor or not known.holds:
            known = self._arrays[key] = engine.state(state)
        return known


def _engine_of(torch: ModuleType, values: Sequence[object]) -> tuple[type, OwnArrays | WarpArrays]:
    """Return the class of the arrays among some arguments, and the engine that they belong to."""
    warp = installed_warp()
    own = any(isinstance(value, array) for value in values)
    if warp is not None and not own and any(isinstance(value, warp.array) for value in values):
        return warp.array, WarpArrays(torch, warp)
    return array, OwnArrays(torch)


def _listed(call: TorchCall, kind: type, engine: OwnArrays | WarpArrays, out: object) -> list[Any]:
    """Return the arrays of `out`.

    Raises:
        LaunchError: It is something else, or they do not fit the results.
    """
    into: list[Any] = [out] if isinstance(out, kind) else list(out) if isinstance(out, list | tuple) else []
    fits = all(isinstance(a, kind) for a in into) and all(engine.obstacle(a) is None for a in into)
    if not into or not fits:
        raise call.error(
            f"out must be an array, or a tuple of arrays; got {out!r}", "pass out=array, or leave it out"
        )
    if len(into) != call.outputs:
        raise call.error(
            f"it returns {call.outputs} tensor{'s' * (call.outputs != 1)}, and out has {len(into)} "
            f"array{'s' * (len(into) != 1)}",
            "pass one array for each tensor that it returns",
        )
    return into


class _Autograd:
    """The capability `contract.LibraryAdjoint` of a call."""

    library = "PyTorch"

    def __init__(self, call: TorchCall, engine: OwnArrays | WarpArrays, reads: Sequence[Any]) -> None:
        self._call, self._engine, self._reads = call, engine, reads

    def stops(self) -> Sequence[GradientStop]:
        """Return the calls that end the gradient of a value on which the results depend."""
        return find_stops(self._call, [self._engine.values(a) for a in self._reads])
