"""The wrong entries of a Jacobian, for the predicates of `error_patterns`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Floats, Indices
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.thresholds import ENTRY_IS_ZERO, NUMBERS_EQUAL
from tapedebug.lang.types import components, float32, value_shape


@dataclass(frozen=True, eq=False)
class Side:
    """The output or the input: its name, its shape (components last), the positions of all entries."""

    name: str
    shape: tuple[int, ...]
    type: Any
    positions: Indices

    @cached_property
    def axes(self) -> int:
        """The number of axes that count elements; the others count components."""
        return len(self.shape) - len(value_shape(self.type))

    @cached_property
    def width(self) -> int:
        """The number of scalars in one element."""
        return components(self.type)

    def at(self, axis: int, index: str) -> str:
        """Return `y[:, i]`, or `component i of y` for an axis of components."""
        if axis >= self.axes:
            return f"component {index} of {self.name}"
        return f"{self.name}[{', '.join(index if a == axis else ':' for a in range(self.axes))}]"


@dataclass(frozen=True, eq=False)
class WrongEntries:
    """The compared entries of one Jacobian, and which of them are wrong.

    Attributes:
        compared: The entries.
        wrong: True for wrong entries.
        rows, columns: Shape of the output and of the input, components last.
        output, input: Names.
        output_type, input_type: Their element types.
        beyond: Slopes on the other side of the nearest kink, NaN if none was found; None if not searched.
    """

    compared: ComparedEntries
    wrong: Bools
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    output: str = "the output"
    input: str = "the input"
    output_type: Any = float32
    input_type: Any = float32
    beyond: Floats | None = None

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """The output and the input."""
        return (
            Side(self.output, self.rows, self.output_type, self.compared.rows),
            Side(self.input, self.columns, self.input_type, self.compared.columns),
        )

    @cached_property
    def ad(self) -> Floats:
        """The wrong gradients."""
        return self.compared.ad[self.wrong]

    @cached_property
    def fd(self) -> Floats:
        """The right values of the wrong entries."""
        return self.compared.fd[self.wrong]

    @cached_property
    def bar(self) -> Floats:
        """The error bars of `fd`."""
        return np.where(np.isfinite(self.compared.bar), self.compared.bar, 0.0)[self.wrong]

    @cached_property
    def row(self) -> Indices:
        """The rows of the wrong entries."""
        return self.compared.rows[self.wrong]

    @cached_property
    def column(self) -> Indices:
        """The columns of the wrong entries."""
        return self.compared.columns[self.wrong]

    @cached_property
    def floor(self) -> float:
        """The magnitude that counts as zero relative to these entries."""
        sizes = np.abs(np.concatenate([self.ad, self.fd]))
        return ENTRY_IS_ZERO * float(sizes[np.isfinite(sizes)].max(initial=0.0))

    @cached_property
    def finite(self) -> bool:
        """True if both sides of all wrong entries are finite."""
        return bool(np.isfinite(self.ad).all() and np.isfinite(self.fd).all())

    def all_close(self, found: Floats, expected: Floats, bar: Floats | float = 0.0) -> bool:
        """True if two lists of numbers are equal up to rounding."""
        with np.errstate(all="ignore"):
            return bool(
                (np.abs(found - expected) <= NUMBERS_EQUAL * np.abs(expected) + bar + self.floor).all()
            )

    def lookup(self, rows: Indices, columns: Indices) -> tuple[Floats, Bools]:
        """Return FD at places of the Jacobian, and which of them are known."""
        order, keys = self._sorted
        wanted = rows * self.compared.shape[1] + columns
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        known = keys[at] == wanted
        values = np.where(known, self.compared.fd[order[at]], 0.0)
        return values, known | self.compared.zeros

    @cached_property
    def _sorted(self) -> tuple[Indices, Indices]:
        keys = self.compared.rows * self.compared.shape[1] + self.compared.columns
        order = np.argsort(keys, kind="stable")
        return order, keys[order]
