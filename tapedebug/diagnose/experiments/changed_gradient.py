"""Gradients that the program's reverse pass left, and that a replay of the same pass does not give.

The end-to-end check compares a replay of the reverse pass with differences of the loss. If the program's own
pass left something else, what changed it is not on the tape: a function that ran in it, for instance. Changes
of a gradient after the pass, by clipping or zeroing it, are no part of this comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_WRONG
from tapedebug.contract import Consume, ConsumedGradients, Irreplayable, RecordedTape, Values

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.input_check import InputCheck

RUNS_DIFFER = 0.1
"""The part of the difference by which two replays of the pass may differ; beyond it, it may be chance."""


@dataclass(frozen=True, slots=True)
class ChangedGradient:
    """The gradient of an input as the program's reverse pass left it, beside that of a replay.

    Attributes:
        check: The end-to-end check of the input, with the gradient of the replay.
        given: The gradient that the pass added in the program.
        error: The difference, relative to the gradient of the replay; infinite if `given` is not finite.
    """

    check: InputCheck
    given: Values
    error: float

    @property
    def is_wrong(self) -> bool:
        """True if differences of the loss confirm the gradient of the replay."""
        return self.check.verdict == "AGREE"


def changed_gradients(tape: RecordedTape, measured: Sequence[InputCheck]) -> list[ChangedGradient]:
    """Return the inputs whose gradient in the program is not the one that a replay of its last pass gives."""
    gradients = tape.capability(ConsumedGradients)
    passes = tape.reverse_passes
    if gradients is None or not passes or passes[-1].operation_count != len(tape.operations):
        return []
    found = []
    opaque = any(operation.capability(Irreplayable) is not None for operation in tape.operations)
    for item in measured:
        if opaque and item.verdict == "UNDECIDABLE":  # the pass ran what its replay leaves out
            continue
        given = gradients.consumed(item.array)
        if given is None or not np.isfinite(item.consumed).all():
            continue
        wanted = given.astype(np.float64).reshape(item.consumed.shape)
        size = float(np.linalg.norm(item.consumed) or np.linalg.norm(wanted))
        with np.errstate(all="ignore"):
            error = float(np.linalg.norm(wanted - item.consumed))
        if error <= GRADIENT_WRONG * size or _is_chance(tape, item, error):
            continue
        found.append(ChangedGradient(item, wanted, error / size if np.isfinite(error) else float("inf")))
    return found


def _is_chance(tape: RecordedTape, item: InputCheck, error: float) -> bool:
    """True if two replays of the pass differ, too: sums of many threads on a device, for instance."""
    consume: Consume = "versions" if tape.preserves_values else "current"
    again = tape.new_replay().forward().backward(tape.seeds, consume).gradient(item.array)
    apart = np.linalg.norm(again.astype(np.float64).reshape(item.consumed.shape) - item.consumed)
    return bool(apart > RUNS_DIFFER * error)
