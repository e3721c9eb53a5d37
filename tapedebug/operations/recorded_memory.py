"""Copies of the program's memory that a tape keeps: the bytes that it found, and those it compares with.

The bytes that a tape finds in a region are copied when it first uses the region, while a budget lasts. Beyond
the budget, a range is copied only when an operation is about to overwrite it. Writes outside the tape are
found by comparison: with a copy where a region is small, else with a sample of its bytes.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right

import numpy as np

from tapedebug.contract import Array
from tapedebug.operations.memory import Bytes, Copied, Region, fetched

GRAIN = 8
"""Ranges of changed bytes begin and end at multiples of this number."""
SMALL = 1 << 16
"""Regions of up to this many bytes are compared byte by byte."""
CHUNK = 1 << 18
"""Regions are compared with a snapshot by parts of this many bytes: most that differ do so in the first."""
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


class Snapshot:
    """A copy of a region, which tapes that find the same bytes share.

    Args:
        region: The region.
        budget: The budget that counts it as long as it lives.

    Attributes:
        content: The bytes.
        known: The same bytes, if the region is small: tapes compare with them.
    """

    __slots__ = ("__weakref__", "_budget", "_nbytes", "content", "known")

    def __init__(self, region: Region, budget: SnapshotBudget) -> None:
        self._budget, self._nbytes = budget, region.nbytes
        self.known: bytes | None = None
        if region.on_host and region.nbytes <= SMALL:
            self.known = region.values.tobytes()
            self.content: Copied = np.frombuffer(self.known, np.uint8)
        else:
            self.content = region.copied(0, region.nbytes)

    def __del__(self) -> None:
        self._budget.release(self._nbytes)


def _last_snapshot(region: Region) -> Snapshot | None:
    """Return the last snapshot of a region if a tape keeps it and the region still holds its bytes."""
    found: Snapshot | None = None if region.last_snapshot is None else region.last_snapshot()
    if found is None or not isinstance(found.content, np.ndarray):
        return None
    for start in range(0, region.nbytes, CHUNK):
        if not np.array_equal(found.content[start : start + CHUNK], region.values[start : start + CHUNK]):
            return None
    return found


class RecordedRegion:
    """The copies that a tape keeps of one region of the program.

    Args:
        region: The region.
        budget: The budget for copies.

    Attributes:
        taken: The bytes of the budget that its snapshot uses; 0 if an earlier tape has made that.
        lost: Bytes that the tape found were overwritten outside before they were copied.
    """

    __slots__ = (
        "_found",
        "_known",
        "_live_in",
        "_now",
        "_sample",
        "_sampled",
        "_saved",
        "lost",
        "region",
        "taken",
    )

    def __init__(self, region: Region, budget: SnapshotBudget) -> None:
        self.region, self.lost = region, False
        self._saved: list[tuple[int, Copied]] = []  # ranges by their first byte, which do not overlap
        self._now = region.values.data
        self._known: bytes | bytearray | None = None
        self._sampled, self._sample = _NOTHING, b""
        nbytes = region.nbytes
        found = _last_snapshot(region)
        self.taken = 0
        if found is None and budget.take(nbytes):
            self.taken = nbytes
            found = Snapshot(region, budget)
            region.last_snapshot = weakref.ref(found)
        self._found = found
        self._live_in: Copied | None = None if found is None else found.content
        if region.on_host and nbytes <= SMALL:
            self._known = self._now.tobytes() if found is None else found.known
        elif region.on_host:  # bytes of memory of a device would have to be waited for
            step = max(1, nbytes // SAMPLES) | 1  # odd: of each byte of a number some
            self._sampled = region.values[::step]
            self._sample = self._sampled.tobytes()

    @property
    def nbytes(self) -> int:
        """The number of bytes that are stored."""
        whole = 0 if self._live_in is None else self._live_in.size
        is_shared = self._found is not None and self._known is self._found.known
        known = 0 if self._known is None or is_shared else len(self._known)
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
        known = self._known
        if known is None:
            sample = self._sampled.tobytes()
            if sample == self._sample:
                return None
            self._sample = sample
            self.lost |= self._live_in is None and not self._is_saved(0, self.region.nbytes)
            return 0, np.ones(self.region.nbytes, np.bool_)
        size = len(known)
        start, stop = start // GRAIN * GRAIN, min(-(-stop // GRAIN) * GRAIN, size)
        if start == 0 and stop == size:
            now = self._now.tobytes()
            if now == known:
                return None
        else:
            now = self._now[start:stop].tobytes()
            if now == known[start:stop]:
                return None
        differs = np.frombuffer(now, np.uint8) != np.frombuffer(known[start:stop], np.uint8)
        where = np.flatnonzero(differs)
        low, high = int(where[0]) // GRAIN * GRAIN, -(-int(where[-1] + 1) // GRAIN) * GRAIN
        self.note(start, stop)
        self.lost |= self._live_in is None and not self._is_saved(start + low, start + high)
        return start + low, differs[low:high]

    def is_unchanged(self, start: int, stop: int) -> bool:
        """True if a range, or the samples of a large region, hold what they held at the last comparison."""
        known = self._known
        if known is None:
            return self._sampled.tobytes() == self._sample
        return self._now[start:stop].tobytes() == known[start:stop]

    def changed_from_start(self) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]] | None:
        """Compare all bytes of a large region, of which `changed` only sees a sample, with those found first.

        It is for regions that no operation writes.

        Returns:
            The first byte of the range that differs and a mask of the changed bytes; None if none does, or if
            the region is small, on a device, or not copied as a whole.
        """
        found = self._live_in
        if self._known is not None or not isinstance(found, np.ndarray):
            return None
        values = self.region.values
        differs = [
            start
            for start in range(0, values.size, CHUNK)
            if not np.array_equal(found[start : start + CHUNK], values[start : start + CHUNK])
        ]
        if not differs:
            return None
        start, stop = differs[0], min(differs[-1] + CHUNK, values.size)
        where = np.flatnonzero(found[start:stop] != values[start:stop])
        low, high = int(where[0]) // GRAIN * GRAIN, min(-(-int(where[-1] + 1) // GRAIN) * GRAIN, stop - start)
        self._sample = self._sampled.tobytes()
        return start + low, found[start + low : start + high] != values[start + low : start + high]

    def note(self, start: int, stop: int) -> None:
        """Take the present content of a range as known: the tape itself wrote it."""
        known = self._known
        if known is None:
            self._sample = self._sampled.tobytes()
        elif start == 0 and stop == len(known):
            self._known = self._now.tobytes()
        else:
            if isinstance(known, bytes):
                known = self._known = bytearray(known)
            known[start:stop] = self._now[start:stop]


_NOTHING = np.empty(0, np.uint8)


class Touched:
    """A range of memory that operations of one tape access.

    Args:
        seen: The copies of its region.
        start: The first byte.
        stop: The byte after the last.
        writes: The operations write it.

    Attributes:
        arrays: The arrays in this range.
        is_listed: The tape lists them as its own: an operation has run.
    """

    __slots__ = ("_is_whole", "arrays", "is_listed", "seen", "start", "stop", "writes")

    def __init__(self, seen: RecordedRegion, start: int, stop: int, writes: bool) -> None:
        self.seen, self.start, self.stop, self.writes = seen, start, stop, writes
        self.arrays: list[Array] = []
        self.is_listed = False
        self._is_whole = start == 0 and stop == seen.region.nbytes

    def is_unchanged(self) -> bool:
        """True if the range was not written outside since the last comparison; False if that is not clear."""
        seen = self.seen
        known = seen._known
        if known is None:
            return seen._sampled.tobytes() == seen._sample
        return self._is_whole and seen._now.tobytes() == known

    def note(self) -> None:
        """Take the present content of the range as known: the tape itself wrote it."""
        seen = self.seen
        if self._is_whole and seen._known is not None:
            seen._known = seen._now.tobytes()
        else:
            seen.note(self.start, self.stop)
