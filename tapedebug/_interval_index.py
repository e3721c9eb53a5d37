"""An index of memory intervals that finds those that share bytes with a given one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator


class IntervalIndex:
    """Index of memory ranges that finds overlaps: thousands of slices of one array are common.

    Ranges are sorted by start, separately for each power of two of their length: otherwise one whole array
    among its slices would turn every search into a scan of all of them.
    """

    __slots__ = ("_sorted",)

    def __init__(self) -> None:
        self._sorted: dict[int, list[tuple[int, int]]] = {}

    def add(self, start: int, stop: int, number: int) -> None:
        """Add a range."""
        insort(self._sorted.setdefault((stop - start).bit_length(), []), (start, number))

    def near(self, start: int, stop: int) -> Iterator[int]:
        """Yield the numbers of all ranges that may share bytes with `start … stop`."""
        for bits, entries in self._sorted.items():
            low = bisect_left(entries, (start - (1 << bits), 0))
            high = bisect_left(entries, (stop, 0))
            for entry in entries[low:high]:
                yield entry[1]
