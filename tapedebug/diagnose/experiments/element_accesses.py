"""Replay suspected launches element by element: races, uninitialised reads, indices out of bounds.

Which launches are suspect is decided without running anything: one whose threads stay at their own index in
each array, with as many elements as threads, can do none of the three. Of launches of one kind (a time loop)
some are looked at, and the coverage says which.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tapedebug._errors import BoundsError
from tapedebug.compiler.access_tags import NEVER, RACED, SITE_SHIFT, SITES, THREAD, UNSET
from tapedebug.compiler.diagnostics import BOUNDS
from tapedebug.diagnose import wording as words
from tapedebug.lang import types
from tapedebug.runtime.launch.access_tags import LAST, surely_inside, surroundings
from tapedebug.runtime.launch.print_buffer import PrintBuffer
from tapedebug.runtime.tape.element_tracking import Tracking
from tapedebug.trace.recording import location_of as found

if TYPE_CHECKING:
    from tapedebug._source import Span
    from tapedebug.diagnose.experiments.replay import Replay
    from tapedebug.diagnose.rule_context import RuleContext
    from tapedebug.runtime.launch.access_tags import Variant
    from tapedebug.runtime.tape.element_tracking import Tracking
    from tapedebug.runtime.tape.record import Record

SAMPLED = (16, 256)
"""How many launches of one kind are looked at, at least and at most: the first, the last, some between."""
THREADS = 500_000
"""How many threads of such a kind, where that is more launches."""
TOLD = 4096
"""How many conflicts of one launch are kept; others are counted."""
PAIRS = 256
"""How many pairs of threads are kept of them, to be run at the same time."""
OUTSIDE = 64
"""How many threads that go outside are looked for in one launch; each ends a run of its threads."""


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """One access: which thread, on which line, and what it does ("read", "write" or "atomic")."""

    thread: int
    span: Span | None
    kind: str


@dataclass(slots=True)
class AccessConflict:
    """Accesses of one kind that conflict, in one launch: two threads met, or one read what nothing wrote.

    Attributes:
        launch: Its index.
        param: The parameter of the first side.
        place: The scalar where it happened first, counted from the parameter's first element.
        first: The thread that came later.
        second: The other; None where nothing wrote.
        elements: The places, as far as they were kept.
        pairs: The threads of both sides, as far as they are wanted.
        count: How often it happened in the launch.
    """

    launch: int
    param: int
    place: int
    first: ThreadAccess
    second: ThreadAccess | None
    elements: set[int] = field(default_factory=set)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class OutOfBoundsAccess:
    """Indices outside an array, on one line of one launch.

    Attributes:
        launch: Its index.
        param: The parameter.
        axis: The axis whose index is outside.
        index: All indices of the element that the first such thread asked for.
        length: Of the axis.
        side: That thread, and the access.
        threads: The threads that did so, as far as they were looked for.
    """

    launch: int
    param: int
    axis: int
    index: tuple[int, ...]
    length: int
    side: ThreadAccess
    threads: list[int] = field(default_factory=list)


class ElementAccesses:
    """What a pass over a tape found, with suspected launches tracked.

    Attributes:
        races: Threads that met.
        unset: Reads of what nothing wrote.
        outside: Accesses outside of arrays.
    """

    def __init__(self, case: RuleContext) -> None:
        self.case = case
        self.replay = cast("Replay", case.experiment)
        self.records = self.replay.engine_records
        self.tracker = self.replay.recorded.tape.tracker
        self.races: list[AccessConflict] = []
        self.unset: list[AccessConflict] = []
        self.outside: list[OutOfBoundsAccess] = []
        self._look()

    def _look(self) -> None:
        tracking = Tracking(self.tracker, report=True)
        for buffer, ledger in self.tracker.ledgers.items():
            tracking.meet(buffer, ledger.unwritten)
        suspects = self._suspects(tracking)
        if not suspects:
            return
        last = max(suspects)
        shadow, journal = self.replay._shadow(), PrintBuffer()
        shadow.forward(stop=0)
        for record in self.records[: last + 1]:
            index = record.index
            if index in suspects:
                tracking.forget_defined(index)
                if suspects[index] or self._meets_fresh(tracking, record):
                    shadow.forward(start=index, stop=index)
                    self._launch(tracking, shadow, record, journal)
            try:
                shadow.forward(start=index, stop=index + 1)
            except BoundsError:  # it is told, and what follows it is not known
                if index < last:
                    self.case.skipped(f"launches after {index} were not looked at element by element")
                return

    def _suspects(self, tracking: Tracking) -> dict[int, bool]:
        """The launches to be tracked; False for those that are only where memory is still unwritten."""
        if len(self.records) > LAST:
            self.case.skipped(f"tapes of more than {LAST} launches are not looked at element by element")
            return {}
        own = self.replay.recorded.tape.tracking
        known = own is not None and own.whole()
        kinds: dict[Any, list[int]] = {}
        fresh: dict[int, bool] = {}
        for record in self.records:
            if record.kind != "kernel":
                continue
            plan: Any = record.plan
            if plan.kernel.analysis.native:
                self.case.skipped(f"{record.name} calls native functions: its accesses were not tracked")
                continue
            if known and own is not None:
                told = own.found.get(record.index, 0)
                if told & UNSET:
                    fresh[record.index] = False
                if told & RACED:
                    kinds.setdefault((plan, "tracked"), []).append(record.index)
                continue
            race_checked, unset = surroundings(plan, record.args, tracking.fresh)
            if unset:
                fresh[record.index] = False
            inside = BOUNDS in plan.diagnostics or surely_inside(record)
            if race_checked or not inside:
                shapes = tuple(record.args[p].shape for p in plan.touched)
                kinds.setdefault((plan, race_checked, record.dim, shapes), []).append(record.index)
        if known and fresh:
            fresh = {r.index: False for r in self.records if self._meets_fresh(tracking, r)}
        return fresh | dict.fromkeys(self._sampled(kinds.values()), True)

    def _meets_fresh(self, tracking: Tracking, record: Record) -> bool:
        return record.kind == "kernel" and any(
            record.args[p].region in tracking.fresh for p in record.touched
        )

    def _sampled(self, kinds: Iterator[list[int]] | Any) -> Iterator[int]:
        told = []
        for launches in kinds:
            record = self.records[launches[0]]
            most = min(max(SAMPLED[0], THREADS // max(1, record.threads)), SAMPLED[1])
            if len(launches) <= most:
                yield from launches
                continue
            places = np.linspace(0, len(launches) - 1, most).round().astype(int)
            yield from (launches[place] for place in places)
            told.append(
                f"{most} of {len(launches)} launches of {record.name} (from {launches[0]} to {launches[-1]}, "
                "evenly spread)"
            )
        if told:
            self.case.skipped(f"looked at element by element: {words.listed(told)}")

    # ------------------------------------------------------------- one launch

    def _launch(self, tracking: Tracking, shadow: Any, record: Record, journal: Any) -> None:
        variant = tracking.variant(record, frozenset())
        plan: Any = record.plan
        written = {p: shadow.space.value_view(record.args[p]).copy() for p in plan.written}
        memory = tracking.packed(record, shadow.packed(record), journal)
        start, told = 0, 0
        while start < record.threads and told < OUTSIDE:
            tracking.rearm(record, memory)
            with journal.lock:
                journal.open(TOLD)
                variant.entry(start, record.threads, ctypes.addressof(memory))
                entries, failure = journal.entries(), journal.failure()
                lost = int(journal.header[5])
            for number, thread, said in entries:
                self._meeting(record, variant, number, thread, said)
            if lost:
                last = (self.unset if entries[-1][2][2] == NEVER else self.races)[-1]
                last.count += lost
            if failure is None:
                break
            self._outside(record, variant, *failure)
            start, told = failure[1] + 1, told + 1
        for p, values in written.items():
            shadow.space.value_view(record.args[p])[...] = values
        tracking.ran[record.index] = variant

    def _meeting(
        self, record: Record, variant: Variant, number: int, thread: int, said: np.ndarray[Any, Any]
    ) -> None:
        stamp, place, what = (int(word) for word in said[:3])
        found = variant.sites[number]
        assert found is not None
        site, span = found
        first, second = ThreadAccess(thread, span, site.kind), None
        if what != NEVER:
            other = (stamp >> SITE_SHIFT) & SITES
            at = variant.sites[other] if other < len(variant.sites) else None
            kind, where = ("write", None) if at is None else (at[0].kind, at[1])
            second = ThreadAccess(stamp & THREAD, where, kind)
        known = self.races if second is not None else self.unset
        own = itertools.takewhile(lambda item: item.launch == record.index, reversed(known))
        for item in own:
            if (item.param, item.first.span) == (site.param, span) and _lines(item.second) == _lines(second):
                break
        else:
            item = AccessConflict(record.index, site.param, place, first, second)
            known.append(item)
        item.elements.add(place)
        item.count += 1
        if second is not None and len(item.pairs) < PAIRS:
            item.pairs.append((second.thread, first.thread))

    def _outside(
        self, record: Record, variant: Variant, number: int, thread: int, said: np.ndarray[Any, Any]
    ) -> None:
        remark = variant.entry.remarks[number]
        plan: Any = record.plan
        axis = int(remark.text.split()[1])
        name = remark.text.split("`")[1]
        param = next(p for p in plan.arrays if plan.names[p] == name)
        ndim = record.args[param].ndim
        index = tuple(int(word) for word in said[2 : 2 + ndim])
        for item in self.outside:
            same = item.launch == record.index and item.side.span == remark.span
            if same and (item.param, item.axis) == (param, axis):
                item.threads.append(thread)
                return
        side = ThreadAccess(thread, remark.span, _kind_at(record, param, remark.span))
        self.outside.append(OutOfBoundsAccess(record.index, param, axis, index, int(said[1]), side, [thread]))


def _lines(side: ThreadAccess | None) -> Any:
    return None if side is None else side.span


def _kind_at(record: Record, param: int, span: Span) -> str:
    """What the kernel does to a parameter at a place in its source."""
    accesses: Sequence[Any] = record.plan.kernel.analysis.accesses
    kinds = [access.kind for access in accesses if access.param == param and access.span == span]
    lines = [access.kind for access in accesses if access.param == param and access.span.line == span.line]
    return str(next(iter(kinds or lines or ["read"])))


def element_of(a: Any, place: int) -> tuple[int, ...]:
    """The index of the element that a scalar belongs to, given its place from the array's first element."""
    scalar = types.numpy_dtype(a.dtype).itemsize
    left, index = place * scalar, [0] * a.ndim
    for axis in sorted(range(a.ndim), key=lambda k: -abs(a.strides[k])):
        stride = a.strides[axis]
        if stride and a.shape[axis] > 1:
            index[axis] = min(max(0, left // stride), a.shape[axis] - 1)
            left -= index[axis] * stride
    return tuple(index)


def element_words(label: str, index: Sequence[int]) -> str:
    """`x[3]` or `x[3, 4]`."""
    return f"{label}[{', '.join(map(str, index))}]"


def place_words(side: ThreadAccess) -> str:
    """`net.py:66`, of an access."""
    return "an unknown line" if side.span is None else words.place(location_of(side.span))


def location_of(span: Any) -> Any:
    """A place in the source, as findings have it."""
    return found(span)
