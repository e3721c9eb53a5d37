"""Python functions as subjects of checks: recorded on a tape, then run again to verify the recording."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError, TapeError
from tapedebug._tape_observers import unlist
from tapedebug.autograd.array_types import EngineArray, Floats
from tapedebug.autograd.subjects.metadata import Named, input_names
from tapedebug.autograd.subjects.probes import entry_scales, random_directions
from tapedebug.autograd.subjects.program import Port, Program
from tapedebug.autograd.subjects.rng_pin import RngPin
from tapedebug.autograd.subjects.struct_fields import named_values
from tapedebug.contract import is_array
from tapedebug.lang.types import float16, scalar_of
from tapedebug.runtime.isolation import isolated
from tapedebug.runtime.tape.tape import Tape
from tapedebug.runtime.tape.tape_arrays import include_array

CHANGE = 1e-3  # relative change of the inputs of the second run


@dataclass
class FunctionCall:
    """A function with its arguments, and the results of its first run.

    Attributes:
        name: The name for messages: "function simulate".
        function: The function.
        inputs: Its arguments.
        given: The arguments, flattened.
        returned: The returned arrays, flattened.
        observed: The values of `returned` just after the run.
        tape: The recorded launches.
    """

    name: str
    function: Callable[..., Any]
    inputs: Sequence[Any]
    outputs: Sequence[Any] | None
    given: list[Named]
    returned: list[Named]
    observed: list[Floats]
    tape: Tape
    random: RngPin

    @classmethod
    def recorded(
        cls, function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any] | None
    ) -> FunctionCall:
        """Run the function once on a private tape, and restore existing arrays that it writes.

        Raises:
            GradcheckError: It returns no arrays, or records a tape of its own.
        """
        name = f"function {getattr(function, '__name__', type(function).__name__)}"
        _require_fit(name, function, inputs)
        labels = input_names(function, len(inputs))
        given = [(i, part, inner) for i, a in enumerate(inputs) for part, inner in named_values(labels[i], a)]
        random = RngPin([function, *inputs])
        with isolated(_arrays(given)), random:
            tape = Tape(on_overwrite="preserve")
            unlist(tape)  # it is ours, not one of the user's
            with _no_tapes(name), tape:
                result = function(*inputs)
            returned = returned_by(name, result, outputs)
            for array in _arrays([*given, *returned]):
                include_array(tape, array)
            observed = [values_of(a) for _, _, a in returned]
        return cls(name, function, inputs, outputs, given, returned, observed, tape, random)

    def again(self, changes: Mapping[Port, Floats]) -> list[Floats]:
        """Return the results at other values of the inputs, with the random numbers of the first run."""
        with isolated(_arrays(self.given)), self.random, contextlib.redirect_stdout(io.StringIO()):
            for source, values in changes.items():
                source.array.assign(values.reshape(source.shape))
            result = self.function(*self.inputs)
            return [values_of(a) for _, _, a in returned_by(self.name, result, self.outputs)]


def _require_fit(name: str, function: Callable[..., Any], inputs: Sequence[Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of functions that are not written in Python
        return
    try:
        signature.bind(*inputs)
    except TypeError as error:
        raise GradcheckError(
            f"{name}{signature} cannot be called with {len(inputs)} inputs: {error}",
            hint="inputs are its positional arguments, in order",
        ) from None


class Unrepeatable(GradcheckError):
    """Raised for a function that returns different results each time it is called."""


def require_faithful(call: FunctionCall, program: Program) -> None:
    """Verify that a function's launches are all of it: at displaced inputs it must agree with its replay.

    Raises:
        Unrepeatable: It does not agree, not even with itself at the same inputs.
        GradcheckError: It does not agree.
    """
    changes = {source: _displaced(program, source) for source in program.inputs}
    replayed = program.evaluate(changes, single=True)
    try:
        again = call.again(changes)
    except Exception as error:
        raise GradcheckError(
            f"{call.name} raises {type(error).__name__} ({error}) at inputs that differ by 0.1 %: "
            "it is called there to see that its launches are all of it",
            hint="let it take values beside these, or record it and check the tape: gradcheck_tape(tape)",
        ) from error
    real = dict(zip((name for _, name, _ in call.returned), again, strict=False))
    first = dict(zip((name for _, name, _ in call.returned), call.observed, strict=True))
    for target in program.outputs:
        before, after = first[target.name], real.get(target.name)
        if after is not None and _same(before, after, replayed[target]):
            continue
        once_more = call.again({})
        if any(not _same(old, new, old) for old, new in zip(call.observed, once_more, strict=False)):
            raise Unrepeatable(
                f"{call.name} gives other results when it is called twice with the same inputs: "
                "it has no derivative to check",
                hint="pin what it draws or keeps between calls: pass a seed, or make it part of the inputs",
            )
        raise GradcheckError(
            f"{call.name} computes something outside of kernels: at inputs that differ by 0.1 %, "
            f"{target.name} is not what its recorded launches give",
            hint="compute in kernels what depends on the inputs",
        )


def _displaced(program: Program, source: Port) -> Floats:
    values = program.values(source)
    step = CHANGE * random_directions(source.size, 1, entry_scales(values))[0]
    single = np.float16 if scalar_of(source.array.dtype) is float16 else np.float32
    moved: Floats = (values + step).astype(single).astype(np.float64)
    return moved


def _same(before: Floats, after: Floats, twin: Floats) -> bool:
    """True if two results are equal up to rounding: within a fraction of the effect of the changed inputs."""
    if before.shape != after.shape:
        return False
    with np.errstate(all="ignore"):
        moved, off = np.abs(after - before), np.abs(after - twin)
    off[(after == twin) | (np.isnan(after) & np.isnan(twin))] = 0.0
    size = np.abs(before[np.isfinite(before)]).max(initial=0.0)
    return bool(off.max(initial=0.0) <= 0.05 * moved[np.isfinite(moved)].max(initial=0.0) + 1e-4 * size)


def values_of(array: EngineArray) -> Floats:
    """Return the values of an array as float64 without notifying a tape."""
    found: Floats = np.array(array.current(), dtype=np.float64).ravel()
    return found


def returned_by(name: str, returned: object, outputs: Sequence[Any] | None) -> list[Named]:
    """Return the arrays that a function returned (or the named ones if it returns None), with names.

    Raises:
        GradcheckError: There are none, or some values are not arrays.
    """
    results = outputs if returned is None else returned
    if isinstance(results, Mapping):
        named = [(str(key), value) for key, value in results.items()]
    elif isinstance(results, list | tuple):
        labels = getattr(results, "_fields", [f"output_{i}" for i in range(len(results))])
        named = list(zip(labels, results, strict=True))
    else:
        named = [("output_0", results)]
    found = [(i, part, inner) for i, (label, a) in enumerate(named) for part, inner in named_values(label, a)]
    wrong = next((entry for entry in found if not is_array(entry[2]) and _is_top(entry, named)), None)
    if wrong is not None or not any(is_array(a) for _, _, a in found):
        shown = returned if wrong is None else wrong[2]
        text = repr(shown) if len(repr(shown)) <= 80 else repr(shown)[:77] + "..."
        where = "" if wrong is None or len(named) == 1 else f" as {wrong[1]}"
        raise GradcheckError(
            f"{name} must return an array or a list of arrays; it returned {text}{where}",
            hint="return the arrays that the launches wrote",
        )
    return [entry for entry in found if is_array(entry[2])]


def _is_top(entry: Named, named: Sequence[tuple[str, Any]]) -> bool:
    """True if an entry is not part of a struct."""
    return entry[1] == named[entry[0]][0]


def _arrays(named: Sequence[Named]) -> list[Any]:
    return [a for _, _, a in named if is_array(a)]


@contextlib.contextmanager
def _no_tapes(name: str) -> Any:
    """Context that explains the error of a function that begins a tape of its own."""
    try:
        yield
    except TapeError as error:
        if "tapes do not nest" not in error.message:
            raise
        raise GradcheckError(
            f"{name} begins a tape, and the check records it already",
            span=error.span,
            hint="let the function only launch kernels, or check the tape: gradcheck_tape(tape)",
        ) from None
