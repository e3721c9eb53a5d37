"""Partition of a launch into chunks by sizes only, so that results do not depend on the thread pool."""

from __future__ import annotations

from dataclasses import field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.compiler.parallel_info import NEAR, SUM, Place, Share, evaluated
from tapedebug.compiler.work_queue import CALL, JOB, SUMMED, adder, new_job
from tapedebug.lang import types
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.alias_spans import AliasSpan, Runs, runs
from tapedebug.runtime.memory.block_allocator import memory as memory_of

if TYPE_CHECKING:
    from tapedebug.runtime.parallel.schedule import Scheduler

Table = np.ndarray[Any, np.dtype[np.int64]]

MOST = 64
"""Maximum number of chunks: the last one, for which the other threads wait, should be short."""
LEAST = 64
"""Minimum threads of a chunk that does not add to shared memory; chunks begin at multiples of this."""
WORK = 4096
"""Minimum work of a chunk that adds to shared memory, in small threads without loops, to pay for private
copies and waiting; also the minimum work of a launch that is partitioned."""
NUMBERS = (32, 24, 16, 12, 8, 6, 4, 2)
"""Allowed numbers of such chunks: most thread counts share them evenly."""
NEAREST = 4
"""Minimum number of even and odd chunks: with fewer, no two run at once."""
COPIES = 512 * 1024
"""Bytes of private copies that are always allowed; for large arrays, a tenth of their bytes is allowed."""
KEPT = 64 * 1024
"""Maximum bytes of private copies that are cached for the next launch."""
PAID = 2
"""Maximum bytes of a private copy for each small thread of a chunk: clearing and adding them takes a fifth of
the chunk's time. With larger copies, one chunk is faster than two."""
PIECE = 65536
"""Elements of the copies that one call adds up."""
ADDED = SUMMED + 2 * 4
"""Words of the arguments for adding up the copies of one array, which has up to four axes."""


