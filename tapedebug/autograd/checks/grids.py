"""Checks small Jacobians completely, and samples rows and columns of others, entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.array_types import Bools, Checkpoint, Floats
from tapedebug.autograd.checks.bias import systematic_note
from tapedebug.autograd.checks.entry_recheck import settled
from tapedebug.autograd.finite_diff.comparison import Comparison, EntryGrid, SparseEntries
from tapedebug.autograd.finite_diff.jacobian_entries import adjoints, fine_for, references
from tapedebug.autograd.finite_diff.verdict import AGREE, SUSPECT, Codes, Reference, judge
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.results.messages import describe
from tapedebug.autograd.sparse.pattern import Pattern
from tapedebug.autograd.subjects.probes import Probes, seeds_of_all_kinds
from tapedebug.autograd.subjects.program import Pairs, Port, Program

if TYPE_CHECKING:
    from tapedebug.autograd.checks.adjoint_check import CheckPlan

Pair = tuple[Port, Port]


def rows_of(port: Port, plan: CheckPlan) -> Probes:
    """Return the rows to compare: unit seeds, and negative and large ones, in which an adjoint is linear."""
    seeds = seeds_of_all_kinds(port.size) if port.size else None
    return Probes.of(port, plan.max_outputs, seeds, sample=plan.options.sample)


def columns_of(port: Port, plan: CheckPlan) -> Probes:
    """Return the columns to compare."""
    return Probes.of(port, plan.max_inputs, sample=plan.options.sample)


def compare_grids(
    program: Program,
    pairs: Pairs,
    rows: Mapping[Port, Probes],
    columns: Mapping[Port, Probes],
    plan: CheckPlan,
    checkpoint: Checkpoint | None = None,
) -> list[EntryGrid]:
    """Evaluate rows × columns of each of `pairs`, in their order."""
    found: dict[Pair, Reference] = {}
    for source in pairs.inputs():
        targets = pairs.outputs(source)
        several = references(
            program, source, targets, columns[source], rows,
            kind=plan.options.reference, eps=plan.eps, enough=fine_for(plan.tolerance), checkpoint=checkpoint,
        )  # fmt: skip
        found.update({(source, target): reference for target, reference in several.items()})
    grids: dict[Pair, EntryGrid] = {}
    for target in pairs.outputs():
        sources = [i for i, o in pairs.chosen if o is target]
        pulled = adjoints(program, target, rows[target], sources, columns=columns, checkpoint=checkpoint)
        for source in sources:
            grids[source, target] = EntryGrid(
                program, source, target, rows[target], columns[source],
                pulled[source].values, pulled[source].sizes, found[source, target], plan.tolerance,
            )  # fmt: skip
    return [grids[pair] for pair in pairs.chosen]


def grid_result(
    pair: EntryGrid,
    plan: CheckPlan,
    checkpoint: Checkpoint | None = None,
    *,
    nondeterministic: str = "",
    notes: tuple[str, ...] = (),
    pattern: Pattern | None = None,
) -> tuple[Comparison, PairResult]:
    """Return the verdict and result of one pair.

    Args:
        pair: The evaluated entries.
        plan: The settings of the check.
        checkpoint: Called after each run.
        nondeterministic: The difference of two runs on the same values, in words.
        notes: Notes to add.
        pattern: The only entries that count; None for all.

    Returns:
        The compared entries, and the result.
    """
    codes = judge(pair.ad, pair.reference, pair.tolerance, pair.source.rounding)
    if nondeterministic:
        return pair, describe(pair, codes, nondeterministic=nondeterministic, notes=notes)
    codes[~pair.singles] = np.where(_missed(pair), SUSPECT, AGREE)[~pair.singles]
    if pattern is not None:
        codes[~_inside(pair, pattern)] = AGREE
    rounding = settled(pair, codes, plan, checkpoint)
    shown: Comparison = pair
    if pattern is not None:
        shown, codes, rounding = _entries(pair, _inside(pair, pattern), codes, rounding)
        left = int(pair.singles.sum()) - codes.size
        notes += (f"{pair.source.label} → {pair.target.label}: {left} entries outside of the traced sparsity "
                  "were left out (masked=True)",)  # fmt: skip
    if (codes == AGREE).all() and plan.options.reference == "float64":
        notes += systematic_note(shown, codes, rounding, checkpoint)
    return shown, describe(shown, codes, rounding=rounding, notes=notes)


def _inside(pair: EntryGrid, pattern: Pattern) -> Bools:
    """True for single entries in the pattern."""
    inside = np.zeros(pair.ad.shape, dtype=bool)
    block = inside[: len(pair.rows.units), : len(pair.columns.units)]
    keys = pattern.rows * pattern.shape[1] + pattern.columns
    block[...] = np.isin(pair.rows.units[:, None] * pattern.shape[1] + pair.columns.units, keys)
    return inside


def _entries(
    pair: EntryGrid, inside: Bools, codes: Codes, rounding: Bools
) -> tuple[SparseEntries, Codes, Bools]:
    lines, columns = np.nonzero(inside)
    found = SparseEntries(
        pair.program, pair.source, pair.target, pair.rows.units[lines], pair.columns.units[columns],
        pair.ad[inside], pair.reference.part(inside), pair.tolerance,
    )  # fmt: skip
    return found, codes[inside], rounding[inside]


def _missed(pair: EntryGrid) -> Bools:
    """True where AD misses FD by more than the sum of entries that are all within tolerance."""
    left = _weights(pair.rows)[:, None]
    with np.errstate(all="ignore"):
        error = np.abs(pair.ad - pair.reference.value) - pair.reference.bar
        size = np.maximum(pair.sizes[:, None], np.abs(pair.reference.value))
        missed: Bools = error > pair.tolerance.atol * left + pair.tolerance.rtol * size
    return (missed & ~pair.reference.kink) | np.isnan(pair.ad)


def _weights(probes: Probes) -> Floats:
    norms = np.abs(probes.dense).sum(axis=1)
    return np.concatenate([np.ones(len(probes.units)), norms])
