"""Element tracking: the last writer and reader of each element, launch by launch.

A tape with `track="elements"` runs tracked variants of its kernels in place of the plain ones. For any other
tape the stamps are found by replaying its launches on a private copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from tapedebug._errors import TapeError
from tapedebug.compiler.access_tags import RACED, THREAD, UNSET, tag_of, words_of
from tapedebug.lang import types
from tapedebug.runtime.launch import access_tags
from tapedebug.runtime.launch.access_tags import FIRST, OUTSIDE, READS, WRITES, AccessTags, Variant
from tapedebug.runtime.launch.print_buffer import PRINT_BUFFER, Listener, PrintBuffer
from tapedebug.runtime.memory.array import Values, array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker


class TrackedMemory(Protocol):
    """The records whose accesses are tracked, and the memory that they use; a tape's `Tracker` is one."""

    @property
    def records(self) -> Sequence[Record]:
        """The records, in order."""

    @property
    def outside(self) -> Sequence[Any]:
        """The writes that are not on the tape."""

    @property
    def ledgers(self) -> Mapping[Buffer, Any]:
        """The versions of each buffer."""


class Tracking:
    """The stamps of a tape's memory.

    Args:
        tracker: The tracker of the tape.
        report: True if launches report each conflict, with both sides.

    Attributes:
        ran: The tracked variant of each record that ran with stamps, by its index.
        found: The bits that each of those reported (`RACED`, `UNSET`); only of launches that reported any.
        broken: Why the stamps are incomplete; empty while they are complete.
        fresh: Buffers that may hold values that were never written.
    """

    def __init__(self, tracker: TrackedMemory, *, report: bool = False) -> None:
        self.tracker = tracker
        self.report = report
        self.ran: dict[int, Variant] = {}
        self.found: dict[int, int] = {}
        self.broken = ""
        self.fresh: set[Buffer] = set()
        self._known: set[Buffer] = set()
        self._memories: dict[tuple[Buffer, int], AccessTags] = {}
        self._variants: dict[Any, Variant] = {}

    # -- memory ---------------------------------------------------------------------------------------

    def stamps(self, a: array) -> AccessTags:
        """Return the stamps of the memory of an array."""
        itemsize = types.numpy_dtype(a.dtype).itemsize
        found = self._memories.get((a.buffer, itemsize))
        if found is None:
            found = self._memories[a.buffer, itemsize] = AccessTags(
                a.buffer.nbytes, itemsize, words_of(self.report)
            )
        return found

    def meet(self, buffer: Buffer, fresh: bool) -> None:
        """Note, when a buffer is first used, if it may hold values that were never written."""
        if buffer not in self._known:
            self._known.add(buffer)
            if fresh:
                self.fresh.add(buffer)

    def merged_stamps(self, a: array, upto: int | None = None) -> AccessTags:
        """Return the stamps of an array's memory, merged with accesses that were not stamped but are known.

        Args:
            a: An array.
            upto: Only what happened before this record; by default everything.
        """
        stamps, records = self.stamps(a), self.tracker.records
        end = len(records) if upto is None else upto
        for record in records[stamps.settled : end]:
            for p in record.plan.touched:
                other = record.args[p]
                if other.buffer is a.buffer and self.stamps(other) is stamps:
                    self._merge(stamps, record, p)
        stamps.settled = max(stamps.settled, end)
        for event in self.tracker.outside:
            if event.at <= end and event.array.buffer is a.buffer and self.stamps(event.array) is stamps:
                stamp = tag_of(event.at + FIRST - 1, 0, 0) + OUTSIDE
                access_tags.merge_whole(stamps, event.array, WRITES, stamp)
        return stamps

    def _merge(self, stamps: AccessTags, record: Record, param: int) -> None:
        if record.kind == "kernel" and param not in record.plan.kernel.analysis.native:
            variant = self.ran.get(record.index)
            for number, site in variant.untagged_accesses() if variant is not None else ():
                if site.param == param:
                    access_tags.merge_bulk(stamps, record, param, site, number)
            return
        # A copy, a fill, or a native function, which may touch any element of its arguments.
        stamp = tag_of(record.index + FIRST, access_tags.WHOLE, THREAD)
        if param in record.reads:
            access_tags.merge_whole(stamps, record.args[param], READS, stamp)
        if param in record.writes:
            access_tags.merge_whole(stamps, record.args[param], WRITES, stamp)

    def forget_defined(self, upto: int) -> None:
        """Remove from `fresh` the buffers in which every scalar is written, or that NumPy may have written.

        Args:
            upto: The record that runs next.
        """
        for buffer in list(self.fresh):
            ledger = self.tracker.ledgers.get(buffer)
            if ledger is None:
                continue
            arrays = [state.array for state in ledger.states]
            sizes = {types.numpy_dtype(a.dtype).itemsize for a in arrays}
            seen = ledger.opened is not None and ledger.opened <= upto
            if seen or len(sizes) != 1 or self.merged_stamps(arrays[0], upto).words[:, WRITES].all():
                self.fresh.discard(buffer)

    # -- running --------------------------------------------------------------------------------------

    def variant(self, record: Record, diagnostics: frozenset[str]) -> Variant:
        """Return the tracked variant that a launch needs, compiled on first use."""
        plan = record.plan
        race_checked, fresh = access_tags.surroundings(plan, record.args, self.fresh)
        key = (plan, race_checked, fresh, diagnostics)
        found = self._variants.get(key)
        if found is None:
            entry = plan.kernel.tracked(
                race_checked, fresh, report=self.report, strided=plan.strided, diagnostics=diagnostics
            )
            found = self._variants[key] = Variant.of(entry)
        return found

    def packed(self, record: Record, slots: bytes, print_buffer: PrintBuffer) -> ctypes.Array[ctypes.c_char]:
        """Return the arguments of a tracked launch: all slots, the print buffer, the epoch, the stamps."""
        layout, args = record.plan.kernel.layout, record.args
        pointers = [self.stamps(args[p]).pointer(args[p]) for p in record.plan.arrays]
        tail = layout.tracked.pack(print_buffer.address, access_tags.shifted(record.index), *pointers)
        return ctypes.create_string_buffer(slots[: layout.size] + tail)

    def rearm(self, record: Record, memory: ctypes.Array[ctypes.c_char]) -> None:
        """Reset packed arguments for another run: the last one left its report there."""
        slot = record.plan.kernel.layout.epoch
        ctypes.c_uint64.from_buffer(memory, 8 * slot).value = access_tags.shifted(record.index)

    def prepared(self, record: Record) -> Callable[[], None]:
        """Return a function that runs a launch that is about to be recorded; nothing is announced yet.

        Raises:
            TapeError: The tape is longer than stamps can count.
        """
        plan: Any = record.plan  # of a kernel
        if record.index >= access_tags.LAST:
            raise too_many()
        for p in plan.touched:
            buffer = record.args[p].buffer
            ledger = self.tracker.ledgers.get(buffer)
            self.meet(buffer, buffer.unwritten if ledger is None else ledger.unwritten)
        if self.fresh:
            self.forget_defined(record.index)
        variant = self.variant(record, plan.diagnostics)
        memory = self.packed(record, record.packed, PRINT_BUFFER)
        return lambda: self._run(record, variant, memory)

    def _run(self, record: Record, variant: Variant, memory: ctypes.Array[ctypes.c_char]) -> None:
        """Run a launch.

        Raises:
            BoundsError: An index was outside its array.
            KernelAssertionError: An assertion failed.
        """
        kernel: Any = record.kernel
        try:
            Listener(kernel, variant.entry, "")(0, record.threads, ctypes.addressof(memory))
        except BaseException:
            self.broken = f"launch {record.index} ({record.name}) did not end"
            raise
        self.ran[record.index] = variant
        found = int.from_bytes(memory.raw[8 * kernel.layout.epoch :][:8], "little")
        if found & (RACED | UNSET):
            self.found[record.index] = found

    def whole(self) -> bool:
        """Return True if every launch of the tape was tracked."""
        kernels = [r for r in self.tracker.records if r.kind == "kernel"]
        return not self.broken and all(r.index in self.ran for r in kernels)


