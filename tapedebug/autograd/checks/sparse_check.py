"""Check all entries of a sparse Jacobian in a few runs, each for many independent rows or columns.

The possible entries of the Jacobian were traced; differences along groups of columns and adjoints of groups
of rows (`colouring`) show each entry separately. Random products verify that there are no other entries: in
each output, a difference along a random direction of all inputs must equal the sum of its entries, and in
each input, so must the adjoints of seeds that are negative and large in all outputs. An entry that does not
agree is evaluated again on its own, from its own row and column, before it is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Checkpoint, Floats, Indices
from tapedebug.autograd.finite_diff.comparison import SparseEntries
from tapedebug.autograd.finite_diff.float32_noise import (
    SCALES,
    RoundingEvidence,
    classify,
    further_inputs,
    lost_digits,
    moved_inputs,
    scaled_pulls,
)
from tapedebug.autograd.finite_diff.jacobian_entries import along, fine_for, plainly
from tapedebug.autograd.finite_diff.richardson import TINY, DerivativeEstimate, first_step
from tapedebug.autograd.finite_diff.verdict import SUSPECT, WRONG, Codes, Reference, judge
from tapedebug.autograd.sparse.colouring import Compression, compress
from tapedebug.autograd.sparse.pattern import Pattern, Patterns
from tapedebug.autograd.subjects.probes import SEED, random_directions, seeds_of_all_kinds
from tapedebug.autograd.subjects.program import Port, Program
from tapedebug.autograd.thresholds import SUM_ROUNDING_FLOAT64

if TYPE_CHECKING:
    from tapedebug.autograd.checks.adjoint_check import CheckPlan

Pair = tuple[Port, Port]

MOST_RUNS = 96  # groups of rows, or of columns, up to which groups are cheaper than random directions
LARGE_VALUE = 30.0  # values up to which steps may be as small as those of a sweep ever are
LOOKS = 4  # outputs that are tested for effects of entries outside of the pattern


@dataclass(frozen=True, eq=False)
class JudgedEntries:
    """A pair whose entries were all compared.

    Attributes:
        comparison: The entries.
        codes: The verdict of each entry.
        rounding: True for entries that agree except for float32 rounding.
        seeds: (·, rows), the seeds of all kinds.
        pulled: (·, columns), their adjoints.
        exact: (entries,), the entries from the float64 twin of the adjoint.
        pulled_exact: (·, columns), the adjoints of `seeds` from the twin.
        groups: Number of groups of rows, and of columns, that were needed.
    """

    comparison: SparseEntries
    codes: Codes
    rounding: Bools
    seeds: Floats
    pulled: Floats
    exact: Floats
    pulled_exact: Floats
    groups: tuple[int, int]


def compressible(patterns: Patterns, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs whose entries need only a few groups of rows and of columns."""
    return [pair for pair in pairs if _is_cheap(patterns[pair])]


def _is_cheap(pattern: Pattern) -> bool:
    if not len(pattern):
        return True
    least = max(np.bincount(pattern.rows).max(), np.bincount(pattern.columns).max())
    if least > MOST_RUNS:
        return False
    return compress(pattern, "rows").rows <= MOST_RUNS and compress(pattern, "columns").columns <= MOST_RUNS


