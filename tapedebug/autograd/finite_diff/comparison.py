"""The compared entries of one pair: AD and FD on a grid or at a sparsity pattern."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Floats, Indices
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.finite_diff.verdict import Reference, Tolerance
from tapedebug.autograd.subjects.probes import Probes
from tapedebug.autograd.subjects.program import Port, Program


class Comparison(Protocol):
    """One pair of an input and an output; all its arrays have one shape, of whatever dimension."""

    @property
    def program(self) -> Program:
        """The differentiated program."""
        ...

    @property
    def source(self) -> Port:
        """The input."""
        ...

    @property
    def target(self) -> Port:
        """The output."""
        ...

    @property
    def ad(self) -> Floats:
        """The gradient that is checked."""
        ...

    @property
    def reference(self) -> Reference:
        """The finite differences for comparison."""
        ...

    @property
    def tolerance(self) -> Tolerance:
        """The tolerances of the check."""
        ...

    @property
    def kind(self) -> str:
        """The kind of `ad`: "adjoint" or "tangent"."""
        ...

    @property
    def singles(self) -> Bools:
        """True for single entries of the Jacobian; the others are combinations of several."""
        ...

    def place(self, slot: tuple[int, ...]) -> tuple[int, int]:
        """Row and column, in the Jacobian, of a single entry."""
        ...

    def largest_in_row(self) -> Floats:
        """The largest finite abs(FD) beside each entry, of a shape that broadcasts to theirs."""
        ...

    def compared(self) -> ComparedEntries:
        """The single entries as data."""
        ...


@dataclass(frozen=True)
class EntryGrid:
    """A pair with rows × columns compared; see `Comparison`.

    Attributes:
        rows: Directions in the output.
        columns: Directions in the input.
        ad: (rows, columns).
        sizes: (rows,), the root mean square of whole rows of the adjoint's side.
        kind: "adjoint" or "tangent", the source of `ad`.
    """

    program: Program
    source: Port
    target: Port
    rows: Probes
    columns: Probes
    ad: Floats
    sizes: Floats
    reference: Reference
    tolerance: Tolerance
    kind: str = "adjoint"

    @cached_property
    def singles(self) -> Bools:
        """True for single entries; see `Comparison`."""
        single = np.zeros(self.ad.shape, dtype=bool)
        single[: len(self.rows.units), : len(self.columns.units)] = True
        return single

    def place(self, slot: tuple[int, ...]) -> tuple[int, int]:
        """Row and column of a single entry; see `Comparison`."""
        return int(self.rows.units[slot[0]]), int(self.columns.units[slot[1]])

    def largest_in_row(self) -> Floats:
        """The largest abs(FD) of each row, (rows, 1)."""
        size = np.abs(self.reference.value)
        largest: Floats = np.where(np.isfinite(size), size, 0.0).max(axis=1, keepdims=True, initial=0.0)
        return largest

    def compared(self) -> ComparedEntries:
        """The single entries as data."""
        rows, columns = self.rows.units, self.columns.units
        value, bar = self.reference.value, self.reference.bar
        block = np.s_[: len(rows), : len(columns)]
        return ComparedEntries(
            (self.target.size, self.source.size),
            np.repeat(rows, len(columns)),
            np.tile(columns, len(rows)),
            self.ad[block].ravel(),
            value[block].ravel(),
            bar[block].ravel(),
        )


@dataclass(frozen=True)
class SparseEntries:
    """A pair with all possibly nonzero entries compared; see `Comparison`. Arrays are (entries,).

    Attributes:
        rows, columns: The positions of the entries; -1 for a combination of several.
    """

    program: Program
    source: Port
    target: Port
    rows: Indices
    columns: Indices
    ad: Floats
    reference: Reference
    tolerance: Tolerance
    kind: str = "adjoint"

    @cached_property
    def singles(self) -> Bools:
        """True for entries with a position."""
        single: Bools = self.rows >= 0
        return single

    def place(self, slot: tuple[int, ...]) -> tuple[int, int]:
        """Row and column of an entry."""
        return int(self.rows[slot[0]]), int(self.columns[slot[0]])

    def largest_in_row(self) -> Floats:
        """The largest abs(FD) in the row of each entry, (entries,)."""
        size = np.abs(self.reference.value)
        largest = np.zeros(self.target.size + 1)  # the last is for entries without a position
        np.maximum.at(largest, self.rows, np.where(np.isfinite(size), size, 0.0))
        found: Floats = largest[self.rows]
        return found

    def compared(self) -> ComparedEntries:
        """The single entries as data."""
        shape = self.target.size, self.source.size
        value, bar = self.reference.value, self.reference.bar
        found = ComparedEntries(shape, self.rows, self.columns, self.ad, value, bar, zeros=True)
        return found if self.singles.all() else replace(found.some(self.singles), zeros=True)
