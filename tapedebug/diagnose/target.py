"""The target of a diagnosis: the loss, the seeds, and the inputs whose gradients matter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tapedebug._errors import ArgumentError, TapedebugError
from tapedebug.autograd.subjects.struct_fields import arrays_in
from tapedebug.contract import Array, RecordedTape, from_program
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.trace_analysis.dependencies import differentiable
from tapedebug.trace.recording import record_with_arrays

if TYPE_CHECKING:
    from tapedebug.trace import TraceBinding

Loss = Any
"""A scalar array, or a mapping of arrays to their incoming adjoints."""


def find_target(recorded: TraceBinding, loss: Loss) -> tuple[Loss, list[str]]:
    """Return the loss, and notes on how it was found."""
    if loss is not None:
        return loss, []
    trace, passes = recorded.trace, recorded.tape.reverse_passes
    seeds = recorded.tape.seeds
    ran = bool(passes)
    if ran and not passes[-1].unseeded:
        return seeds, _beside(recorded)
    if seeds:
        seeded = words.listed(_labels(recorded, seeds))
        return seeds, [f"backward was not called: it would begin from what the gradient of {seeded} holds"]
    results = [
        info
        for info in trace.arrays
        if info.role == "output"
        and info.requires_grad
        and math.prod(info.shape) == 1
        and info.dtype.startswith("float")
    ]
    why = "backward was not called"
    if ran:
        apart = passes[-1].off_tape
        why = f"backward {'started from an array that is not on the tape' if apart else 'ran without a seed'}"
    if len(results) == 1:
        label = results[0].label
        return recorded.arrays[results[0].id], [f"{why}: {label}, the only scalar result, is the loss"]
    found = ", ".join(info.label for info in results) or "none"
    if ran:
        return None, [f"no loss is known: {why} (scalar results: {found})"]
    return None, [f"no loss is known (scalar results: {found}): call backward first, or pass loss="]


def _beside(recorded: TraceBinding) -> list[str]:
    """Return a note if a pass started from a loss or `grads` and also from values left in gradients."""
    call = recorded.tape.reverse_passes[-1]
    if len(call.preset) == len(call.seeds):
        return []
    preset = words.listed(_labels(recorded, call.preset))
    if not preset:
        return []
    return [f"the pass began also from what the gradient of {preset} held: that counts as a seed"]


def _labels(recorded: TraceBinding, arrays: Iterable[Any]) -> list[str]:
    numbers = [recorded.id_of(a) for a in arrays]
    return [recorded.trace.arrays[number].label for number in numbers if number is not None]


def find_seeds(recorded: TraceBinding, target: Loss) -> dict[Any, np.ndarray[Any, Any]]:
    """Return the incoming adjoints of the loss by array; empty if no loss is known."""
    if target is None:
        return {}
    if isinstance(target, Mapping):
        for key in target:
            _need_array("the loss", key)
        return {key: _values(value) for key, value in target.items()}
    _need_array("the loss", target)
    if recorded.id_of(target) is None:
        raise TapedebugError(
            f"diagnose: the loss, an {target!r}, is not on this tape",
            hint="pass the array that a recorded launch writes the loss to",
        )
    info = recorded.trace.arrays[recorded.id_of(target) or 0]
    if math.prod(info.shape) != 1 or info.dtype not in ("float32", "float64"):
        raise TapedebugError(
            f"diagnose: the loss must be a scalar float; got an {target!r}",
            hint="sum it into an array of one element, or pass loss={array: seed}",
        )
    if not info.requires_grad:
        raise TapedebugError(
            f"diagnose: the loss, {info.label}, has no gradient: requires_grad is not set",
            hint="create it with requires_grad=True",
        )
    return {target: np.ones(target.shape, target.scalar_dtype)}


def require_named(tape: RecordedTape, loss: Loss, inputs: Sequence[object] | None) -> None:
    """Raise an error unless a tape can be diagnosed with a loss and inputs, if they are not None.

    Raises:
        TapedebugError: One of them is not on the tape, or the loss is no scalar with a gradient.
        TypeError: One of them is no array.
    """
    recorded = record_with_arrays(tape)
    find_seeds(recorded, from_program(tape, loss))
    find_leaves(recorded, from_program(tape, inputs))


def _need_array(what: str, found: object) -> None:
    if not isinstance(found, Array):
        raise ArgumentError(
            f"diagnose: {what} must be an array that a recorded launch uses, "
            f"not {found!r} (of type {type(found).__name__})"
        )


def _values(seed: Array | npt.ArrayLike) -> np.ndarray[Any, Any]:
    return seed.current() if isinstance(seed, Array) else np.array(seed)


def find_leaves(recorded: TraceBinding, inputs: Iterable[Array] | Array | None) -> list[int]:
    """Return the ids of the arrays whose gradients matter: of those that are not given, no empty one."""
    if inputs is not None:
        given = arrays_in(inputs)
        for item in given:
            _need_array("an input", item)
        ids = [recorded.id_of(item) for item in given]
        for item, number in zip(given, ids, strict=True):
            if number is None:
                raise TapedebugError(
                    f"diagnose: the input {item!r} is not on this tape",
                    hint="pass arrays that a recorded launch uses",
                )
        return [number for number in ids if number is not None]
    trace = recorded.trace
    read = {
        arg.array for launch in trace.launches for arg in launch.args if arg.reads and not arg.read_version
    }
    return [
        info.id for info in trace.arrays if info.id in read and differentiable(info) and 0 not in info.shape
    ]
