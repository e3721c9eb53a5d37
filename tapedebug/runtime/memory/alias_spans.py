"""Memory spans of a launch's array arguments, and the pairs of them that share elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.compiler.parallel_info import Place


@dataclass(frozen=True, slots=True)
class AliasSpan:
    """The memory span of one array: of an argument, or of its adjoint or tangent.

    Attributes:
        place: The side (`"value"`, `"adjoint"`, …) and the parameter.
        first: Address of the first element.
        start: Address of the first byte.
        stop: Address of the byte after the last.
        shape: Shape of the array.
        strides: Strides of the array, in bytes.
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
        """True if both are the same view: equal address, shape, strides and element size."""
        return (self.first, self.shape, self.strides, self.item) == (
            other.first,
            other.shape,
            other.strides,
            other.item,
        )

    @property
    def folded(self) -> bool:
        """True if two indices may refer to one element."""
        return folds(self.shape, self.strides, self.item)


def folds(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Return True if two indices of an array may refer to one element."""
    room = item
    for stride, length in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride < room:
            return True
        room = stride * length
    return False


def alias_span(
    place: Place, first: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int
) -> AliasSpan:
    """Return the memory span of an array."""
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
    """A layout in memory order, independent of the order and the signs of an array's axes.

    Attributes:
        low: Byte offset from the first element to the lowest one; negative if axes are reversed.
        run: Bytes of one contiguous run.
        axes: Number of runs and bytes from one to the next, the innermost axis first.
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
        """Bytes from the first byte to the last, including gaps between elements."""
        return self.run + sum((count - 1) * step for count, step in self.axes) if self.used else 0


def runs(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Runs:
    """Return the layout of an array whose elements do not share memory."""
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
    """Return the strides of an array without gaps, in bytes."""
    strides = []
    for length in reversed(shape):
        strides.append(item)
        item *= length
    return tuple(reversed(strides))


def arrangement(firsts: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
    """Return the groups of overlapping arrays with their relative offsets; empty if no arrays overlap.

    Args:
        firsts: Addresses of the first elements; 0 for an absent array.
        spans: Byte offsets from there to each array's first byte and to the byte after its last.
    """
    reached = 0
    for start, stop in sorted(
        [(f + low, f + high) for f, (low, high) in zip(firsts, spans, strict=True) if f]
    ):
        if start < reached:
            break
        reached = max(reached, stop)
    else:
        return ()  # the usual case
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
    """Yield the pairs of spans that may share elements."""
    ordered = sorted((m for m in memories if m.first and m.start < m.stop), key=lambda m: m.start)
    reached: list[AliasSpan] = []
    for one in ordered:
        reached = [other for other in reached if other.stop > one.start]
        for other in reached:
            if not _interleaved(one, other):
                yield other, one
        reached.append(one)


def _interleaved(one: AliasSpan, other: AliasSpan) -> bool:
    """True if the elements of one lie between those of the other, as the fields of structs do."""
    step = gcd(*(s for m in (one, other) for s, n in zip(m.strides, m.shape, strict=True) if n > 1))
    after = (other.first - one.first) % step if step else 0
    return bool(step) and after >= one.item and after + other.item <= step
