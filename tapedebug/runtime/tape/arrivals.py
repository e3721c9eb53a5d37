"""Arrays imported from other libraries during recording, for the debugger's contract."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug._source import Span, site_span
from tapedebug.contract import Arrivals, ArrivedArray, Stack
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.tape.record import site_of
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeArrivals:
    """The capability `contract.Arrivals` of a tape."""

    tape: Tape

    def arrivals(self) -> list[ArrivedArray]:
        """Return the imported arrays in order; the region is None if its memory has been freed."""
        return [
            ArrivedArray(
                found.buffer(),
                found.start,
                found.stop,
                found.at,
                found.clock,
                found.how,
                found.stack,
                found.memory,
                found.tensor,
                _place(found.stack),
            )
            for found in self.tape.tracker.arrivals
        ]


def _place(stack: Stack) -> Span | None:
    site = site_of(stack)
    return None if site is None else site_span(site)


TAPE[Arrivals] = TapeArrivals
