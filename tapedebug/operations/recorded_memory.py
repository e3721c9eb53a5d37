"""Copies of the program's memory that a tape keeps: the bytes that it found, and those it compares with.

The bytes that a tape finds in a region are copied when it first uses the region, while a budget lasts. Beyond
the budget, a range is copied only when an operation is about to overwrite it. Writes outside the tape are
found by comparison: with a copy where a region is small, else with a sample of its bytes.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from tapedebug.operations.memory import Bytes, Copied, Region, fetched

GRAIN = 8
"""Ranges of changed bytes begin and end at multiples of this number."""
SMALL = 1 << 16
"""Regions of up to this many bytes are compared byte by byte."""
SAMPLES = 128
"""Number of bytes in a sample of a larger region."""


class SnapshotBudget:
    """The number of bytes that tapes may use for copies of whole regions.

    Args:
        limit: The number; None for no limit.

    Attributes:
        used: The number of bytes in use.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self.used = limit, 0

    def take(self, nbytes: int) -> bool:
        """Return True, and count these bytes, if they fit."""
        if self.limit is not None and self.used + nbytes > self.limit:
            return False
        self.used += nbytes
        return True

    def release(self, nbytes: int) -> None:
        """Stop counting these bytes."""
        self.used -= nbytes


class RecordedRegion:
    """The copies that a tape keeps of one region of the program.

    Args:
        region: The region.
        budget: The budget for copies.

    Attributes:
        taken: The bytes of the budget that it uses.
        lost: Bytes that the tape found were overwritten outside before they were copied.
    """

    __slots__ = ("_known", "_live_in", "_sample", "_saved", "lost", "region", "taken")

    def __init__(self, region: Region, budget: SnapshotBudget) -> None:
        self.region, self.lost = region, False
        whole = budget.take(region.nbytes)
        self.taken = region.nbytes if whole else 0
        self._live_in = region.copied(0, region.nbytes) if whole else None
        self._saved: list[tuple[int, Copied]] = []  # ranges by their first byte, which do not overlap
        self._known = region.values.copy() if region.on_host and region.nbytes <= SMALL else None
        self._sample = b"" if self._known is not None else self._sampled()

    def _sampled(self) -> bytes:
        """Return some bytes of a large region; none of memory of a device, which would have to wait."""
        if not self.region.on_host:
            return b""
        values = self.region.values
        return values[:: max(1, values.size // SAMPLES) | 1].tobytes()  # odd: of each byte of a number some

    @property
    def nbytes(self) -> int:
        """The number of bytes that are stored."""
        whole = 0 if self._live_in is None else self._live_in.size
        known = 0 if self._known is None else self._known.size
        return whole + known + sum(content.size for _, content in self._saved)

    # -- the bytes that the tape found ------------------------------------------------------------------

    def preserve(self, start: int, stop: int) -> None:
        """Copy a range that is about to be overwritten for the first time."""
        if self._live_in is not None:
            return
        position = bisect_right(self._saved, start, key=lambda item: item[0])
        if position and self._saved[position - 1][0] + self._saved[position - 1][1].size > start:
            position -= 1
        at = start
        while at < stop:
            if position < len(self._saved) and self._saved[position][0] <= at:
                begin, content = self._saved[position]
                at = max(at, begin + content.size)
            else:
                end = min(stop, self._saved[position][0]) if position < len(self._saved) else stop
                self._saved.insert(position, (at, self.region.copied(at, end)))
                at = end
            position += 1

    def live_in(self) -> Bytes:
        """Return the bytes that the tape found; not to be modified."""
        if self._live_in is not None:
            return fetched(self._live_in)
        found = self.region.fetched(0, self.region.nbytes)
        for start, content in self._saved:
            found[start : start + content.size] = fetched(content)
        return found

    def _is_saved(self, start: int, stop: int) -> bool:
        covered = start
        for begin, content in self._saved:
            if begin <= covered < begin + content.size:
                covered = begin + content.size
        return covered >= stop

    # -- writes by others -------------------------------------------------------------------------------

    def changed(self, start: int, stop: int) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]] | None:
        """Return the range of bytes that was written outside since the last comparison; None if none was.

        Args:
            start: The first byte to compare.
            stop: The byte after the last.

        Returns:
            The first byte of the range and a mask of the changed bytes. Of a large region all bytes count as
            changed.
        """
        if self._known is None:
            sample = self._sampled()
            if sample == self._sample:
                return None
            self._sample = sample
            self.lost |= self._live_in is None and not self._is_saved(0, self.region.nbytes)
            return 0, np.ones(self.region.nbytes, np.bool_)
        values = self.region.values
        start, stop = start // GRAIN * GRAIN, min(-(-stop // GRAIN) * GRAIN, values.size)
        now, known = values[start:stop], self._known[start:stop]
        if now.tobytes() == known.tobytes():
            return None
        differs = now != known
        where = np.flatnonzero(differs)
        low, high = int(where[0]) // GRAIN * GRAIN, -(-int(where[-1] + 1) // GRAIN) * GRAIN
        known[:] = now
        self.lost |= self._live_in is None and not self._is_saved(start + low, start + high)
        return start + low, differs[low:high]

    def note(self, start: int, stop: int) -> None:
        """Take the present content of a range as known: the tape itself wrote it."""
        if self._known is None:
            self._sample = self._sampled()
        else:
            self._known[start:stop] = self.region.values[start:stop]
