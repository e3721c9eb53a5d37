"""The schedule of a launch with many threads: its entry, its chunks, sequential or parallel.

Everything that results depend on follows from the sizes and addresses of the arguments: the chunks, and the
order of additions. The number of threads that run them, and concurrency, affect only the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from time import perf_counter
from typing import Any

from tapedebug.compiler.layout import Layout
from tapedebug.compiler.parallel_info import NEAR, OWN, READ, SUM, Division, Place, Share
from tapedebug.compiler.variant import Variant
from tapedebug.compiler.work_queue import on_x86
from tapedebug.lang import types
from tapedebug.runtime.memory.alias_spans import (
    AliasSpan,
    alias_span,
    arrangement,
    contiguous,
    overlapping_pairs,
)
from tapedebug.runtime.parallel import thread_pool
from tapedebug.runtime.parallel.cost_model import SERIES_EVEN, CostModel
from tapedebug.runtime.parallel.partition import Jobs, partition

NARROW = 8
"""Minimum length of a row of threads that runs in vector lanes; in shorter ones, most would be empty."""
STREAMED = 32 << 20
"""Bytes of the arrays that a launch writes from which its stores bypass the caches, if these are no larger.

A store to memory that is in no cache reads it first. Of two processors with 32 MB of shared cache, `y = 2 x`
takes 1.51 instead of 2.24 ms for 64 MB, 0.66 instead of 0.76 for 32, and 0.40 instead of 0.39 for 20.
"""
REMEMBERED = 256
"""Maximum number of cached schedules of one entry, and of cached launch sizes."""


class LaunchSchedule:
    """The schedule of all launches whose arguments have the same sizes and arrangement.

    Attributes:
        entry: The entry that runs threads.
        threads: Number of threads.
        jobs: The chunks; None if it runs in one.
    """

    __slots__ = ("entry", "jobs", "pace", "threads")

    def __init__(self, entry: Any, threads: int, jobs: Jobs | None, pace: CostModel) -> None:
        self.entry, self.threads, self.jobs, self.pace = entry, threads, jobs, pace

    def is_short(self, most: float) -> bool | None:
        """True if the entry alone gives bitwise the same results, and helpers do not pay off in a series.

        Args:
            most: An upper bound on the seconds of the launch, on any number of threads, used if none has
                run; 0 if unknown.

        Returns:
            None if measurements have to tell.
        """
        if self.jobs is None or self.jobs.ordered:
            return self.jobs is None
        if 0 < (self.pace.alone or most * thread_pool.available()) < SERIES_EVEN:
            return True
        return False if self.pace.is_measured else None

    def run(self, args: int, raw: bytes) -> None:
        """Run the launch; `args` is the address of the packed arguments, `raw` their content."""
        jobs, pace = self.jobs, self.pace
        if jobs is None:
            self.entry(0, self.threads, args)
            return
        helpers = thread_pool.available() if pace.together() else 1
        start = perf_counter()
        if helpers > 1:
            job, made = jobs.job(raw)
            done = thread_pool.pool.run(job, args, jobs.count, helpers)
            jobs.give_back(made)
            if done:
                pace.ran_together(perf_counter() - start)
                return
        if jobs.ordered:
            job, made = jobs.job(raw)
            thread_pool.run_inline(job, args, jobs.count)
            jobs.give_back(made)
        else:
            self.entry(0, self.threads, args)
        pace.ran_alone(perf_counter() - start)


class Scheduler:
    """The facts about an entry on which schedules depend, and the cached schedules of its launches."""

    def __init__(self, kernel: Any, variant: Variant, entry: Any) -> None:
        self.kernel, self.variant, self.entry = kernel, variant, entry
        self.division: Division = kernel.division(variant)
        self.layout: Layout = kernel.layout
        dots = 16 * self.layout.arrays if variant.kind == "adjoint_tangent" else 0
        self.size = self.layout.size + dots
        slots = {place: self._slot(place) for place in self.division.touched}
        self.slots = dict(sorted(slots.items(), key=lambda item: item[1]))
        along = [self.division.along(axis) for axis in range(max(self.division.axes, 1))]
        self.shares = [shares and {share.place: share for share in shares} for shares in along]
        self.pairs = {frozenset((p.first, p.second)): p.alike for p in self.division.pairs}
        self.sizes, self.firsts = self._selection(), self._selected(set(self.slots.values()))
        self.launches: dict[Any, LaunchSchedule] = {}
        self.schedules: dict[Any, tuple[list[tuple[int, int]], dict[Any, LaunchSchedule]]] = {}
        self.paces: dict[int, CostModel] = {}

    def _slot(self, place: Place) -> int:
        side, param = place
        layout = self.layout
        slots = {
            "value": layout.values,
            "adjoint": layout.adjoints,
            "dot": layout.dots,
            "adjoint_dot": layout.adjoint_dots,
        }
        slot = slots[side][param]
        assert slot is not None
        return slot

    def _selection(self) -> Struct:
        """Return a format that selects the words, except addresses, on which a schedule depends."""
        wanted = {1, 2, 3}
        for _, param in self.slots:
            ndim = self.kernel.params[param].type.ndim
            first = self.layout.shape(param, 0)
            wanted.update(range(first, first + (2 * ndim if self.variant.strided else ndim)))
        for share in [share for shares in self.shares for share in (shares or {}).values()]:
            wanted.update(self._words((*share.reach, *share.window)))
        wanted.update(self._words(self.division.work))
        return self._selected(wanted)

    def _selected(self, wanted: set[int]) -> Struct:
        return Struct("=" + "".join("q" if word in wanted else "8x" for word in range(self.size // 8)))

    def _words(self, bounds: Any) -> Iterator[int]:
        """Yield the words that bounds refer to."""
        if isinstance(bounds, tuple):
            if bounds and bounds[0] == "argument":
                yield self.layout.values[bounds[1]] + bounds[2]
            elif bounds and bounds[0] == "extent":
                yield self.layout.shape(bounds[1], bounds[2])
            else:
                for inner in bounds:
                    yield from self._words(inner)

    def schedule(self, threads: int, raw: bytes) -> LaunchSchedule:
        """Return the schedule of a launch with these arguments."""
        sizes, firsts = (threads, self.sizes.unpack(raw)), self.firsts.unpack(raw)
        found = self.launches.get((sizes, firsts))
        if found is None:
            found = _bounded(self.launches)[sizes, firsts] = self._found(sizes, firsts, raw)
        return found

    def _found(self, sizes: tuple[int, Any], firsts: tuple[int, ...], raw: bytes) -> LaunchSchedule:
        """Return the schedule of launches of these sizes with the same arrangement of arrays."""
        known = self.schedules.get(sizes)
        if known is None:
            memories = self._alias_spans(raw)
            spans = [(m.start - first, m.stop - first) for m, first in zip(memories, firsts, strict=True)]
            known = _bounded(self.schedules)[sizes] = spans, {}
        spans, schedules = known
        arranged = arrangement(firsts, spans)
        found = schedules.get(arranged)
        if found is None:
            found = _bounded(schedules)[arranged] = self._new_schedule(sizes[0], raw)
        return found

    def _alias_spans(self, raw: bytes) -> list[AliasSpan]:
        words = memoryview(raw).cast("q")
        return [self._memory(place, slot, words) for place, slot in self.slots.items()]

    def _new_schedule(self, threads: int, raw: bytes) -> LaunchSchedule:
        memories = self._alias_spans(raw)
        met = list(overlapping_pairs(memories))
        words, axes = memoryview(raw).cast("q"), self.division.axes
        # Threads are divided along the first axis whose size is not 1.
        axis = next((k for k in range(axes - 1) if words[k] > 1), max(axes - 1, 0))
        shares = self.shares[axis]
        changed = {place for pair in self.pairs for place in pair} | {
            place for place, share in (shares or {}).items() if share.how != READ
        }
        folded = self.variant.strided and any(m.folded for m in memories if m.place in changed)
        folds_or_narrow = folded or (axes > 1 and words[axes - 1] < NARROW)
        entry = self.entry if folds_or_narrow else self._entry(met, self._streams(memories))
        jobs = None
        if shares is not None and not folded and all(_may_meet(shares, *pair) for pair in met):
            jobs = partition(self, words, memories, entry, threads, axis)
        return LaunchSchedule(entry, threads, jobs, self.paces.setdefault(threads, CostModel()))

    def _memory(self, place: Place, slot: int, words: memoryview) -> AliasSpan:
        param = place[1]
        kind = self.kernel.params[param].type
        scalar = self.scalar(param)
        item = scalar * types.components(kind)
        first = self.layout.shape(param, 0)
        shape = tuple(words[first : first + kind.ndim])
        if self.variant.strided:
            strides = tuple(s * scalar for s in words[first + kind.ndim : first + 2 * kind.ndim])
        else:
            strides = contiguous(shape, item)
        return alias_span(place, words[slot], shape, strides, item)

    def scalar(self, param: int) -> int:
        """Return the bytes of one scalar of an array."""
        kind: Any = types.scalar_of(self.kernel.params[param].type)
        size: int = types.numpy_dtype(kind).itemsize
        return 8 if self.variant.f64 and types.is_float(kind) else size

    def _streams(self, memories: list[AliasSpan]) -> bool:
        """True if stores may bypass the caches, and it pays: the kernel computes little.

        What is written is larger than the caches, so that the next launch would not find it there either.
        """
        analysis = self.kernel.analysis
        if self.variant.kind != "forward" or self.division.work != 1 or analysis.atomic:
            return False
        if analysis.writes & analysis.reads:
            return False
        written = sum(m.stop - m.start for m in memories if m.place[1] in analysis.writes)
        return written >= STREAMED and written >= last_level_cache() and on_x86()

    def _entry(self, met: list[tuple[AliasSpan, AliasSpan]], streams: bool) -> Any:
        """Return the entry that runs threads in lockstep if they may, else the plain one."""
        if not self.division.lanes:
            return self.entry
        for one, other in met:
            alike = self.pairs.get(frozenset((one.place, other.place)))
            if alike is not None and not (alike and one.same(other)):
                return self.entry
        return self.kernel.in_lanes(self.variant, streams=streams and not met)


@cache
def last_level_cache() -> int:
    """Return the bytes of this processor's largest cache; 0 if the system does not say."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size", encoding="ascii") as file:
            text = file.read().strip()
        return int(text.rstrip("KM")) << (20 if text.endswith("M") else 10)
    except (OSError, ValueError):
        return 0


def _may_meet(shares: dict[Place, Share], one: AliasSpan, other: AliasSpan) -> bool:
    """True if the results of chunks do not depend on their order although two arrays share memory."""
    a, b = shares[one.place], shares[other.place]
    hows = {a.how, b.how}
    if hows in ({READ}, {SUM}):
        return True
    if not one.same(other):
        return False
    if hows <= {READ, OWN}:
        return bool(a.axes & b.axes)
    return a.added and b.added and hows <= {OWN, NEAR} and _row(a) == _row(b)


def _bounded(kept: dict[Any, Any]) -> dict[Any, Any]:
    """Return a cache, emptied if it is full."""
    if len(kept) >= REMEMBERED:
        kept.clear()
    return kept


def _row(share: Share) -> int:
    return share.axis if share.how == NEAR else min(share.axes)
