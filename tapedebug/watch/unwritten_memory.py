"""Memory that nothing has written since the program allocated it, without values or with values of its own.

An array of `empty` is forgotten as soon as anything may write it: a fill, a copy, a launch off the tapes, a
view of NumPy or PyTorch. What no function of Warp that is intercepted writes is found by comparing a sample.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tapedebug.operations.memory import Bytes
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.memory import WarpArray, WatchedRegion, base_of, bytes_at, is_on_host

COMPARED = 4096
"""Largest number of bytes that are compared to distinguish given values from a constant."""

SAMPLED = 64
"""Largest number of bytes that are compared of an array."""


class UnwrittenMemory:
    """The arrays that were made without values and that nothing has written yet; they are not kept alive.

    Those that were made with values that differ are known, too, until a tape uses them. Only arrays in memory
    of this process are known.
    """

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[weakref.ref[WarpArray], bytes]] = {}
        self._given: dict[int, tuple[weakref.ref[WarpArray], bytes]] = {}
        self._is_struct = look_up("warp._src.types:is_struct")

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def note_made(self, array: WarpArray) -> None:
        """Note an array that was just made without values."""
        if getattr(array, "ptr", None) and array.size and is_on_host(array.device):
            self._arrays[id(array)] = weakref.ref(array, _removed(self._arrays, id(array))), sample(array)

    def note_given(self, array: WarpArray) -> None:
        """Note an array that was just made of values."""
        if getattr(array, "ptr", None) and array.size and is_on_host(array.device) and _differ(array):
            self._given[id(array)] = weakref.ref(array, _removed(self._given, id(array))), sample(array)

    def written(self, value: WarpObject) -> None:
        """Forget the memory of an array, or of the arrays in a struct, because something may write it."""
        if hasattr(value, "ptr") and hasattr(value, "_ref"):
            self._arrays.pop(id(base_of(value)), None)
        elif self._is_struct(value):  # it may have members of any name
            for name in value._cls.vars:
                self.written(getattr(value, name))
        elif hasattr(value, "data") and hasattr(value, "indices"):
            self.written(value.data)
        elif hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
            self._arrays.clear()  # another library's view of memory that may be ours

    def all_written(self, values: Iterable[WarpObject]) -> None:
        """Forget what some arguments of a launch lead to."""
        if self._arrays:
            for value in values:
                if type(value) not in _NUMBERS:
                    self.written(value)

    def clear(self) -> None:
        """Forget all memory."""
        self._arrays.clear()

    def take(self, region: WatchedRegion) -> bool:
        """Return True if nothing has written a region, which is forgotten: a tape uses it now."""
        return _is_as_made(self._arrays.pop(id(region.owner), None), region)

    def take_given(self, region: WatchedRegion) -> bool:
        """Return True if a region has the values that it was made of; it is forgotten: a tape uses it now."""
        return _is_as_made(self._given.pop(id(region.owner), None), region)


def _is_as_made(found: tuple[weakref.ref[WarpArray], bytes] | None, region: WatchedRegion) -> bool:
    """Return True if a noted array owns a region, and holds what it held when it was noted."""
    array = None if found is None else found[0]()
    return found is not None and array is not None and array is region.owner and sample(array) == found[1]


def _removed(arrays: dict[int, Any], key: int) -> Callable[[object], object]:
    return lambda _: arrays.pop(key, None)


def _differ(array: WarpArray) -> bool:
    """Return True if the first numbers of an array, of 4 or 8 bytes, are not all the same."""
    head = bytes_at(array.ptr, min(array.capacity, COMPARED))
    return all((head[step:] != head[:-step]).any() for step in (4, 8))


_NUMBERS = frozenset({int, float, bool, type(None)})


def sample(array: WarpArray) -> bytes:
    """Return a few bytes of an array in memory of this process, evenly spread: they show if it changes."""
    content: Bytes = bytes_at(array.ptr, array.capacity)
    step = max(1, content.size // SAMPLED) | 1
    return np.ascontiguousarray(content[::step]).tobytes()
