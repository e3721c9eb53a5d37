"""Cells of a Jacobian's heat map: a window of its entries, pooled if there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.results.heatmap import Blocks

if TYPE_CHECKING:
    from tapedebug.autograd.array_types import Floats
    from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
    from tapedebug.autograd.results.pair_result import Gradient, PairResult

MOST_CELLS = 256
"""Largest number of cells on a side; with more entries, each cell represents a block of them."""
MOST_UNPOOLED = 2_048
"""Largest number of entries without pooling: the gradient of a field of 32 × 32 is one row of 1,024."""
MOST_WINDOW = MOST_CELLS**2
"""Largest number of entries without pooling in a requested window."""

NOTHING, COMPARED, ZERO, ADJOINT = 0, 1, 2, 3
"""Contents of a cell: unknown, both sides, zero by sparsity, the gradient alone."""

Window = tuple[int, int]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Looked:
    """The entries of a Jacobian for display.

    Attributes:
        compared: Gradient and finite differences; NaN where no difference was computed.
        reference: For the whole tape, the float64 adjoint in addition to `compared`; None for a launch.
        against: The name of the reference of the errors.
        error: The error of each entry; NaN without a reference value.
        known: `COMPARED` or `ADJOINT`, for each entry.
    """

    compared: ComparedEntries
    reference: Floats | None
    against: str
    error: Floats
    known: Bytes

    @classmethod
    def of(cls, pair: PairResult) -> Looked | None:
        """Return the entries that a check kept of a pair; None if it kept none."""
        if pair.gradient is not None:
            return _of_gradient(pair.gradient)
        if pair.compared is None or not len(pair.compared):
            return None
        known = np.full(len(pair.compared), COMPARED, np.uint8)
        return cls(pair.compared, None, "FD", pair.compared.error, known)

    def worst(self, most: int) -> list[int]:
        """Return the entries with the largest errors, wrong ones first, without exact ones."""
        error = np.where(np.isnan(self.error) & (self.known == COMPARED), np.inf, self.error)
        known = np.flatnonzero(error > 0)
        wrong = self.compared.wrong
        judged = np.zeros(len(error), bool) if wrong is None else wrong
        order = np.lexsort((known, -error[known], ~judged[known]))
        return [int(entry) for entry in known[order[:most]]]

    def scale(self) -> tuple[float, float]:
        """Return the largest finite magnitude of gradients and differences, and the largest finite error."""
        sides = [self.compared.ad, self.compared.fd, *([] if self.reference is None else [self.reference])]
        return _largest(np.concatenate(sides)), _largest(self.error)

    def cells(
        self, rows: Window, columns: Window, most_unpooled: int = MOST_UNPOOLED
    ) -> tuple[tuple[int, int], dict[str, np.ndarray[Any, Any]]]:
        """Return height and width of the maps, and their cells by name, each of shape (height, width).

        Up to `most_unpooled` entries have one cell each; with more there are at most `MOST_CELLS` on a side.
        ``row`` and ``column`` are the position of the entry that a cell shows, -1 for none.
        """
        inside = (self.compared.rows >= rows[0]) & (self.compared.rows < rows[1])
        inside &= (self.compared.columns >= columns[0]) & (self.compared.columns < columns[1])
        chosen = np.flatnonzero(inside)
        sides = (rows[1] - rows[0], columns[1] - columns[0])
        most = max(sides) if sides[0] * sides[1] <= most_unpooled else MOST_CELLS
        entry = Blocks.of(self._telling().within(rows, columns), most).entry
        shape = (int(entry.shape[0]), int(entry.shape[1]))
        there = entry >= 0
        place = chosen[entry[there]]
        zeros = self.compared.zeros
        found: dict[str, np.ndarray[Any, Any]] = {}
        known = {"ad": self.compared.ad, "fd": self.compared.fd, "error": self.error}
        known["bar"] = self.compared.bar
        if self.reference is not None:
            known["reference"] = self.reference
        for name, values in known.items():
            found[name] = np.full(shape, 0.0 if zeros else np.nan)
            found[name][there] = values[place]
        for name, where in {"row": self.compared.rows, "column": self.compared.columns}.items():
            found[name] = np.full(shape, -1, np.int32)
            found[name][there] = where[place]
        found["known"] = np.full(shape, ZERO if zeros else NOTHING, np.uint8)
        found["known"][there] = self.known[place]
        return shape, found

    def _telling(self) -> ComparedEntries:
        """Return the entries with `fd` set so that pooling selects the one with the largest shown error."""
        error = np.where(np.isnan(self.error) & (self.known == ADJOINT), 0.0, self.error)
        with np.errstate(all="ignore"):
            return replace(self.compared, fd=self.compared.ad - error)


def _of_gradient(gradient: Gradient) -> Looked:
    count = gradient.consumed.size
    rows, columns = np.zeros(count, np.int64), np.arange(count)
    compared = ComparedEntries((1, count), rows, columns, gradient.consumed, gradient.fd, gradient.bar)
    against = gradient.reference if gradient.confirmed else gradient.fd
    with np.errstate(all="ignore"):
        error = np.abs(gradient.consumed - against)
    known = np.where(np.isnan(gradient.fd), ADJOINT, COMPARED).astype(np.uint8)
    return Looked(
        compared, gradient.reference, "float64 adjoint" if gradient.confirmed else "FD", error, known
    )


def _largest(values: Sequence[float] | Floats) -> float:
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))
