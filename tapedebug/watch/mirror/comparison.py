"""Comparison of a mirrored launch with the same launch run by Warp: results, and adjoints.

Both run on the same memory. Results of the same source agree to a few units in the last place; sums of many
threads may differ by the order of their terms. A larger difference of the adjoints is an error of one of the
two: the mirror's is the transpose of its derivative, so it is most likely Warp's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapedebug.contract import Access, Array, Values
from tapedebug.operations.memory import Memory
from tapedebug.operations.operation import Step

ROUNDING = 1e-4
"""Largest difference, relative to the largest value of the array, that rounding in float32 explains."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference between two results in one array.

    Attributes:
        access: The access of the operation to the array.
        index: The element, with the component of a vector or matrix.
        mirrored: Its value as the mirror computes it.
        native: Its value as Warp computes it.
        relative: The difference, relative to the largest magnitude in the array.
    """

    access: Access
    index: tuple[int, ...]
    mirrored: float
    native: float
    relative: float

    @property
    def is_significant(self) -> bool:
        """True if rounding does not explain the difference."""
        return not self.relative <= ROUNDING


def compare_forward(
    mirrored: Step, native: Step, accesses: Sequence[Access], before: Memory
) -> list[Difference]:
    """Run a launch both ways and compare what it writes.

    Args:
        mirrored: The launch as this engine runs it.
        native: The launch as Warp runs it.
        accesses: Its accesses.
        before: The values that it starts from, which stay unchanged.

    Returns:
        The largest difference in each array that it writes, the largest first; none where all are equal.
    """
    one, other = _copy(before, accesses), _copy(before, accesses)
    mirrored.forward(one)
    native.forward(other)
    return differences_between([access for access in accesses if access.writes], one, other)


def compare_adjoint(
    mirrored: Step,
    native: Step,
    accesses: Sequence[Access],
    before: Memory,
    after: Memory,
    adjoint: Memory,
) -> list[Difference]:
    """Run the adjoint of a launch both ways and compare the adjoints that it passes on.

    An adjoint kernel of Warp that overwrites its own inputs may be right with the values before the launch,
    or with those after it: both are tried, and the closer result counts.

    Args:
        mirrored: The launch as this engine runs it.
        native: The launch as Warp runs it.
        accesses: Its accesses.
        before: The values before it.
        after: The values after it.
        adjoint: The adjoints that come in. These memories stay unchanged.

    Returns:
        The largest difference in each array with a gradient, the largest first; none where all are equal.
    """
    active = [access for access in accesses if access.active and access.array.is_float]
    one = _copy(adjoint, accesses)
    mirrored.vjp(_copy(before, accesses), _copy(after, accesses), one)
    found = []
    for given in (before, after) if any(a.writes and a.reads for a in accesses) else (before,):
        other = _copy(adjoint, accesses)
        native.vjp(_copy(given, accesses), _copy(after, accesses), other)
        found.append(differences_between(active, one, other))
    return min(found, key=lambda differences: max((d.relative for d in differences), default=0.0))


def random_adjoints(accesses: Sequence[Access], like: Memory, seed: int = 0) -> Memory:
    """Return memory with random adjoints for all arrays with a gradient, to compare adjoints with."""
    made = Memory({region: np.zeros_like(content) for region, content in like.bytes.items()}, like.wide)
    rng = np.random.default_rng(seed)
    for access in accesses:
        if access.active and access.array.is_float:
            view = made.view(access.array)
            view[...] = rng.standard_normal(view.shape)
    return made


def _copy(memory: Memory, accesses: Sequence[Access]) -> Memory:
    """Return a copy of the regions that a launch accesses."""
    regions = {access.array.region for access in accesses}
    return Memory({region: memory.bytes[region].copy() for region in regions}, memory.wide)


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
    for access in accesses:
        if access.array in seen or not access.array.size:
            continue
        seen.add(access.array)
        difference = _largest(access, one.view(access.array), other.view(access.array))
        if difference is not None:
            found.append(difference)
    return sorted(found, key=lambda difference: -difference.relative)


def _largest(access: Access, mirrored: Values, native: Values) -> Difference | None:
    """Return the largest difference of two arrays; None if they are equal, NaN to NaN."""
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
    return Difference(
        access, index, float(one[place]), float(other[place]), worst / largest if largest else np.inf
    )
