"""How a launch of many threads takes its course: which entry, in which chunks, one after the other or not.

All that results depend on follows from the sizes and places of its arguments: the chunks, the order in which what
they add is added up. How many threads work at them, and whether at once, is a matter of time alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from struct import Struct
from time import perf_counter
from typing import Any

import numpy as np

from tapedebug.compiler.crew import CALL, HEAD, adder
from tapedebug.compiler.layout import Layout
from tapedebug.compiler.sharing import NEAR, OWN, READ, SUM, Division, Place, Share, evaluated
from tapedebug.compiler.variant import Variant
from tapedebug.lang import types
from tapedebug.runtime import _pool
from tapedebug.runtime._memories import Memory, contiguous, meetings, memory

Table = np.ndarray[Any, np.dtype[np.int64]]

MOST = 32
"""Chunks of a launch."""
LEAST = 64
"""Threads of a chunk that adds nothing to what others add to: chunks begin at multiples of this."""
LEAST_ADDING, LEAST_LOOPING = 4096, 256
"""Those of a chunk that does: of short threads, and of threads with loops."""
CHUNKS = 4
"""A launch whose chunks would be fewer is too small for adding up copies."""
COPIES = 256 * 1024
"""Bytes of private copies that are always allowed; otherwise they take a tenth of the launch's arrays."""
PIECE = 65536
"""Elements of a copy that are added up in one call."""
BREAK_EVEN = 150e-6
"""Seconds from which a launch is worth waking others."""
REMEMBERED = 64
"""Courses that are kept of one entry."""


class Pace:
    """How long launches of one size take, alone and together: which is tried next."""

    __slots__ = ("alone", "patience", "runs", "waits")

    def __init__(self) -> None:
        self.alone = 0.0
        self.runs = 0
        self.waits = 0
        self.patience = 1

    def together(self) -> bool:
        """Whether the next launch should wake others."""
        if self.alone < BREAK_EVEN or (self.runs < 2 and self.alone < 100 * BREAK_EVEN):
            return False
        if self.waits:
            self.waits -= 1
            return False
        return True

    def ran_alone(self, seconds: float) -> None:
        """Note a launch on one thread: the shortest, which slowly gives way to what is usual now."""
        self.runs += 1
        if self.runs == 1 or seconds < self.alone:
            self.alone = seconds
        else:
            self.alone += (min(seconds, 2 * self.alone) - self.alone) / 16

    def ran_together(self, seconds: float) -> None:
        """Note a launch with others: where it gained nothing the next are run alone, more of them each time."""
        if seconds < 0.9 * self.alone:
            self.patience = 1
        else:
            self.patience = min(2 * self.patience, 64)
            self.waits = self.patience


class Copies:
    """Private copies of the memory to which chunks add, all but the first.

    Attributes:
        size: Bytes of the copies of one chunk.
        parts: Of each memory: the slot of its pointer, the place of its copy, and what is subtracted from a
            pointer to that because only a window of the memory is copied.
        sums: Of each memory: its address, the place of its copy.
        chunks: The rows of the table of calls that have copies, in order.
        calls: The rows that add them up, each with the number of the memory.
    """

    def __init__(self) -> None:
        self.size = 0
        self.parts: list[tuple[int, int, int]] = []
        self.sums: list[tuple[int, int]] = []
        self.chunks: Any = None
        self.calls: list[tuple[int, int]] = []


