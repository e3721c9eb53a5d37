"""`Tape(memory_budget=…)`: release saved values, and recompute them from checkpoints when needed.

While the tape records, half of the budget holds checkpoints (the memory that the tape has written, as it was
before some launch) and the newest kept values. When that half is full, the kept values are released, and a
checkpoint takes their place; when checkpoints fill half of it, every other one is released. The other half is
for `recompute`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapeError
from tapedebug.runtime.memory.buffer import Buffer, Bytes
from tapedebug.runtime.tape.buffer_versions import InplaceSave, RangeState, SavedValue, elements_of

if TYPE_CHECKING:
    from tapedebug.runtime.memory.array import array
    from tapedebug.runtime.tape.tracker import Tracker

_UNITS = {"": 1, "b": 1, **{f"{p}b": 1000**n for n, p in enumerate("kmgt", start=1)}}
_UNITS |= {f"{p}ib": 1024**n for n, p in enumerate("kmgt", start=1)}

Pieces = list[tuple[Buffer, int, int]]


def parse_budget(given: Any) -> int | None:
    """Return a memory budget in bytes.

    Raises:
        TapeError: It is neither None, a positive number of bytes, nor text such as `"1.5 GB"`.
    """
    if given is None:
        return None
    amount = None
    if isinstance(given, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", given)
        unit = _UNITS.get(match[2].lower()) if match else None
        amount = float(match[1]) * unit if match and unit else None
    elif isinstance(given, (int, float)) and not isinstance(given, bool):
        amount = float(given)
    if amount is None or not 1 <= amount < float("inf"):
        raise TapeError(
            f"Tape: memory_budget is a positive number of bytes or text such as '500 MB'; got {given!r}",
            hint="use one of these, or leave it out",
        )
    return int(amount)


@dataclass
class Checkpoint:
    """The memory that a tape had written, as it was before one of its records ran.

    Attributes:
        at: Index of that record.
        runs: (buffer, first byte, content).
        strided: Arrays with gaps outside those runs, with the bytes of their elements.
        whole: It holds all memory that the tape ever writes; otherwise what it had written by then.
    """

    at: int
    runs: list[tuple[Buffer, int, Bytes]]
    strided: list[tuple[array, Bytes]]
    whole: bool = False

    @property
    def nbytes(self) -> int:
        """Its memory, in bytes."""
        return sum(c.nbytes for _, _, c in self.runs) + sum(c.nbytes for _, c in self.strided)


class Extent:
    """The memory that a tape has written so far: runs of bytes, and arrays with gaps outside them."""

    def __init__(self) -> None:
        self._states: dict[Buffer, dict[int, RangeState]] = {}
        self._records = self._events = 0

    def follow(self, tracker: Tracker) -> None:
        """Add what was recorded, or written outside the tape, since the last call."""
        for record in tracker.records[self._records :]:
            for p in record.plan.written:
                self._add(tracker, record.args[p])
        for event in tracker.outside[self._events :]:
            self._add(tracker, event.array)
        self._records, self._events = len(tracker.records), len(tracker.outside)

    def _add(self, tracker: Tracker, a: array) -> None:
        state = tracker.ledgers[a.buffer].state(a)
        self._states.setdefault(a.buffer, {})[state.number] = state

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self._states

    def runs(self) -> tuple[Pieces, list[array]]:
        """Return the bytes as runs that do not overlap, and the arrays with gaps that lie outside them."""
        runs: Pieces = []
        strided = []
        for buffer, states in self._states.items():
            own: list[list[int]] = []
            for state in sorted(states.values(), key=lambda s: s.start):
                if not state.is_contiguous:
                    continue
                if own and state.start <= own[-1][1]:
                    own[-1][1] = max(own[-1][1], state.stop)
                else:
                    own.append([state.start, state.stop])
            runs += [(buffer, start, stop) for start, stop in own]
            strided += [
                s.array
                for s in states.values()
                if not (s.is_contiguous or any(low <= s.start and s.stop <= high for low, high in own))
            ]
        return runs, strided

    @property
    def nbytes(self) -> int:
        """The size of that memory, in bytes."""
        runs, strided = self.runs()
        return sum(stop - start for _, start, stop in runs) + sum(a.capacity for a in strided)

    def checkpoint(self, at: int) -> Checkpoint:
        """Return a checkpoint with the present content of that memory."""
        runs, strided = self.runs()
        return Checkpoint(
            at,
            [(buffer, start, buffer.copy_range(start, stop)) for buffer, start, stop in runs],
            [(a, np.ascontiguousarray(elements_of(a.buffer.data, a))) for a in strided],
        )


class Budget:
    """The copies that a tracker keeps within a number of bytes.

    Attributes:
        nbytes: The budget.
        since: The values kept for records from this one on are complete; those of earlier records were
            released.
        extent: The memory that the tape has written.
        pinned: Needs whose values stay, because they cannot be recomputed or replays start from them.
        warned: The warning that the budget is too small was issued.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.since = 0
        self.extent = Extent()
        self.pinned: set[SavedValue] = set()
        self.warned = False
        self._checkpoints: dict[int, Checkpoint] = {}
        self._times = 0
        self._stride = 1
        self._fresh: list[tuple[SavedValue | InplaceSave, int]] = []
        self._fresh_bytes = 0
        self._fixed_bytes = 0
        self._room = nbytes // 2

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints that a recomputation can begin from, besides the first record."""
        return list(self._checkpoints.values())

    @property
    def checkpoint_bytes(self) -> int:
        """Memory of checkpoints, in bytes."""
        return sum(checkpoint.nbytes for checkpoint in self._checkpoints.values())

    def keep(self, item: SavedValue | InplaceSave, nbytes: int) -> None:
        """Count a copy that was made; of an in-place save that shares the copy of a saved value, 0 bytes."""
        self._fresh.append((item, nbytes))
        self._fresh_bytes += nbytes

    def fix(self, nbytes: int) -> None:
        """Count bytes that recomputation starts from, and that are never released."""
        self._fixed_bytes += nbytes
        self._set_room()

    @property
    def full(self) -> bool:
        """True if kept values must be released."""
        return self._fresh_bytes > self._room

    def _set_room(self) -> None:
        """Compute the space for kept values; never zero, or each launch would make a checkpoint."""
        half = self.nbytes // 2
        self._room = max(half - self.checkpoint_bytes - self._fixed_bytes, half // 4)

    def thin(self, tracker: Tracker) -> None:
        """Release kept values; called between two records."""
        left: list[tuple[SavedValue | InplaceSave, int]] = []
        for item, nbytes in self._fresh:
            if isinstance(item, InplaceSave):
                item.copy = None
            elif item.clobber is None:
                left.append((item, nbytes))
            elif item.outside or item in self.pinned:
                self._fixed_bytes += nbytes
            else:
                item.copy, item.dropped = None, True
        self._fresh = left
        self._fresh_bytes = sum(nbytes for _, nbytes in left)
        tracker.kept += 1
        if tracker.mode != "warn":  # in that mode the reverse pass sees the values in memory
            self.since = len(tracker.records)
            self._take_checkpoint(tracker)
        self._set_room()

    def _take_checkpoint(self, tracker: Tracker) -> None:
        """Take a checkpoint, evenly spaced with the others.

        If they take too much memory, every other one is released, and fewer are taken from then on.
        """
        most = self.nbytes // 4
        self._times += 1
        self.extent.follow(tracker)
        if self._times % self._stride or self.extent.nbytes > most:
            return
        self._checkpoints[self._times] = self.extent.checkpoint(self.since)
        while self.checkpoint_bytes > most:
            self._stride *= 2
            self._checkpoints = {n: c for n, c in self._checkpoints.items() if n % self._stride == 0}
