"""Which rows and columns of a Jacobian are evaluated: single entries, a sample, random combinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapedebug.autograd.differences import Floats

Indices = np.ndarray[Any, np.dtype[np.int64]]

SEED = 20210


def choose(size: int, limit: int) -> Indices:
    """Which of `size` entries to evaluate: all where `limit` <= 0, else a fixed sample of `limit` of them.

    The first and the last are always in the sample (boundaries are where kernels go wrong), the others are
    drawn: the first N would all lie in one corner of an array, an even spacing would meet the same vector
        component every time.
    """
    if limit <= 0 or limit >= size:
        return np.arange(size)
    ends = np.array([0, size - 1])[:limit]
    inner = np.random.default_rng(SEED).choice(np.arange(1, size - 1), size=limit - len(ends), replace=False)
    return np.sort(np.concatenate([ends, inner]))


@dataclass(frozen=True)
class Probes:
    """Directions in a space of `size` scalars: unit vectors, then dense ones.

    Attributes:
        size: Dimension of the space.
        units: Positions of the unit vectors.
        dense: (k, size) float64, further directions.
    """

    size: int
    units: Indices
    dense: Floats

    @classmethod
    def of(cls, size: int, limit: int = -1, dense: Floats | None = None) -> Probes:
        """Unit vectors by `choose`, and `dense` directions."""
        return cls(size, choose(size, limit), np.zeros((0, size)) if dense is None else dense)

    @classmethod
    def single(cls, size: int, position: int) -> Probes:
        """One unit vector."""
        return cls(size, np.array([position]), np.zeros((0, size)))

    def __len__(self) -> int:
        return len(self.units) + len(self.dense)

    def vector(self, position: int) -> Floats:
        """The direction at `position`, (size,)."""
        if position >= len(self.units):
            direction: Floats = self.dense[position - len(self.units)]
            return direction
        unit = np.zeros(self.size)
        unit[self.units[position]] = 1.0
        return unit

    def apply(self, values: Floats) -> Floats:
        """Inner products of all directions with `values`, (…, size) → (…, len(self))."""
        single: Floats = values[..., self.units]
        if not len(self.dense):
            return single
        return np.concatenate([single, values @ self.dense.T], axis=-1)

    def spread(self, bars: Floats) -> Floats:
        """Error bars of `apply(values)`, given those of the values."""
        single: Floats = bars[..., self.units]
        if not len(self.dense):
            return single
        return np.concatenate([single, bars @ np.abs(self.dense).T], axis=-1)


def random_directions(size: int, count: int, scale: Floats | float = 1.0) -> Floats:
    """`count` fixed random directions with entries ±(0.5 … 1.5) · scale, (count, size): none is near zero."""
    rng = np.random.default_rng(SEED + size)
    signs = rng.choice([-1.0, 1.0], size=(count, size))
    directions: Floats = signs * rng.uniform(0.5, 1.5, size=(count, size)) * scale
    return directions


def seeds_of_all_kinds(size: int) -> Floats:
    """Two adjoint seeds that unit seeds are not: all negative, and large of both signs, (2, size)."""
    small, large = np.abs(random_directions(size, 2))
    signs = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    return np.stack([-small, 1000.0 * large * signs])


def shape_index(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of a flat position in an array of `shape` (components last)."""
    return tuple(int(i) for i in np.unravel_index(flat, tuple(shape))) if len(shape) else ()