class Course:
    """A launch as it will be run, for all with the same sizes and places of arguments.

    Attributes:
        entry: What runs threads.
        threads: How many.
        table: The calls of chunks; None for one call of everything.
        ordered: Whether it must run in these chunks.
    """

    __slots__ = ("copies", "count", "entry", "ordered", "pace", "table", "threads")

    def __init__(self, entry: Any, threads: int, pace: Pace) -> None:
        self.entry, self.threads, self.pace = entry, threads, pace
        self.table: Table | None = None
        self.ordered = False
        self.count = 0
        self.copies: Copies | None = None

    def run(self, args: int, raw: bytes) -> None:
        """Run it; `args` is the address of the packed arguments, `raw` their content."""
        if self.table is None:
            self.entry(0, self.threads, args)
            return
        pace = self.pace
        helpers = _pool.available() if pace.together() else 1
        start = perf_counter()
        if helpers > 1:
            job, _kept = self._job(self.table, args, raw)
            if _pool.pool.run(job, self.count, helpers):
                pace.ran_together(perf_counter() - start)
                return
        if self.ordered:
            job, _kept = self._job(self.table, args, raw)
            _pool.alone(job, self.count)
        else:
            self.entry(0, self.threads, args)
        pace.ran_alone(perf_counter() - start)

    def _job(self, table: Table, args: int, raw: bytes) -> tuple[Table, Any]:
        """The table of calls for these arguments, and what must be kept alive."""
        job = table.copy()
        job[2] = args
        copies = self.copies
        if copies is None:
            return job, None
        number = len(copies.chunks)
        private = np.empty(number * copies.size, dtype=np.uint8)
        base = _pool.address_of(private)
        words = len(raw) // 8
        packed = np.empty(number * words + 4 * len(copies.sums), dtype=np.int64)
        where = _pool.address_of(packed)
        each = packed[: number * words].reshape(number, words)
        each[:] = np.frombuffer(raw, dtype=np.int64)
        starts = np.arange(number) * copies.size + base
        for slot, place, before in copies.parts:
            each[:, slot] = starts + (place - before)
        calls = job[HEAD:].reshape(-1, CALL)
        calls[copies.chunks, 3] = np.arange(number) * (8 * words) + where
        calls[copies.chunks, 5] = starts
        calls[copies.chunks, 6] = copies.size
        for k, (target, place) in enumerate(copies.sums):
            packed[number * words + 4 * k :][:4] = target, base + place, copies.size, number
        for row, k in copies.calls:
            calls[row, 3] = where + 8 * (number * words + 4 * k)
        return job, (private, packed)


