"""A private tape with a bug fixed: gradients added, launches after the loss left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapedebug.runtime import Tape
    from tapedebug.runtime.tape.record import Record
    from tapedebug.trace import TraceBinding


def patched_tape(recorded: TraceBinding, revived: Collection[int], stop: int | None = None) -> Tape:
    """Return a tape of the same launches, of which some arrays have a gradient that they did not have.

    Args:
        recorded: The tape, with its trace.
        revived: Ids of those arrays. Launches between them have adjoints, also with `enable_backward=False`.
        stop: How many launches it has; by default all.
    """
    from tapedebug.autograd.subjects.rerecord import rerecorded

    launches = recorded.trace.launches

    def alive(record: Record) -> frozenset[int]:
        args = launches[record.index].args
        return frozenset(p for p, arg in enumerate(args) if arg.array in revived)

    return rerecorded(recorded.tape, alive, stop)
