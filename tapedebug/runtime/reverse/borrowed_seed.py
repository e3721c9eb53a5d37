"""Seeds borrowed from the caller: large ones are copied only before they change."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug.lang import types
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.gradient_history import is_gradient, same_bits
from tapedebug.runtime.tape.tracker import Tracker

Values = np.ndarray[Any, Any]

LARGE = 1 << 16
"""Bytes from which a seed is borrowed: a smaller one is copied faster than it is watched."""


class BorrowedSeed:
    """The values that an array had when a reverse pass began.

    The array is watched as a tape watches needed values: before it is overwritten by a launch, a fill or
    through a NumPy view, its values are copied.
    """

    def __init__(self, a: array) -> None:
        self._array = a
        self._tracker = Tracker("preserve")
        self._tracker.settled = True  # an overwrite gives no warning
        state = self._tracker.resolve(a)
        self._need = self._tracker.open_need(state, a.buffer, 0, 0)

    @property
    def nbytes(self) -> int:
        """Memory of the copy, if there is one."""
        return 0 if self._need.copy is None else self._need.copy.nbytes

    @property
    def address(self) -> int:
        """The present address of the values."""
        copy = self._need.copy
        return self._array.ptr if copy is None else address_of(copy)

    @property
    def values(self) -> Values:
        """The values, with the shape of the array and its elements; not to be changed."""
        a, copy = self._array, self._need.copy
        now: Values = a._numpy_view()
        if copy is None:
            return now
        kept: Values = copy.view(types.numpy_dtype(a.dtype)).reshape(now.shape)
        return kept

    def is_still(self, a: array, tracker: Tracker) -> bool:
        """Return True if it can stand for an array's values once more, in a pass of this tracker's tape."""
        return self._array is a and self._need.copy is None and not a.buffer.windows and not tracker.uses(a)


def may_borrow(a: array, wanted: np.dtype[Any], tracker: Tracker) -> bool:
    """Return True if a seed of this type can be borrowed in a pass of this tracker's tape."""
    return (
        a.is_contiguous
        and a.stop - a.start >= LARGE
        and types.numpy_dtype(a.dtype) == wanted
        and not a.buffer.windows
        and not is_gradient(a)  # which passes change without notice
        and not tracker.uses(a)
    )


def values_of(seed: Values | BorrowedSeed) -> Values:
    """Return the values of a seed, borrowed or copied."""
    return seed.values if isinstance(seed, BorrowedSeed) else seed


def same_seed(one: Values | BorrowedSeed, other: Values | BorrowedSeed) -> bool:
    """Return True if two seeds of an array are the same, as far as a sample shows."""
    return one is other or same_bits(values_of(one), values_of(other))
