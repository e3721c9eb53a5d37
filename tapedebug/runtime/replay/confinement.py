"""Limits of replays of a tape: the memory that they can reach, and the moment that arrays show."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.contract import Confinement, LiveArrays
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.launch.bounds_precheck import are_confined
from tapedebug.runtime.state import refuse_at_another_time
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeConfinement:
    """The capability `contract.Confinement` of a tape."""

    tape: Tape

    def is_confined(self) -> bool:
        """Return True if no launch can access memory outside a replay, whatever values it is given."""
        return are_confined(self.tape.tracker.records)


@dataclass(frozen=True, slots=True)
class TapeLiveArrays:
    """The capability `contract.LiveArrays` of a tape."""

    tape: Tape

    def check(self, what: str, /) -> None:
        """Raise a `TapeError` that begins with `what` if arrays do not hold their present values."""
        refuse_at_another_time(what)


TAPE[LiveArrays] = TapeLiveArrays
TAPE[Confinement] = TapeConfinement
