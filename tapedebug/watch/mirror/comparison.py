"""Differences between what a mirrored launch and the same launch run by Warp leave in memory.

Results of the same source agree to a few units in the last place; sums of many threads may differ by the
order of their terms. A larger difference of the adjoints is an error of one of the two: the mirror's is the
transpose of its derivative, so it is most likely Warp's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import are_equal, float_info, is_float, is_short_float
from tapedebug.contract import Access, Array, Values
from tapedebug.operations.memory import Memory

ROUNDING = 1e-4
"""Largest difference, relative to the largest value of the array, that rounding in float32 explains."""
NEIGHBOURS = 10
"""The same of operations that use arrays of shorter floats, in distances of neighbouring numbers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference between two results in one array.

    Attributes:
        access: The access of the operation to the array.
        index: The element, with the component of a vector or matrix.
        mirrored: Its value as the mirror computes it.
        native: Its value as Warp computes it.
        relative: The difference, relative to the largest magnitude in the array.
        rounding: The largest relative difference that rounding explains.
    """

    access: Access
    index: tuple[int, ...]
    mirrored: float
    native: float
    relative: float
    rounding: float = ROUNDING

    @property
    def is_significant(self) -> bool:
        """True if rounding does not explain the difference."""
        return not self.relative <= self.rounding


def differences_between(accesses: Sequence[Access], one: Memory, other: Memory) -> list[Difference]:
    """Return the largest difference of each array between the memory of the mirror and that of Warp.

    Args:
        accesses: The arrays that are compared.
        one: The results of the mirror.
        other: The results of Warp.

    Returns:
        The differences, the largest first; none for arrays that are equal.
    """
    seen: set[Array] = set()
    found = []
    short = {access.array.scalar_dtype for access in accesses if is_short_float(access.array.scalar_dtype)}
    rounding = max([ROUNDING, *(NEIGHBOURS * float_info(dtype).eps for dtype in short)])
    for access in accesses:
        if access.array in seen or not access.array.size:
            continue
        seen.add(access.array)
        difference = _largest(access, one.view(access.array), other.view(access.array), rounding)
        if difference is not None:
            found.append(difference)
    return sorted(found, key=lambda difference: -difference.relative)


def _largest(access: Access, mirrored: Values, native: Values, rounding: float) -> Difference | None:
    """Return the largest difference of two arrays; None if they are equal, NaN to NaN."""
    if are_equal(mirrored, native, equal_nan=is_float(native.dtype)):
        return None
    one, other = mirrored.astype(np.float64), native.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(same, 0.0, np.abs(one - other))
    gap = np.where(np.isnan(gap), np.inf, gap)
    both = np.abs(np.concatenate([one.ravel(), other.ravel()]))
    largest = float(np.max(both, where=np.isfinite(both), initial=0.0))
    place = np.unravel_index(int(np.argmax(gap)), gap.shape)
    worst = float(gap[place])
    index = tuple(int(axis) for axis in place)
    relative = worst / largest if largest else np.inf
    return Difference(access, index, float(one[place]), float(other[place]), relative, rounding)
