"""The rows and columns of a Jacobian to evaluate: single entries, a sample, random combinations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Floats, Indices
from tapedebug.autograd.options import Sample
from tapedebug.autograd.subjects.long_vectors import sum_of_squares
from tapedebug.autograd.subjects.program import Port

SEED = 20210
KEPT_SCALARS = 1 << 17  # scalars of random directions that are kept for the next check

Signs = np.ndarray[Any, np.dtype[np.int8]]
Bits = np.ndarray[Any, np.dtype[np.uint8]]


def choose(size: int, limit: int, sample: Sample = "random") -> Indices:
    """Return the entries to evaluate of `size`: all if `limit` <= 0, else a fixed sample of `limit` of them.

    The first and the last are always in the sample (kernels often go wrong at boundaries); the others are
    drawn: the first N would all lie in one corner of an array, and an even spacing would meet the same vector
    component every time. With `sample="first"` they are the first N nevertheless.
    """
    if limit <= 0 or limit >= size:
        return np.arange(size)
    if sample == "first":
        return np.arange(limit)
    ends = np.array([0, size - 1])[:limit]
    inner = np.random.default_rng(SEED).choice(np.arange(1, size - 1), size=limit - len(ends), replace=False)
    return np.sort(np.concatenate([ends, inner]))


@dataclass(frozen=True)
class Probes:
    """Directions in a space of `size` scalars: unit vectors, then dense vectors.

    Attributes:
        size: Dimension of the space.
        units: Positions of the unit vectors.
        dense: (k, size) float64, further directions.
    """

    size: int
    units: Indices
    dense: Floats

    @classmethod
    def of(
        cls, port: Port, limit: int = -1, dense: Floats | None = None, *, sample: Sample = "random"
    ) -> Probes:
        """Return unit vectors chosen by `choose`, and `dense` directions, among the port's `positions`."""
        size, positions = port.size, port.positions
        directions = np.zeros((0, size)) if dense is None else dense
        if port.only is not None:
            directions = directions * np.isin(np.arange(size), port.only)
        if 0 < limit < len(positions):
            positions = positions[choose(len(positions), limit, sample)]
        return cls(size, positions, directions)

    @classmethod
    def single(cls, size: int, position: int) -> Probes:
        """Return one unit vector."""
        return cls(size, np.array([position]), np.zeros((0, size)))

    def __len__(self) -> int:
        return len(self.units) + len(self.dense)

    def vector(self, position: int) -> Floats:
        """Return the direction at `position`, (size,)."""
        if position >= len(self.units):
            direction: Floats = self.dense[position - len(self.units)]
            return direction
        unit = np.zeros(self.size)
        unit[self.units[position]] = 1.0
        return unit

    def vectors(self, positions: Indices) -> Floats:
        """Return the directions at `positions`, (len(positions), size)."""
        found = np.zeros((len(positions), self.size))
        single = positions < len(self.units)
        found[np.flatnonzero(single), self.units[positions[single]]] = 1.0
        found[~single] = self.dense[positions[~single] - len(self.units)]
        return found

    def apply(self, values: Floats) -> Floats:
        """Return the inner products of all directions with `values`, (…, size) → (…, len(self))."""
        single: Floats = values[..., self.units]
        if not len(self.dense):
            return single
        return np.concatenate([single, values @ self.dense.T], axis=-1)

    def spread(self, bars: Floats) -> Floats:
        """Return the error bars of `apply(values)`, given those of the values."""
        single: Floats = bars[..., self.units]
        if not len(self.dense):
            return single
        return np.concatenate([single, bars @ np.abs(self.dense).T], axis=-1)


def random_directions(size: int, count: int, scale: Floats | float = 1.0) -> Floats:
    """Return fixed random directions, (count, size), with entries ±(0.5 … 1.5) · scale, never near 0."""
    drawn = _drawn if size * count <= KEPT_SCALARS else _drawn.__wrapped__
    directions: Floats = drawn(size, count) * scale
    return directions


def random_direction(size: int, number: int, count: int) -> Floats:
    """Return one row of `random_directions(size, count)`; of long rows, each is drawn by itself.

    The row may be changed: it belongs to the caller.
    """
    if size * count <= KEPT_SCALARS:
        direction: Floats = _drawn(size, count)[number].copy()
        return direction
    rng = np.random.default_rng([SEED + size, number])
    direction = rng.random(size)
    direction += 0.5
    direction *= signs_of(random_bits(rng, size), size)
    return direction


def random_bits(rng: np.random.Generator, size: int) -> Bits:
    """Return random bits, 8 in a byte."""
    return rng.integers(0, 256, -(-size // 8), dtype=np.uint8)


def signs_of(bits: Bits, size: int) -> Signs:
    """Return a sign of 1 byte for each bit, (size,)."""
    signs = np.unpackbits(bits, count=size).view(np.int8)
    signs <<= 1
    signs -= 1
    return signs


@lru_cache(maxsize=16)
def _drawn(size: int, count: int) -> Floats:
    rng = np.random.default_rng(SEED + size)
    signs = rng.choice([-1.0, 1.0], size=(count, size))
    directions: Floats = signs * rng.uniform(0.5, 1.5, size=(count, size))
    return directions


def typical_size(values: Floats) -> float:
    """Return the root mean square of values; 1.0 if all are 0, or there are none."""
    return (float(np.sqrt(sum_of_squares(values.ravel()) / values.size)) if values.size else 0.0) or 1.0


def entry_scales(values: Floats) -> Floats:
    """Return displacements of entries, as large as the entries and never close to 0."""
    found: Floats = np.maximum(np.abs(values), 0.01 * typical_size(values))
    return found


def seeds_of_all_kinds(size: int) -> Floats:
    """Return adjoint seeds that complement unit seeds, (3, size): negative, large of both signs, small."""
    usual, large = np.abs(random_directions(size, 2))
    signs = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    return np.stack([-usual, 1000.0 * large * signs, 0.001 * usual * signs])


def shape_index(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of a flat position in an array of `shape` (components last)."""
    return tuple(int(i) for i in np.unravel_index(flat, tuple(shape))) if len(shape) else ()


def flat_index(index: Sequence[int], shape: Sequence[int]) -> int:
    """Return the flat position of an index in an array of `shape`, the inverse of `shape_index`."""
    return int(np.ravel_multi_index(tuple(index), tuple(shape))) if len(shape) else 0
