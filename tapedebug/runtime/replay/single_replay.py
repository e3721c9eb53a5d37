"""Replays of one record alone, as the debugger's contract has them."""

from __future__ import annotations

from dataclasses import dataclass

from tapedebug.contract import SingleReplay
from tapedebug.lang.types import float64 as float64_type
from tapedebug.runtime.capabilities import OPERATION
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.record import Record


@dataclass(frozen=True, slots=True)
class RecordReplay:
    """The capability `contract.SingleReplay` of a launch."""

    record: Record

    def new_replay(self, *, float64: bool = False) -> Shadow:
        """Return a replay of this launch only.

        Raises:
            TapeError: In float64, if memory is used as several types.
        """
        record, dtype = self.record, float64_type if float64 else None
        return Shadow.for_launch(record.kernel, record.dim, record.args, dtype=dtype, flat=True)


OPERATION[SingleReplay] = lambda record: None if record.kernel is None else RecordReplay(record)
