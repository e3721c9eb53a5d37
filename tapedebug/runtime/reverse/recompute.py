"""Reverse records whose saved values were released, by running parts of the tape again privately.

From the last part to the first: memory is restored from a checkpoint, the part runs forward and keeps the
values that its adjoints need, and then these run. A part that needs more memory than there is gets
checkpoints within, recursively. The recomputed values equal the original ones to the last bit, and so do the
gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tapedebug._errors import TapedebugWarning
from tapedebug.lang import types
from tapedebug.runtime import messages
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import ALIGNMENT, Buffer, Bytes
from tapedebug.runtime.memory.convert import contiguous_strides
from tapedebug.runtime.replay.tangents import forward_special
from tapedebug.runtime.reverse.argument_table import ArgumentTable, Steps
from tapedebug.runtime.reverse.live_space import LiveSpace
from tapedebug.runtime.tape.buffer_versions import (
    BufferVersions,
    ExternalInput,
    InplaceSave,
    SavedValue,
    elements_of,
)
from tapedebug.runtime.tape.memory_budget import Checkpoint, Extent
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker

Values = np.ndarray[Any, Any]

FEW = 64
"""Records, at most, that may be rerun once for each of them if memory is that short."""


class _Block:
    """The part of a buffer that a tape uses: private if values change, otherwise the user's own memory."""

    def __init__(self, ledger: BufferVersions, changes: bool) -> None:
        self.buffer = ledger.buffer
        self.liveins = [live for live in ledger.liveins if not live.injected]
        gone = any(live.copy is not None or live.fill is not None for live in self.liveins)
        self.own = changes or gone
        self.low = min((s.start for s in ledger.states), default=0) // ALIGNMENT * ALIGNMENT
        high = max((s.stop for s in ledger.states), default=0)
        self.data = _private(high - self.low) if self.own else ledger.buffer.data[self.low : high]
        self.address: int = self.data.ctypes.data - self.low

    def start(self) -> None:
        """Restore the content that the tape found."""
        for live in reversed(self.liveins) if self.own else ():
            self.load(live.array, live.content(self.buffer), live.start)

    def load(self, a: array, content: Bytes, start: int) -> None:
        """Set the elements of an array, but not the gaps between them, from bytes that begin at `start`."""
        if a.is_contiguous:
            self.range(a.start, a.stop)[:] = content
        else:
            elements_of(self.data, a, self.low)[...] = elements_of(content, a, start)

    def range(self, start: int, stop: int) -> Bytes:
        """Return the bytes of a range of the buffer."""
        return self.data[start - self.low : stop - self.low]


def _private(nbytes: int) -> Bytes:
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    lead = -block.ctypes.data % ALIGNMENT
    return block[lead : lead + nbytes]


