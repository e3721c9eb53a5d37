"""Products and sums of long vectors in blocks that stay in the processor's cache, without temporary arrays.

Vectors of up to `BLOCK` numbers are multiplied as a whole, as NumPy does it. The others may be of float32:
each block is converted by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tapedebug.autograd.array_types import Floats

BLOCK = 1 << 16
"""Numbers of a block: 512 KB in float64."""


def compact(values: Floats, dtype: DTypeLike) -> Floats:
    """Return long vectors in the floating-point type that they came from, if no number changes by it.

    Args:
        values: float64 numbers.
        dtype: The type of the array that they were read from.
    """
    if compact_type(values.size, dtype) == np.float64:
        return values
    narrow: Any = values.astype(np.float32)
    for at in blocks(values.size):
        # Mostly there is no NaN, and to look for them takes twice as long as to compare.
        if not np.array_equal(narrow[at], values[at]) and not np.array_equal(
            narrow[at], values[at], equal_nan=True
        ):
            return values
    found: Floats = narrow
    return found


def compact_type(size: int, dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type in which `compact` keeps numbers that an array of this type holds."""
    return np.dtype(np.float32 if size > BLOCK and np.dtype(dtype) == np.float32 else np.float64)


def dot(a: Floats, b: Floats) -> float:
    """Return the inner product."""
    if a.size <= BLOCK:
        return float(a @ b)
    return _summed(a.size, lambda at: _wide(a[at]) @ _wide(b[at]))


def dot_of_sizes(a: Floats, b: Floats) -> float:
    """Return the inner product of `a` with the absolute values of `b`."""
    if a.size <= BLOCK:
        return float(a @ np.abs(b))
    return _summed(a.size, lambda at: _wide(a[at]) @ np.abs(_wide(b[at])))


def square_of_products(a: Floats, b: Floats) -> float:
    """Return the sum of the squares of the elementwise products; elements of `a` that are NaN count as 0."""
    if a.size <= BLOCK:
        return float(((np.nan_to_num(a) * b) ** 2).sum())

    def squared(at: slice) -> float:
        product = np.nan_to_num(a[at])
        product = product * b[at]
        return float(product @ product)

    return _summed(a.size, squared)


def distance(a: Floats, b: Floats) -> float:
    """Return the Euclidean norm of the difference."""
    if a.size <= BLOCK:
        return float(np.linalg.norm(a - b))

    def squared(at: slice) -> float:
        difference = _wide(a[at]) - b[at]
        return float(difference @ difference)

    return float(np.sqrt(_summed(a.size, squared)))


def norm(a: Floats) -> float:
    """Return the Euclidean norm."""
    if a.size <= BLOCK:
        return float(np.linalg.norm(a))
    return float(np.sqrt(_summed(a.size, lambda at: _wide(a[at]) @ _wide(a[at]))))


def sum_of_squares(a: Floats) -> float:
    """Return the sum of the squares, added in the order in which NumPy adds those of the whole vector."""
    if a.size <= BLOCK:
        return float(np.sum(_wide(a) ** 2))
    half = a.size // 2
    half -= half % 8
    return sum_of_squares(a[:half]) + sum_of_squares(a[half:])


def largest_difference(a: Floats, b: Floats) -> float:
    """Return the largest absolute difference of two elements; NaN if one is NaN, 0 without elements."""
    found = [np.abs(a[at] - b[at]).max(initial=0.0) for at in blocks(a.size)]
    return float(np.max(found, initial=0.0))


def raise_to_difference(most: Floats, a: Floats, b: Floats) -> None:
    """Replace elements of `most` by the absolute difference of `a` and `b` where that is larger."""
    for at in blocks(most.size):
        np.maximum(most[at], np.abs(a[at] - b[at]), out=most[at])


def _wide(values: Floats) -> Floats:
    return values.astype(np.float64, copy=False)


def _summed(size: int, part: Callable[[slice], Any]) -> float:
    return float(np.sum([float(part(at)) for at in blocks(size)]))


def blocks(size: int) -> Iterator[slice]:
    """Yield the slices that divide a vector into blocks."""
    for start in range(0, size, BLOCK):
        yield slice(start, start + BLOCK)