def too_many() -> TapeError:
    """Return the error of a tape that is longer than stamps can count."""
    return TapeError(
        f"tracking: stamps tell {access_tags.LAST} launches of one tape apart, and no more",
        hint="record several tapes, or without track",
    )


def replayed(tracker: Tracker, wanted: Collection[int] | None = None) -> Tracking:
    """Return the stamps of a tape's launches, found by replaying them on a private copy.

    Args:
        tracker: The tracker of the tape.
        wanted: The records to track; by default all.
    """
    from tapedebug.runtime.replay.shadow import Shadow

    tracking = Tracking(tracker)
    for buffer, ledger in tracker.ledgers.items():
        tracking.meet(buffer, ledger.unwritten)
    shadow = Shadow(tracker)
    space = ShadowMemory(shadow)
    if len(tracker.records) > access_tags.LAST:
        raise too_many()
    chosen = set(range(len(tracker.records))) if wanted is None else set(wanted)
    print_buffer = PrintBuffer()
    for record in tracker.records:
        if record.kind == "kernel" and record.index in chosen:
            tracking.forget_defined(record.index)
            variant = tracking.variant(record, frozenset())
            run_private(tracking, space, record, variant, print_buffer)
            tracking.ran[record.index] = variant
        shadow.forward(start=record.index, stop=record.index + 1)
    return tracking


class PrivateMemory(Protocol):
    """Memory in which a tracked launch runs, and which is as before afterwards."""

    def packed(self, record: Record, /) -> bytes:
        """Return the packed arguments of a launch on this memory."""

    def value_view(self, record: Record, param: int, /) -> Values:
        """Return a view of the values of an argument."""


class ShadowMemory:
    """The memory of a shadow, as a `PrivateMemory`.

    Args:
        shadow: The shadow.
    """

    def __init__(self, shadow: Any) -> None:
        self._shadow = shadow

    def packed(self, record: Record, /) -> bytes:
        """Return the packed arguments of a launch."""
        found: bytes = self._shadow.packed(record)
        return found

    def value_view(self, record: Record, param: int, /) -> Values:
        """Return a view of the values of an argument."""
        found: Values = self._shadow.space.value_view(record.args[param])
        return found


def run_private(
    tracking: Tracking, memory: PrivateMemory, record: Record, variant: Variant, print_buffer: PrintBuffer
) -> int:
    """Run a tracked launch in private memory that stands before it, and restore the values.

    Returns:
        The reported bits.
    """
    written = {p: memory.value_view(record, p).copy() for p in record.plan.written}
    packed = tracking.packed(record, memory.packed(record), print_buffer)
    at = ctypes.addressof(packed)
    with print_buffer.lock:
        print_buffer.open()
        variant.entry(0, record.threads, at)
    for p, values in written.items():
        memory.value_view(record, p)[...] = values
    return int.from_bytes(packed.raw[8 * record.plan.kernel.layout.epoch :][:8], "little")
