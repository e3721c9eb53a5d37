"""An index of memory intervals: find equal ones, and those that share bytes with a given one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator


class IntervalIndex:
    """Finds the ranges that share bytes with one: thousands of slices of one array are common.

    Ranges are kept sorted by start, apart for each power of two of their length: one whole array among its
    slices would else make every search a walk through all of them.
    """

    __slots__ = ("_sorted",)

    def __init__(self) -> None:
        self._sorted: dict[int, list[tuple[int, int]]] = {}

    def add(self, start: int, stop: int, number: int) -> None:
        """Enter a range."""
        insort(self._sorted.setdefault((stop - start).bit_length(), []), (start, number))

    def near(self, start: int, stop: int) -> Iterator[int]:
        """The numbers of all ranges that may share bytes with `start … stop`."""
        for bits, entries in self._sorted.items():
            low = bisect_left(entries, (start - (1 << bits), 0))
            high = bisect_left(entries, (stop, 0))
            for entry in entries[low:high]:
                yield entry[1]