class Survey:
    """What is known of an entry, and the courses of its launches so far."""

    def __init__(self, kernel: Any, variant: Variant, entry: Any) -> None:
        self.kernel, self.variant, self.entry = kernel, variant, entry
        self.division: Division = kernel.division(variant)
        self.layout: Layout = kernel.layout
        self.size = self.layout.size + (16 * self.layout.arrays if variant.kind == "adjoint_tangent" else 0)
        self.slots = {place: self._slot(place) for place in self.division.touched}
        self.shares = {share.place: share for share in self.division.shares or ()}
        self.pairs = {frozenset((p.first, p.second)): p.alike for p in self.division.pairs}
        self.changed = {place for pair in self.pairs for place in pair} | {
            place for place, share in self.shares.items() if share.how != READ
        }
        self.select = self._selection()
        self.courses: dict[Any, Course] = {}
        self.paces: dict[int, Pace] = {}

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
        """Takes the words on which a course depends out of packed arguments."""
        wanted = {1, 2, 3}
        for place, slot in self.slots.items():
            wanted.add(slot)
            ndim = self.kernel.params[place[1]].type.ndim
            first = self.layout.shape(place[1], 0)
            wanted.update(range(first, first + (2 * ndim if self.variant.strided else ndim)))
        for share in self.shares.values():
            wanted.update(self._words((*share.reach, *share.window)))
        words = self.size // 8
        return Struct("=" + "".join("q" if word in wanted else "8x" for word in range(words)))

    def _words(self, bounds: Any) -> Iterator[int]:
        """The words that bounds ask for."""
        if isinstance(bounds, tuple):
            if bounds and bounds[0] == "argument":
                yield self.layout.values[bounds[1]] + bounds[2]
            elif bounds and bounds[0] == "extent":
                yield self.layout.shape(bounds[1], bounds[2])
            else:
                for inner in bounds:
                    yield from self._words(inner)

    def course(self, threads: int, raw: bytes) -> Course:
        """How a launch with these arguments goes."""
        key = threads, self.select.unpack(raw)
        found = self.courses.get(key)
        if found is None:
            if len(self.courses) >= REMEMBERED:
                self.courses.clear()
            found = self.courses[key] = self._course(threads, raw)
        return found

    def _course(self, threads: int, raw: bytes) -> Course:
        words = memoryview(raw).cast("q")
        memories = [self._memory(place, slot, words) for place, slot in self.slots.items()]
        met = list(meetings(memories))
        folded = self.variant.strided and any(m.folded for m in memories if m.place in self.changed)
        pace = self.paces.setdefault(threads, Pace())
        course = Course(self._entry(met, folded), threads, pace)
        if self.division.shares is not None and not folded and all(self._may_meet(*pair) for pair in met):
            _Cut(self, words, memories, course).run()
        return course

    def _memory(self, place: Place, slot: int, words: memoryview) -> Memory:
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
        return memory(place, words[slot], shape, strides, item)

    def scalar(self, param: int) -> int:
        """Bytes of a number of an array."""
        kind = types.scalar_of(self.kernel.params[param].type)
        size: int = types.numpy_dtype(kind).itemsize
        return 8 if self.variant.f64 and types.is_float(kind) else size

    def _entry(self, met: list[tuple[Memory, Memory]], folded: bool) -> Any:
        """Threads in lockstep, where they may run so."""
        if not self.division.lanes or folded or not hasattr(self.variant, "lanes"):
            return self.entry
        for one, other in met:
            alike = self.pairs.get(frozenset((one.place, other.place)), True)
            if not (alike and (one.same(other) or frozenset((one.place, other.place)) not in self.pairs)):
                return self.entry
        return self.kernel.in_lanes(self.variant)

    def _may_meet(self, one: Memory, other: Memory) -> bool:
        """Whether chunks do the same whenever they run though two cells share memory."""
        a, b = self.shares[one.place], self.shares[other.place]
        hows = {a.how, b.how}
        if hows in ({READ}, {SUM}):
            return True
        if not one.same(other):
            return False
        if hows <= {READ, OWN}:
            return bool(a.axes & b.axes)
        return a.added and b.added and hows <= {OWN, NEAR} and _row(a) == _row(b)


def _row(share: Share) -> int:
    return share.axis if share.how == NEAR else min(share.axes)


