"""Records a private tape with a bug fixed: gradients added, launches after the loss left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tapedebug._errors import TapedebugError
from tapedebug.contract import Operation, RecordedTape, Rerecording

if TYPE_CHECKING:
    from tapedebug.trace import TraceBinding


def patched_tape(recorded: TraceBinding, revived: Collection[int], stop: int | None = None) -> RecordedTape:
    """Return a tape of the same launches in which more arrays have a gradient.

    Args:
        recorded: The tape, with its trace.
        revived: Ids of those arrays. Launches between them have adjoints, also with `enable_backward=False`.
        stop: The number of launches; by default all.

    Raises:
        TapedebugError: The engine cannot record a tape again.
    """
    tape: RecordedTape = recorded.tape
    rerecording = tape.capability(Rerecording)
    if rerecording is None:
        raise TapedebugError(f"{tape.engine.name} does not record its operations again with other adjoints")
    launches = recorded.trace.launches

    def alive(record: Operation) -> frozenset[int]:
        args = launches[record.index].args
        return frozenset(p for p, arg in enumerate(args) if arg.array in revived)

    return rerecording.rerecorded(alive, stop)
