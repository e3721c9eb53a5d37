"""Schedules that run the threads of a launch in another order, or at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from tapedebug.contract import Array, RunThreads, ThreadSchedule, Values
from tapedebug.diagnose.experiments.element_accesses import elements_of

PIECES = 2048
"""Largest number of pieces (runs of threads) of a launch; smaller launches run thread by thread."""
ALL_PIECES = 200_000
"""Largest number of pieces of all launches together."""
SMALLEST = 16
"""Smallest limit on the pieces of one launch."""
AT_ONCE = 8_000
"""Largest number of pieces of all launches with simultaneous threads: each piece restores values."""
COPIED = 10_000_000
"""Largest total number of restored scalars."""

Views = Callable[[Array], Sequence[Values]]
"""Returns writable views of an array in the replay: its values, and its tangents if there are any."""
Schedule = Callable[[int, Views], ThreadSchedule]
"""Creates the schedule of a launch, given its index."""
Places = Mapping[int, Sequence[tuple[Array, Collection[int]]]]
"""The contested scalars by launch and array, as offsets from the array's first element."""
Indices = tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]


def backwards(apart: Sequence[int], launches: int) -> Schedule:
    """Run threads from last to first; those in `apart` run alone even if others are grouped."""

    def order(threads: int) -> list[tuple[int, int]]:
        return list(_pieces(threads, apart, launches))[::-1]

    return lambda index, views: _in_order(order)


def shuffled(apart: Sequence[int], launches: int) -> Schedule:
    """Run threads in a random order that is the same each time."""

    def order(threads: int) -> list[tuple[int, int]]:
        pieces = list(_pieces(threads, apart, launches))
        return [pieces[k] for k in np.random.default_rng(threads).permutation(len(pieces))]

    return lambda index, views: _in_order(order)


def pieces_of(threads: int, launches: int, limit: int = PIECES) -> int:
    """Return the number of pieces of a launch, without those of threads that run alone.

    Args:
        threads: Its threads.
        launches: The number of launches that run in pieces.
        limit: The largest number of pieces.
    """
    return min(threads, max(SMALLEST, min(PIECES, limit, ALL_PIECES // launches)))


def restoring_pieces(contested: int, launches: int) -> int:
    """Return the largest number of pieces of a launch that restore this many contested scalars each."""
    return min(AT_ONCE, COPIED // max(1, contested)) // launches


def _pieces(
    threads: int, apart: Sequence[int], launches: int, limit: int = PIECES
) -> Iterator[tuple[int, int]]:
    most = pieces_of(threads, launches, limit)
    cuts: Sequence[int] = range(threads + 1)
    if threads > most:
        own = {cut for thread in apart for cut in (thread, thread + 1) if cut <= threads}
        cuts = sorted(own | {k * threads // most for k in range(most + 1)})
    return itertools.pairwise(cuts)


def _in_order(order: Callable[[int], list[tuple[int, int]]]) -> ThreadSchedule:
    def ordered(run: RunThreads, threads: int) -> None:
        for low, high in order(threads):
            run(low, high)

    return ordered


def _plainly(run: RunThreads, threads: int) -> None:
    run(0, threads)


def together(pairs: Mapping[int, Sequence[tuple[int, int]]], places: Places) -> Schedule:
    """Run pairs of threads at the same time: neither reads the other's writes, and one of them writes last.

    So `x[i] = x[i] + 1` in two threads loses one of the additions.

    Args:
        pairs: The pairs of threads of each launch, each thread in one pair.
        places: The scalars that they contest.
    """

    def schedule(index: int, views: Views) -> ThreadSchedule:
        if index not in pairs:
            return _plainly
        partner = dict(pairs[index]) | {two: one for one, two in pairs[index]}
        contested = _Contested(views, places.get(index, ()))

        def simultaneously(run: RunThreads, threads: int) -> None:
            at = 0
            done: set[int] = set()
            for one in sorted(partner):
                if one in done:
                    continue
                # In order up to this thread, except those that ran already.
                for low, high in _gaps(at, one, done):
                    run(low, high)
                two = partner[one]
                contested.at_once(run, [(one, one + 1), (two, two + 1)])
                done |= {one, two}
                at = one + 1
            for low, high in _gaps(at, threads, done):
                run(low, high)

        return simultaneously

    return schedule


def at_once(
    apart: Sequence[int],
    launches: int,
    places: Places,
    *,
    first_wins: bool,
) -> Schedule:
    """Run all threads at the same time: each reads the values from before the launch, and one writes last.

    In larger launches, runs of neighbouring threads are used instead of single threads.

    Args:
        apart: As for `backwards`.
        launches: As for `backwards`.
        places: As for `together`.
        first_wins: If several threads write an element, the value of the first one remains, not the last.
    """

    def schedule(index: int, views: Views) -> ThreadSchedule:
        if not any(where for _, where in places.get(index, ())):
            return _plainly
        contested = _Contested(views, places.get(index, ()))

        def everything(run: RunThreads, threads: int) -> None:
            most = restoring_pieces(contested.size, len(places))
            pieces = list(_pieces(threads, apart, launches, most))
            contested.at_once(run, pieces[::-1] if first_wins else pieces)

        return everything

    return schedule


def _gaps(low: int, high: int, without: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of `low … high-1` without some threads."""
    for thread in sorted(thread for thread in without if low <= thread < high):
        if low < thread:
            yield low, thread
        low = thread + 1
    if low < high:
        yield low, high


class _Contested:
    """The scalars that threads contest, with their tangents if there are any."""

    def __init__(self, views: Views, places: Sequence[tuple[Array, Collection[int]]]) -> None:
        self._views = views
        self._places = [(a, _indices(a, where)) for a, where in places if where]

    @property
    def size(self) -> int:
        """The number of these scalars."""
        return sum(index[0].size for _, index in self._places)

    def at_once(self, run: RunThreads, pieces: Sequence[tuple[int, int]]) -> None:
        """Run pieces that do not read each other's writes to these scalars; the last write remains."""
        places = [(self._views(a), index) for a, index in self._places]
        before = [[view[index] for view in views] for views, index in places]
        after = [[values.copy() for values in group] for group in before]
        for low, high in pieces:
            run(low, high)
            for (views, index), old, kept in zip(places, before, after, strict=True):
                new = [view[index] for view in views]
                written = ~np.logical_and.reduce([_same(*pair) for pair in zip(old, new, strict=True)])
                for view, was, now, last in zip(views, old, new, kept, strict=True):
                    last[written] = now[written]
                    view[index] = was
        for (views, index), group in zip(places, after, strict=True):
            for view, values in zip(views, group, strict=True):
                view[index] = values


def _indices(a: Array, places: Collection[int]) -> Indices:
    """Return scalars as indices of a view, given their offsets from the array's first element."""
    offsets = np.array(sorted(places), np.int64)
    elements = elements_of(a, offsets)
    components = offsets - elements @ np.array(a.strides, np.int64) // a.scalar_dtype.itemsize
    inner = np.unravel_index(components, a.element_shape) if a.element_shape else ()
    return (*elements.T, *(axis.astype(np.int64) for axis in inner))


def _same(one: Values, two: Values) -> Values:
    found: Values = (one == two) | ((one != one) & (two != two))
    return found
