"""Reads of a tape's memory that are not records, for the debugger's contract."""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug._dataclass import dataclass
from tapedebug._source import site_span
from tapedebug.contract import OutsideRead, OutsideReads
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.tape.gradient_history import Event
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeOutsideReads:
    """The capability `contract.OutsideReads` of a tape."""

    tape: Tape

    def reads(self) -> list[OutsideRead]:
        """Return the last read of each range of memory from each known place."""
        events = self._events()
        return [_read(self.tape, buffer, a, event) for buffer, a, event in events if event.site is not None]

    def _events(self) -> Iterator[tuple[Buffer, array | None, Event]]:
        tracker = self.tape.tracker
        yield from ((a.buffer, a, event) for a, event in tracker.host_reads.values())
        for reference, event in tracker.early_reads:
            buffer = reference()
            if buffer is not None:
                yield buffer, None, event


def _read(tape: Tape, buffer: Buffer, a: array | None, event: Event) -> OutsideRead:
    assert event.site is not None
    own = event.tape == tape.id
    return OutsideRead(
        buffer,
        event.start,
        event.stop,
        event.at if own else None,
        event.tape not in (0, tape.id),
        site_span(event.site),
        event.how,
        event.clock,
        event.stack if own else (),
        buffer.number,
        a,
        event.frames,
    )


TAPE[OutsideReads] = TapeOutsideReads
