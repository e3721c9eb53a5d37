"""Arrays that another library passes in during recording: their values are constants on the tape.

Values that leave a tape are noted where they are read (`gradient_history.note_read`). Values that come in are
noted here, with the user's frames, so that a diagnosis can tell which imported array was computed from which
read.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._clock import clock
from tapedebug._dataclass import dataclass
from tapedebug.runtime.memory.buffer import Buffer, Window
from tapedebug.runtime.state import state
from tapedebug.runtime.tape.record import Stack, call_stack
from tapedebug.runtime.tape.tracker import HOST_READS

if TYPE_CHECKING:
    from tapedebug.runtime.memory.array import array


@dataclass(slots=True)
class Arrival:
    """An array that was made of values from outside while a tape recorded.

    Attributes:
        buffer: The array's memory, while it exists.
        start: The array's first byte.
        stop: The byte after the last.
        at: Number of records on the tape.
        clock: The time, in events of the process.
        how: The function that made it: `"array"`, `"from_torch"`, `"assign"`, …
        stack: The user's frames.
        memory: Number of the buffer that the values are a NumPy view of, or None.
        tensor: The tensor that it was made of, if PyTorch has recorded how that was computed.
    """

    buffer: weakref.ref[Buffer]
    start: int
    stop: int
    at: int
    clock: int
    how: str
    stack: Stack
    memory: int | None = None
    tensor: Any = None


def arrived(made: array, how: str, source: Any = None, tensor: Any = None) -> None:
    """Note that an array was made of values from outside, if a tape records.

    Args:
        made: The array.
        how: The function that made it.
        source: The object that its values were copied from.
        tensor: The tensor whose memory it uses, if PyTorch has recorded how that was computed.
    """
    tape = state.tape
    if tape is None or len(tape.tracker.arrivals) >= HOST_READS or made.buffer in tape.tracker.ledgers:
        return
    memory = _memory_of(source)
    tape.tracker.arrivals.append(
        Arrival(
            weakref.ref(made.buffer),
            made.start,
            made.stop,
            len(tape.records),
            clock.tick(),
            how,
            call_stack(3),
            memory,
            tensor,
        )
    )


def _memory_of(source: Any) -> int | None:
    """Return the number of the buffer that NumPy values are a view of, or None."""
    while isinstance(source, np.ndarray):
        source = source.base
    return source.buffer.number if isinstance(source, Window) else None
