"""Facts about a tape's arrays that its records do not contain, for the debugger's contract."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.contract import ArrayMemory, ArrayOrigins
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


class EngineArrayMemory:
    """The capability `contract.ArrayMemory` of this engine's tapes."""

    def address(self, a: array, /) -> int:
        """Return the address of the first element of an array."""
        return a.ptr

    def gradient_reads(self, a: array, /) -> set[str] | None:
        """Return the ways in which the gradient of an array has been read; None if it has no history."""
        memory = a.buffer.adjoint
        if not a.requires_grad or memory is None or memory.history is None:
            return None
        reads = {event.how for event in memory.history.events if event.kind == "read"}
        return reads | {"view"} if memory.windows else reads


_memory = EngineArrayMemory()
TAPE[ArrayMemory] = lambda tape: _memory
