"""Needed values that were overwritten outside the tape, for the debugger's contract."""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug._dataclass import dataclass
from tapedebug.contract import OverwrittenOutside
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.buffer_versions import RangeState, SavedValue, UntrackedWrite
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeOverwrittenOutside:
    """The capability `contract.OverwrittenOutside` of a tape."""

    tape: Tape

    def taken(self) -> Iterator[tuple[int, int, UntrackedWrite]]:
        """Yield record, parameter and write for each needed value that was overwritten outside the tape."""
        events: dict[int, list[UntrackedWrite]] = {}
        for event in self.tape.outside_writes:
            events.setdefault(event.at, []).append(event)
        for record in self.tape.records:
            for param, need in zip(record.needed, record.needs, strict=True):
                found = _taker(need, record.args[param], events) if need.outside else None
                if found is not None:
                    yield record.index, param, found


def _taker(need: SavedValue, a: array, events: dict[int, list[UntrackedWrite]]) -> UntrackedWrite | None:
    """Return the write that overwrote a saved value of an array."""
    state = RangeState(-1, a)
    for event in events.get(need.clobber or 0, ()):
        if event.array.region is a.region and RangeState(-2, event.array).meets(state):
            return event
    return None


TAPE[OverwrittenOutside] = TapeOverwrittenOutside
