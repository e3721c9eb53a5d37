"""The entries of a Jacobian that a check compared, as data for tables, plots and heat maps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Floats, Indices

MOST_ENTRIES = 1 << 20
"""Largest number of entries that a result stores."""

MOST_AGREEING_ENTRIES = 1 << 16
"""Largest number of entries that a result stores if all agree."""


@dataclass(frozen=True, eq=False)
class ComparedEntries:
    """Entries of one Jacobian; all arrays have the same length.

    Attributes:
        shape: Scalars in the output, scalars in the input.
        rows, columns: The position of each entry.
        ad: The gradient that was checked.
        fd, bar: The reference and its error bar.
        zeros: True if unlisted entries are known to be zero (by traced sparsity); else they were not
            evaluated.
        wrong: A mask of the WRONG entries, if they were judged.
    """

    shape: tuple[int, int]
    rows: Indices
    columns: Indices
    ad: Floats
    fd: Floats
    bar: Floats
    zeros: bool = False
    wrong: Bools | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, chosen: Bools) -> ComparedEntries:
        """Return some of the entries; the others count as not evaluated."""
        wrong = None if self.wrong is None else self.wrong[chosen]
        return replace(
            self, rows=self.rows[chosen], columns=self.columns[chosen], ad=self.ad[chosen],
            fd=self.fd[chosen], bar=self.bar[chosen], wrong=wrong, zeros=False,
        )  # fmt: skip

    def within(self, rows: tuple[int, int], columns: tuple[int, int]) -> ComparedEntries:
        """Return the entries of a window of rows and columns as a Jacobian of its own."""
        chosen = (self.rows >= rows[0]) & (self.rows < rows[1])
        chosen &= (self.columns >= columns[0]) & (self.columns < columns[1])
        found = self.some(chosen)
        return replace(
            found, shape=(rows[1] - rows[0], columns[1] - columns[0]), rows=found.rows - rows[0],
            columns=found.columns - columns[0], zeros=self.zeros,
        )  # fmt: skip

    @property
    def error(self) -> Floats:
        """abs(AD - FD) of each entry."""
        with np.errstate(all="ignore"):
            found: Floats = np.abs(self.ad - self.fd)
        return found

    def dense(self, values: np.ndarray[Any, np.dtype[np.float64]]) -> Floats:
        """Return one of the arrays as a matrix of `shape`, with NaN for entries that were not evaluated."""
        matrix = np.full(self.shape, 0.0 if self.zeros else np.nan)
        matrix[self.rows, self.columns] = values
        return matrix
