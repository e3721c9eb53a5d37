"""The threads of a launch in another order, or some of them at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tapedebug.runtime.replay import Shadow

PIECES = 2048
"""Into how many runs of threads a launch is cut at most; smaller launches are taken thread by thread."""
ALL_PIECES = 200_000
"""Into how many all launches together."""
SMALLEST = 16
"""And into how many each at least."""

Runner = Callable[[int, int, int], None]
Schedule = Callable[["Shadow", int, Runner], Runner]
"""For a launch in a shadow, and what runs its threads, what runs them otherwise."""


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


def _pieces(threads: int, apart: Sequence[int], launches: int) -> Iterator[tuple[int, int]]:
    most = max(SMALLEST, min(PIECES, ALL_PIECES // launches))
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


def together(pairs: Mapping[int, Sequence[tuple[int, int]]], arrays: Mapping[int, Sequence[Any]]) -> Schedule:
    """Pairs of threads at the same time: neither sees what the other writes, and one of them writes last.

    That is what becomes of `x[i] = x[i] + 1` in two threads: one of the additions is lost.

    Args:
        pairs: For each launch pairs of threads, each thread once.
        arrays: For each launch the arrays in which they meet.
    """

    def schedule(shadow: Shadow, index: int, run: Runner) -> Runner:
        if index not in pairs:
            return run
        partner = dict(pairs[index]) | {two: one for one, two in pairs[index]}

        def simultaneously(lo: int, hi: int, where: int) -> None:
            at = lo
            done: set[int] = set()
            for one in sorted(partner):
                if one in done:
                    continue
                # Up to this thread in order, but for those that ran already.
                for low, high in _gaps(at, one, done):
                    run(low, high, where)
                _both(shadow, arrays[index], run, one, partner[one], where)
                done |= {one, partner[one]}
                at = one + 1
            for low, high in _gaps(at, hi, done):
                run(low, high, where)

        return simultaneously

    return schedule


def _gaps(low: int, high: int, without: set[int]) -> Iterator[tuple[int, int]]:
    """`low … high-1` without some of them."""
    for thread in sorted(thread for thread in without if low <= thread < high):
        if low < thread:
            yield low, thread
        low = thread + 1
    if low < high:
        yield low, high


def _both(shadow: Shadow, arrays: Sequence[Any], run: Runner, one: int, two: int, where: int) -> None:
    views = [view for a in arrays for view in _views(shadow, a)]
    before = [view.copy() for view in views]
    run(one, one + 1, where)
    first = [view.copy() for view in views]
    for view, old in zip(views, before, strict=True):
        view[...] = old
    run(two, two + 1, where)
    for view, old, new in zip(views, before, first, strict=True):
        untouched = _same(view, old)
        view[untouched] = new[untouched]


def _views(shadow: Shadow, a: Any) -> list[np.ndarray[Any, Any]]:
    """The values of an array, and its tangents where there are any."""
    buffer = shadow._buffer(a)
    return [buffer.view(a)] if buffer.tangent is None else [buffer.view(a), buffer.dots(a)]


def _same(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = (one == two) | ((one != one) & (two != two))
    return found
