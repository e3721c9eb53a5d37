"""Where the memory cells of a launch lie, by its packed arguments, and which of them share elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from tapedebug.compiler.sharing import Place


Spans = tuple[tuple[int, int, bool], ...]
"""Of each cell, where it begins and ends from its first element, and whether it is changed."""


def are_apart(spans: Spans, addresses: tuple[int, ...]) -> bool:
    """Whether cells whose first elements are at these addresses share no memory, or read it only."""
    places = sorted(
        [
            (address + low, address + high, changed)
            for (low, high, changed), address in zip(spans, addresses, strict=True)
            if low != high
        ]
    )
    end, among = 0, False
    for start, stop, changed in places:
        if start < end:
            if changed or among:
                return False
            end = max(end, stop)
        else:
            end, among = stop, changed
    return True


@dataclass(frozen=True, slots=True)
class Memory:
    """The elements of one cell.

    Attributes:
        place: The cell.
        first: The address of the first element.
        start: That of the first byte.
        stop: That of the byte after the last.
        shape: The array's.
        strides: The array's, in bytes.
        item: Bytes of an element.
    """

    place: Place
    first: int
    start: int
    stop: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    def same(self, other: Memory) -> bool:
        """Whether both are the very same view."""
        return (self.first, self.shape, self.strides, self.item) == (
            other.first,
            other.shape,
            other.strides,
            other.item,
        )

    @property
    def folded(self) -> bool:
        """Whether two indices may mean one element."""
        room = self.item
        for stride, length in sorted(
            (abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1
        ):
            if stride < room:
                return True
            room = stride * length
        return False


def memory(place: Place, first: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Memory:
    """The elements of a cell; None of an array that is not there, or empty."""
    start, stop = first, first + item
    for length, stride in zip(shape, strides, strict=True):
        if stride < 0:
            start += (length - 1) * stride
        else:
            stop += (length - 1) * stride
    if not first or 0 in shape:
        stop = start = first
    return Memory(place, first, start, stop, shape, strides, item)


def contiguous(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """The strides of an array without gaps, in bytes."""
    strides = []
    for length in reversed(shape):
        strides.append(item)
        item *= length
    return tuple(reversed(strides))


def meetings(memories: list[Memory]) -> Iterator[tuple[Memory, Memory]]:
    """The pairs that may share elements."""
    ordered = sorted((m for m in memories if m.start < m.stop), key=lambda m: m.start)
    reached: list[Memory] = []
    for one in ordered:
        reached = [other for other in reached if other.stop > one.start]
        for other in reached:
            if not _interleaved(one, other):
                yield other, one
        reached.append(one)


def _interleaved(one: Memory, other: Memory) -> bool:
    """Whether the elements of one lie between those of the other, as the fields of structs do."""
    step = gcd(*(s for m in (one, other) for s, n in zip(m.strides, m.shape, strict=True) if n > 1))
    after = (other.first - one.first) % step if step else 0
    return bool(step) and after >= one.item and after + other.item <= step
