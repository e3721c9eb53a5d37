"""Finds the inputs of a tape whose values reach operations that compute in float32 in a float64 replay.

Displacing any other input leaves what these operations read as it is, and so what they write: differences of
the loss are then those of a program that is entirely in float64.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapedebug.contract import Array, Operation

MOST_RANGES = 64
"""The ranges of a region that are told apart; above, all that lies between them counts as reached."""

Ranges = dict[tuple[int, int], int]
"""Ranges of a region, (start, stop) in bytes, and the inputs that reached each, one bit for an input."""


def rounded_inputs(
    operations: Iterable[Operation], narrow: Collection[int], inputs: Sequence[Array]
) -> set[int]:
    """Return the numbers of the inputs that an operation in float32 may use, directly or through others.

    Arrays that such an operation only writes count as used: it may leave elements as they are. Overwriting a
    range does not end the influence of what was in it.

    Args:
        operations: The operations of the tape, in order.
        narrow: The indices of those that compute in float32.
        inputs: The inputs.
    """
    reached: dict[object, Ranges] = {}
    for number, array in enumerate(inputs):
        _reach(reached, array, 1 << number)
    left, found = set(narrow), 0
    for operation in operations:
        if not left:
            break
        read = used = 0
        for access in operation.accesses:
            arriving = _arriving(reached, access.array)
            used |= arriving
            if access.reads:
                read |= arriving
        if operation.index in left:
            left.remove(operation.index)
            found |= used
        if read:
            for access in operation.accesses:
                if access.writes:
                    _reach(reached, access.array, read)
    return {number for number in range(len(inputs)) if found >> number & 1}


def _reach(reached: dict[object, Ranges], array: Array, mask: int) -> None:
    """Note that inputs reach an array."""
    ranges = reached.setdefault(array.region, {})
    key = array.start, array.stop
    ranges[key] = ranges.get(key, 0) | mask
    if len(ranges) > MOST_RANGES:
        whole = min(start for start, _ in ranges), max(stop for _, stop in ranges)
        together = 0
        for each in ranges.values():
            together |= each
        ranges.clear()
        ranges[whole] = together


def _arriving(reached: dict[object, Ranges], array: Array) -> int:
    """Return the inputs that reach an array."""
    found = 0
    for (start, stop), mask in reached.get(array.region, {}).items():
        if start < array.stop and array.start < stop:
            found |= mask
    return found
