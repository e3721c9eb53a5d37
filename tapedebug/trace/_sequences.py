"""Repeated launch sequences: the ×40 of a time loop, found in O(n log n) for real tapes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence

from tapedebug.trace.model import Sequence as Repeat

MAX_PERIOD = 256
TRIED = 64


def find_sequences(keys: Sequence[Hashable], max_period: int = MAX_PERIOD) -> list[Repeat]:
    """Return disjoint runs in which `length` keys repeat `count` times (at least twice), in launch order.

    From each position the run that covers most launches wins, and of those the one with the shortest period,
    so that ``abcabc`` is twice ``abc`` and ``aaaa`` four times ``a``.
    """
    total = len(keys)
    numbers: dict[Hashable, int] = {}
    ids = [numbers.setdefault(key, len(numbers)) for key in keys]
    # known_end[period]: how far a comparison for that period has come, so that no stretch is compared twice.
    # The work for a period is then O(n), and few periods are tried at a position (see _periods).
    positions: dict[int, list[int]] = {}
    for index, key in enumerate(ids):
        positions.setdefault(key, []).append(index)
    found: list[Repeat] = []
    known_end: dict[int, int] = {}
    index = 0
    while index < total:
        best: Repeat | None = None
        for period in _periods(positions[ids[index]], index, max_period):
            end = known_end.get(period, 0)
            if end <= index:
                end = index
                while end + period < total and ids[end] == ids[end + period]:
                    end += 1
                known_end[period] = max(end, index + 1)
            count = (end - index) // period + 1
            if count >= 2 and (best is None or count * period > best.length * best.count):
                best = Repeat(first=index, length=period, count=count)
        if best is None:
            index += 1
        else:
            found.append(best)
            index += best.length * best.count
    return found


def _periods(occurrences: list[int], index: int, max_period: int) -> list[int]:
    """Distances from `index` to later occurrences of the same key: the only periods that can begin there."""
    start = bisect_right(occurrences, index)
    periods = []
    for later in occurrences[start : start + TRIED]:
        if later - index > max_period:
            break
        periods.append(later - index)
    return periods
