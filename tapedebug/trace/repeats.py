"""Repeated launch sequences: the ×40 of a time loop, found by comparing the tape with itself, shifted.

For each period one comparison of arrays finds the launches that equal the one a period later; a run of such
launches as long as the period is a repetition. There is no search launch by launch, so that a tape without
repetition costs as much as a regular one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tapedebug.trace.model import Argument, Trace
from tapedebug.trace.model import Sequence as Repeat

MAX_PERIOD = 256
LONGER = 32
"""Number of periods tried beyond `MAX_PERIOD`: the distances between launches that occur once in a round."""

_NUMBER = re.compile(r"\d+")

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Column = tuple[Numbers, Numbers]
"""One argument of every launch: the version it reads (-1: none), and how many launches ago that was written
(a unique number if the tape did not write it)."""


def without_numbers(name: str) -> str:
    """Return the common form of the names of a series: `x[3]` and `x[4]`, `step 1` and `step 2`."""
    return _NUMBER.sub("#", name)


def find_sequences(
    keys: Sequence[Hashable],
    columns: Sequence[Column] = (),
    take_in: Callable[[Repeat, int], object] | None = None,
) -> list[Repeat]:
    """Return disjoint runs in which `length` launches repeat `count` times (at least twice), in launch order.

    At each position the longest run is taken, and of equally long ones the one with the shortest period, so
    that ``abcabc`` is twice ``abc`` and ``aaaa`` four times ``a``.

    Args:
        keys: One key per launch; launches with different keys are never equal.
        columns: Launches with equal keys are equal if one of the two numbers of each column is equal.
        take_in: Called with each run and the first free launch, to extend the run.
    """
    numbers: dict[Hashable, int] = {}
    ids = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, len(keys))
    covered = np.zeros(len(ids), np.int64)
    period_of = np.zeros(len(ids), np.int64)
    for period in _periods(ids):
        for start, end in _alike(ids, columns, period):
            # From `place` up to `end`, launches equal those a period later: this many whole rounds.
            place = np.arange(start, end - period + 1)
            covers = ((end - place) // period + 1) * period
            better = place[covers > covered[place]]
            covered[better] = covers[better - start]
            period_of[better] = period
    found: list[Repeat] = []
    index = 0
    starts = np.flatnonzero(covered)
    while (at := int(np.searchsorted(starts, index))) < len(starts):
        first = int(starts[at])
        period, launches = int(period_of[first]), int(covered[first])
        run = Repeat(first=first, length=period, count=launches // period)
        if take_in is not None:
            take_in(run, index)
        found.append(run)
        index = run.first + run.length * run.count
    return found


def _alike(ids: Numbers, columns: Sequence[Column], period: int) -> Iterator[tuple[int, int]]:
    """Yield ranges `start … end-1`, at least a period long, of launches that equal the one a period later."""
    same = ids[:-period] == ids[period:]
    if not same.any():
        return
    for version, distance in columns:
        same &= (version[:-period] == version[period:]) | (distance[:-period] == distance[period:])
    edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    long = ends - starts >= period
    yield from zip(starts[long].tolist(), ends[long].tolist(), strict=True)


def _periods(ids: Numbers) -> list[int]:
    """Return the periods to try: all short ones, and the commonest distances between launches of one key."""
    short = list(range(1, min(MAX_PERIOD, len(ids) // 2) + 1))
    by_key = np.argsort(ids, kind="stable")
    distances = np.diff(by_key)[np.diff(ids[by_key]) == 0]
    distances = distances[(distances > MAX_PERIOD) & (distances <= len(ids) // 2)]
    values, counts = np.unique(distances, return_counts=True)
    commonest = values[np.argsort(-counts, kind="stable")[:LONGER]]
    return short + sorted(commonest.tolist())


def sequences_of(trace: Trace) -> list[Repeat]:
    """Return the repeated sequences of a trace: same kernels and sizes, and the same data flow.

    A launch differs from one in a scope of another name, or at another position of its scope: scopes that the
    user named stay visible. The data flow is the same if an argument reads a value that the corresponding
    launch of the same or the previous round wrote, or one that never changes between rounds. It does not
    matter which arrays hold the values, so that two arrays that swap places and a new array for every step
    fold alike. The first round of a loop, which reads values from before the loop, is included.
    """
    (runs,) = _found(trace, [(0, len(trace.launches))])
    return runs


def sequences_within(trace: Trace, spans: Sequence[tuple[int, int]]) -> list[list[Repeat]]:
    """Return the repeated sequences among `length` launches from `first` on, for each (first, length).

    An example is the inner loop in one round of a loop.
    """
    return _found(trace, [(first, first + length) for first, length in spans])


def _found(trace: Trace, spans: Sequence[tuple[int, int]]) -> list[list[Repeat]]:
    flow = _Flow(trace)
    return [_runs(flow, start, stop) for start, stop in spans]


def _runs(flow: _Flow, start: int, stop: int) -> list[Repeat]:
    def take_in(run: Repeat, taken: int) -> None:
        run.first += start
        flow.take_in(run, start + taken, stop)
        run.first -= start

    every = (*flow.columns, *flow.scopes)
    columns = [(one[start:stop], other[start:stop]) for one, other in every]
    runs = find_sequences(flow.keys[start:stop], columns, take_in)
    for run in runs:
        run.first += start
    return runs


def scope_names(trace: Trace) -> dict[int | None, tuple[str, ...]]:
    """Return for each scope its name and those of the enclosing scopes, outermost first, without numbers.

    `step 1` and `step 2` are two rounds of a loop, `forces` and `motion` are not.
    """
    return {
        scope: tuple(without_numbers(trace.scopes[of].name) for of in path)
        for scope, path in _scope_paths(trace).items()
    }


def _scope_paths(trace: Trace) -> dict[int | None, tuple[int, ...]]:
    """Return for each scope the path of enclosing scopes and itself, outermost first."""
    paths: dict[int | None, tuple[int, ...]] = {None: ()}
    for scope in trace.scopes:  # a scope follows its enclosing scope
        paths[scope.id] = (*paths[scope.parent], scope.id)
    return paths


_Source = tuple[int, "int | None"] | None
"""The number of a version, and the launch that wrote it."""


class _Flow:
    """Data flow of a trace: for each argument of a launch, the launch that wrote the value it reads."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.numbers = {
            (version.array, version.version): number for number, version in enumerate(trace.versions)
        }
        self.writers = [version.written_by for version in trace.versions]
        names, paths = scope_names(trace), _scope_paths(trace)
        self.keys = [
            (launch.kind, launch.name, tuple(launch.dim), len(launch.args), names[launch.scope])
            for launch in trace.launches
        ]
        self.columns = self._columns()
        self.scopes = self._scope_columns([paths[launch.scope] for launch in trace.launches])

    def _columns(self) -> list[Column]:
        """Return the arguments that are read, one column for each position in the argument lists."""
        count, columns = len(self.trace.launches), {}
        numbers, writers = self.numbers, self.writers
        for index, launch in enumerate(self.trace.launches):
            for place, arg in enumerate(launch.args):
                if arg.array is None or arg.read_version is None:
                    continue
                if place not in columns:
                    columns[place] = (np.full(count, -1, np.int64), np.arange(-2, -2 - count, -1))
                number = numbers.get((arg.array, arg.read_version), -1)
                writer = writers[number] if number >= 0 else None
                columns[place][0][index] = number
                if writer is not None:
                    columns[place][1][index] = index - writer
        return list(columns.values())

    def _scope_columns(self, paths: list[tuple[int, ...]]) -> list[Column]:
        """Return the scopes around launches, one column for each depth.

        Two equal launches are in the same scope, or equally far from the starts of two scopes of one name: a
        scope belongs to one launch of a round or to a whole round, never to part of a repetition.
        """
        count = len(paths)
        depth = max(map(len, paths), default=0)
        columns = [(np.full(count, -1, np.int64), np.full(count, -1, np.int64)) for _ in range(depth)]
        for index, path in enumerate(paths):
            for (scopes, offsets), scope in zip(columns, path, strict=False):
                scopes[index], offsets[index] = scope, index - self.trace.scopes[scope].first
        return columns

    def take_in(self, run: Repeat, earliest: int, stop: int) -> None:
        """Extend a run to the true start of the loop, whose first rounds read values from before the loop.

        Often only part of a round reads such values, so that the repetition was found from the middle of one
        round to the middle of another: then it is moved.

        Args:
            run: Rounds that are all equal.
            earliest: The first launch that may be included.
            stop: The launch after the last.
        """
        written = {
            arg.array
            for launch in self.trace.launches[run.first : run.first + run.length * run.count]
            for arg in launch.args
            if arg.writes
        }

        def begins(part: int) -> bool:
            return run.first - part >= earliest and self._begins(run.first - part, run, written)

        while begins(run.length):
            run.first, run.count = run.first - run.length, run.count + 1
        end = tail = run.first + run.length * run.count
        while tail < min(stop, end + run.length - 1) and self._same(tail - run.length, tail):
            tail += 1
        for part in range(run.length - 1, run.length - (tail - end) - 1, -1):
            if begins(part):
                run.first, run.count = run.first - part, run.count + 1
                return

    def _begins(self, first: int, run: Repeat, written: set[int | None]) -> bool:
        """True if the launches from `first` up to the run are the beginning of the loop.

        Values that later rounds read from the previous round exist before the loop, the same for all readers.
        """
        period = run.length
        if not all(self._same_but_carried(i, i + period, first, written) for i in range(first, run.first)):
            return False
        found: dict[int, _Source] = {}
        return all(
            found.setdefault(theirs[0], mine) == mine
            for i in range(first, first + period)
            for _, mine, _, theirs in self._pairs(i, i + period)
            if theirs is not None and theirs[1] is not None and first <= theirs[1] < first + period
        )

    def _same(self, i: int, j: int) -> bool:
        """True if `j` reads the same values as `i`, or values from equally far back."""
        return self.keys[i] == self.keys[j] and all(
            one[i] == one[j] or other[i] == other[j] for one, other in (*self.columns, *self.scopes)
        )

    def _same_but_carried(self, i: int, j: int, first: int, written: set[int | None]) -> bool:
        """True if `i`, in the first round of a loop (from `first` on), equals `j`, a round later.

        A value that `j` reads from the previous round may, for `i`, come from anywhere outside the first
        round; if arrays that the loop writes take turns, so may values that both read from before the loop.
        """
        if self.keys[i] != self.keys[j]:
            return False
        if any(scope[i] != scope[j] and offset[i] != offset[j] for scope, offset in self.scopes):
            return False
        period = j - i
        for one, mine, other, theirs in self._pairs(i, j):
            if mine == theirs:
                continue
            if mine is None or theirs is None:
                return False
            if theirs[1] is None:
                if mine[1] is not None or not {one, other} <= written:
                    return False
                continue
            inside = theirs[1] >= first + period
            if inside and (mine[1] is None or i - mine[1] != j - theirs[1]):
                return False
            if not inside and mine[1] is not None and mine[1] >= first:
                return False
        return True

    def _pairs(self, i: int, j: int) -> Iterator[tuple[int | None, _Source, int | None, _Source]]:
        """Yield, for each argument of two launches, the array and the source of the value that is read."""
        for one, other in zip(self.trace.launches[i].args, self.trace.launches[j].args, strict=True):
            yield one.array, self._source(one), other.array, self._source(other)

    def _source(self, arg: Argument) -> _Source:
        """Return the number of the version that an argument reads, and the launch that wrote it."""
        if arg.array is None or arg.read_version is None:
            return None
        number = self.numbers.get((arg.array, arg.read_version), -1)
        return number, self.writers[number] if number >= 0 else None
