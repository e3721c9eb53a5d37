"""Pooling of large arrays into a small picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]

LINE = 512
"""Number of columns of the picture of a list."""
SIDE = 64
"""Number of rows and of columns of the picture of a grid."""
LINES = 4
"""Largest number of vector components that are drawn as one line each; larger vectors show their norm."""


def overview_of(values: Values, dimensions: int) -> Values:
    """Return an array pooled to a picture: lowest, highest and number of non-finite values of each cell.

    Args:
        values: An array of any shape; the axes from `dimensions` on are those of one element.
        dimensions: The number of axes of the array. Lists form one row; the last axis of grids is horizontal.

    Returns:
        float64 (3, rows, columns, series). Lowest and highest are NaN for a cell without finite values.
    """
    grid = as_grid(values, dimensions)
    rows, columns = min(grid.shape[0], SIDE), min(grid.shape[1], LINE if dimensions < 2 else SIDE)
    finite = np.isfinite(grid)
    low = _pool(np.minimum, np.where(finite, grid, np.inf), rows, columns)
    high = _pool(np.maximum, np.where(finite, grid, -np.inf), rows, columns)
    bad = _pool(np.add, (~finite).astype(np.float64), rows, columns)
    empty = low > high
    low[empty] = high[empty] = math.nan
    return np.stack([low, high, bad]).astype("<f8")


def as_grid(values: Values, dimensions: int) -> Values:
    """Return the values as float64 (rows, columns, series): components, or the norm of each element."""
    shape = values.shape[:dimensions]
    components = math.prod(values.shape[dimensions:])
    columns = shape[-1] if shape else 1
    flat = values.reshape(-1, columns, components).astype(np.float64)
    if components > (LINES if dimensions < 2 else 1):
        with np.errstate(over="ignore", invalid="ignore"):
            flat = np.sqrt(np.square(flat).sum(axis=2, keepdims=True))
    return flat


def _pool(by: np.ufunc, grid: Values, rows: int, columns: int) -> Values:
    pooled = by.reduceat(grid, _edges(grid.shape[0], rows), axis=0)
    found: Values = by.reduceat(pooled, _edges(grid.shape[1], columns), axis=1)
    return found


def _edges(count: int, cells: int) -> Values:
    return np.arange(cells) * count // cells
