"""Checks a Jacobian too large to evaluate by random combinations of all its entries, in float64.

Finite differences along a few random directions give the combination of each row, to nine digits; so does
the tangent. Adjoints of a few random seeds give the combination of each column, in float32 and from the
float64 twin. A single wrong entry shows in them, however many entries there are: in the inner product of
seeds and directions (adjoint against differences), in one output (tangent against differences), or in one
input (float32 gradient against its twin). The entry is then found by bisection and judged on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Checkpoint, Floats
from tapedebug.autograd.finite_diff.bisect import EntryBisection
from tapedebug.autograd.finite_diff.float32_noise import moved_inputs, scaled_pulls
from tapedebug.autograd.finite_diff.richardson import DerivativeEstimate
from tapedebug.autograd.subjects.probes import (
    entry_scales,
    random_directions,
    seeds_of_all_kinds,
    typical_size,
)
from tapedebug.autograd.subjects.program import Port, Program
from tapedebug.autograd.thresholds import (
    PROJECTION_ROUNDING,
    PROJECTION_TOLERATED,
    ROUNDING_SPREAD,
    TANGENT_INCOMPLETE,
)

if TYPE_CHECKING:
    from tapedebug.autograd.checks.adjoint_check import CheckPlan

DIRECTIONS = 3


@dataclass
class RandomProjection:
    """Random combinations of the entries of one Jacobian.

    Args:
        program: The program to differentiate.
        source: The input.
        target: The output.
        check_plan: The settings of the check.
        checkpoint: Called after each run.
    """

    program: Program
    source: Port
    target: Port
    check_plan: CheckPlan
    checkpoint: Checkpoint | None = None

    def suspects(self) -> Iterator[tuple[int, int]]:
        """Yield row and column of entries that the combinations show to be wrong or at a kink."""
        bisection = EntryBisection(
            self.program, self.source, self.target, self.check_plan.eps, self.checkpoint
        )
        excess = self.error - self.allowed
        if (~(excess <= 0)).any():
            seed, direction = np.unravel_index(
                int(np.argmax(np.nan_to_num(excess, nan=np.inf))), excess.shape
            )
            yield bisection.entry(self.seeds[seed], self.directions[direction])
        row = self._row_of_tangent()
        if row is not None:
            unit = np.zeros(self.target.size)
            unit[row[0]] = 1.0
            yield bisection.entry(unit, self.directions[row[1]])
        column = self._column_of_rounding()
        if column is not None:
            yield bisection.row_of_rounding(self.seeds[column[0]], column[1]), column[1]
        bent = np.flatnonzero(self.mine & ~self.smooth)
        if len(bent):
            yield int(bent[0]), bisection.column_of_kink(int(bent[0]), self.directions[0])

    # -- directions, and differences of the outputs along them ----------------------------------------

    @cached_property
    def directions(self) -> Floats:
        """Random directions (DIRECTIONS, columns), scaled like the values of the input."""
        values = self.program.values(self.source)
        finite = np.isfinite(values)
        size = np.where(finite, np.abs(values), 0.0)
        count = max(DIRECTIONS, self.check_plan.dense)
        found = random_directions(self.source.size, count, entry_scales(size)) * finite
        return found * self._within(self.source)

    @cached_property
    def slopes(self) -> DerivativeEstimate:
        """Finite differences of the outputs along `directions`, (DIRECTIONS, rows)."""
        bisection = EntryBisection(
            self.program, self.source, self.target, self.check_plan.eps, self.checkpoint
        )
        return bisection.slopes(self.directions)

    @cached_property
    def smooth(self) -> Bools:
        """A mask (rows,) of outputs whose differences along all directions are known to some digits."""
        found = self.slopes
        with np.errstate(all="ignore"):
            size = np.abs(found.value)
            fine = found.bar <= 1e-3 * np.maximum(size, size[np.isfinite(size)].max(initial=0.0))
        smooth: Bools = (fine & ~found.kink & np.isfinite(found.value)).all(axis=0)
        return smooth

    @cached_property
    def mine(self) -> Bools:
        """A mask (rows,) of the requested outputs."""
        return self._within(self.target)

    @staticmethod
    def _within(port: Port) -> Bools:
        inside = np.zeros(port.size, dtype=bool)
        inside[port.positions] = True
        return inside

    # -- seeds, and their adjoints --------------------------------------------------------------------

    @cached_property
    def seeds(self) -> Floats:
        """Seeds (·, rows) of either sign, all negative, and large; weighted by the magnitudes of outputs."""
        size = np.abs(self.slopes.value[0])
        known = self.smooth & self.mine
        weight = 1.0 / np.maximum(size, 0.01 * typical_size(size[known]))
        kinds = np.concatenate(
            [random_directions(self.target.size, 1) * weight, seeds_of_all_kinds(self.target.size)]
        )
        return np.where(known, kinds, 0.0)

    @cached_property
    def exact(self) -> Floats:
        """The adjoints of `seeds` by the float64 twin, (·, columns)."""
        return self.program.pull_many({self.target: self.seeds}, double=True)[self.source]

    @cached_property
    def error(self) -> Floats:
        """The error of ⟨seed, J direction⟩ of the twin against finite differences, (seeds, directions)."""
        values = np.where(self.smooth & self.mine, self.slopes.value, 0.0)
        with np.errstate(all="ignore"):
            error: Floats = np.abs(self.exact @ self.directions.T - self.seeds @ values.T)
        return error

    @cached_property
    def allowed(self) -> Floats:
        """The largest error that is allowed, (seeds, directions)."""
        bars = np.where(self.smooth & self.mine, self.slopes.bar, 0.0)
        with np.errstate(all="ignore"):
            terms = np.abs(self.exact) @ np.abs(self.directions).T
            allowed: Floats = np.abs(self.seeds) @ bars.T + PROJECTION_ROUNDING * terms
        return allowed

    # -- single rows and columns ----------------------------------------------------------------------

    def _row_of_tangent(self) -> tuple[int, int] | None:
        """Return an output and a direction along which tangent and finite differences disagree."""
        tangents = self.program.push_many({self.source: self.directions})[self.target]
        if self.checkpoint is not None:
            self.checkpoint()
        found, known = self.slopes, self.smooth & self.mine
        with np.errstate(all="ignore"):
            error = np.abs(tangents - found.value)
            size = np.where(known, np.abs(found.value), 0.0).max(initial=0.0)
            missed = known & (error > 2 * found.bar + 1e-9 * np.abs(found.value) + PROJECTION_ROUNDING * size)
            ranked = np.where(missed, error / np.maximum(np.abs(found.value), 1e-300), -1.0)
        if not missed.any() or missed.any(axis=0).sum() > max(1.0, TANGENT_INCOMPLETE * known.sum()):
            return None
        direction, row = np.unravel_index(int(np.argmax(ranked)), ranked.shape)
        return int(row), int(direction)

    def _column_of_rounding(self) -> tuple[int, int] | None:
        """Return a seed and an input whose gradient differs from its twin by more than float32 rounding."""
        pulled = self.program.pull_many({self.target: self.seeds})[self.source]
        least = np.array([np.abs(seed[seed != 0]).min(initial=np.inf) for seed in self.seeds])[:, None]
        with np.errstate(all="ignore"):
            error = np.abs(pulled - self.exact)
            floor = (
                PROJECTION_TOLERATED * self.check_plan.tolerance.atol * least
                + self.source.rounding * np.abs(self.exact)
            )
            missed = ~(error <= floor) & self._within(self.source)
            if missed.any():  # the usual exit comes first: rounding is expensive to measure
                floor = floor + self._rounding(pulled)
                missed &= ~(error <= floor)
        if not missed.any():
            return None
        ranked = np.where(missed, np.nan_to_num(error - floor, nan=np.inf), -1.0)
        seed, column = np.unravel_index(int(np.argmax(ranked)), ranked.shape)
        return int(seed), int(column)

    def _rounding(self, pulled: Floats) -> Floats:
        """Return the error that float32 rounding may cause in the adjoints of `seeds`."""
        found = np.zeros(pulled.shape)
        moved = moved_inputs(self.program)
        for line, seed in enumerate(self.seeds):
            scaled, rounded = (each[self.source] for each in scaled_pulls(self.program, self.target, seed))
            found[line] = ROUNDING_SPREAD * np.abs(scaled - pulled[line]).max(axis=0)
            found[line] += ROUNDING_SPREAD * np.abs(rounded - self.exact[line]).max(axis=0)
            for at in moved:
                other = self.program.pull({self.target: seed}, at=at, double=True)[self.source]
                found[line] += np.abs(other - self.exact[line])
            if self.checkpoint is not None:
                self.checkpoint()
        return found
