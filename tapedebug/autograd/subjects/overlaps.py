"""Arrays that overlap themselves or each other, so that no element has its own derivative.

Slices of one array, one array passed twice and in-place arrays are not affected: they are one block of
memory with one block of gradients, in which a replay can displace the elements that a launch reads. But if
two indices of one array refer to the same memory, no single element can be displaced. And if two blocks
overlap, a write through one changes the other, but not the other's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug.autograd.array_types import EngineArray
from tapedebug.autograd.subjects.program import Pairs, Port
from tapedebug.runtime.memory.array import array as engine_array

SEARCH = 1 << 20  # steps of the search for an element that two blocks share; past it they count as sharing

Problem = tuple[str, str]
"""The error and its hint."""


def refuse_overlaps(name: str, pairs: Pairs, arrays: Iterable[tuple[str, Any]], *, launch: bool) -> None:
    """Raise an error for pairs whose arrays overlap; for a launch on a tape, leave them out with a note.

    Args:
        name: The subject of the check: "kernel square".
        pairs: The chosen pairs.
        arrays: All arrays of the launch, with their names.
        launch: True for a launch on a tape.

    Raises:
        GradcheckError: A pair has an array that overlaps itself, or another one without sharing its gradient.
    """
    known = list(arrays)
    problems: dict[int, Problem | None] = {}
    for pair in list(pairs.chosen):
        for port in pair:
            if id(port.array) not in problems:
                problems[id(port.array)] = _share_memory(port) or _between(port, known)
            problem = problems[id(port.array)]
            if problem is None:
                continue
            if not launch:
                raise GradcheckError(f"{name}: {problem[0]}", hint=problem[1])
            pairs.notes.append(f"not checked: {problem[0]}")
            pairs.chosen.remove(pair)
            break
    pairs.notes = list(dict.fromkeys(pairs.notes))


def _share_memory(port: Port) -> Problem | None:
    """Return the error if two indices of one array refer to the same memory, in whole or in part."""
    array = port.array
    item = array.scalar_dtype.itemsize * math.prod(array.element_shape)
    met = _meeting(array.shape, array.strides, item)
    if met is None:
        return None
    first, second = (f"{port.name}[{', '.join(map(str, index))}]" for index in met)
    message = (
        f"{port.name} overlaps itself: {first} and {second} lie in the same memory (shape {array.shape}, "
        f"strides {array.strides}, {item} bytes for each {array.dtype_name}): neither can "
        "be displaced alone, so no derivative by it exists"
    )
    return message, "pass a copy with elements of its own, such as wp.clone(array)"


def _meeting(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return two indices whose elements share bytes; None if there are none."""
    long = sorted((abs(step), n) for step, n in zip(strides, shape, strict=True) if n > 1)
    extent, nested = item, True
    for step, n in long:
        nested = nested and step >= extent
        extent += (n - 1) * step
    if nested or 0 in shape:
        return None
    offsets = np.zeros((), dtype=np.int64)
    for step, n in zip(strides, shape, strict=True):
        offsets = offsets[..., None] + step * np.arange(n, dtype=np.int64)
    flat = offsets.ravel()
    order = np.argsort(flat, kind="stable")
    close = np.flatnonzero(np.diff(flat[order]) < item)
    if not len(close):
        return None
    both = sorted(int(i) for i in order[close[0] : close[0] + 2])
    first, second = (tuple(int(i) for i in np.unravel_index(flat_index, shape)) for flat_index in both)
    return first, second


def _between(port: Port, arrays: list[tuple[str, Any]]) -> Problem | None:
    """Return the error if another block of memory with its own gradient shares elements with the array."""
    mine = port.array
    if not isinstance(mine, engine_array):
        return None  # regions of other engines have no addresses to compare
    low, high = _range(mine)
    for name, other in arrays:
        if not isinstance(other, engine_array):
            continue
        start, stop = _range(other)
        if other.region is mine.region or stop <= low or high <= start or not _share(mine, other):
            continue
        message = (
            f"{port.name} ({high - low} bytes at {low:#x}) and {name} ({stop - start} bytes at {start:#x}) "
            "overlap in memory, but are no slices of one array: what is written through one changes the "
            "other, and their gradients know nothing of it"
        )
        return message, "make one array of all of that memory, and pass slices of it: they share its gradient"
    return None


def _range(array: EngineArray) -> tuple[int, int]:
    address = array.ptr - array.offset
    return address + array.start, address + array.stop


def _share(mine: EngineArray, other: EngineArray) -> bool:
    try:
        return bool(np.shares_memory(mine._numpy_view(), other._numpy_view(), max_work=SEARCH))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
