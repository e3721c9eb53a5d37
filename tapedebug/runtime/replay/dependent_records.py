"""Repeat only the records of a forward run that other inputs can change, and restore only what they read.

A check displaces one input after the other, and runs the tape after each displacement. A launch that does not
depend on the input, directly or through others, computes again what is still in memory. So does the memory
that a launch overwrites as a whole before anything reads it need no restoring before that launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from tapedebug._dataclass import dataclass
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.tape.record import Record

LEAST_THREADS = 4096
"""Threads of a launch, on average, from which on it pays to find out which launches need not run again."""
REMEMBERED = 8
"""Sets of inputs for which the records to repeat are remembered: a check stays with one input for a while."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """The records that run again after some inputs have changed.

    Attributes:
        parts: Ranges of their indices, in order.
        kept: Memory that only other records write: they read it as the last run left it.
    """

    parts: list[tuple[int, int]]
    kept: frozenset[Buffer]


class DependentRecords:
    """Finds the records of a tape whose results depend on inputs.

    Args:
        records: The records of the tape.
        injected: By record, the memory that something outside the tape wrote just before it.
    """

    def __init__(self, records: Sequence[Record], injected: Mapping[int, Iterable[Buffer]]) -> None:
        self._injected = {buffer for buffers in injected.values() for buffer in buffers}
        self._preceded = {index for index in injected if index < len(records)}
        self._found: dict[frozenset[Buffer], Rerun | None] = {}
        self._reads: list[set[Buffer]] = []
        self._touches: list[set[Buffer]] = []
        self._writes: list[set[Buffer]] = []
        self._writers: dict[Buffer, list[int]] = {}
        threads = sum(record.threads for record in records)
        self._is_worthwhile = threads >= LEAST_THREADS * len(records) and all(map(_repeats, records))
        for record in records if self._is_worthwhile else ():
            plan, args = record.plan, record.args
            self._reads.append({args[p].buffer for p in plan.reads | plan.atomic})
            self._touches.append({args[p].buffer for p in plan.touched})
            self._writes.append({args[p].buffer for p in plan.written})
            for buffer in self._writes[-1]:
                self._writers.setdefault(buffer, []).append(record.index)

    def of(self, changed: frozenset[Buffer]) -> Rerun | None:
        """Return the records to run again if the content of some memory was changed before the first.

        Returns:
            The records; None if all of them have to run.
        """
        if not self._is_worthwhile:
            return None
        if changed not in self._found:
            if len(self._found) == REMEMBERED:
                self._found.clear()
            self._found[changed] = self._rerun(changed)
        return self._found[changed]

    def _rerun(self, changed: frozenset[Buffer]) -> Rerun | None:
        begins = {*changed, *self._injected}  # memory whose content at the end of the last run is of no use
        again = self._depending(changed) | self._preceded
        todo, records = list(begins), list(again)

        def restore(buffer: Buffer) -> None:
            if buffer not in begins:
                begins.add(buffer)
                todo.append(buffer)

        while todo or records:
            while records:
                index = records.pop()
                for buffer in self._writes[index]:
                    restore(buffer)
                for buffer in self._touches[index] - begins:
                    # It needs what the memory held then, not what later records left there.
                    if self._writers.get(buffer, [-1])[-1] > index:
                        restore(buffer)
            while todo:
                missing = set(self._writers.get(todo.pop(), ())) - again
                again |= missing
                records += missing
        if len(again) == len(self._reads):
            return None
        return Rerun(_ranges(sorted(again)), frozenset(self._writers.keys() - begins))

    def _depending(self, changed: Iterable[Buffer]) -> set[int]:
        """Return the records that read something which depends on the content of some memory."""
        reached = set(changed)
        found = set()
        for index, reads in enumerate(self._reads):
            if not reads.isdisjoint(reached):
                found.add(index)
                reached |= self._writes[index]
        return found


def first_overwrites(records: Iterable[Record]) -> dict[Buffer, int]:
    """Return memory that a tape does not access before a record overwrites all of it, with that record."""
    seen: set[Buffer] = set()
    found: dict[Buffer, int] = {}
    for record in records:
        plan, args = record.plan, record.args
        touched = [args[p].buffer for p in plan.touched]
        if plan.covers and _repeats(record):
            for p in plan.covers:
                a = args[p]
                if a.buffer not in seen and touched.count(a.buffer) == 1 and _is_whole(record, a):
                    found[a.buffer] = record.index
        seen.update(touched)
    return found


def _is_whole(record: Record, a: array) -> bool:
    """Return True if a record that covers an array overwrites all memory of it."""
    whole = a.is_contiguous and a.stop - a.start == a.buffer.nbytes
    return whole and (record.kind != "kernel" or a.shape == record.dim)


def _repeats(record: Record) -> bool:
    """Return True if a record only accesses the arrays that it names, and computes the same again."""
    if record.kernel is not None:
        return not record.kernel.analysis.native
    return record.kind in {"copy", "fill", "func"}


def _ranges(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of consecutive numbers, for numbers in ascending order."""
    cuts = [0, *(k for k, (a, b) in enumerate(pairwise(indices), start=1) if b != a + 1), len(indices)]
    return [(indices[a], indices[b - 1] + 1) for a, b in pairwise(cuts) if a < b]
