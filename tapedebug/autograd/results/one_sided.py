"""Slopes on the other side of the nearest kink, for gradients that took the wrong branch.

Many functions with kinks are linear beside the kink: `abs`, `max`, `clamp`, a leaky unit. If the function
is linear further out, with a slope that differs from the one here, there is a kink in between. The distance
may be several times the input. Inputs are not displaced that far if the kernel converts floats to integers
or to loop lengths: its loops might not end, and its indices might leave their arrays.
"""

from __future__ import annotations

import time

import numpy as np

from tapedebug.autograd.array_types import Floats, Indices
from tapedebug.autograd.subjects.program import Port, Program
from tapedebug.autograd.thresholds import LINE_IS_STRAIGHT, SLOPES_DIFFER

MOST_COLUMNS = 8  # inputs that are displaced
SECONDS = 1.0  # after which the search stops
DISTANCES = 2.0 ** np.arange(-8, 3.25, 0.25)  # of the size of the input
STEP = 2.0**-6  # of the distance


def one_sided_slopes(
    program: Program,
    source: Port,
    target: Port,
    rows: Indices,
    columns: Indices,
    here: Floats,
    wanted: Floats,
) -> Floats | None:
    """Slopes on the other side of kinks, for some entries of a Jacobian.

    Args:
        program: What is differentiated.
        source: The input.
        target: The output.
        rows: Rows of the entries.
        columns: Their columns.
        here: The derivatives.
        wanted: The slopes to prefer if there is a kink on both sides.

    Returns:
        (entries,) float64, NaN if there is no kink or if the function is not linear beyond it; None if the
        search would take too long or would not be safe.
    """
    distinct = np.unique(columns)
    if len(distinct) > MOST_COLUMNS or any(kernel.follows_values for kernel in program.kernels):
        return None
    began = time.perf_counter()
    found = np.full(len(rows), np.nan)
    for column in distinct:
        if time.perf_counter() - began > SECONDS:
            return None
        mine = columns == column
        slopes = _slopes(program, source, target, int(column))[:, :, rows[mine]]
        for entry, line in zip(np.flatnonzero(mine), np.moveaxis(slopes, 2, 0), strict=True):
            sides = [_next_slope_outwards(side, here[entry]) for side in line]
            known = [slope for slope in sides if not np.isnan(slope)]
            if known:
                found[entry] = min(known, key=lambda slope: abs(slope - wanted[entry]))
    return found


def _slopes(program: Program, source: Port, target: Port, column: int) -> Floats:
    """Return slopes along one input, (side, distance, output); NaN where the function is not linear."""
    values = program.values(source)
    size = max(abs(float(values[column])), 1e-3 * float(np.sqrt(np.mean(values**2))) or 1.0)
    steps = size * STEP * DISTANCES
    places = np.concatenate([sign * size * DISTANCES + end * steps for sign in (-1, 1) for end in (-1, 0, 1)])
    moved = np.repeat(values[None], len(places), axis=0)
    moved[:, column] += places
    with np.errstate(all="ignore"):
        found = program.evaluate_many({source: moved})[target].reshape(2, 3, len(DISTANCES), -1)
        left, right = np.diff(found, axis=1).swapaxes(0, 1) / steps[:, None]
        largest = np.maximum(np.abs(left), np.abs(right)).max(axis=(0, 1))
        slopes: Floats = np.where(
            np.abs(right - left) <= LINE_IS_STRAIGHT * largest, 0.5 * (left + right), np.nan
        )
    return slopes


def _next_slope_outwards(slopes: Floats, here: float) -> float:
    """Return the first slope outwards that differs from the one here; NaN if there is none."""
    known = slopes[np.isfinite(slopes)]
    largest = max(float(np.abs(known).max(initial=0.0)), abs(here))
    others = known[np.abs(known - here) > SLOPES_DIFFER * largest]
    return float(others[0]) if len(others) else float("nan")
