"""Perlin noise in NumPy, float64, written independently of the rules: a sum over the corners of a cell."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

PRIMES = np.array([73856093, 19349663, 53471161, 10000019], np.uint32)


def pcg(state: Any) -> Any:
    """The hash of Jarzynski and Olano."""
    with np.errstate(over="ignore"):
        word = np.asarray(state, np.uint32) * np.uint32(747796405) + np.uint32(2891336453)
        word = ((word >> ((word >> np.uint32(28)) + np.uint32(4))) ^ word) * np.uint32(277803737)
        return (word >> np.uint32(22)) ^ word


def uniform(state: Any) -> Any:
    """Return the result of `randf` for the state after a draw."""
    return (state >> np.uint32(8)) * 2.0**-24


def rand_init(seed: Any, offset: Any) -> Any:
    with np.errstate(over="ignore"):
        return pcg(np.asarray(seed).astype(np.uint32) + pcg(np.asarray(offset).astype(np.uint32)))


def _direction(state: Any, axes: int) -> Any:
    parts = []
    for _ in range(axes):
        state = pcg(state)
        parts.append(uniform(state) - 0.5)
    if axes == 1:
        return parts[0][..., None] * 2
    vector = np.stack(parts, -1)
    return vector / np.linalg.norm(vector, axis=-1, keepdims=True)


def _hash(state: Any, corner: Any) -> Any:
    axes = corner.shape[-1]
    terms = corner.astype(np.int64).astype(np.uint32) * PRIMES[:axes]
    terms[..., -1] += np.uint32(state)
    return np.bitwise_xor.reduce(terms, -1)


def noise(state: int, points: Any, periods: Any = None) -> Any:
    """The sum over all corners of the distance along a direction, times a weight an axis.

    Args:
        state: Selects the field (uint32).
        points: (N, axes) float64; a corner's coordinates are those of the lattice.
        periods: The number of cells after which each axis repeats.
    """
    cell = np.floor(points.real)
    inside = points - cell
    weight = inside**3 * (inside * (inside * 6 - 15) + 10)
    total = 0.0
    for corner in itertools.product((0, 1), repeat=points.shape[-1]):
        end = np.array(corner)
        place = cell + end if periods is None else np.mod(cell + end, periods)
        along = (_direction(_hash(state, place), points.shape[-1]) * (inside - end)).sum(-1)
        total = total + along * np.where(end, weight, 1 - weight).prod(-1)
    return total


def gradient(state: int, points: Any) -> Any:
    """Return the derivative by complex steps, which are exact for polynomials."""
    steps = np.eye(points.shape[-1]) * 1e-30j
    return np.stack([noise(state, points + step).imag / 1e-30 for step in steps], -1)


def curl(state: int, points: Any) -> Any:
    """The field without sources: a gradient turned by 90°, or the curl of three fields."""
    if points.shape[-1] == 2:
        slope = gradient(state, points)
        return np.stack([-slope[..., 1], slope[..., 0]], -1)
    second = int(rand_init(state, 10019689))
    one, two, three = (gradient(s, points) for s in (state, second, int(rand_init(second, 13112221))))
    return np.stack([three[..., 1] - two[..., 2], one[..., 2] - three[..., 0], two[..., 0] - one[..., 1]], -1)
