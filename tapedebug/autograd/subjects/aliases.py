"""Arguments of a launch that have memory in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tapedebug.contract import is_array
from tapedebug.lang.types import is_float


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are the same elements."""
    return a is b or (a.region is b.region and (a.ptr, a.shape, a.strides) == (b.ptr, b.shape, b.strides))


def overlapping(record: Any) -> bool:
    """Whether something that a record writes overlaps another argument in part."""
    arrays = [record.args[p] for p in record.active]
    return any(
        _meet(a, b) and not same(a, b)
        for p in record.writes & record.active
        for a in [record.args[p]]
        for b in arrays
    )


def unique(arrays: Iterable[Any]) -> list[Any]:
    """Arrays of different elements, the first of those that are the same."""
    found: list[Any] = []
    for a in arrays:
        if not any(same(a, b) for b in found):
            found.append(a)
    return found


def first_of_each(record: Any, params: Sequence[int]) -> list[int]:
    """Parameters of different arrays: of those that got the same array the first."""
    found: list[int] = []
    for p in params:
        if not any(same(record.args[p], record.args[q]) for q in found):
            found.append(p)
    return found


def meeting(record: Any, arrays: Sequence[Any]) -> frozenset[int]:
    """The float parameters of a record that have memory in common with some arrays."""
    floats = ((p, a) for p, a in enumerate(record.args) if is_array(a) and is_float(a.dtype))
    return frozenset(p for p, a in floats if any(_meet(a, b) for b in arrays))


def _meet(a: Any, b: Any) -> bool:
    return a.region is b.region and a.start < b.stop and b.start < a.stop
