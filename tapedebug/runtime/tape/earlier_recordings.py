"""The capability to list values that earlier recordings left in memory for a tape."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.contract import EarlierRecordings
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.recording_log import EarlierRecording, left_by
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeEarlierRecordings:
    """The capability `contract.EarlierRecordings` of a tape."""

    tape: Tape

    def left_by(self, a: array, content: bytes | None, /) -> EarlierRecording | None:
        """Return the recording of the same launches that wrote what this one found in an array, or None."""
        tracker, region = self.tape.tracker, a.region
        before, now = left_by(region, self.tape.began), tracker.recording
        if before is None or now is None or not before.wrote(region) or not now.repeats(before):
            return None
        return before if before.left(region, tracker.ledgers[region], content) else None

    def is_same_cell(self, earlier: EarlierRecording, /) -> bool:
        """Return True if this is a later run of the notebook cell that the other recording was in."""
        now = self.tape.tracker.recording
        return now is not None and now.runs_again(earlier)

    def has_same_arguments(self, earlier: EarlierRecording, /) -> bool:
        """Return True if the arguments that are not arrays were the same."""
        now = self.tape.tracker.recording
        return now is not None and now.has_values_of(earlier)

    def is_unchanged(self, a: array, earlier: EarlierRecording, /) -> bool:
        """Return True if an array held the same values when the earlier recording began."""
        ledger = self.tape.tracker.ledgers[a.region]
        fresh = bool(ledger.liveins) and all(live.fill is not None for live in ledger.liveins)
        return fresh or (not earlier.wrote(a.region) and earlier.left(a.region, ledger))

    def was_read(self, a: array, /) -> bool:
        """Return True if the program has read the final number of an array with one element."""
        return any(read.region is a.region for read, _ in self.tape.tracker.looks.values())


TAPE[EarlierRecordings] = TapeEarlierRecordings
