"""Finite differences as Warp computes them: f(x + eps) and f(x - eps) in the program's precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tapedebug.autograd.array_types import Floats, Indices
from tapedebug.autograd.sparse.coloured_jacobian import COMPRESSION_PAYS, ColouredJacobian, joint_of
from tapedebug.autograd.sparse.colouring import compress
from tapedebug.autograd.subjects.program import Port, Program


def fixed_step_columns(
    program: Program, source: Port, targets: Sequence[Port], columns: Indices, eps: float
) -> dict[Port, Floats]:
    """Return columns of the Jacobians of `targets` by `source`, (len(columns), size) each."""
    directions = np.zeros((len(columns), source.size))
    directions[np.arange(len(columns)), columns] = 1.0
    return fixed_step_along(program, {source: directions}, targets, eps)


def fixed_step_along(
    program: Program, directions: Mapping[Port, Floats], targets: Sequence[Port], eps: float
) -> dict[Port, Floats]:
    """Return plain central differences along k directions, (k, size) for each target."""
    moved = {
        port: np.concatenate([program.values(port) + eps * v, program.values(port) - eps * v])
        for port, v in directions.items()
    }
    found = program.evaluate_many(moved, single=True)
    found = {target: found[target] for target in targets}
    with np.errstate(invalid="ignore", over="ignore"):
        return {
            target: (both[: len(both) // 2] - both[len(both) // 2 :]) / (2 * eps)
            for target, both in found.items()
        }


def fixed_step_coloured(
    program: Program,
    sources: Sequence[Port],
    targets: Sequence[Port],
    chosen: Mapping[Port, Indices],
    eps: float,
    notes: list[str],
) -> ColouredJacobian | None:
    """Return plain differences by all columns of a colour at once; None if one by one is as fast.

    Columns of a colour share no row, so the numbers equal those of single columns. If an output changes that
    should not, the traced sparsity is wrong.
    """
    for fresh in (False, True):
        joint = joint_of(program, sources, targets, fresh=fresh)
        if joint is None:
            return None
        wanted = np.concatenate([chosen[p] + a for p, a in zip(joint.sources, joint.columns, strict=False)])
        pattern = joint.pattern.only_columns(wanted)
        compression = compress(pattern, "columns")
        if len(compression) > COMPRESSION_PAYS * len(wanted):
            return None
        directions = compression.directions
        asked = np.zeros(pattern.shape[1], bool)
        asked[wanted] = True
        directions[:, ~asked] = 0
        slopes = fixed_step_along(program, joint.split(directions, joint.sources), joint.targets, eps)
        found = np.concatenate([slopes[target] for target in joint.targets], axis=1)
        expected = np.zeros(found.shape, bool)
        expected[compression.column_colours[pattern.columns], pattern.rows] = True
        if not (found[~expected] != 0).any():
            values = np.full(len(joint.pattern), np.nan)
            values[asked[joint.pattern.columns]] = compression.values(None, found)
            return ColouredJacobian(joint, values, 2 * len(compression))
    notes.append(
        f"{program.subject}: an output moved that the traced sparsity takes for constant; "
        "every column was computed by itself"
    )
    return None
