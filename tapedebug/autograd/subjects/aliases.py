"""Arguments of an operation that share memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tapedebug.contract import A, is_array

if TYPE_CHECKING:
    from tapedebug.contract import Array, Operation


def same(a: Array, b: Array) -> bool:
    """True if two arrays have the same elements."""
    return a is b or (
        a.region is b.region and (a.offset, a.shape, a.strides) == (b.offset, b.shape, b.strides)
    )


def overlapping(operation: Operation) -> bool:
    """True if an array that an operation writes partly overlaps another argument."""
    arrays = [operation.args[p] for p in operation.active]
    return any(
        _share_bytes(a, b) and not same(a, b)
        for p in operation.writes
        if p in operation.active
        for a in [operation.args[p]]
        for b in arrays
    )


def unique(arrays: Iterable[A]) -> list[A]:
    """Return the arrays without repetitions: the first of those with the same elements."""
    found: list[A] = []
    for a in arrays:
        if not any(same(a, b) for b in found):
            found.append(a)
    return found


def first_of_each(operation: Operation, params: Sequence[int]) -> list[int]:
    """Return the parameters without repetitions: the first of those with the same array."""
    found: list[int] = []
    for p in params:
        if not any(same(operation.args[p], operation.args[q]) for q in found):
            found.append(p)
    return found


def params_overlapping(operation: Operation, arrays: Sequence[Array]) -> frozenset[int]:
    """Return the float parameters of an operation that share memory with some of these arrays."""
    floats = ((p, a) for p, a in enumerate(operation.args) if is_array(a) and a.is_float)
    return frozenset(p for p, a in floats if any(_share_bytes(a, b) for b in arrays))


def _share_bytes(a: Array, b: Array) -> bool:
    return a.region is b.region and a.start < b.stop and b.start < a.stop
