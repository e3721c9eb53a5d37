"""Finds the wrong entry of a Jacobian too large to evaluate, by bisection.

If a random combination of all entries is wrong, so is the combination of one half of the columns, then of one
half of those, down to one column, and likewise down to one row: 2 · log2(size) combinations in place of size
entries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Checkpoint, Floats, Indices
from tapedebug.autograd.finite_diff.jacobian_entries import along
from tapedebug.autograd.finite_diff.richardson import DerivativeEstimate
from tapedebug.autograd.subjects.program import Port, Program

Misses = Callable[[Floats], Floats]
"""Maps vectors (2, size) to their errors."""


def bisect_entry(vector: Floats, misses: Misses) -> int:
    """Return the entry of `vector` found by repeatedly choosing the half with the larger error."""
    chosen: Indices = np.flatnonzero(vector)
    while len(chosen) > 1:
        halves = np.array_split(chosen, 2)
        both = np.zeros((2, len(vector)))
        for line, half in enumerate(halves):
            both[line, half] = vector[half]
        found = np.nan_to_num(misses(both), nan=np.inf)
        chosen = halves[int(found[1] > found[0])]
    return int(chosen[0])


@dataclass
class EntryBisection:
    """A search for entries of one Jacobian.

    Args:
        program: The program to differentiate.
        source: The input.
        target: The output.
        eps: The largest step.
        checkpoint: Called after each run.
    """

    program: Program
    source: Port
    target: Port
    eps: float
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        self.start = self.program.evaluate({})

    def entry(self, seed: Floats, direction: Floats) -> tuple[int, int]:
        """Return row and column of the entry that contributes most to the error of ⟨seed, J direction⟩.

        Args:
            seed: (rows,), an adjoint seed.
            direction: (columns,), a direction in the input.
        """
        gradient = self._pull(seed[None])[0]
        column = bisect_entry(
            direction,
            lambda parts: np.abs(parts @ gradient - np.nan_to_num(self.slopes(parts).value) @ seed),
        )
        unit = np.zeros((1, self.source.size))
        unit[0, column] = 1.0
        exact = np.nan_to_num(self.slopes(unit).value[0])
        row = bisect_entry(seed, lambda parts: np.abs(self._pull(parts)[:, column] - parts @ exact))
        return row, column

    def row_of_rounding(self, seed: Floats, column: int) -> int:
        """Return the row of the entry in `column` whose float32 adjoint differs most from its twin."""
        return bisect_entry(
            seed, lambda parts: np.abs((self._pull(parts, double=False) - self._pull(parts))[:, column])
        )

    def column_of_kink(self, row: int, direction: Floats) -> int:
        """Return the column that leaves the slope of one output along `direction` without an error bar."""

        def badness(parts: Floats) -> Floats:
            found = self.slopes(parts)
            bar: Floats = found.bar[:, row] + np.where(found.kink[:, row], np.inf, 0.0)
            return bar

        return bisect_entry(direction, badness)

    def slopes(self, directions: Floats) -> DerivativeEstimate:
        """Return the derivatives of the output along each direction, (k, rows)."""
        return along(
            self.program, {self.source: directions}, [self.target], self.start,
            eps=self.eps, pulse=self.checkpoint,
        )[self.target]  # fmt: skip

    def _pull(self, seeds: Floats, *, double: bool = True) -> Floats:
        pulled = self.program.pull_many({self.target: seeds}, double=double)[self.source]
        if self.checkpoint is not None:
            self.checkpoint()
        return pulled
