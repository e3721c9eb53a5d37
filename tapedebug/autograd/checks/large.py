"""Checks Jacobians too large to evaluate and without known sparsity, and any in `fast_mode`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.array_types import Checkpoint, Floats, Indices
from tapedebug.autograd.checks.entry_recheck import RecheckedEntries, recheck_entries
from tapedebug.autograd.checks.grids import columns_of, compare_grids, grid_result, rows_of
from tapedebug.autograd.checks.random_projection import RandomProjection
from tapedebug.autograd.finite_diff.comparison import Comparison
from tapedebug.autograd.finite_diff.verdict import AGREE
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.results.messages import describe
from tapedebug.autograd.subjects.probes import Probes
from tapedebug.autograd.subjects.program import Pairs, Port, Program
from tapedebug.autograd.thresholds import FLOAT64_ADJOINT_OFF

if TYPE_CHECKING:
    from tapedebug.autograd.checks.adjoint_check import CheckPlan

SAMPLE = 32  # rows, and columns, that are evaluated one by one beside the combinations
FEW_COLUMNS = 4  # columns that `fast_mode` compares by seeds of all kinds
LARGEST = 2  # of those with the largest entries, too


def check_large(
    program: Program,
    source: Port,
    target: Port,
    plan: CheckPlan,
    checkpoint: Checkpoint | None,
    nondeterministic: str,
) -> tuple[Comparison | None, PairResult]:
    """Compare random combinations of all entries, and (unless `fast_mode`) a sample of single ones."""
    where = f"{source.label} → {target.label}"
    count = f"{len(target.positions)} × {len(source.positions)}"
    if nondeterministic:
        limited = replace(plan, max_inputs=1, max_outputs=1)
        return _sampled(program, source, target, limited, checkpoint, nondeterministic, ())
    work = RandomProjection(program, source, target, plan, checkpoint)
    kinds = f"{len(work.directions)} random directions and {len(work.seeds)} seeds"
    fast = f"{where}: {kinds} of all {count} entries were compared, none by itself (fast_mode)"
    note = fast if plan.options.fast_mode else (
        f"{where}: {count} entries are too many to evaluate: {kinds} of all of them were compared, and a "
        "sample one by one"
    )  # fmt: skip
    notes: tuple[str, ...] = (note,)
    for row, column in work.suspects():
        found = recheck_entries(
            program, source, target, np.array([row]), np.array([column]), plan, checkpoint
        )
        if (found.codes != AGREE).any():
            notes = (note, f"{where}: the entry was found by halving: others may be like it")
            return found.grid, describe(found.grid, found.codes, rounding=found.rounding, notes=notes)
        notes += _slightly(found)
    lost = [at for at in source.positions if not np.isfinite(program.values(source)[at])]
    if lost:  # differences of non-finite values are not finite: combinations leave these inputs out
        found = recheck_entries(
            program, source, target, target.positions[:1], np.array(lost[:1]), plan, checkpoint
        )
        if (found.codes != AGREE).any():
            many = "1 input is" if len(lost) == 1 else f"{len(lost)} inputs are"
            notes += (f"{where}: {many} not finite, and not in these combinations; the others agree",)
            return found.grid, describe(found.grid, found.codes, rounding=found.rounding, notes=notes)
    if plan.options.fast_mode:
        # An adjoint that is not linear in its seed is right for the unit seeds that the bisection ends with.
        few = replace(plan, max_inputs=FEW_COLUMNS, max_outputs=1)
        grid, result = _sampled(program, source, target, few, checkpoint, "", notes)
        return (grid, result) if result.verdict == "WRONG" else (None, _combinations(work, notes))
    sampled = replace(plan, max_inputs=_limit(plan.max_inputs), max_outputs=_limit(plan.max_outputs))
    return _sampled(program, source, target, sampled, checkpoint, "", notes, work)


def _slightly(found: RecheckedEntries) -> tuple[str, ...]:
    """Return a note on an entry whose error is less than the tolerance and more than rounding."""
    grid, slot = found.grid, (0, 0)
    column = int(grid.columns.units[0])
    exact = grid.program.pull_many({grid.target: grid.rows.vectors(np.array([0]))}, double=True)[grid.source]
    value, bar = float(grid.reference.value[slot]), float(grid.reference.bar[slot])
    if not abs(float(exact[0, column]) - value) > bar + FLOAT64_ADJOINT_OFF * abs(value):
        return ()
    entry = describe(grid, found.codes).worst
    assert entry is not None
    return (
        f"{grid.source.label} → {grid.target.label}: all within tolerance; an entry differs from its "
        f"reference by more than rounding: {entry.describe()}",
    )


def _limit(given: int) -> int:
    return SAMPLE if given <= 0 else given


def _sampled(
    program: Program,
    source: Port,
    target: Port,
    plan: CheckPlan,
    checkpoint: Checkpoint | None,
    nondeterministic: str,
    notes: tuple[str, ...],
    work: RandomProjection | None = None,
) -> tuple[Comparison, PairResult]:
    rows, columns = rows_of(target, plan), columns_of(source, plan)
    if work is not None:
        rows = _with_largest(rows, work.slopes.value[0], target)
        columns = _with_largest(columns, work.exact[0], source)
    pairs = Pairs([(source, target)])
    (grid,) = compare_grids(program, pairs, {target: rows}, {source: columns}, plan, checkpoint)
    return grid_result(grid, plan, checkpoint, nondeterministic=nondeterministic, notes=notes)


def _with_largest(probes: Probes, sizes: Floats, port: Port) -> Probes:
    known = np.nan_to_num(np.abs(sizes[port.positions]))
    most: Indices = port.positions[np.argsort(-known)[:LARGEST]]
    return replace(probes, units=np.union1d(probes.units, most))


def _combinations(work: RandomProjection, notes: tuple[str, ...]) -> PairResult:
    """Return the result if all combinations agree and no single entries were compared."""
    values = np.abs(work.seeds @ np.where(work.smooth & work.mine, work.slopes.value, 0.0).T)
    with np.errstate(all="ignore"):
        relative = np.where(work.error > 0, work.error / values, 0.0)
    return PairResult(
        launch=work.program.launch,
        subject=work.program.subject,
        input=work.source.label,
        output=work.target.label,
        verdict="AGREE",
        max_abs_error=float(work.error.max(initial=0.0)),
        max_rel_error=float(relative.max(initial=0.0)),
        entries=work.source.size * work.target.size,
        combinations=work.error.size,
        notes=notes,
    )
