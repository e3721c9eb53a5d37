"""Writes to the memory of a tape that are not on it: found by comparison, or reported by interceptors."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.contract import Array, Place
from tapedebug.operations.memory import Bytes, Memory, widened

Mask = np.ndarray[Any, np.dtype[np.bool_]]

REPLACED = 1000
"""Number of outside writes after the last pass that are listed at least; up to twice as many are."""


@dataclass(frozen=True, slots=True)
class WriteOrigin:
    """The way, the place and the time of a write outside the tape.

    Attributes:
        how: The way it was written; "unseen" if comparison alone has found it.
        call_site: The place in the program, if it is known.
        clock: The time; None if it is the present one.
    """

    how: str = "unseen"
    call_site: Place | None = None
    clock: int | None = None


UNSEEN = WriteOrigin()
"""The origin of a write that comparison alone has found."""


@dataclass(slots=True, eq=False, kw_only=True)
class WriteEvent:
    """The time and the origin of a write outside the tape.

    Attributes:
        at: The number of operations recorded then.
        settled: A reverse pass had already run over all of them.
        clock: The time.
        call_site: The place in the program, if it is known.
        how: The way it was written.
    """

    at: int
    settled: bool
    clock: int
    call_site: Place | None = None
    how: str = UNSEEN.how


@dataclass(slots=True, eq=False, kw_only=True)
class OutsideWrite(WriteEvent):
    """A write to an array of the tape that is not on it."""

    array: Array


@dataclass(slots=True, eq=False, kw_only=True)
class Injection(WriteEvent):
    """Bytes written outside the tape before operation `at`, found by comparison.

    Attributes:
        region: The memory.
        start: The first byte that changed, rounded down to `GRAIN`.
        changed: A mask of the changed bytes from `start` on.
        content: The bytes.
        passes: The number of reverse passes by then.
    """

    region: Hashable
    start: int
    changed: Mask
    content: Bytes
    passes: int = 0

    def with_later(self, start: int, changed: Mask) -> tuple[int, Mask]:
        """Return the range and the mask of this write and a later one; the mask of this one may change."""
        low, high = min(start, self.start), max(start + changed.size, self.start + self.changed.size)
        both = self.changed
        if (low, high) != (self.start, self.start + self.changed.size):
            both = np.zeros(high - low, np.bool_)
            both[self.start - low :][: self.changed.size] = self.changed
        both[start - low :][: changed.size] |= changed
        return low, both

    def load(self, memory: Memory) -> None:
        """Write the changed bytes into the memory of a replay."""
        there = memory.range(self.region, self.start, self.start + self.content.size)
        dtype = memory.wide.get(self.region)
        if dtype is not None:
            where = self.changed.reshape(-1, dtype.itemsize).any(1)
            there.view(np.float64)[where] = widened(self.content, dtype).view(np.float64)[where]
        else:
            there[self.changed] = self.content[self.changed]

    def touches(self, array: Array) -> bool:
        """True if bytes of an array changed."""
        low, high = array.start - self.start, array.stop - self.start
        return array.region == self.region and high > 0 and bool(self.changed[max(0, low) : high].any())

    def arrays(self, known: Collection[Array]) -> list[Array]:
        """Return the smallest of the region's arrays with all changed bytes; else the largest with some."""
        ranges = {(a.start, a.stop): a for a in known}
        touched = sorted((a for a in ranges.values() if self.touches(a)), key=lambda a: a.stop - a.start)
        first, stop = self.start + int(self.changed.argmax()), self.start + self.changed.size
        if not self.changed[-1]:  # of a large region all bytes count, and to search them takes a millisecond
            stop -= int(self.changed[::-1].argmax())
        for array in touched:
            if array.start <= first and stop <= array.stop:
                return [array]
        kept: list[Array] = []
        for array in reversed(touched):
            if not any(a.start <= array.start and array.stop <= a.stop for a in kept):
                kept.append(array)
        return kept[::-1]

    def of(self, arrays: Collection[Array]) -> list[OutsideWrite]:
        """Return this write as one of each array that it concerns."""
        event = {name: getattr(self, name) for name in WriteEvent.__slots__}
        return [OutsideWrite(array=array, **event) for array in arrays]


class OutsideWrites:
    """The writes outside a tape, in the order in which they were found.

    Attributes:
        replaced: Settled writes whose content later ones have replaced; of many, not all.
    """

    def __init__(self) -> None:
        self.replaced: list[OutsideWrite] = []
        self._found: list[Injection] = []
        self._before: dict[int, list[Injection]] = {}

    def __iter__(self) -> Iterator[Injection]:
        return iter(self._found)

    def __copy__(self) -> OutsideWrites:
        made = OutsideWrites()
        made.replaced, made._found = list(self.replaced), list(self._found)
        made._before = {at: list(writes) for at, writes in self._before.items()}
        return made

    def before(self, at: int) -> Sequence[Injection]:
        """Return the writes just before an operation, or after the last one."""
        return self._before.get(at, ())

    def add(self, write: Injection) -> None:
        """Store a write."""
        self._found.append(write)
        self._before.setdefault(write.at, []).append(write)

    def replaceable(self, at: int, region: Hashable, passes: int) -> Injection | None:
        """Return the last write of a region at one place, if nothing can tell it from one that follows.

        Training loops write their parameters after each pass: without this, tapes that are kept would store
        the parameters of each step.

        Args:
            at: The number of operations recorded.
            region: The region.
            passes: The number of reverse passes.
        """
        last = next((write for write in reversed(self.before(at)) if write.region is region), None)
        return last if last is not None and last.settled and last.passes == passes else None

    def remove(self, write: Injection, replaced: Sequence[OutsideWrite]) -> None:
        """Forget the content of a write that another one has replaced; it stays listed."""
        self.replaced += replaced
        if len(self.replaced) >= 2 * REPLACED:
            del self.replaced[REPLACED // 2 : REPLACED]
        self._before[write.at].remove(write)
        self._found.remove(write)

    def split(self, count: int) -> list[Injection]:
        """Keep the writes up to one number of operations; return all that there were."""
        every, self._found = self._found, [write for write in self._found if write.at <= count]
        return every

    def restore(self, every: Sequence[Injection], count: int) -> None:
        """Take back the writes that `split` returned; those found since come after `count` operations."""
        known = set(map(id, every))
        since = [write for write in self._found if id(write) not in known]
        for write in since:
            self._before[write.at].remove(write)
            write.at = count
            self._before.setdefault(count, []).append(write)
        self._found = [*every, *since]
