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
    positions: dict[int, list[int]] = {}
    for index, key in enumerate(ids):
        positions.setdefault(key, []).append(index)
    reach = _Reach(ids, same)
    found: list[Repeat] = []
    index = 0
    while index < len(ids):
        best: Repeat | None = None
        repeated: list[int] = []
        for period in _periods(positions[ids[index]], index, max_period):
            if any(period % shorter == 0 for shorter in repeated):
                continue  # it reaches exactly as far
            count = (reach(index, period) - index) // period + 1
            if count > 1:
                repeated.append(period)
                if best is None or count * period > best.length * best.count:
                    best = Repeat(first=index, length=period, count=count)
        if best is not None:
            found.append(best)
        index += 1 if best is None else best.length * best.count
    return found


class _Reach:
    """How far the launches repeat with a period.

    Remembers for each period how far a comparison has come, so that no stretch is compared twice: the work
    for a period is linear, and few periods are tried at a position (see `_periods`).
    """

    def __init__(self, ids: list[int], same: Same | None) -> None:
        self.ids = ids
        self.same = same
        self.known: dict[int, int] = {}

    def __call__(self, start: int, period: int) -> int:
        """Return the first position from `start` on whose launch differs from the one a period later."""
        end = self.known.get(period, 0)
        if end <= start:
            ids, same, end = self.ids, self.same, start
            while (
                end + period < len(ids)
                and ids[end] == ids[end + period]
                and (same is None or same(end, end + period))
            ):
                end += 1
            self.known[period] = max(end, start + 1)
        return end


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
    (runs,) = _found(trace, [(0, len(trace.launches))])
    return runs


def sequences_within(trace: Trace, spans: Sequence[tuple[int, int]]) -> list[list[Repeat]]:
    """Return those among `length` launches from `first` on, for each (first, length).

    Such as the inner loop of one round of a loop.
    """
    return _found(trace, [(first, first + length) for first, length in spans])


def _found(trace: Trace, spans: Sequence[tuple[int, int]]) -> list[list[Repeat]]:
    flow = _Flow(trace)
    keys = [(launch.kind, launch.name, tuple(launch.dim), len(launch.args)) for launch in trace.launches]
    return [_runs(flow, keys, start, stop) for start, stop in spans]


def _runs(flow: _Flow, keys: Sequence[Hashable], start: int, stop: int) -> list[Repeat]:
    runs = find_sequences(keys[start:stop], lambda i, j: flow.same(start + i, start + j))
    taken = start
    for run in runs:
        run.first += start
        _take_in_first(flow, keys, run, taken, stop)
        taken = run.first + run.length * run.count
    return runs


def _take_in_first(flow: _Flow, keys: Sequence[Hashable], run: Repeat, taken: int, stop: int) -> None:
    """Let a run begin with the first round of its loop, which reads what was there before the loop.

    Often only part of that round reads it, so that the repetition was found from the middle of a round to the
    middle of another: then it is moved.
    """
    end = run.first + run.length * run.count
    tail = end
    while tail < min(stop, end + run.length) and keys[tail] == keys[tail - run.length]:
        if not flow.same(tail - run.length, tail):
            break
        tail += 1
    for part in range(run.length, run.length - (tail - end) - 1, -1):
        first = run.first - part
        if part > 0 and first >= taken and flow.begins(keys, first, run.first, run.length):
            run.first, run.count = first, run.count + 1
            return


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

    def begins(self, keys: Sequence[Hashable], first: int, stop: int, period: int) -> bool:
        """Whether launches `first` to `stop` are the beginning of a loop that goes on from `stop`.

        What later rounds read of the round before was there before the loop, the same for all who read it.
        """
        if not all(
            keys[i] == keys[i + period] and self.same_but_carried(i, i + period, first)
            for i in range(first, stop)
        ):
            return False
        found: dict[_Source, _Source] = {}
        return all(
            found.setdefault(other, one) == one
            for i in range(first, first + period)
            for one, other in zip(self.sources[i], self.sources[i + period], strict=True)
            if other is not None and other[2] is not None and first <= other[2] < first + period
        )

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
