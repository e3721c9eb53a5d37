"""Sparse boolean matrices, as pairs of row and column indices of dependent entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapedebug.autograd.array_types import Indices

MOST_ENTRIES = 1 << 22
"""Number of entries allowed for any matrix; with more, sparsity is of little use."""
FEW_PER_ROW = 32
"""Number of entries for each row that is always allowed."""


class TooManyEntries(Exception):
    """The error for a matrix with too many entries to be useful."""


class BooleanMatrix(NamedTuple):
    """Entries of a matrix, (count,) each; in any order, perhaps several times the same."""

    rows: Indices
    columns: Indices

    def where(self, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> BooleanMatrix:
        """Return some of the entries."""
        return self if chosen.all() else BooleanMatrix(self.rows[chosen], self.columns[chosen])


def none() -> BooleanMatrix:
    """Return a matrix of zeros."""
    return BooleanMatrix(np.zeros(0, np.int64), np.zeros(0, np.int64))


def joined(parts: list[BooleanMatrix]) -> BooleanMatrix:
    """Return the entries of several matrices."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return none()
    return BooleanMatrix(np.concatenate([p.rows for p in parts]), np.concatenate([p.columns for p in parts]))


def sorted_once(entries: BooleanMatrix, width: int) -> BooleanMatrix:
    """Return the entries sorted by rows, then by columns, each once.

    Args:
        entries: Entries of a matrix.
        width: Number of columns.

    Raises:
        TooMany: There are more than `MOST_ENTRIES`, and more than `FEW_PER_ROW` for each column.
    """
    if not len(entries.rows):
        return entries
    keys = entries.rows * width + entries.columns
    keys.sort()
    first = np.empty(len(keys), bool)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    if not first.all():
        keys = keys[first]
    if len(keys) > max(MOST_ENTRIES, FEW_PER_ROW * width):
        raise TooManyEntries
    rows = keys // width
    return BooleanMatrix(rows, keys - rows * width)


def product(left: BooleanMatrix, right: BooleanMatrix, size: int) -> BooleanMatrix:
    """Return the product of two matrices.

    Args:
        left: Its columns are the rows of `right`, in any order.
        right: Sorted by rows.
        size: Number of rows of `right`.

    Raises:
        TooMany: It would have too many entries.
    """
    counts = np.bincount(right.rows, minlength=size)
    starts = np.cumsum(counts) - counts
    many = counts[left.columns]
    total = int(many.sum())
    if total > 4 * max(MOST_ENTRIES, FEW_PER_ROW * size):
        raise TooManyEntries
    if not total:
        return none()
    if total == len(many) and (many == 1).all():
        return BooleanMatrix(left.rows, right.columns[starts[left.columns]])
    began = np.cumsum(many) - many
    places = np.arange(total) + np.repeat(starts[left.columns] - began, many)
    return BooleanMatrix(np.repeat(left.rows, many), right.columns[places])
