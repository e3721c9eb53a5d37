"""Detect a wrong adjoint within tolerance: a systematic error that is not rounding."""

from __future__ import annotations

import numpy as np

from tapedebug.autograd.array_types import Bools, Checkpoint, Floats, Indices
from tapedebug.autograd.finite_diff.comparison import Comparison
from tapedebug.autograd.finite_diff.verdict import AGREE, Codes, by_atol_alone
from tapedebug.autograd.thresholds import BIAS_IS_FACTOR, BIAS_ROUNDING, BIAS_VISIBLE

LOOKS = 4  # rows of which the float64 twin is asked


def systematic_note(
    pair: Comparison, codes: Codes, rounding: Bools, checkpoint: Checkpoint | None = None
) -> tuple[str, ...]:
    """Return a note if entries agree within tolerance although their float64 twin exceeds the error bar.

    Args:
        pair: The comparison.
        codes: The verdict of each entry.
        rounding: Entries that agree except for float32 rounding.
        checkpoint: Called after each run.
    """
    value, bar = pair.reference.value, pair.reference.bar
    with np.errstate(all="ignore"):
        error = np.abs(pair.ad - value) - bar
        visible = (error > BIAS_VISIBLE * np.abs(value)) & (error > BIAS_ROUNDING * pair.largest_in_row())
    visible &= (codes == AGREE) & pair.singles & ~rounding & ~pair.reference.kink & (value != 0)
    visible &= ~by_atol_alone(pair.ad, pair.reference, pair.tolerance, codes)
    if not visible.any():
        return ()
    slots = np.argwhere(visible)
    order = np.argsort(-error[visible])
    found = _confirmed(pair, slots[order], checkpoint)
    if not len(found):
        return ()
    size = f"by up to {_largest(pair, visible):.2g} relative"
    if np.ptp(found) <= BIAS_IS_FACTOR:
        size = f"by a factor {float(np.median(found)):.6g}"
    count = f"{int(visible.sum())} of {int(pair.singles.sum())} entries"
    return (
        f"{pair.source.label} → {pair.target.label}: all within tolerance; the {pair.kind} differs from its "
        f"reference {size} in {count}: more than rounding",
    )


def _confirmed(pair: Comparison, slots: Indices, checkpoint: Checkpoint | None) -> Floats:
    """Return the ratio of the float64 twin to the reference, at entries where it is equally wrong."""
    program, target = pair.program, pair.target
    places = [pair.place(tuple(slot)) for slot in slots]
    rows = list(dict.fromkeys(row for row, _ in places))[:LOOKS]
    seeds = np.zeros((len(rows), target.size))
    seeds[np.arange(len(rows)), rows] = 1.0
    pulled = program.pull_many({target: seeds}, double=True)[pair.source]
    if checkpoint is not None:
        checkpoint()
    ratios = []
    for slot, (row, column) in zip(slots, places, strict=True):
        if row not in rows:
            continue
        exact, at = float(pulled[rows.index(row), column]), tuple(slot)
        value, bar = float(pair.reference.value[at]), float(pair.reference.bar[at])
        error = abs(float(pair.ad[at]) - value)
        if value and abs(exact - value) > bar + max(0.5 * error, 1e-7 * abs(value)):
            ratios.append(exact / value)
    return np.array(ratios)


def _largest(pair: Comparison, among: Bools) -> float:
    error = np.abs(pair.ad - pair.reference.value)[among] / np.abs(pair.reference.value)[among]
    return float(error.max())
