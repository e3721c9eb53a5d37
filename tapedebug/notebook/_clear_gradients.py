"""Clearing of a tape's gradients before a magic runs its reverse pass, with a note on non-zero ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tapedebug import _shell
from tapedebug.contract import Array, RecordedTape, from_program, is_array, memory_key
from tapedebug.diagnose.wording import listed, number
from tapedebug.notebook._warp_cell import zero_gradients
from tapedebug.runtime import Tape
from tapedebug.runtime.tape.gradient_history import norm_of
from tapedebug.runtime.tape.tape_arrays import arrays_of, gradient_in_memory
from tapedebug.trace.recording import record_with_arrays


def clear_gradients(tape: RecordedTape, loss: object, magic: str) -> str:
    """Zero all gradients of a tape; return a sentence on those that were not zero, or an empty string.

    A reverse pass adds to gradients. A cell that runs again would add its gradient to that of the run before.

    Args:
        tape: The tape, before its reverse pass.
        loss: The array that the pass starts from; the previous seed in its gradient is not mentioned.
        magic: The name of the magic, for the message.
    """
    found = _nonzero(tape, loss) if isinstance(tape, Tape) else _nonzero_elsewhere(tape, loss)
    of = listed(f"{name} (norm {number(norm)})" for name, norm in _by_name(tape, found)) if found else ""
    zero_gradients(tape)
    if not of:
        return ""
    gradients, were, them = ("gradients", "were", "them") if len(found) > 1 else ("gradient", "was", "it")
    return (
        f"The {gradients} of {of} {were} not zero. {magic} cleared {them} before backward, so that this run "
        f"does not add to {them}."
    )


def _nonzero(tape: Tape, loss: object) -> dict[Array, float]:
    """Return the norms of gradients that are not zero, but that of the loss."""
    found: dict[Array, float] = {}
    for a in arrays_of(tape):
        gradient = None if a is loss else gradient_in_memory(a)
        norm = 0.0 if gradient is None else norm_of(gradient)
        if norm:
            found[a] = norm
    return found


def _nonzero_elsewhere(tape: RecordedTape, loss: object) -> dict[Array, float]:
    """Return the same for a tape of another engine."""
    arrays = {memory_key(a.array): a.array for operation in tape.operations for a in operation.accesses}
    known = from_program(tape, loss)
    if is_array(known):
        arrays.pop(memory_key(known), None)
    gradients = {array: array.current_gradient() for array in arrays.values()}
    return {a: float(np.linalg.norm(g)) for a, g in gradients.items() if g is not None and g.any()}


def _by_name(tape: RecordedTape, found: Mapping[Array, float]) -> list[tuple[str, float]]:
    recorded = _shell.in_namespace(lambda: record_with_arrays(tape))
    arrays = zip(recorded.arrays, recorded.trace.arrays, strict=True)
    return [(info.label, found[a]) for a, info in arrays if a in found]
