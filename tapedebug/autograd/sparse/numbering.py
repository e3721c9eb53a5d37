"""Number the scalars in the memory of a program, one number each for all views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tapedebug.autograd.array_types import EngineArray, Indices
from tapedebug.lang import types


class Unknown(Exception):
    """The error if the zeros of derivatives cannot be determined."""


class ScalarNumbering:
    """The scalars of some buffers, numbered from 0.

    Args:
        arrays: All arrays of floats that are used.

    Attributes:
        size: The number of scalars.
        grain: The bytes between two scalars.
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        arrays = list(arrays)
        buffers = list(dict.fromkeys(a.region for a in arrays))
        self.grain = min((types.numpy_dtype(a.dtype).itemsize for a in arrays), default=4)
        self.first: dict[Any, int] = {}
        self.size = 0
        for buffer in buffers:
            self.first[buffer] = self.size
            self.size += -(-buffer.nbytes // self.grain)
        self._flat: dict[Any, Indices] = {}

    def start(self, a: EngineArray) -> int:
        """Return the number of the first scalar of an array."""
        bytes_in = a.offset
        if bytes_in % self.grain:
            raise Unknown
        return int(self.first[a.region] + bytes_in // self.grain)

    def step(self, a: EngineArray) -> int:
        """Return the distance between the numbers of two neighbouring scalars of an array."""
        return types.numpy_dtype(a.dtype).itemsize // self.grain

    def of(self, a: EngineArray, offsets: Indices) -> Indices:
        """Return the numbers of elements at these offsets (in scalars, from generated code) from the first.

        Raises:
            Unknown: One is outside of the array's memory.
        """
        found = self.start(a) + (offsets if self.step(a) == 1 else offsets * self.step(a))
        if len(found):
            first = self.first[a.region]
            if found.min() < first or found.max() >= first + -(-a.region.nbytes // self.grain):
                raise Unknown
        return found

    def all(self, a: EngineArray) -> Indices:
        """Return the numbers of all scalars of an array, in the order of its elements and components."""
        count = types.components(a.dtype)
        inner = self.step(a) * np.arange(count)
        if a.is_contiguous:
            return self.start(a) + self.step(a) * np.arange(a.size * count)
        found = np.zeros(a.shape, np.int64)
        for axis, (length, stride) in enumerate(zip(a.shape, a.strides, strict=True)):
            if stride % self.grain:
                raise Unknown
            along = np.arange(length) * (stride // self.grain)
            found += along.reshape((-1,) + (1,) * (a.ndim - 1 - axis))
        return (self.start(a) + found.reshape(-1, 1) + inner).ravel()

    def flat(self, a: EngineArray, numbers: Indices) -> Indices:
        """Return the position in an array of the scalar with each number; -1 if the array does not have it.

        Raises:
            Unknown: Two scalars of the array share memory.
        """
        if a.is_contiguous and self.step(a) == 1:
            found = numbers - self.start(a)
            outside = (found < 0) | (found >= a.size * types.components(a.dtype))
            if outside.any():
                found[outside] = -1
            return found
        if a not in self._flat:
            mine = self.all(a)
            table = np.full(self.size, -1)
            table[mine] = np.arange(len(mine))
            if np.count_nonzero(table >= 0) < len(mine):
                raise Unknown
            self._flat[a] = table
        return self._flat[a][numbers]
