"""Memory of access tags, and static facts about a launch's accesses (`compiler.access_tags`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.access_tags import EPOCH_SHIFT, EPOCHS, SITES, THREAD, Site, site_of, tag_of
from tapedebug.lang import types
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.record import Record

Words = np.ndarray[Any, np.dtype[np.int64]]

WRITES, READS = 0, 1
BEFORE = 1
"""The epoch of accesses before the tape."""
FIRST = 2
"""The epoch of record 0."""
LAST = EPOCHS - FIRST
"""Maximum number of records that can be tracked."""
WHOLE = SITES - 1
"""The site of a copy, a fill or a native function."""
OUTSIDE = tag_of(0, SITES, THREAD)
"""The tag, without epoch, of writes that are not on the tape: larger than all other tags of an epoch."""


class AccessTags:
    """The tags of one buffer's memory: for each scalar of a given size, its last write and its last read.

    Args:
        nbytes: Size of the buffer in bytes.
        itemsize: Size of its scalars in bytes.
        width: Number of words for each scalar.
    """

    __slots__ = ("address", "itemsize", "settled", "step", "words")

    def __init__(self, nbytes: int, itemsize: int, width: int) -> None:
        self.itemsize = itemsize
        self.step = 8 * width
        self.words: Words = np.zeros((-(-nbytes // itemsize), width), np.int64)
        self.address: int = self.words.ctypes.data
        self.settled = 0
        """Number of records whose bulk accesses have been merged."""

    def pointer(self, a: array) -> int:
        """Return the address of the tags of the first scalar of an array."""
        return self.address + (a.ptr - a.buffer.address) // self.itemsize * self.step

    def view(self, a: array, which: int) -> Words:
        """Return a view of the tags of an array's scalars: its shape plus one axis of components."""
        offset = (a.ptr - a.buffer.address) // self.itemsize * self.step + 8 * which
        strides = (*(s // self.itemsize * self.step for s in a.strides), self.step)
        shape = (*a.shape, types.components(a.dtype))
        return np.ndarray(shape, np.int64, self.words.data, offset, strides)


@dataclass(frozen=True, slots=True)
class Variant:
    """A tracked variant of a kernel.

    Attributes:
        entry: The compiled entry.
        sites: By number, the access and its place in the source; None for diagnostics of other kinds.
    """

    entry: Any
    sites: tuple[tuple[Site, Span] | None, ...]

    @classmethod
    def of(cls, entry: Any) -> Variant:
        """Return the variant of an entry."""
        found = [(site_of(diagnostic), diagnostic.span) for diagnostic in entry.diagnostics]
        return cls(entry, tuple(None if site is None else (site, span) for site, span in found))

    def untagged_accesses(self) -> Iterator[tuple[int, Site]]:
        """Yield the accesses of every thread at its own index, with numbers; the code does not tag them."""
        for number, found in enumerate(self.sites):
            if found is not None and found[0].own_index_only:
                yield number, found[0]


def surroundings(plan: Any, args: Sequence[Any], fresh: set[Any]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the parameters on which threads may race, and those whose memory may be unwritten.

    Args:
        plan: The plan of a kernel launch.
        args: Its arguments.
        fresh: The buffers that may hold memory that was never written.
    """
    groups: dict[Any, list[int]] = {}
    for p in plan.touched:
        groups.setdefault(args[p].buffer, []).append(p)
    native = plan.kernel.analysis.native
    race_checked = [p for params in groups.values() if _may_race(plan, args, params) for p in params]
    unset = [p for buffer, params in groups.items() if buffer in fresh and not native for p in params]
    return frozenset(race_checked), frozenset(unset)


def _may_race(plan: Any, args: Sequence[Any], params: list[int]) -> bool:
    """True if threads may race on memory that these parameters share."""
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
    # The fields of one struct are adjacent, in any order; in other layouts threads may race.
    others = [args[p] for p in params]
    low, high = min(a.ptr for a in others), max(a.ptr + a.item_size for a in others)
    apart = high - low > step and (bool(steps) or any(a.ptr != first.ptr for a in others))
    met = apart or any((a.shape, a.strides) != (first.shape, first.strides) for a in others)
    return met or 0 in steps


def _only_atomic(analysis: Any) -> frozenset[int]:
    """Return the parameters that are accessed by atomics only; some atomics also read."""
    kinds: dict[int, set[str]] = {}
    for access in analysis.accesses:
        kinds.setdefault(access.param, set()).add(access.kind)
    return frozenset(p for p, found in kinds.items() if found == {"atomic"})


def thread_grid(record: Record, axes: int) -> tuple[int, ...]:
    """Return the number of threads of a launch along each axis that its kernel uses."""
    if axes == 1:
        return (record.threads,)
    rest = (*record.dim, *(1,) * 4)[1:axes]
    return (record.threads // max(1, int(np.prod(rest, dtype=np.int64))), *rest)


def surely_inside(record: Record) -> bool:
    """True if all indices of a launch are thread indices or constants, and within the shapes."""
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
    """Tag an access that every thread of a launch made at its own index."""
    which = READS if site.kind == "read" else WRITES
    view = stamps.view(record.args[param], which)[..., site.component]
    region = view[tuple(slice(n) for n in thread_grid(record, view.ndim))]
    mine = tag_of(record.index + FIRST, number, 0) + np.arange(record.threads).reshape(region.shape)
    np.maximum(region, mine, out=region)


def merge_whole(stamps: AccessTags, a: array, which: int, stamp: int) -> None:
    """Tag a whole array, for a copy, a fill or a write from outside."""
    view = stamps.view(a, which)
    np.maximum(view, stamp, out=view)


def epoch_of(stamps: Words) -> Words:
    """Return the indices of the records that set the tags; negative where no record did."""
    return (stamps >> EPOCH_SHIFT) - FIRST


def shifted(index: int) -> int:
    """Return the epoch of a record, shifted to its position in a tag."""
    return (index + FIRST) << EPOCH_SHIFT
