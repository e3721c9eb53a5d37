"""Facts about arrays of a tape that do not show in its records, as the debugger's contract has them."""

from __future__ import annotations

from dataclasses import dataclass

from tapedebug.contract import ArrayOrigins
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeArrayOrigins:
    """The capability `contract.ArrayOrigins` of a tape."""

    tape: Tape

    def given(self, a: array, /) -> bool:
        """Return True if an array was created with values that differ, and first used by this tape."""
        return self.tape.tracker.ledgers[a.buffer].given

    def used_elsewhere(self, a: array, /) -> bool:
        """Return True if another live tape uses what an array holds."""
        own = self.tape.tracker
        return any(tracker is not own and tracker.uses(a) for _, tracker in a.buffer.watchers())

    def retains_gradient(self, a: array, /) -> bool:
        """Return True if an array keeps its adjoint on purpose."""
        return a.retain_grad


TAPE[ArrayOrigins] = TapeArrayOrigins
