"""The memory spans of a launch by its packed arguments, and which of them share elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from tapedebug.compiler.parallel_info import Place


@dataclass(frozen=True, slots=True)
class AliasSpan:
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

    def same(self, other: AliasSpan) -> bool:
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
        return folds(self.shape, self.strides, self.item)


def folds(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Return whether two indices of an array may mean one element."""
    room = item
    for stride, length in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride < room:
            return True
        room = stride * length
    return False


def alias_span(
    place: Place, first: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int
) -> AliasSpan:
    """The elements of a cell."""
    start, stop = first, first + item
    for length, stride in zip(shape, strides, strict=True):
        if stride < 0:
            start += (length - 1) * stride
        else:
            stop += (length - 1) * stride
    if 0 in shape:
        stop = start = first
    return AliasSpan(place, first, start, stop, shape, strides, item)


@dataclass(frozen=True, slots=True)
class Runs:
    """Elements in the order of memory, whatever the order and the signs of their axes.

    Attributes:
        low: Bytes from the first element to the lowest one: negative where axes are reversed.
        run: Bytes that are side by side.
        axes: How often such runs repeat and the bytes from one to the next, the innermost axis first.
    """

    low: int
    run: int
    axes: tuple[tuple[int, int], ...]

    @property
    def used(self) -> int:
        """Bytes of all elements."""
        return self.run * prod(count for count, _ in self.axes)

    @property
    def span(self) -> int:
        """Bytes from the first one to the last, with what lies between elements."""
        return self.run + sum((count - 1) * step for count, step in self.axes) if self.used else 0


def runs(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Runs:
    """The runs of elements of which no two share memory."""
    if 0 in shape:
        return Runs(0, 0, ())
    pairs = [(s, n) for s, n in zip(strides, shape, strict=True) if n > 1]
    axes: list[tuple[int, int]] = []
    run = item
    for step, count in sorted((abs(s), n) for s, n in pairs):
        if not axes and step == run:
            run *= count
        elif axes and step == axes[-1][0] * axes[-1][1]:
            axes[-1] = axes[-1][0] * count, axes[-1][1]
        else:
            axes.append((count, step))
    return Runs(sum((n - 1) * s for s, n in pairs if s < 0), run, tuple(axes))


def contiguous(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """The strides of an array without gaps, in bytes."""
    strides = []
    for length in reversed(shape):
        strides.append(item)
        item *= length
    return tuple(reversed(strides))


def arrangement(firsts: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
    """Which memories reach into each other, and how they lie there; empty where none do.

    Args:
        firsts: The addresses of their first elements; 0 of what is not there.
        spans: From there to their first bytes, and to those after the last.
    """
    reached = 0
    for start, stop in sorted(
        [(f + low, f + high) for f, (low, high) in zip(firsts, spans, strict=True) if f]
    ):
        if start < reached:
            break
        reached = max(reached, stop)
    else:
        return ()  # mostly it is so
    found: list[tuple[Any, ...]] = []
    members: list[tuple[int, int]] = []
    base = reached = 0
    for start, stop, first, number in sorted(
        (first + low, first + high, first, number)
        for number, (first, (low, high)) in enumerate(zip(firsts, spans, strict=True))
        if first and low < high
    ):
        if start >= reached:
            if len(members) > 1:
                found.append(tuple(sorted(members)))
            members, base = [], first
        members.append((number, first - base))
        reached = max(reached, stop)
    if len(members) > 1:
        found.append(tuple(sorted(members)))
    return tuple(sorted(found))


def overlapping_pairs(memories: list[AliasSpan]) -> Iterator[tuple[AliasSpan, AliasSpan]]:
    """The pairs that may share elements."""
    ordered = sorted((m for m in memories if m.first and m.start < m.stop), key=lambda m: m.start)
    reached: list[AliasSpan] = []
    for one in ordered:
        reached = [other for other in reached if other.stop > one.start]
        for other in reached:
            if not _interleaved(one, other):
                yield other, one
        reached.append(one)


def _interleaved(one: AliasSpan, other: AliasSpan) -> bool:
    """Whether the elements of one lie between those of the other, as the fields of structs do."""
    step = gcd(*(s for m in (one, other) for s, n in zip(m.strides, m.shape, strict=True) if n > 1))
    after = (other.first - one.first) % step if step else 0
    return bool(step) and after >= one.item and after + other.item <= step