@dataclass
class SparseCheck:
    """Compares pairs whose sparsity is known.

    Args:
        program: The program to differentiate.
        patterns: The possible entries of each pair.
        check_plan: The settings of the check.
        checkpoint: Called after each run.

    Attributes:
        incomplete: Pairs whose pattern lacks entries, according to the differences, and where.
        column_groups: Number of groups in which the columns of a pair were displaced.
    """

    program: Program
    patterns: Mapping[Pair, Pattern]
    check_plan: CheckPlan
    checkpoint: Checkpoint | None = None
    incomplete: dict[Pair, int] = field(default_factory=dict)
    column_groups: dict[Pair, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = self.program.evaluate({})

    def judged(self) -> dict[Pair, JudgedEntries]:
        """Return all pairs that are not `incomplete`."""
        references: dict[Pair, Reference] = {}
        for source in dict.fromkeys(source for source, _ in self.patterns):
            references.update(self._references(source))
        judged: dict[Pair, JudgedEntries] = {}
        for target in dict.fromkeys(target for _, target in references):
            of_target = {pair: found for pair, found in references.items() if pair[1] is target}
            judged.update(self._adjoints(target, of_target))
        return judged

    # -- differences ----------------------------------------------------------------------------------

    def _references(self, source: Port) -> dict[Pair, Reference]:
        targets = [target for own, target in self.patterns if own is source]
        stacked = _stacked([self.patterns[source, target] for target in targets], axis=0)
        groups = compress(stacked, "columns")
        colours = self._columns_by_kind(source, groups.column_colours)
        slopes, steps, free, freely = self._slopes(source, targets, _indicators(colours))
        found: dict[Pair, Reference] = {}
        for target in targets:
            pattern = self.patterns[source, target]
            reference = _at(slopes[target], colours[pattern.columns], pattern.rows, steps[pattern.columns])
            self.column_groups[source, target] = _count(colours[pattern.columns])
            missed = self._missed(source, target, reference, freely[target], free)
            if missed is None:
                found[source, target] = reference
            else:
                self.incomplete[source, target] = missed
        return found

    def _columns_by_kind(self, source: Port, colours: Indices) -> Indices:
        """Return groups of columns with values of similar size, so that one step suits all of them.

        A step that also displaces a large value cannot be as small as a tiny value needs.
        """
        size = np.abs(self.program.values(source))
        kinds = np.where(size > LARGE_VALUE, 1, np.where(_tiny(size, self.check_plan.eps), 2, 0))
        if (kinds == kinds[:1]).all():
            return colours
        _, apart = np.unique(3 * colours + kinds, return_inverse=True)
        return np.where(colours < 0, -1, apart)

    def _slopes(
        self, source: Port, targets: Sequence[Port], groups: Floats
    ) -> tuple[dict[Port, DerivativeEstimate], Floats, Floats, dict[Port, DerivativeEstimate]]:
        """Return differences along groups of columns and along a random direction, each with its steps."""
        program, plan = self.program, self.check_plan
        values = program.values(source)
        finite = np.isfinite(values)
        # Steps of each entry are as large as they would be if it were displaced alone.
        size = np.where(finite, np.abs(values), 0.0)
        steps = np.where(finite, _steps(size, plan.eps) / first_step(plan.eps, 0.0), 0.0)
        tiny = _tiny(size, plan.eps)
        steps[tiny] = size[tiny] / (0.5 * plan.eps * TINY)  # swept with steps of their own; see `slopes`
        free = random_directions(source.size, 1, steps)
        if plan.options.reference == "float32":
            slopes = plainly(program, source, groups, targets, plan.eps, self.checkpoint)
            return slopes, np.ones(source.size), free[0], self._sweep(source, targets, free)
        found = self._sweep(source, targets, np.concatenate([groups * steps, free]))
        return found, steps, free[0], found

    def _sweep(
        self, source: Port, targets: Sequence[Port], directions: Floats
    ) -> dict[Port, DerivativeEstimate]:
        return along(
            self.program, {source: directions}, targets, self.start,
            eps=self.check_plan.eps, enough=fine_for(self.check_plan.tolerance), pulse=self.checkpoint,
        )  # fmt: skip

    def _missed(
        self, source: Port, target: Port, reference: Reference, slopes: DerivativeEstimate, free: Floats
    ) -> int | None:
        """Return an output whose derivative along a random direction is not the sum of its entries, if any.

        If differences contradict each other, as in chaos, the error bars are widened instead.
        """
        pattern = self.patterns[source, target]
        if self.check_plan.options.masked or self.check_plan.options.reference == "float32":
            return None
        with np.errstate(all="ignore"):
            sums = _sums(
                pattern.rows, [reference.value, reference.bar], free[pattern.columns], pattern.shape[0]
            )
            error = np.abs(slopes.value[-1] - sums[0])
            allowed = slopes.bar[-1] + sums[1] + SUM_ROUNDING_FLOAT64 * sums[2]
            known = ~slopes.kink[-1] & (allowed <= 0.1 * np.maximum(np.abs(slopes.value[-1]), sums[2]))
        bent = np.zeros(pattern.shape[0], dtype=bool)
        bent[pattern.rows[reference.kink]] = True
        missed = known & ~bent & (error > 2 * allowed)
        if not missed.any():
            return None
        worst = np.argsort(-np.where(missed, error, -1.0))[:LOOKS]
        others = np.repeat(free[None], len(worst), axis=0)
        for line, row in enumerate(worst):
            others[line, pattern.columns[pattern.rows == row]] = 0.0
        beyond = self._sweep(source, [target], others)[target]
        lines = np.arange(len(worst))
        there = np.abs(beyond.value[lines, worst]) > 2 * beyond.bar[lines, worst]
        if there.any():
            return int(worst[np.argmax(there)])
        wide = np.where(missed, error, 0.0)[pattern.rows]
        with np.errstate(all="ignore"):
            reference.bar[...] += np.where(wide > 0, wide / np.abs(free[pattern.columns]), 0.0)
        return None

    # -- adjoints -------------------------------------------------------------------------------------

    def _adjoints(self, target: Port, references: Mapping[Pair, Reference]) -> dict[Pair, JudgedEntries]:
        sources = [source for source, _ in references]
        stacked = _stacked([self.patterns[pair] for pair in references], axis=1)
        groups = compress(stacked, "rows")
        dense = seeds_of_all_kinds(target.size)
        if target.only is not None:
            dense *= np.isin(np.arange(target.size), target.only)
        weights = _weights(target.size)
        seeds = np.concatenate([groups.seeds * weights, dense])
        pulled = self.program.pull_many({target: seeds})
        twin = self.program.pull_many({target: seeds}, double=True)
        if self.checkpoint is not None:
            self.checkpoint()
        found = {}
        for source in sources:
            pair = source, target
            pattern, gradients = self.patterns[pair], pulled[source]
            where = groups.row_colours[pattern.rows], pattern.columns
            comparison = SparseEntries(
                self.program, source, target, pattern.rows, pattern.columns,
                gradients[where] / weights[pattern.rows], references[pair],
                self.check_plan.tolerance,
            )  # fmt: skip
            exact = twin[source][where] / weights[pattern.rows]
            codes = judge(comparison.ad, comparison.reference, self.check_plan.tolerance, source.rounding)
            rounding = np.zeros(codes.shape, dtype=bool)
            if (codes == SUSPECT).any():
                rounding = self._explain(comparison, groups, exact, codes)
            found[pair] = JudgedEntries(
                comparison,
                codes,
                rounding,
                dense,
                gradients[groups.rows :],
                exact,
                twin[source][groups.rows :],
                (_count(groups.row_colours[pattern.rows]), self.column_groups[pair]),
            )
        return found

    def _explain(self, pair: SparseEntries, groups: Compression, exact: Floats, codes: Codes) -> Bools:
        """Turn each SUSPECT of `codes` into a verdict, in place; return entries that rounding explains."""
        weights = _weights(pair.target.size)
        seeds = groups.seeds * weights
        where = groups.row_colours[pair.rows], pair.columns

        def entries(of: Floats) -> Floats:
            picked: Floats = of[where] / weights[pair.rows]
            return picked

        def samples(several: list[dict[Port, Floats]]) -> tuple[Floats, Floats]:
            both = [np.stack([entries(self._pulled(pair, seeds, at, double)) for at in several])
                    for double in (True, False)]  # fmt: skip
            return both[0], both[1]

        each = [scaled_pulls(self.program, pair.target, seed) for seed in seeds]
        scaled, rounded = (
            np.stack([
                entries(np.stack([pulls[kind][pair.source][k] for pulls in each])) for k in range(len(SCALES))
            ])
            for kind in (0, 1)
        )  # fmt: skip
        lost = lost_digits(self.program, pair.target)[pair.rows]
        moved, single = samples(moved_inputs(self.program))
        found = RoundingEvidence(exact, moved, single, scaled, rounded, lost, pair.source.rounding)
        given = pair.ad, pair.reference, pair.tolerance
        verdict, minor = classify(*given, found, pair.reference.scale)
        suspect = codes == SUSPECT
        if (verdict[suspect] == WRONG).any():
            found = found.beside(*samples(further_inputs(self.program)))
            verdict, minor = classify(*given, found, pair.reference.scale)
        codes[suspect] = verdict[suspect]
        forgiven: Bools = suspect & minor
        return forgiven

    def _pulled(self, pair: SparseEntries, seeds: Floats, at: dict[Port, Floats], double: bool) -> Floats:
        several = [self.program.pull({pair.target: seed}, at=at, double=double) for seed in seeds]
        if self.checkpoint is not None:
            self.checkpoint()
        return np.stack([pulled[pair.source] for pulled in several])


def _tiny(size: Floats, eps: float) -> Bools:
    tiny: Bools = (size > 0) & (size < eps * TINY)
    return tiny


def _indicators(colours: Indices) -> Floats:
    found = np.zeros((int(colours.max(initial=-1)) + 1, len(colours)))
    mine = np.flatnonzero(colours >= 0)
    found[colours[mine], mine] = 1.0
    return found


def _count(colours: Indices) -> int:
    return int(np.count_nonzero(np.bincount(colours)))


def _weights(size: int) -> Floats:
    """Return powers of two for seeds, to detect an adjoint that confuses rows of one group."""
    exponents = np.random.default_rng(SEED).integers(-4, 4, size=size)
    weights: Floats = np.exp2(exponents.astype(np.float64))
    return weights


def _stacked(patterns: Sequence[Pattern], axis: int) -> Pattern:
    """Return patterns joined below or beside each other."""
    if len(patterns) == 1:
        return patterns[0]
    bounds = [0, *np.cumsum([pattern.shape[axis] for pattern in patterns]).tolist()]
    shift = [np.array([low, 0] if axis == 0 else [0, low]) for low in bounds[:-1]]
    rows = np.concatenate([p.rows + by[0] for p, by in zip(patterns, shift, strict=True)])
    columns = np.concatenate([p.columns + by[1] for p, by in zip(patterns, shift, strict=True)])
    shape = list(patterns[0].shape)
    shape[axis] = bounds[-1]
    return Pattern.of((shape[0], shape[1]), rows, columns)


def _steps(values: Floats, eps: float) -> Floats:
    """Return `first_step` of each value."""
    least = np.maximum(np.maximum(eps, np.abs(values) * 2.0**-27), 1e-300)
    steps: Floats = np.exp2(np.round(np.log2(least)))
    return steps


def _at(slopes: DerivativeEstimate, groups: Indices, outputs: Indices, steps: Floats) -> Reference:
    """Return the derivatives of single entries, from those along groups of columns."""
    where = groups, outputs
    with np.errstate(all="ignore"):
        value, bar, kink = slopes.value[where] / steps, slopes.bar[where] / steps, slopes.kink[where]
        value[steps == 0], bar[steps == 0] = np.nan, np.inf  # inputs that are not finite
        if not kink.any():
            return Reference(value, bar, value, value, kink)
        return Reference(value, bar, slopes.left[where] / steps, slopes.right[where] / steps, kink)


def _sums(places: Indices, parts: Sequence[Floats], weights: Floats, size: int) -> list[Floats]:
    """Return sums over the entries of each place: value · weight, bar · abs(weight), abs(value · weight)."""
    value, bar = parts
    terms = value * weights
    several = terms, bar * np.abs(weights), np.abs(terms)
    return [np.bincount(places, weights=each, minlength=size).astype(np.float64) for each in several]
