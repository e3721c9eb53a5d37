"""Replay launches with their accesses tracked element by element: a capability of the contract."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Collection, Hashable, Mapping
from dataclasses import field
from typing import Any, cast

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import BoundsError
from tapedebug._source import Span
from tapedebug.compiler.access_tags import NEVER, RACED, SITE_SHIFT, SITES, THREAD, UNSET
from tapedebug.compiler.diagnostics import BOUNDS
from tapedebug.compiler.ir import Custom, walk
from tapedebug.contract import (
    AccessConflict,
    ElementConflicts,
    ElementTracking,
    OutOfBoundsAccess,
    Replay,
    SuspectLaunches,
    ThreadAccess,
)
from tapedebug.contract.element_tracking import AccessKind, ElementQuery, Mask
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.launch.access_tags import LAST, Variant, epoch_of, surely_inside, surroundings
from tapedebug.runtime.launch.print_buffer import PrintBuffer
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.element_tracking import PrivateMemory, ShadowMemory, Tracking, run_private
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape

MOST_CONFLICTS = 4096
"""The largest number of conflicts of one launch that are kept; others are counted."""
MOST_PAIRS = 256
"""The largest number of pairs of threads that are kept of a conflict, to run at the same time."""
MOST_OUTSIDE = 64
"""The largest number of out-of-bounds threads found in one launch; each ends a run of its threads."""

Words = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class TapeElementTracking:
    """The capability `contract.ElementTracking` of a tape."""

    tape: Tape

    def arrays_in(self, region: Hashable, /) -> list[array]:
        """Return the ranges of a buffer that the tape uses, as arrays."""
        return [state.array for state in self.tape.tracker.ledgers[cast("Buffer", region)].states]

    def suspects(self) -> SuspectLaunches:
        """Return the launches that may have conflicts.

        A launch whose threads stay at their own index in each array, with as many elements as threads, has
        none. A tape with `track="elements"` noted the launches that had some.
        """
        records = self.tape.records
        if len(records) > LAST:
            reason = f"tapes of more than {LAST} launches are not looked at element by element"
            return SuspectLaunches(untracked=[reason])
        tracking = self._tracking()
        own = self.tape.tracking
        known = own is not None and own.whole()
        kinds: dict[Any, list[int]] = {}
        found = SuspectLaunches()
        for record in records:
            if record.kind != "kernel":
                continue
            plan: Any = record.plan
            if plan.kernel.analysis.native:
                found.untracked.append(f"{record.name} calls native functions: its accesses were not tracked")
                continue
            if known and own is not None:
                told_then = own.found.get(record.index, 0)
                if told_then & UNSET:
                    found.unwritten.append(record.index)
                if told_then & RACED:
                    kinds.setdefault((plan, "tracked"), []).append(record.index)
                continue
            race_checked, unset = surroundings(plan, record.args, tracking.fresh)
            if unset:
                found.unwritten.append(record.index)
            inside = BOUNDS in plan.diagnostics or surely_inside(record)
            if race_checked or not inside:
                shapes = tuple(record.args[p].shape for p in plan.touched)
                kinds.setdefault((plan, race_checked, record.dim, shapes), []).append(record.index)
        if known and found.unwritten:
            found.unwritten = [record.index for record in records if _meets_fresh(tracking, record)]
        found.kinds = list(kinds.values())
        return found

    def conflicts(
        self, replay: Replay, launches: Collection[int], if_unwritten: Collection[int] = (), /
    ) -> ElementConflicts:
        """Run a new replay of the tape with some launches tracked."""
        assert isinstance(replay, Shadow)
        run = TrackedRun(ShadowMemory(replay), self._tracking())
        last = max([*launches, *if_unwritten], default=-1)
        replay.forward(stop=0)
        for record in self.tape.records[: last + 1]:
            index = record.index
            if index in launches or index in if_unwritten:
                run.tracking.forget_defined(index)
                if index in launches or _meets_fresh(run.tracking, record):
                    replay.forward(start=index, stop=index)
                    run.launch(record)
            try:
                replay.forward(start=index, stop=index + 1)
            except BoundsError:  # it is reported, and later launches are not known
                run.found.ended_after = index if index < last else None
                break
        return run.found

    def accessed(
        self, replay: Replay, wanted: Collection[ElementQuery], /
    ) -> Mapping[ElementQuery, Mask] | None:
        """Return the elements that launches read or wrote, each launch with stamps of its own."""
        assert isinstance(replay, Shadow)
        records, print_buffer = self.tape.records, PrintBuffer()
        memory = ShadowMemory(replay)
        launches = sorted({launch for launch, _, _ in wanted})
        if not all(is_plain(records[index].kernel) for index in launches if records[index].kind == "kernel"):
            return None
        found: dict[ElementQuery, Mask] = {}
        replay.forward(stop=0)
        for index in launches:
            record = records[index]
            replay.forward(start=replay.position, stop=index)
            tracking = Tracking(self.tape.tracker)
            if record.kind == "kernel":
                variant = tracking.variant(record, frozenset())
                run_private(tracking, memory, record, variant, print_buffer)
                tracking.ran[index] = variant
            for key in [key for key in wanted if key[0] == index]:
                a = replay._own(key[1])
                stamps = tracking.merged_stamps(a, index + 1).view(a, int(key[2] == "read")).max(axis=-1)
                found[key] = epoch_of(stamps) == index
        return found

    def _tracking(self) -> Tracking:
        """Return new stamps that report each conflict, with the buffers that may be unwritten."""
        tracking = Tracking(self.tape.tracker, report=True)
        for buffer, ledger in self.tape.tracker.ledgers.items():
            tracking.meet(buffer, ledger.unwritten)
        return tracking


@dataclass(slots=True)
class TrackedRun:
    """Private memory, with the conflicts that launches tracked in it have reported."""

    memory: PrivateMemory
    tracking: Tracking
    print_buffer: PrintBuffer = field(default_factory=PrintBuffer)
    found: ElementConflicts = field(default_factory=ElementConflicts)

    def launch(self, record: Record) -> None:
        """Run a launch tracked, and restore the values afterwards."""
        tracking, private, print_buffer = self.tracking, self.memory, self.print_buffer
        variant = tracking.variant(record, frozenset())
        plan: Any = record.plan
        written = {p: private.value_view(record, p).copy() for p in plan.written}
        memory = tracking.packed(record, private.packed(record), print_buffer)
        start, reported = 0, 0
        met: dict[tuple[int, int | None], AccessConflict] = {}
        while start < record.threads and reported < MOST_OUTSIDE:
            tracking.rearm(record, memory)
            with print_buffer.lock:
                print_buffer.open(MOST_CONFLICTS)
                variant.entry(start, record.threads, ctypes.addressof(memory))
                entries, failure = print_buffer.numbers(), print_buffer.failure()
                lost = int(print_buffer.header[5])
            for number, thread, (stamp, place, what, *_) in entries:
                other = None if what == NEVER else (stamp >> SITE_SHIFT) & SITES
                who = stamp & THREAD
                item = met.get((number, other))
                if item is None:
                    item = self._conflict(record, variant, (number, other), (thread, who), place)
                    met[number, other] = item
                item.elements.add(place)
                item.count += 1
                if other is not None and len(item.pairs) < MOST_PAIRS:
                    item.pairs.append((who, thread))
            if lost:
                last = (self.found.unset if entries[-1][2][2] == NEVER else self.found.races)[-1]
                last.count += lost
            if failure is None:
                break
            self._outside(record, variant, *failure)
            start, reported = failure[1] + 1, reported + 1
        for p, values in written.items():
            private.value_view(record, p)[...] = values
        tracking.ran[record.index] = variant

    def _conflict(
        self,
        record: Record,
        variant: Variant,
        sites: tuple[int, int | None],
        threads: tuple[int, int],
        place: int,
    ) -> AccessConflict:
        """Return the conflict of a launch between two places in the source; a new one at their first meeting.

        Args:
            record: The launch.
            variant: The variant that ran.
            sites: The numbers of the places: of the later access, and of the other; None if nothing wrote.
            threads: The threads, in that order.
            place: The scalar.
        """
        found = variant.sites[sites[0]]
        assert found is not None
        site, span = found
        first, second = ThreadAccess(threads[0], span, site.kind), None
        if sites[1] is not None:
            at = variant.sites[sites[1]] if sites[1] < len(variant.sites) else None
            second = ThreadAccess(threads[1], *((None, "write") if at is None else (at[1], at[0].kind)))
        known = self.found.races if second is not None else self.found.unset
        for item in itertools.takewhile(lambda item: item.launch == record.index, reversed(known)):
            if (item.param, item.first.span) == (site.param, span) and _span(item.second) == _span(second):
                return item
        item = AccessConflict(record.index, site.param, place, first, second)
        known.append(item)
        return item

    def _outside(self, record: Record, variant: Variant, number: int, thread: int, said: Words) -> None:
        diagnostic = variant.entry.diagnostics[number]
        plan: Any = record.plan
        axis = int(diagnostic.text.split()[1])
        name = diagnostic.text.split("`")[1]
        param = next(p for p in plan.arrays if plan.names[p] == name)
        ndim = record.args[param].ndim
        index = tuple(int(word) for word in said[2 : 2 + ndim])
        for item in self.found.outside:
            same = item.launch == record.index and item.side.span == diagnostic.span
            if same and (item.param, item.axis) == (param, axis):
                item.threads.append(thread)
                item.complete = len(item.threads) < MOST_OUTSIDE
                return
        side = ThreadAccess(thread, diagnostic.span, _kind_at(record, param, diagnostic.span))
        length = int(said[1])
        self.found.outside.append(OutOfBoundsAccess(record.index, param, axis, index, length, side, [thread]))


def _meets_fresh(tracking: Tracking, record: Record) -> bool:
    """Return True if a launch uses memory that may be unwritten."""
    return record.kind == "kernel" and any(record.args[p].region in tracking.fresh for p in record.touched)


def is_plain(kernel: Any) -> bool:
    """Return True if a kernel's accesses are tracked and its adjoint reads no other elements."""
    own = any(isinstance(node, Custom) for node in walk(kernel._lowered.custom.body))
    return not (own or kernel.analysis.native)


def _span(side: ThreadAccess | None) -> object:
    return None if side is None else side.span


def _kind_at(record: Record, param: int, span: Span) -> AccessKind:
    """Return the kind of access of the kernel to a parameter at a place in its source."""
    accesses: Any = record.plan.kernel.analysis.accesses
    kinds = [access.kind for access in accesses if access.param == param and access.span == span]
    lines = [access.kind for access in accesses if access.param == param and access.span.line == span.line]
    found: AccessKind = next(iter(kinds or lines or ["read"]))
    return found


TAPE[ElementTracking] = TapeElementTracking
