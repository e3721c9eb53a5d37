"""Memory of access tags, and facts about a launch's accesses that need no run (`compiler.access_tags`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapedebug._source import Span
from tapedebug.compiler.access_tags import EPOCH_SHIFT, EPOCHS, SITES, THREAD, Site, site_of, tag_of
from tapedebug.lang import types
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.record import Record

Words = np.ndarray[Any, np.dtype[np.int64]]

WRITES, READS = 0, 1
BEFORE = 1
"""The epoch of what happened before the tape."""
FIRST = 2
"""The epoch of record 0."""
LAST = EPOCHS - FIRST
"""How many records can be tracked."""
WHOLE = SITES - 1
"""The site of a copy, a fill or a native function."""
OUTSIDE = tag_of(0, SITES, THREAD)
"""What stamps of writes that are not on the tape have beside their epoch: larger than all others of it."""


class AccessTags:
    """The stamps of one buffer's memory, for scalars of one size: of each its last write and its last read.

    Args:
        nbytes: The size of the buffer.
        itemsize: The size of its scalars.
        width: How many words there are for each scalar.
    """

    __slots__ = ("address", "itemsize", "settled", "step", "words")

    def __init__(self, nbytes: int, itemsize: int, width: int) -> None:
        self.itemsize = itemsize
        self.step = 8 * width
        self.words: Words = np.zeros((-(-nbytes // itemsize), width), np.int64)
        self.address: int = self.words.ctypes.data
        self.settled = 0
        """How many records' accesses in bulk are in it."""

    def pointer(self, a: array) -> int:
        """The address of the stamps of the first scalar of an array."""
        return self.address + (a.ptr - a.buffer.address) // self.itemsize * self.step

    def view(self, a: array, which: int) -> Words:
        """The stamps of an array's scalars: its shape, and one axis of components."""
        offset = (a.ptr - a.buffer.address) // self.itemsize * self.step + 8 * which
        strides = (*(s // self.itemsize * self.step for s in a.strides), self.step)
        shape = (*a.shape, types.components(a.dtype))
        return np.ndarray(shape, np.int64, self.words.data, offset, strides)


@dataclass(frozen=True, slots=True)
class Variant:
    """A tracked variant of a kernel.

    Attributes:
        entry: What runs.
        sites: By number, the access and its place in the source; None for what else it may say.
    """

    entry: Any
    sites: tuple[tuple[Site, Span] | None, ...]

    @classmethod
    def of(cls, entry: Any) -> Variant:
        """The variant of an entry."""
        found = [(site_of(diagnostic), diagnostic.span) for diagnostic in entry.diagnostics]
        return cls(entry, tuple(None if site is None else (site, span) for site, span in found))

    def bulk(self) -> Iterator[tuple[int, Site]]:
        """The accesses of every thread at its own index, with their numbers: the code does not stamp them."""
        for number, found in enumerate(self.sites):
            if found is not None and found[0].bulk:
                yield number, found[0]


def surroundings(plan: Any, args: Sequence[Any], fresh: set[Any]) -> tuple[frozenset[int], frozenset[int]]:
    """The parameters through which threads may meet, and those of memory that may be unwritten.

    Args:
        plan: Of a launch of a kernel.
        args: Its arguments.
        fresh: The buffers that may hold what nothing wrote.
    """
    groups: dict[Any, list[int]] = {}
    for p in plan.touched:
        groups.setdefault(args[p].buffer, []).append(p)
    native = plan.kernel.analysis.native
    race_checked = [p for params in groups.values() if _may_race(plan, args, params) for p in params]
    unset = [p for buffer, params in groups.items() if buffer in fresh and not native for p in params]
    return frozenset(race_checked), frozenset(unset)


def _may_race(plan: Any, args: Sequence[Any], params: list[int]) -> bool:
    """Whether threads may meet in memory that these parameters share."""
    analysis, own = plan.kernel.analysis, frozenset(params)
    if not own & plan.writes:
        return False
    stored = {access.param for access in analysis.accesses if access.kind == "write" or access.ordered}
    if not own & (stored | (plan.reads - _only_atomic(analysis))):
        return False  # nothing but atomics that commute
    if own & analysis.elsewhere:
        return True
    first = args[params[0]]
    steps = [abs(s) for n, s in zip(first.shape, first.strides, strict=True) if n > 1]
    step = min(steps, default=0)
    # Fields of one struct lie beside each other, in any order; else threads may meet.
    others = [args[p] for p in params]
    low, high = min(a.ptr for a in others), max(a.ptr + a.item_size for a in others)
    apart = high - low > step and (bool(steps) or any(a.ptr != first.ptr for a in others))
    met = apart or any((a.shape, a.strides) != (first.shape, first.strides) for a in others)
    return met or 0 in steps


def _only_atomic(analysis: Any) -> frozenset[int]:
    """The parameters that are accessed by atomics alone: some of these read."""
    kinds: dict[int, set[str]] = {}
    for access in analysis.accesses:
        kinds.setdefault(access.param, set()).add(access.kind)
    return frozenset(p for p, found in kinds.items() if found == {"atomic"})


def thread_grid(record: Record, axes: int) -> tuple[int, ...]:
    """How many threads a launch has along each axis that its kernel asks for."""
    if axes == 1:
        return (record.threads,)
    rest = (*record.dim, *(1,) * 4)[1:axes]
    return (record.threads // max(1, int(np.prod(rest, dtype=np.int64))), *rest)


def surely_inside(record: Record) -> bool:
    """Whether no index of a launch can be outside its array: threads and constants, all within the shapes."""
    kernel: Any = record.plan.kernel
    if kernel.analysis.native:
        return False
    grid = thread_grid(record, kernel.axes)

    def inside(param: int, axis: int, how: str, number: int) -> bool:
        length: int = record.args[param].shape[axis]
        return (how == "thread" and grid[number] <= length) or (
            how == "constant" and -length <= number < length
        )

    return all(inside(*index) for index in kernel.analysis.indices)


def merge_bulk(stamps: AccessTags, record: Record, param: int, site: Site, number: int) -> None:
    """Stamp what every thread of a launch did at its own index."""
    which = READS if site.kind == "read" else WRITES
    view = stamps.view(record.args[param], which)[..., site.component]
    region = view[tuple(slice(n) for n in thread_grid(record, view.ndim))]
    mine = tag_of(record.index + FIRST, number, 0) + np.arange(record.threads).reshape(region.shape)
    np.maximum(region, mine, out=region)


def merge_whole(stamps: AccessTags, a: array, which: int, stamp: int) -> None:
    """Stamp all of an array: a copy, a fill, a write from outside."""
    view = stamps.view(a, which)
    np.maximum(view, stamp, out=view)


def epoch_of(stamps: Words) -> Words:
    """The indices of the records that left stamps; negative where none did."""
    return (stamps >> EPOCH_SHIFT) - FIRST


def shifted(index: int) -> int:
    """The epoch of a record, as stamps have it."""
    return (index + FIRST) << EPOCH_SHIFT