@dataclass
class Jobs:
    """Jobs (`compiler.work_queue`) for launches whose arguments have the same sizes and arrangement.

    All chunks but the first get private copies of the memory to which chunks add.

    Attributes:
        table: The job; where chunks get private copies, without the entries that differ between launches.
        count: Number of calls.
        ordered: True if the launch must run in these chunks.
        chunks: The rows of the calls with private copies, in order.
        sums: The rows that add up the copies, each with the number of the copied array.
        size: Bytes of the copies of one chunk.
        parts: For each copied array: the slot of its pointer, the byte offset of the copied part from that
            pointer (possibly negative), the offset of its copy, and the layout of its numbers
            (`work_queue.SUM`).
        spare: Memory of finished jobs, for reuse.
    """

    table: Table
    count: int
    ordered: bool
    chunks: np.ndarray[Any, np.dtype[np.int64]]
    sums: list[tuple[int, int]]
    size: int
    parts: list[tuple[int, int, int, tuple[int, ...]]]
    spare: list[_Made] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.address = address_of(self.table)

    def job(self, raw: bytes) -> tuple[int, Any]:
        """Return the address of a job for packed arguments, and its memory, to be passed to `give_back`."""
        if not self.parts:
            return self.address, None
        try:
            made = self.spare.pop()
        except IndexError:
            made = _Made(self.table, len(self.chunks), self.size, len(raw) // 8, len(self.parts))
        if made.raw != raw:
            self._fill(made, raw)
        return made.address, made

    def give_back(self, made: Any) -> None:
        """Take back the memory of a finished job for reuse, unless it is too large."""
        if made is not None and len(made.private) <= KEPT:
            self.spare.append(made)

    def _fill(self, made: _Made, raw: bytes) -> None:
        """Write the entries that depend on the arguments into a job."""
        number, words, packed = len(self.chunks), len(raw) // 8, made.packed
        each = packed[: number * words].reshape(number, words)
        each[:] = given = np.frombuffer(raw, dtype=np.int64)
        calls = made.job[JOB:].reshape(-1, CALL)
        calls[self.chunks, 3] = np.arange(number) * (8 * words) + made.where
        calls[self.chunks, 5] = starts = np.arange(number) * self.size + made.base
        calls[self.chunks, 6] = self.size
        for k, (slot, before, place, run_layout) in enumerate(self.parts):
            each[:, slot] = starts + (place - before)
            summed = (given[slot] + before, made.base + place, self.size, number, *run_layout)
            packed[number * words + ADDED * k :][: len(summed)] = summed
        for row, k in self.sums:
            calls[row, 3] = made.where + 8 * (number * words + ADDED * k)
        made.raw = raw


class _Made:
    """The memory of a job.

    Attributes:
        raw: The packed arguments for which it is filled.
        job: The job, at the address `address`.
        private: The private copies, at the address `base`.
        packed: Arguments of the chunks with private copies and of the calls that add them up, at the address
            `where`.
    """

    __slots__ = ("address", "base", "job", "packed", "private", "raw", "where")

    def __init__(self, table: Table, chunks: int, size: int, words: int, parts: int) -> None:
        self.raw = b""
        self.job = table.copy()
        self.address = address_of(self.job)
        self.private = memory_of(chunks * size)
        self.packed = np.empty(chunks * words + ADDED * parts, dtype=np.int64)
        self.base, self.where = address_of(self.private), address_of(self.packed)


def partition(
    scheduler: Scheduler,
    words: memoryview,
    memories: list[AliasSpan],
    entry: Any,
    threads: int,
    axis: int = 0,
) -> Jobs | None:
    """Return the chunks of a launch; None if it runs in one.

    Args:
        scheduler: The scheduler of the entry.
        words: The packed arguments.
        memories: The memory spans of the arguments.
        entry: The entry that runs a chunk.
        threads: Number of threads.
        axis: The thread axis that is divided; the launch has size 1 on all axes before it.
    """
    return _Partitioner(scheduler, words, memories, threads, axis).run(entry)


@dataclass(frozen=True)
class _Part:
    """The copied part of an array: its byte offset, its layout, and its size in bytes with padding."""

    share: Share
    before: int
    runs: Runs
    size: int


class _Partitioner:
    def __init__(
        self, scheduler: Scheduler, words: memoryview, memories: list[AliasSpan], threads: int, axis: int
    ) -> None:
        self.scheduler, self.words, self.threads, self.axis = scheduler, words, threads, axis
        self.memories = {m.place: m for m in memories}
        self.division = scheduler.division
        self.inner = 1
        for inner in range(axis + 1, self.division.axes):
            self.inner *= words[inner]
        self.rows = threads // max(1, self.inner)
        shares = (scheduler.shares[axis] or {}).values()
        self.near = [share for share in shares if share.how == NEAR]
        self.sums = [share for share in shares if share.how == SUM]

    def run(self, entry: Any) -> Jobs | None:
        try:
            far = self._reach()
            parts = [self._part(share) for share in self.sums]
        except OverflowError:
            return None
        if far is None:
            return None
        copied = sum(part.size for part in parts if self._counts(part.share.place))
        number = self._number(far, copied)
        while number > 1:
            bounds = self._bounds(number)
            if min(b - a for a, b in pairwise(bounds)) > 2 * far * self.inner:
                return self._written(entry, list(pairwise(bounds)), parts)
            number = self._allowed(number - 1)
        return None

    def _bound_value(self, kind: str, a: int, b: int) -> int:
        layout = self.scheduler.layout
        if kind == "size":
            return self.rows if a == self.axis else self.words[a]
        return self.words[layout.shape(a, b) if kind == "extent" else layout.values[a] + b]

    def _reach(self) -> int | None:
        """Return the maximum distance in rows at which threads add; None if they may also add elsewhere.

        The first rows may add to the last: the first chunk is even, and the last one odd.
        """
        far = 0
        for share in self.near:
            before = min(evaluated(low, self._bound_value) for low, _ in share.reach)
            after = max(evaluated(high, self._bound_value) for _, high in share.reach)
            far = max(far, -before, after)
            if share.wraps and before < 0 and self.memories[share.place].shape[share.axis] < self.rows:
                return None
        return far

    def _number(self, far: int, copied: int) -> int:
        """Return the number of chunks."""
        threads = self.threads
        number = min(MOST, self.rows, threads // LEAST)
        worth = threads * min(WORK, self._work()) // WORK
        if not self.near and not self.sums:
            return number if worth else 1
        number = min(number, worth, self.rows // (2 * far + 1))
        if copied:
            counted = [m for m in self.memories.values() if self._counts(m.place)]
            sizes = {(m.first, m.shape): m.stop - m.start for m in counted}
            number = min(number, 1 + max(COPIES, sum(sizes.values()) // 10) // copied)
            number = min(number, threads * min(WORK, self._work()) * PAID // copied)
        return self._allowed(number)

    def _allowed(self, most: int) -> int:
        """Return the largest allowed number of chunks up to `most`."""
        least = NEAREST if self.near else 2
        return next((n for n in NUMBERS if least <= n <= most), 1)

    def _work(self) -> int:
        """Return the estimated work of a thread."""
        try:
            return max(1, evaluated(self.division.work, self._bound_value))
        except OverflowError:
            return WORK

    def _counts(self, place: Place) -> bool:
        """True if an array counts for the number of chunks; tangents do not, so that values stay the same."""
        return self.scheduler.variant.kind != "tangent" or place[0] == "value"

    def _bounds(self, number: int) -> list[int]:
        """Return the first thread of each chunk, and the number of threads."""
        if self.axis < self.division.axes - 1:
            return [k * self.rows // number * self.inner for k in range(number + 1)]
        return [k * self.threads // number // LEAST * LEAST for k in range(number)] + [self.threads]

    def _part(self, share: Share) -> _Part:
        """Return the part of an array to copy: the rows to which threads add, or all if these are unknown."""
        memory = self.memories[share.place]
        rows = memory.shape[0]
        low, high = 0, rows - 1
        if share.window:
            bounds = [
                (evaluated(a, self._bound_value), evaluated(b, self._bound_value)) for a, b in share.window
            ]
            bounds = [(a + rows, b + rows) if b < 0 else (a, b) for a, b in bounds]
            if all(a >= 0 and b < rows for a, b in bounds):
                low, high = min(a for a, _ in bounds), max(b for _, b in bounds)
        run_layout = runs((max(0, high - low + 1), *memory.shape[1:]), memory.strides, memory.item)
        return _Part(
            share, low * memory.strides[0] + run_layout.low, run_layout, -(-run_layout.span // 64) * 64
        )

    def _written(self, entry: Any, chunks: list[tuple[int, int]], parts: list[_Part]) -> Jobs:
        """Return the jobs: calls for the chunks, then calls that add up the copies, array by array."""
        calls: list[tuple[int, int, int, int]] = []
        rows: dict[int, int] = {}
        evens = [*range(0, len(chunks), 2 if self.near else 1)]
        odds = [*range(1, len(chunks), 2)] if self.near else []
        for k in [*evens, *odds]:
            rows[k] = len(calls)
            calls.append((entry.address, *chunks[k], len(evens) if k in odds else 0))
        placed, sums, size = [], [], 0
        for number, part in enumerate(parts):
            place = part.share.place
            scalar = self.scheduler.scalar(part.share.param)
            run_layout = part.runs.run // scalar, len(part.runs.axes), *chain.from_iterable(part.runs.axes)
            placed.append((self.scheduler.slots[place], part.before, size, run_layout))
            size += part.size
            needs, add = len(calls), adder(self._kind(part.share.param))
            numbers = part.runs.used // scalar
            for start in range(0, numbers, PIECE):
                sums.append((len(calls), number))
                calls.append((add, start, min(numbers, start + PIECE), needs))
        last = len(calls) - 1
        return Jobs(
            table=new_job(calls),
            count=len(calls),
            ordered=bool(self.near or self.sums),
            chunks=np.array([last - rows[k] for k in range(1, len(chunks))], dtype=np.int64),
            sums=[(last - row, number) for row, number in sums],
            size=size,
            parts=placed,
        )

    def _kind(self, param: int) -> str:
        """Return the LLVM type of an array's numbers."""
        size = self.scheduler.scalar(param)
        if types.is_float(self.scheduler.kernel.params[param].type.dtype):
            return "double" if size == 8 else "float"
        return f"i{8 * size}"
