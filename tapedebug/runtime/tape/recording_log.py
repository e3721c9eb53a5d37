"""Values that earlier recordings left in memory and later ones find there.

A cell that runs again, or a loop that resets nothing, finds in its arrays the results of the run before. When
a recording ends, it notes for its buffers how often they had been written and viewed. A later tape whose
buffers have the same counts when it first uses them starts from what that recording left.

This has to be cheap, since it happens at the end of every `with Tape()` block. Neither arrays nor tapes are
kept alive.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from tapedebug._clock import clock
from tapedebug._dataclass import dataclass
from tapedebug.runtime.tape.buffer_versions import VIEWS, WRITES

if TYPE_CHECKING:
    from tapedebug.runtime.memory.buffer import Buffer
    from tapedebug.runtime.tape.buffer_versions import BufferVersions
    from tapedebug.runtime.tape.record import Record, Site

KEPT = 32
"""The number of recordings that are remembered."""

MOST_BUFFERS = 4096
"""The largest number of buffers of a recording that is remembered."""

COMPARED = 8
"""Launches at each end of a recording that are compared with those of another."""

SMALL = 256
"""Bytes up to which the content of a buffer is remembered, such as that of a loss.

Views of it are opened to read it, and do not mean that it was changed.
"""

MOST_SMALL = 16
"""The largest number of remembered contents in a recording."""


class _Ended(NamedTuple):
    """A buffer when the recording ended.

    Attributes:
        writes: The number of its writes.
        views: The number of its NumPy views.
        windows: The number of objects through which it could be written unnoticed.
        begun: The `first` of its ledger: writes and views when the recording first used it.
    """

    writes: int
    views: int
    windows: int
    begun: int


@dataclass(slots=True)
class EarlierRecording:
    """A recording that has ended.

    Attributes:
        ended: The time when it ended, in events of the process.
        launches: The number of its launches.
        ends: Of the first and last launches the name, the dimensions, and the arguments that are not arrays.
        facts: For each of its buffers the number and the fields of `_Ended`; empty once `by_number` has them.
        contents: The content at that time of small ones that it wrote.
        site: The call site of its first launch.
        execution: The number of the execution of a notebook cell that it was in, or of the next; None outside
            notebooks.
        cell: The id of that cell, if the client gave it.
    """

    ended: int
    launches: int
    ends: list[tuple[Any, ...]]
    facts: list[int]
    contents: dict[int, bytes]
    site: Site
    execution: int | None
    cell: str | None
    _by_number: dict[int, _Ended] | None = None

    @property
    def by_number(self) -> dict[int, _Ended]:
        """Its buffers when it ended, by their number."""
        if self._by_number is None:
            numbers, *facts = (self.facts[first::5] for first in range(5))
            self._by_number = dict(zip(numbers, map(_Ended, *facts), strict=True))
            self.facts = []
        return self._by_number

    def repeats(self, other: EarlierRecording) -> bool:
        """Return True if another recording had the same launches, on any arrays and values."""
        same = [each[:2] for each in self.ends] == [each[:2] for each in other.ends]
        return same and self.launches == other.launches

    def has_values_of(self, other: EarlierRecording) -> bool:
        """Return True if the arguments that are not arrays were the same, too."""
        return repr([each[2:] for each in self.ends]) == repr([each[2:] for each in other.ends])

    def runs_again(self, other: EarlierRecording) -> bool:
        """Return True if this is a later run of the notebook cell that the other recording was in.

        If the client gave no ids, cells with the same code count as one; code objects are equal if they
        differ only in their files.
        """
        if self.execution == other.execution:
            return False
        known = self.cell is not None and other.cell is not None
        return self.cell == other.cell if known else self.site == other.site

    def left(self, buffer: Buffer, ledger: BufferVersions, content: bytes | None = None) -> bool:
        """Return True if a later tape found in a buffer what this recording had left there.

        Args:
            buffer: The buffer.
            ledger: The later tape's ledger of that buffer.
            content: What the later tape found there, if the buffer is small.
        """
        then, remembered = self.by_number.get(buffer.number), self.contents.get(buffer.number)
        if then is None:
            return False
        if remembered is not None and content is not None:
            return remembered == content and then.writes == ledger.counts >> VIEWS
        return then.writes << VIEWS | then.views == ledger.counts and not then.windows

    def wrote(self, buffer: Buffer) -> bool:
        """Return True if the recording wrote a buffer."""
        then = self.by_number.get(buffer.number)
        return then is not None and then.writes != then.begun >> WRITES


_recordings: deque[EarlierRecording] = deque(maxlen=KEPT)


def remember(records: list[Record], ledgers: dict[Buffer, BufferVersions]) -> EarlierRecording | None:
    """Remember a recording that has ended; return None if it is too large."""
    if len(ledgers) > MOST_BUFFERS:
        return None
    few = records if len(records) <= 2 * COMPARED else [*records[:COMPARED], *records[-COMPARED:]]
    contents: dict[int, bytes] = {}
    for buffer, ledger in reversed(ledgers.items()):  # the last small ones that it wrote
        if buffer.nbytes <= SMALL and buffer.writes != ledger.first >> WRITES:
            contents[buffer.number] = buffer.data.tobytes()
            if len(contents) >= MOST_SMALL:
                break
    facts: list[int] = []
    for buffer, ledger in ledgers.items():
        facts += buffer.number, buffer.writes, buffer.views, buffer.windows, ledger.first
    ends = []
    for record in few:
        plan = record.plan
        ends.append((plan.name, record.dim, record.value, *map(record.args.__getitem__, plan.numbers)))
    recording = EarlierRecording(
        clock.now, len(records), ends, facts, contents, records[0].site, *_running_cell()
    )
    _recordings.append(recording)
    return recording


def left_by(buffer: Buffer, before: int) -> EarlierRecording | None:
    """Return the last recording that used a buffer and ended before a time."""
    for recording in reversed(_recordings):
        if recording.ended < before and buffer.number in recording.by_number:
            return recording
    return None


def _running_cell() -> tuple[int | None, str | None]:
    """Return the number of the running execution of a notebook cell, or of the next, and the cell's id."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None:
        return None, None
    parent = getattr(shell, "parent_header", None)
    metadata = parent.get("metadata") if isinstance(parent, dict) else None
    return int(shell.execution_count), metadata.get("cellId") if isinstance(metadata, dict) else None