class _Work(LiveSpace):
    """Private values for running parts of the tape forward, and the user's gradients.

    Attributes:
        saved: Values that the part that ran last overwrote, and that its adjoints need.
        inplace_values: The values that its in-place launches started from.
    """

    moved = True

    def __init__(self, tracker: Tracker, extent: Extent) -> None:
        super().__init__(tracker.mode, tracker.foreign_reverse)
        self.blocks = {b: _Block(ledger, b in extent) for b, ledger in tracker.ledgers.items()}
        self.injections: dict[int, list[tuple[_Block, ExternalInput]]] = {}
        self.saved: dict[SavedValue, Bytes] = {}
        self.inplace_values: dict[InplaceSave, Bytes] = {}
        for buffer, ledger in tracker.ledgers.items():
            for live in ledger.liveins:
                if live.injected:
                    self.injections.setdefault(live.at, []).append((self.blocks[buffer], live))

    @property
    def nbytes(self) -> int:
        """Its private memory, in bytes."""
        return sum(block.data.nbytes for block in self.blocks.values() if block.own)

    def preserved(self, record: Record, need: SavedValue) -> Bytes | None:
        """Return the values that were current at the record, or None if they are still in place."""
        return need.copy if need.copy is not None else self.saved.get(need)

    def inplace_save(self, record: Record, save: InplaceSave) -> Bytes:
        """Return the values that an in-place launch starts from."""
        return self.inplace_values[save]

    def value(self, a: array) -> int:
        """Return the address of the values."""
        block = self.blocks.get(a.buffer)
        return a.ptr if block is None else block.address + a.ptr - a.buffer.address

    def value_view(self, a: array) -> Values:
        """Return the values as a NumPy view."""
        block = self.blocks[a.buffer]
        scalar, inner = types.numpy_dtype(a.dtype), types.value_shape(a.dtype)
        strides = a.strides + contiguous_strides(inner, scalar.itemsize)
        at = a.ptr - a.buffer.address - block.low
        return np.ndarray(a.shape + inner, scalar, block.data, at, strides)

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Restore memory as it was before a record; None stands for the first."""
        if checkpoint is None or not checkpoint.whole:
            for block in self.blocks.values():
                block.start()
        if checkpoint is None:
            return
        for buffer, start, content in checkpoint.runs:
            self.blocks[buffer].range(start, start + content.nbytes)[:] = content
        for a, elements in checkpoint.strided:
            block = self.blocks[a.buffer]
            elements_of(block.data, a, block.low)[...] = elements

    def inject(self, index: int) -> None:
        """Load values that something outside the tape wrote just before a record."""
        for block, live in self.injections.get(index, ()):
            block.load(live.array, live.content(block.buffer), live.start)


class Recomputation:
    """The steps of a reverse pass over the records of a tape before `Budget.since`, a part at a time."""

    def __init__(self, tracker: Tracker) -> None:
        assert tracker.budget is not None
        self.tracker = tracker
        self.budget = tracker.budget
        self.records = tracker.records
        self.budget.extent.follow(tracker)
        self.work = _Work(tracker, self.budget.extent)
        self.clobbered = self._dropped_needs()
        self.sums = [0, *accumulate(self._cost(index) for index in range(self.budget.since))]
        self.size = self.budget.extent.nbytes
        self.largest = max((b - a for a, b in pairwise(self.sums)), default=0)
        self.room = self.budget.nbytes // 2 - self.work.nbytes
        self.held = self.peak = 0  # bytes
        self.reran = 0
        self._table: ArgumentTable | None = None

    def _dropped_needs(self) -> dict[int, list[tuple[SavedValue, Buffer]]]:
        """Return the needs whose values must be saved, by the record that overwrites them."""
        found: dict[int, list[tuple[SavedValue, Buffer]]] = {}
        for buffer, ledger in self.tracker.ledgers.items():
            for need in ledger.needs:
                if need.dropped and need.clobber is not None:
                    found.setdefault(need.clobber, []).append((need, buffer))
        return found

    def _cost(self, index: int) -> int:
        """Return the bytes that are saved when a record runs again."""
        needs = {(b, n.start, n.stop) for n, b in self.clobbered.get(index, ())}
        record = self.records[index]
        in_place = {(record.args[s.params[0]].buffer, s.start, s.stop) for s in record.inplace_saves}
        return sum(stop - start for _, start, stop in needs | in_place)

    def batches(self) -> Iterator[Steps]:
        """Yield the steps of each part, last part first; run them before the next part is made."""
        bases: list[Checkpoint | None] = [None, *self.budget.checkpoints]
        starts = [0 if base is None else base.at for base in bases]
        for base, (low, high) in reversed(
            list(zip(bases, pairwise([*starts, self.budget.since]), strict=True))
        ):
            if low < high:
                yield from self._part(base, low, high)
        self._warn()

    def _part(self, base: Checkpoint | None, low: int, high: int) -> Iterator[Steps]:
        self._forget()
        self.work.restore(base)
        total = self.sums[high] - self.sums[low]
        room = self.room - self.held
        if total <= room or high - low == 1:
            yield self._steps(low, high)
            return
        parts = _parts(total, self.size, room - self.largest, high - low)
        if parts == 1:
            yield from self._again_and_again(base, low, high, room)
            return
        inner = [base]
        cuts = balanced_cuts(self.sums, low, high, parts)
        for start, stop in pairwise(cuts[:-1]):
            self._run(start, stop)
            inner.append(self._checkpoint(stop))
        for start, stop in reversed(list(pairwise(cuts))):
            first = inner.pop()
            yield from self._part(first, start, stop)
            if start != low:
                assert first is not None
                self.held -= first.nbytes

    def _again_and_again(self, base: Checkpoint | None, low: int, high: int, room: int) -> Iterator[Steps]:
        """Reverse few records without memory for checkpoints: rerun them from the start each time."""
        while high > low:
            start = high - 1
            while start > low and self.sums[high] - self.sums[start - 1] <= room:
                start -= 1
            self._forget()
            self.work.restore(base)
            self._run(low, start)
            yield self._steps(start, high)
            high = start

    def _forget(self) -> None:
        """Release the values that the last part needed."""
        self._table = None
        self.work.saved, self.work.inplace_values = {}, {}

    def _checkpoint(self, at: int) -> Checkpoint:
        runs, strided = self.budget.extent.runs()
        blocks = self.work.blocks
        made = Checkpoint(
            at,
            [(b, start, blocks[b].range(start, stop).copy()) for b, start, stop in runs],
            [(a, elements_of(blocks[a.buffer].data, a, blocks[a.buffer].low).copy()) for a in strided],
        )
        self.held += made.nbytes
        self.peak = max(self.peak, self.held)
        return made

    def _steps(self, low: int, high: int) -> Steps:
        self.peak = max(self.peak, self.held + self.sums[high] - self.sums[low])
        table = self._table = self._run(low, high, keeps=True)  # the table must live as long as the steps
        return table.steps(self.records[low:high])

    def _run(self, low: int, high: int, *, keeps: bool = False) -> ArgumentTable:
        """Run records forward, and keep the values that their adjoints need if asked to."""
        records, work = self.records[low:high], self.work
        table = ArgumentTable(records, work)
        self.reran += len(records)
        for record in records:
            kept: dict[tuple[Buffer, int, int], Bytes] = {}
            for need, buffer in self.clobbered.get(record.index, ()) if keeps else ():
                work.saved[need] = self._save(kept, buffer, need.start, need.stop)
            if record.index in work.injections:
                work.inject(record.index)
                kept.clear()
            for save in record.inplace_saves if keeps else ():
                buffer = record.args[save.params[0]].buffer
                work.inplace_values[save] = self._save(kept, buffer, save.start, save.stop)
            if record.kind == "kernel":
                record.plan.forward_run(False)(0, record.threads, table.forward(record))
            else:
                forward_special(record, work)(0, 0, 0)
        return table

    def _save(self, kept: dict[Any, Bytes], buffer: Buffer, start: int, stop: int) -> Bytes:
        found = kept.get((buffer, start, stop))
        if found is None:
            found = kept[buffer, start, stop] = self.work.blocks[buffer].range(start, stop).copy()
        return found

    @property
    def nbytes(self) -> int:
        """Its memory: arrays to run launches again with, and values that their adjoints need."""
        return self.work.nbytes + self.peak

    def _warn(self) -> None:
        """Warn once if the budget was too small."""
        budget = self.budget
        again = self.nbytes
        used = again + self.tracker.preserved_bytes + self.tracker.livein_bytes
        if used <= budget.nbytes or budget.warned:
            return
        budget.warned = True
        warnings.warn(
            f"backward: memory_budget={budget.nbytes} is too small for this tape: it took {used} bytes "
            f"({self.work.nbytes} for arrays to run launches again with, {self.peak} for what their adjoints "
            f"need); gradients are right; a budget of about {max(used, 2 * again)} would do",
            TapedebugWarning,
            stacklevel=messages.user_stacklevel(),
        )


def balanced_cuts(sums: Sequence[int], low: int, high: int, parts: int) -> list[int]:
    """Return the positions that divide records into parts that need about the same memory.

    Args:
        sums: The memory that the records before each need together.
        low: The first record.
        high: The record after the last.
        parts: The number of parts; of few records there may be fewer.
    """
    total = sums[high] - sums[low]
    wanted = [sums[low] + total * k / parts for k in range(1, parts)]
    inner = np.searchsorted(sums[low : high + 1], wanted) + low
    return sorted({low, high, *(min(max(int(cut), low + 1), high - 1) for cut in inner)})


def _parts(total: int, size: int, room: int, records: int) -> int:
    """Return the number of parts for records that keep `total` bytes, with checkpoints of `size` bytes.

    It is 1 if no checkpoint fits, and the records are few enough to run them again each time.
    """
    for parts in range(2, records + 1):
        copied = (parts - 1) * size
        if copied + total / parts <= room:
            return parts
        if copied > room:
            break
    slots = max(0, room) // size if size else records
    if slots == 0 and records <= FEW:
        return 1
    return max(2, min(records, slots // 2))
