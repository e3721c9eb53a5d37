"""Evaluates a Jacobian in few runs: traced, coloured, verified by one random product.

The requested outputs form the rows and the inputs the columns of one joint matrix, so that rows of different
outputs also share runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Floats, Indices
from tapedebug.autograd.finite_diff.jacobian_entries import along
from tapedebug.autograd.sparse.boolean_matrix import TooManyEntries
from tapedebug.autograd.sparse.colouring import By, Compression, compress
from tapedebug.autograd.sparse.pattern import Pattern, traced
from tapedebug.autograd.subjects.probes import random_directions
from tapedebug.autograd.subjects.program import Port, Program, distinct

Mode = Literal["adjoint", "tangent", "fewest", "differences"]

COMPRESSION_PAYS = 0.75
"""Compressed runs are used if their number is less than this fraction of the single runs."""
SINGLE, DOUBLE = 1e-4, 1e-9
"""Allowed error of the random product, relative to the sum of the magnitudes of its terms."""


@dataclass(frozen=True, eq=False)
class JointPattern:
    """The Jacobian of several outputs by several inputs, as one matrix.

    Attributes:
        sources, targets: One port for each array.
        pattern: Its possible entries.
        columns, rows: The first column of each source, the first row of each target, and the ends.
    """

    sources: tuple[Port, ...]
    targets: tuple[Port, ...]
    pattern: Pattern
    columns: list[int]
    rows: list[int]

    def split(self, matrix: Floats, ports: Sequence[Port]) -> dict[Port, Floats]:
        """Split rows over all scalars of all ports into one matrix for each port."""
        ends = self.columns if ports is self.sources else self.rows
        return {p: matrix[:, a:b] for p, a, b in zip(ports, ends[:-1], ends[1:], strict=True)}

    def parts(self, values: Floats) -> dict[tuple[Port, Port], tuple[Indices, Indices, Floats]]:
        """Return the entries of each pair: rows, columns, values."""
        p = self.pattern
        if len(self.sources) == len(self.targets) == 1:
            return {(self.sources[0], self.targets[0]): (p.rows, p.columns, values)}
        found = {}
        for target, top, bottom in zip(self.targets, self.rows[:-1], self.rows[1:], strict=True):
            first, last = np.searchsorted(p.rows, (top, bottom))
            mine = slice(first, last)
            for source, left, right in zip(self.sources, self.columns[:-1], self.columns[1:], strict=True):
                here = (p.columns[mine] >= left) & (p.columns[mine] < right)
                entries = p.rows[mine][here] - top, p.columns[mine][here] - left, values[mine][here]
                found[source, target] = entries
        return found


@dataclass
class ColouredJacobian:
    """A Jacobian that was computed from few runs.

    Attributes:
        joint: The pattern of the Jacobian.
        values: (entries,) float64; NaN for entries that were not requested.
        runs: The number of runs.
    """

    joint: JointPattern
    values: Floats
    runs: int


def joint_of(
    program: Program, sources: Sequence[Port], targets: Sequence[Port], *, fresh: bool = False
) -> JointPattern | None:
    """Return the joint pattern of these inputs and outputs; None if it is unknown."""
    patterns = traced(program, fresh=fresh)
    if patterns is None:
        return None
    by_array = {(id(i.array), id(o.array)): pattern for (i, o), pattern in patterns.items()}
    chosen_in, chosen_out = tuple(distinct(sources)), tuple(distinct(targets))
    columns = [*accumulate((source.size for source in chosen_in), initial=0)]
    rows = [*accumulate((target.size for target in chosen_out), initial=0)]
    parts = [
        (by_array[id(source.array), id(target.array)], top, left)
        for target, top in zip(chosen_out, rows[:-1], strict=True)
        for source, left in zip(chosen_in, columns[:-1], strict=True)
    ]
    first = parts[0][0]
    if len(parts) == 1:
        return JointPattern(chosen_in, chosen_out, first, columns, rows)
    key = ("joint", *(id(pattern) for pattern, _, _ in parts))
    if key not in first.cache:
        shape = rows[-1], columns[-1]
        entries = [np.concatenate([p.rows + top for p, top, _ in parts])]
        entries.append(np.concatenate([p.columns + left for p, _, left in parts]))
        try:
            whole = Pattern.of(shape, entries[0], entries[1])
        except TooManyEntries:
            return None
        first.cache[key] = whole, [pattern for pattern, _, _ in parts]  # which keeps their ids theirs
    return JointPattern(chosen_in, chosen_out, first.cache[key][0], columns, rows)


def coloured_jacobian(
    program: Program,
    sources: Sequence[Port],
    targets: Sequence[Port],
    mode: Mode,
    chosen: Mapping[Port, Indices],
    *,
    eps: float = 1e-4,
    notes: list[str],
) -> ColouredJacobian | None:
    """Return the Jacobian of `targets` by `sources` from few runs; None if it takes one run for each row.

    Args:
        program: The program to differentiate.
        sources: The inputs.
        targets: The outputs.
        mode: By adjoint runs (in the precision of the program), by tangents (likewise), by whichever of both,
            or both together, are fewest, or by differences of the float64 twin.
        chosen: The requested rows of each target (for adjoints, and for the fewest) or columns of each
            source.
        eps: The largest step of differences.
        notes: Gets a note if a pattern was wrong.
    """
    for fresh in (False, True):
        joint = joint_of(program, sources, targets, fresh=fresh)
        if joint is None:
            return None
        job = _Job(program, joint, mode, chosen, eps)
        if not job.pays():
            return None
        values = job.run()
        if values is not None:
            return ColouredJacobian(joint, job.spread(values), len(job.compression) + 1)
    doubted = "the tangent or the traced sparsity" if mode == "fewest" else "the traced sparsity"
    notes.append(
        f"{program.subject}: a random product contradicts {doubted}; "
        "every row and column was computed by itself"
    )
    return None


class _Job:
    """Runs that compute the entries of a joint matrix, and one more that detects a wrong pattern."""

    def __init__(
        self, program: Program, joint: JointPattern, mode: Mode, chosen: Mapping[Port, Indices], eps: float
    ) -> None:
        self.program, self.joint, self.mode, self.eps = program, joint, mode, eps
        self.back = mode in ("adjoint", "fewest")
        ports, ends = (joint.targets, joint.rows) if self.back else (joint.sources, joint.columns)
        self.wanted = np.concatenate([chosen[p] + a for p, a in zip(ports, ends[:-1], strict=True)])
        size = ends[-1]
        self.all = len(self.wanted) == size
        self.pattern = joint.pattern
        if not self.all:
            only = joint.pattern.only_rows if self.back else joint.pattern.only_columns
            self.pattern = only(self.wanted)
        self.by: By = "fewest" if mode == "fewest" else "rows" if self.back else "columns"
        self.compression: Compression = compress(self.pattern, self.by)
        self.ports, self.size = ports, size

    def pays(self) -> bool:
        """True if these are fewer runs than one for each row or column."""
        return len(self.compression) + 1 <= COMPRESSION_PAYS * len(self.wanted)

    def spread(self, values: Floats) -> Floats:
        """Return values at the entries of the whole pattern, NaN for those that were not requested."""
        if self.all:
            return values
        asked = np.zeros(self.size, bool)
        asked[self.wanted] = True
        whole = self.joint.pattern
        found = np.full(len(whole), np.nan)
        found[asked[whole.rows if self.back else whole.columns]] = values
        return found

    def run(self) -> Floats | None:
        """Return the entries; None if the random product contradicts the pattern."""
        vectors = self._vectors()
        probe = vectors[-1]
        if self.mode == "differences":
            return self._by_differences(vectors)
        found = self._runs(vectors, double=False)
        values = self._values(found, double=False)
        if self._agrees(values, probe, found[-1], SINGLE, 0.0):
            return values
        # The contradiction may be rounding.
        found = self._runs(vectors, double=True)
        exact = self._values(found, double=True)
        return values if self._agrees(exact, probe, found[-1], DOUBLE, 1e-12) else None

    def _vectors(self) -> Floats:
        """Return seeds (or directions) of all runs; the last one is the random probe."""
        cache, key = self.pattern.cache, ("vectors", self.by)
        if key not in cache:
            c = self.compression
            probe = np.zeros(self.size)
            probe[self.wanted] = random_directions(self.size, 1)[0][self.wanted]
            cache[key] = np.vstack([c.seeds if self.back else c.directions, probe])
        found: Floats = cache[key]
        return found

    def _runs(self, vectors: Floats, *, double: bool) -> Floats:
        if not self.back:
            return self._pushed(vectors, double=double)
        given = self.joint.split(vectors, self.ports)
        found = self.program.pull_many(given, wanted=self.joint.sources, double=double)
        return _beside([found[source] for source in self.joint.sources])

    def _pushed(self, directions: Floats, *, double: bool) -> Floats:
        pushed = self.program.push_many(self.joint.split(directions, self.joint.sources), double=double)
        return _beside([pushed[target] for target in self.joint.targets])

    def _values(self, found: Floats, *, double: bool) -> Floats:
        """Return the entries; some columns may take tangent runs of their own beside the adjoint ones."""
        if not self.back:
            return self.compression.values(None, found[:-1])
        c = self.compression
        return c.values(found[:-1], self._pushed(c.directions, double=double) if c.columns else None)

    def _agrees(self, values: Floats, probe: Floats, product: Floats, relative: float, least: float) -> bool:
        """True if the entries reproduce the result of the random product."""
        expected = self._product(values, probe)
        with np.errstate(invalid="ignore"):
            off = np.abs(product - expected)
            near: Bools = off <= relative * np.abs(expected)
            if near.all():
                return True
            size = self._product(np.abs(values), np.abs(probe))
            largest = float(size[np.isfinite(size)].max(initial=0.0))
            near |= off <= relative * size + least * largest
        return bool((near | (~np.isfinite(product) & ~np.isfinite(expected))).all())

    def _product(self, values: Floats, probe: Floats) -> Floats:
        """Return the product of the entries with a vector."""
        p, shape = self.pattern, self.joint.pattern.shape
        given, taken = (p.rows, p.columns) if self.back else (p.columns, p.rows)
        count = shape[1] if self.back else shape[0]
        with np.errstate(invalid="ignore", over="ignore"):
            product: Any = np.bincount(taken, values * probe[given], count)
        return np.asarray(product, np.float64)

    def _by_differences(self, vectors: Floats) -> Floats | None:
        targets = self.joint.targets
        start = self.program.evaluate({})
        slopes = along(self.program, self.joint.split(vectors, self.ports), targets, start, eps=self.eps)
        found = _beside([slopes[target].value for target in targets])
        bars = _beside([slopes[target].bar for target in targets])
        values, bar = (self._values(each, double=True) for each in (found, bars))
        with np.errstate(invalid="ignore"):
            probe = vectors[-1]
            expected, size = self._product(values, probe), self._product(np.abs(values), np.abs(probe))
            unsure = self._product(bar, np.abs(probe)) + bars[-1]
            near: Bools = np.abs(found[-1] - expected) <= 4 * unsure + 1e-7 * size
        near |= ~np.isfinite(found[-1]) | ~np.isfinite(unsure)  # kinks and jumps: no slope contradicts them
        return values if near.all() else None


def _beside(matrices: list[Any]) -> Floats:
    found: Floats = matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1)
    return found