class _Cut:
    """Cuts a launch into chunks."""

    def __init__(self, survey: Survey, words: memoryview, memories: list[Memory], course: Course) -> None:
        self.survey, self.words, self.course = survey, words, course
        self.memories = {m.place: m for m in memories}
        self.division = survey.division
        self.inner = 1
        for axis in range(1, self.division.axes):
            self.inner *= words[axis]
        self.rows = course.threads // max(1, self.inner)
        shares = survey.shares.values()
        self.near = [share for share in shares if share.how == NEAR]
        self.sums = [share for share in shares if share.how == SUM]

    def run(self) -> None:
        """Give the course its table, where it can be cut."""
        try:
            far, wraps = self._reach()
            parts = [self._part(share) for share in self.sums]
        except OverflowError:
            return
        if far is None:
            return
        number = self._number(far, wraps, sum(part[3] for part in parts))
        bounds = self._bounds(number) if number > 1 else []
        while number > 1 and min(b - a for a, b in zip(bounds, bounds[1:])) <= 2 * far * self.inner:
            number -= 2 if wraps else 1
            bounds = self._bounds(number) if number > 1 else []
        if number > 1:
            self._write(bounds, parts)

    def _look(self, kind: str, a: int, b: int) -> int:
        layout = self.survey.layout
        if kind == "size":
            return self.rows if a == 0 else self.words[a]
        return self.words[layout.shape(a, b) if kind == "extent" else layout.values[a] + b]

    def _reach(self) -> tuple[int | None, bool]:
        """How many rows away threads add, and whether the first rows add to the last; None where it fails."""
        far, wraps = 0, False
        for share in self.near:
            for low, high in share.reach:
                before, after = evaluated(low, self._look), evaluated(high, self._look)
                far = max(far, -before, after)
                wraps = wraps or (share.wraps and before < 0)
            if share.wraps and self.memories[share.place].shape[share.axis] < self.rows:
                return None, False
        return far, wraps

    def _number(self, far: int, wraps: bool, copied: int) -> int:
        """How many chunks: by sizes alone."""
        threads = self.course.threads
        number = min(MOST, self.rows, threads // LEAST)
        if self.near or self.sums:
            least = LEAST_LOOPING if self.division.looped else LEAST_ADDING
            number = min(number, threads // least)
            if number < CHUNKS:
                return 1
        if self.near:
            number = min(number, self.rows // (2 * far + 1))
        if copied:
            held = {(m.first, m.shape): m.stop - m.start for m in self.memories.values()}
            number = min(number, 1 + max(COPIES, sum(held.values()) // 10) // copied)
        return number - number % 2 if wraps else number

    def _bounds(self, number: int) -> list[int]:
        """Where chunks begin, and the end."""
        if self.division.axes > 1:
            return [k * self.rows // number * self.inner for k in range(number + 1)]
        threads = self.course.threads
        return [k * threads // number // LEAST * LEAST for k in range(number)] + [threads]

    def _part(self, share: Share) -> tuple[Share, int, int, int]:
        """Of a memory that is copied: bytes before the window that is copied, its numbers, its bytes."""
        memory = self.memories[share.place]
        rows = memory.shape[0]
        low, high = 0, rows - 1
        if share.window:
            bounds = [(evaluated(a, self._look), evaluated(b, self._look)) for a, b in share.window]
            found = [(a + rows, b + rows) if b < 0 else (a, b) for a, b in bounds]
            if all(a >= 0 for a, b in found):
                low, high = min(a for a, b in found), max(b for a, b in found)
        high = min(high, rows - 1)
        row = memory.strides[0]
        numbers = (max(0, high - low + 1) * row) // self.survey.scalar(share.param)
        return share, low * row, numbers, -(-numbers * self.survey.scalar(share.param) // 64) * 64

    def _write(self, bounds: list[int], parts: list[tuple[Share, int, int, int]]) -> None:
        """The calls: chunks, then what adds up the copies, memory after memory."""
        course = self.course
        chunks = list(zip(bounds, bounds[1:]))
        order = [*range(0, len(chunks), 2), *range(1, len(chunks), 2)] if self.near else [*range(len(chunks))]
        evens = (len(chunks) + 1) // 2
        calls: list[list[int]] = []
        at: dict[int, int] = {}
        for k in order:
            at[k] = len(calls)
            needs = evens if self.near and k % 2 else 0
            calls.append([course.entry.address, *chunks[k], 0, needs, 0, 0, 0])
        copies = Copies() if parts else None
        adding: list[tuple[int, int]] = []
        for number, (share, before, numbers, size) in enumerate(parts):
            assert copies is not None
            copies.parts.append((self.survey.slots[share.place], copies.size, before))
            copies.sums.append((self.memories[share.place].first + before, copies.size))
            copies.size += size
            needs, add = len(calls), adder(self._kind(share.param))
            for start in range(0, numbers, PIECE):
                adding.append((len(calls), number))
                calls.append([add, start, min(numbers, start + PIECE), 0, needs, 0, 0, 0])
        last = len(calls) - 1
        if copies is not None:
            copies.chunks = np.array([last - at[k] for k in range(1, len(chunks))])
            copies.calls = [(last - row, number) for row, number in adding]
        head = [0, len(calls), 0, 0]
        course.table = np.array(head + [word for call in reversed(calls) for word in call], dtype=np.int64)
        course.count = len(calls)
        course.ordered = bool(self.near or self.sums)
        course.copies = copies

    def _kind(self, param: int) -> str:
        """The type of LLVM's of an array's numbers."""
        scalar = types.scalar_of(self.survey.kernel.params[param].type)
        size = self.survey.scalar(param)
        if types.is_float(scalar):
            return "double" if size == 8 else "float"
        return f"i{8 * size}"
