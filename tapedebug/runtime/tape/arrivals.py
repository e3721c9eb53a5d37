"""Arrays that came in from another library, as the debugger's contract has them."""

from __future__ import annotations

from dataclasses import dataclass

from tapedebug.contract import Arrivals, ArrivedArray
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeArrivals:
    """The capability `contract.Arrivals` of a tape."""

    tape: Tape

    def arrivals(self) -> list[ArrivedArray]:
        """Return the arrays that came in, in order; their region is None if their memory is gone."""
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
            )
            for found in self.tape.tracker.arrivals
        ]


TAPE[Arrivals] = TapeArrivals
