"""Checks single entries of a Jacobian again, with unit seeds of their rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Checkpoint, Indices
from tapedebug.autograd.finite_diff.comparison import EntryGrid
from tapedebug.autograd.finite_diff.float32_noise import explain_suspects
from tapedebug.autograd.finite_diff.jacobian_entries import adjoints, fine_for, references
from tapedebug.autograd.finite_diff.verdict import SUSPECT, WRONG, Codes, judge
from tapedebug.autograd.subjects.probes import Probes
from tapedebug.autograd.subjects.program import Port, Program

if TYPE_CHECKING:
    from tapedebug.autograd.checks.adjoint_check import CheckPlan


@dataclass(frozen=True, eq=False)
class RecheckedEntries:
    """Entries at the crossings of some rows and columns, compared one by one.

    Attributes:
        grid: The entries.
        codes: The verdict of each.
        rounding: True for entries that agree up to float32 rounding.
    """

    grid: EntryGrid
    codes: Codes
    rounding: Bools


def recheck_entries(
    program: Program,
    source: Port,
    target: Port,
    rows: Indices,
    columns: Indices,
    plan: CheckPlan,
    checkpoint: Checkpoint | None = None,
) -> RecheckedEntries:
    """Compare the entries in `rows` and `columns` of the Jacobian of `target` with respect to `source`."""
    down = Probes(target.size, rows, np.zeros((0, target.size)))
    across = Probes(source.size, columns, np.zeros((0, source.size)))
    found = references(
        program, source, [target], across, {target: down},
        kind=plan.options.reference, eps=plan.eps, enough=fine_for(plan.tolerance), checkpoint=checkpoint,
    )[target]  # fmt: skip
    pulled = adjoints(program, target, down, [source], columns={source: across}, checkpoint=checkpoint)[
        source
    ]
    grid = EntryGrid(
        program, source, target, down, across, pulled.values, pulled.sizes, found, plan.tolerance
    )
    codes = judge(grid.ad, found, plan.tolerance, source.rounding)
    return RecheckedEntries(grid, codes, settled(grid, codes, plan, checkpoint))


def settled(grid: EntryGrid, codes: Codes, plan: CheckPlan, checkpoint: Checkpoint | None) -> Bools:
    """Turn each SUSPECT of `codes` into a verdict, in place; return the entries explained by rounding."""
    if not (codes == SUSPECT).any():
        return np.zeros(codes.shape, dtype=bool)
    if plan.options.reference == "float32":  # as in Warp's documentation: entries that differ are wrong
        codes[codes == SUSPECT] = WRONG
        return np.zeros(codes.shape, dtype=bool)
    return explain_suspects(grid, codes, checkpoint)
