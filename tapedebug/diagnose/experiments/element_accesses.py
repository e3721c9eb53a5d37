"""Replays suspect launches with element tracking: races, uninitialised reads, indices out of bounds.

The engine selects the suspect launches without running anything. Of launches of one kind (a time loop), a
sample runs with its accesses tracked; the coverage lists it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.contract import Array, ElementConflicts, ElementTracking, ThreadAccess
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import place_of

if TYPE_CHECKING:
    from tapedebug.diagnose.rule_context import RuleContext

Indices = np.ndarray[Any, np.dtype[np.int64]]

SAMPLED = (16, 256)
"""Lower and upper limit of the launches of one kind that run tracked: first, last, and some in between."""
THREADS = 500_000
"""Threads of one kind that run tracked; they set the number of launches within the limits of `SAMPLED`."""


TRACKED_EACH = 4_096
"""Threads of a launch from which on most of its conflicts are counted, and no longer listed."""
PER_TRACKED_THREAD = 3e-6
"""Seconds for a thread of a tracked launch: without conflicts a tenth of it, with many four times as much."""


def suspect_launches(case: RuleContext, tracking: ElementTracking) -> tuple[frozenset[int], frozenset[int]]:
    """Return the launches to run tracked, and the arrays that no launch writes as a whole.

    The coverage lists the suspect launches that are left out.
    """
    suspects = tracking.suspects()
    for reason in suspects.untracked:
        case.skipped(reason)
    return frozenset(_sampled(case, suspects.kinds)), frozenset(suspects.unwritten)


def tracking_seconds(case: RuleContext, launches: Iterable[int]) -> float:
    """Return the estimated seconds by which tracking some launches exceeds a run of the tape."""
    threads = (math.prod(case.rerun.records[index].dim) for index in launches)
    return PER_TRACKED_THREAD * sum(min(count, TRACKED_EACH) for count in threads)


def element_conflicts(
    case: RuleContext, tracking: ElementTracking, launches: frozenset[int], unwritten: frozenset[int]
) -> ElementConflicts:
    """Run a tape once more with the suspect launches tracked."""
    if not (launches or unwritten):
        return ElementConflicts()
    found = tracking.conflicts(case.rerun._shadow(), launches, unwritten)
    if found.ended_after is not None:
        case.skipped(f"launches after {found.ended_after} were not looked at element by element")
    return found


def _sampled(case: RuleContext, kinds: Iterable[list[int]]) -> Iterator[int]:
    incomplete = []
    for launches in kinds:
        record = case.rerun.records[launches[0]]
        most = min(max(SAMPLED[0], THREADS // max(1, math.prod(record.dim))), SAMPLED[1])
        if len(launches) <= most:
            yield from launches
            continue
        places = np.linspace(0, len(launches) - 1, most).round().astype(int)
        yield from (launches[place] for place in places)
        incomplete.append(
            f"{most} of {len(launches)} launches of {record.name} (from {launches[0]} to {launches[-1]}, "
            "evenly spread)"
        )
    if incomplete:
        case.skipped(f"looked at element by element: {words.listed(incomplete)}")


def element_of(a: Array, place: int) -> tuple[int, ...]:
    """Return the index of the element that contains a scalar, given its offset from the first element."""
    return tuple(elements_of(a, [place])[0].tolist())


def elements_of(a: Array, places: Iterable[int]) -> Indices:
    """Return the indices of the elements that contain scalars, given their offsets from the first element.

    Returns:
        The indices, of shape (scalars, axes).
    """
    left = np.fromiter(places, np.int64) * a.scalar_dtype.itemsize
    index = np.zeros((left.size, a.ndim), np.int64)
    for axis in sorted(range(a.ndim), key=lambda k: -abs(a.strides[k])):
        stride = a.strides[axis]
        if stride and a.shape[axis] > 1:
            index[:, axis] = np.clip(left // stride, 0, a.shape[axis] - 1)
            left -= index[:, axis] * stride
    return index


def element_words(label: str, index: Sequence[int]) -> str:
    """Return the text of an element, such as `x[3]` or `x[3, 4]`."""
    return f"{label}[{', '.join(map(str, index))}]"


def place_words(side: ThreadAccess) -> str:
    """Return the text of an access's source line, such as `net.py:66`."""
    return "an unknown line" if side.span is None else words.place(place_of(side.span))
