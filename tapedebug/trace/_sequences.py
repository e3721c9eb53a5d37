"""Repeated launch sequences: the ×40 of a time loop, in time linear in the launches of a real tape."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence

from tapedebug.trace.model import Argument, Trace
from tapedebug.trace.model import Sequence as Repeat

MAX_PERIOD = 256
TRIED = 64
Same = Callable[[int, int], bool]


def find_sequences(
    keys: Sequence[Hashable], same: Same | None = None, max_period: int = MAX_PERIOD
) -> list[Repeat]:
    """Return disjoint runs in which `length` launches repeat `count` times (at least twice), in launch order.

    From each position the run that covers most launches wins, and of those the one with the shortest period,
    so that ``abcabc`` is twice ``abc`` and ``aaaa`` four times ``a``.

    Args:
        keys: One key a launch; launches with different keys are never the same.
        same: ``same(i, j)``, with i < j, decides for launches of equal keys. By default all are the same.
        max_period: The longest sequence that is looked for.
    """
    numbers: dict[Hashable, int] = {}
    ids = [numbers.setdefault(key, len(numbers)) for key in keys]
    total = len(ids)
    positions: dict[int, list[int]] = {}
    for index, key in enumerate(ids):
        positions.setdefault(key, []).append(index)
    # known_end[period]: how far a comparison for that period has come, so that no stretch is compared twice.
    # The work for a period is then linear, and few periods are tried at a position (see _periods).
    known_end: dict[int, int] = {}

    def end_of(start: int, period: int) -> int:
        end = known_end.get(period, 0)
        if end <= start:
            end = start
            while (
                end + period < total
                and ids[end] == ids[end + period]
                and (same is None or same(end, end + period))
            ):
                end += 1
            known_end[period] = max(end, start + 1)
        return end

    found: list[Repeat] = []
    index = 0
    while index < total:
        best: Repeat | None = None
        repeated: list[int] = []
        for period in _periods(positions[ids[index]], index, max_period):
            if any(period % shorter == 0 for shorter in repeated):
                continue  # it reaches exactly as far
            count = (end_of(index, period) - index) // period + 1
            if count > 1:
                repeated.append(period)
            if count > 1 and (best is None or count * period > best.length * best.count):
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


def sequences_of(trace: Trace) -> list[Repeat]:
    """Return the repeated sequences of a trace: same kernels and sizes, and the same data flow.

    The data flow is the same where an argument reads what the corresponding launch of the same or the
    previous round wrote, or what never changes between rounds. Which arrays hold the values does not
    matter, so that two arrays that swap places and a new array for every step fold alike. The first round
    of a loop, which reads what was there before the loop, is taken in.
    """
    flow = _Flow(trace)
    keys = [(launch.kind, launch.name, tuple(launch.dim), len(launch.args)) for launch in trace.launches]
    runs = find_sequences(keys, flow.same)
    taken = 0
    for run in runs:
        first = run.first - run.length
        if first >= taken and all(
            keys[i] == keys[i + run.length] and flow.same_but_carried(i, i + run.length, first)
            for i in range(first, run.first)
        ):
            run.first, run.count = first, run.count + 1
        taken = run.first + run.length * run.count
    return runs


class _Flow:
    """Who wrote what a launch reads, for each argument."""

    def __init__(self, trace: Trace) -> None:
        writers = {(version.array, version.version): version.written_by for version in trace.versions}
        self.sources = [[_source(arg, writers) for arg in launch.args] for launch in trace.launches]

    def same(self, i: int, j: int) -> bool:
        """Does `j` read what `i` read, or from as far back?"""
        for one, other in zip(self.sources[i], self.sources[j], strict=True):
            if one == other:
                continue
            if one is None or other is None or one[2] is None or other[2] is None:
                return False
            if i - one[2] != j - other[2]:
                return False
        return True

    def same_but_carried(self, i: int, j: int, first: int) -> bool:
        """As `same`, for the first round of a loop: what comes from the round before is outside it."""
        period = j - i
        for one, other in zip(self.sources[i], self.sources[j], strict=True):
            if one == other:
                continue
            if one is None or other is None or other[2] is None:
                return False
            inside = other[2] >= first + period
            if inside and (one[2] is None or i - one[2] != j - other[2]):
                return False
            if not inside and one[2] is not None and one[2] >= first:
                return False
        return True


_Source = tuple[int, int, "int | None"] | None  # array, version, its writer


def _source(arg: Argument, writers: dict[tuple[int, int], int | None]) -> _Source:
    if arg.array is None or arg.read_version is None:
        return None
    return (arg.array, arg.read_version, writers.get((arg.array, arg.read_version)))
