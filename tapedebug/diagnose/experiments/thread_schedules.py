"""Run the threads of a launch in another order, or at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.lang import types

if TYPE_CHECKING:
    from tapedebug.runtime.replay.shadow import Shadow

PIECES = 2048
"""Into how many runs of threads a launch is cut at most; smaller launches are taken thread by thread."""
ALL_PIECES = 200_000
"""Into how many all launches together."""
SMALLEST = 16
"""And into how many each at least."""
AT_ONCE = 8_000
"""Into how many all launches together whose threads run at the same time: values are put back after each."""
COPIED = 10_000_000
"""How many scalars are put back, in all."""

Runner = Callable[[int, int, int], None]
Schedule = Callable[["Shadow", int, Runner], Runner]
"""For a launch in a shadow, and what runs its threads, what runs them otherwise."""
Places = Mapping[int, Sequence[tuple[Any, Collection[int]]]]
"""For each launch arrays, each with some of its scalars, by their places from its first element."""


def backwards(apart: Sequence[int], launches: int) -> Schedule:
    """From the last thread to the first; the threads `apart` are taken alone, where others are not."""

    def order(threads: int) -> list[tuple[int, int]]:
        return list(_pieces(threads, apart, launches))[::-1]

    return lambda shadow, index, run: _in_order(run, order)


def shuffled(apart: Sequence[int], launches: int) -> Schedule:
    """In any order, the same each time."""

    def order(threads: int) -> list[tuple[int, int]]:
        pieces = list(_pieces(threads, apart, launches))
        return [pieces[k] for k in np.random.default_rng(threads).permutation(len(pieces))]

    return lambda shadow, index, run: _in_order(run, order)


def _pieces(
    threads: int, apart: Sequence[int], launches: int, limit: int = PIECES
) -> Iterator[tuple[int, int]]:
    most = max(SMALLEST, min(PIECES, limit, ALL_PIECES // launches))
    cuts: Sequence[int] = range(threads + 1)
    if threads > most:
        own = {cut for thread in apart for cut in (thread, thread + 1) if cut <= threads}
        cuts = sorted(own | {k * threads // most for k in range(most + 1)})
    return itertools.pairwise(cuts)


def _in_order(run: Runner, order: Callable[[int], list[tuple[int, int]]]) -> Runner:
    def ordered(lo: int, hi: int, where: int) -> None:
        for low, high in order(hi):
            run(low, high, where)

    return ordered


def together(pairs: Mapping[int, Sequence[tuple[int, int]]], places: Places) -> Schedule:
    """Pairs of threads at the same time: neither sees what the other writes, and one of them writes last.

    That is what becomes of `x[i] = x[i] + 1` in two threads: one of the additions is lost.

    Args:
        pairs: For each launch pairs of threads, each thread once.
        places: Where they meet.
    """

    def schedule(shadow: Shadow, index: int, run: Runner) -> Runner:
        if index not in pairs:
            return run
        partner = dict(pairs[index]) | {two: one for one, two in pairs[index]}
        contested = _Contested(shadow, places.get(index, ()))

        def simultaneously(lo: int, hi: int, where: int) -> None:
            at = lo
            done: set[int] = set()
            for one in sorted(partner):
                if one in done:
                    continue
                # Up to this thread in order, but for those that ran already.
                for low, high in _gaps(at, one, done):
                    run(low, high, where)
                two = partner[one]
                contested.at_once(run, [(one, one + 1), (two, two + 1)], where)
                done |= {one, two}
                at = one + 1
            for low, high in _gaps(at, hi, done):
                run(low, high, where)

        return simultaneously

    return schedule


def at_once(
    apart: Sequence[int],
    launches: int,
    places: Places,
    *,
    first_wins: bool,
) -> Schedule:
    """All threads at the same time: each finds what was there before the launch, and one of them writes last.

    In larger launches, runs of neighbouring threads take the place of threads.

    Args:
        apart: As for `backwards`.
        launches: As for `backwards`.
        places: As for `together`.
        first_wins: Of several threads that write an element, the first is the one whose value stays.
    """

    def schedule(shadow: Shadow, index: int, run: Runner) -> Runner:
        if not any(where for _, where in places.get(index, ())):
            return run
        contested = _Contested(shadow, places.get(index, ()))

        def everything(lo: int, hi: int, where: int) -> None:
            most = min(AT_ONCE, COPIED // max(1, contested.size)) // len(places)
            pieces = list(_pieces(hi, apart, launches, most))
            contested.at_once(run, pieces[::-1] if first_wins else pieces, where)

        return everything

    return schedule


def _gaps(low: int, high: int, without: set[int]) -> Iterator[tuple[int, int]]:
    """`low … high-1` without some of them."""
    for thread in sorted(thread for thread in without if low <= thread < high):
        if low < thread:
            yield low, thread
        low = thread + 1
    if low < high:
        yield low, high


class _Contested:
    """The scalars of a shadow that threads compete for, with their tangents where there are any."""

    def __init__(self, shadow: Shadow, places: Sequence[tuple[Any, Collection[int]]]) -> None:
        self._buffers = [
            (shadow._buffer(a), a, _indices(shadow._buffer(a).view(a), a, where))
            for a, where in places
            if where
        ]

    @property
    def size(self) -> int:
        """How many scalars these are."""
        return sum(index[0].size for _, _, index in self._buffers)

    def at_once(self, run: Runner, pieces: Sequence[tuple[int, int]], where: int) -> None:
        """Run pieces, none of which sees what the others write here; of several writes the last one stays."""
        before = self._values()
        after = [[values.copy() for values in group] for group in before]
        for low, high in pieces:
            run(low, high, where)
            for old, new, kept in zip(before, self._values(), after, strict=True):
                written = ~np.logical_and.reduce([_same(a, b) for a, b in zip(old, new, strict=True)])
                for values, own in zip(kept, new, strict=True):
                    values[written] = own[written]
            self._restore(before)
        self._restore(after)

    def _values(self) -> list[list[np.ndarray[Any, Any]]]:
        return [[view[index] for view in _views(buffer, a)] for buffer, a, index in self._buffers]

    def _restore(self, values: Sequence[Sequence[np.ndarray[Any, Any]]]) -> None:
        for (buffer, a, index), group in zip(self._buffers, values, strict=True):
            for view, own in zip(_views(buffer, a), group, strict=True):
                view[index] = own


def _views(buffer: Any, a: Any) -> list[np.ndarray[Any, Any]]:
    """The values of an array, and its tangents where there are any."""
    return [buffer.view(a)] if buffer.tangent is None else [buffer.view(a), buffer.dots(a)]


def _indices(view: np.ndarray[Any, Any], a: Any, places: Collection[int]) -> tuple[Any, ...]:
    """Scalars as indices of a view, given their places from the array's first element."""
    from tapedebug.diagnose.experiments.element_accesses import element_of

    inner, size = view.shape[a.ndim :], types.numpy_dtype(a.dtype).itemsize
    found = []
    for place in sorted(places):
        element = element_of(a, place)
        component = place - sum(i * s for i, s in zip(element, a.strides, strict=True)) // size
        found.append((*element, *(np.unravel_index(component, inner) if inner else ())))
    return tuple(np.array(axis, int) for axis in zip(*found, strict=True))


def _same(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = (one == two) | ((one != one) & (two != two))
    return found
