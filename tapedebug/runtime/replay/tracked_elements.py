"""The memory of tapes whose launches can be tracked element by element; a capability of the contract."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import cast

from tapedebug.contract import ElementTracking
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeElementTracking:
    """The capability `contract.ElementTracking` of a tape."""

    tape: Tape

    def arrays_in(self, region: Hashable, /) -> list[array]:
        """Return the ranges of a buffer that the tape uses, as arrays."""
        return [state.array for state in self.tape.tracker.ledgers[cast("Buffer", region)].states]


TAPE[ElementTracking] = TapeElementTracking
