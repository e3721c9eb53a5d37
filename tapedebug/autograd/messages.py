"""From judged entries to a `PairResult` that says what is wrong, where, with the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.differences import Bools, Floats
from tapedebug.autograd.probes import shape_index
from tapedebug.autograd.results import Entry, PairResult
from tapedebug.autograd.verdict import (
    KINK,
    UNDECIDABLE,
    VERDICTS,
    WRONG,
    Codes,
    Verdict,
    by_atol_alone,
)

if TYPE_CHECKING:
    from tapedebug.autograd.check import Comparison

Slot = tuple[int, int]  # row and column of the compared matrix


def describe(
    pair: Comparison,
    codes: Codes,
    *,
    random: float = 0.0,
    rounding: Bools | None = None,
    notes: tuple[str, ...] = (),
) -> PairResult:
    """Sum up one pair.

    Args:
        pair: What was compared.
        codes: The verdict of each entry.
        random: Largest relative difference between two forward runs, 0 where there is none to speak of.
        rounding: Entries that agree but for float32 rounding.
        notes: What to add.
    """
    program, ad = pair.program, pair.ad
    size = len(pair.rows.units), len(pair.columns.units)
    with np.errstate(all="ignore"):
        error = np.abs(ad - pair.reference.value)
        absolute, relative = error[: size[0], : size[1]], _relative(error, pair)[: size[0], : size[1]]
    verdict, slot, message = _verdict(pair, ad, codes, error, random)
    alone = by_atol_alone(ad, pair.reference, pair.tolerance, codes)
    alone[size[0] :], alone[:, size[1] :] = False, False
    if rounding is not None:
        alone &= ~rounding
    if alone.any():
        notes = (*notes, _atol_note(pair, ad, alone, error))
    if rounding is not None and rounding.any():
        notes = (
            *notes,
            f"{pair.source.name} → {pair.target.name}: {_count(int(rounding.sum()), 'entry', 'entries')} "
            "by float32 rounding only: the float64 twin of the adjoint agrees",
        )
    return PairResult(
        launch=program.launch,
        subject=program.subject,
        input=pair.source.name,
        output=pair.target.name,
        verdict=verdict,
        max_abs_error=_largest(absolute),
        max_rel_error=_largest(relative),
        message=message,
        worst=_entry(pair, ad, slot) if slot is not None else None,
        entries=pair.source.size * pair.target.size,
        evaluated=size[0] * size[1],
        by_atol=int(alone.sum()),
        notes=notes,
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one} differs" if number == 1 else f"{number} {many} differ"


def _relative(error: Floats, pair: Comparison) -> Floats:
    value = np.abs(pair.reference.value)
    # Below this share of the largest entry of its row, float32 cannot tell an entry from zero.
    largest = np.where(np.isfinite(value), value, 0.0).max(axis=1, keepdims=True, initial=0.0)
    small = (value <= 1e-6 * largest) & (error <= np.maximum(pair.tolerance.atol, pair.reference.bar))
    relative: Floats = np.where(small, 0.0, error / value)
    return relative


def _largest(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else float("nan")


def _entry(pair: Comparison, ad: Floats, slot: Slot) -> Entry | None:
    row, column = slot
    if row >= len(pair.rows.units) or column >= len(pair.columns.units):
        return None
    reference = pair.reference
    return Entry(
        output_index=shape_index(int(pair.rows.units[row]), pair.target.shape),
        input_index=shape_index(int(pair.columns.units[column]), pair.source.shape),
        ad=float(ad[slot]),
        fd=float(reference.value[slot]),
        bar=float(reference.bar[slot]),
        left=float(reference.left[slot]),
        right=float(reference.right[slot]),
    )


def _worst_slot(error: Floats, among: Bools, units: Slot) -> Slot | None:
    """Where the error is largest among entries marked; single entries before combinations, NaN before all."""
    if not among.any():
        return None
    single = np.zeros(among.shape, dtype=bool)
    single[: units[0], : units[1]] = True
    if (among & single).any():
        among = among & single
    ranked = np.where(among, np.where(np.isnan(error), np.inf, error), -1.0)
    row, column = np.unravel_index(int(np.argmax(ranked)), ranked.shape)
    return int(row), int(column)


def _verdict(
    pair: Comparison, ad: Floats, codes: Codes, error: Floats, random: float
) -> tuple[Verdict, Slot | None, str]:
    units = len(pair.rows.units), len(pair.columns.units)
    if codes.size == 0 or 0 in units:
        return "AGREE", None, f"{pair.source.name if pair.source.size == 0 else pair.target.name} is empty"
    if random:
        return (
            "NONDETERMINISTIC",
            None,
            f"two forward runs on the same values differ by {random:.1e} relative in {pair.target.name}: "
            "no difference quotient means anything",
        )
    top = int(codes.max())
    among = codes == top
    slot = _worst_slot(error, among, units)
    assert slot is not None
    text = _place(pair, ad, slot)
    singles = among[: units[0], : units[1]]
    count = f"{int(singles.sum())} of {singles.size} entries"
    if top == WRONG:
        return "WRONG", slot, _wrong(pair, ad, codes, text, count, slot)
    if top == UNDECIDABLE:
        return "UNDECIDABLE", slot, f"{text}; {_undecidable(pair, ad, slot)} ({count})"
    if top == KINK:
        left, right = pair.reference.left[slot], pair.reference.right[slot]
        return "KINK", slot, f"{text}; {kink_words(float(left), float(right))} ({count})"
    return VERDICTS[top], slot, ""


def _place(pair: Comparison, ad: Floats, slot: Slot) -> str:
    entry = _entry(pair, ad, slot)
    if entry is not None:
        return entry.describe(pair.target.name, pair.source.name)
    return (
        f"a combination of entries of {pair.target.name} (negative and large adjoint seeds) by "
        f"{pair.source.name}: AD {ad[slot]:.6g}, "
        f"FD {pair.reference.value[slot]:.6g} ± {pair.reference.bar[slot]:.1g}"
    )


def _wrong(pair: Comparison, ad: Floats, codes: Codes, text: str, count: str, slot: Slot) -> str:
    if not np.isfinite(ad[slot]):
        return f"{text}; the gradient is not finite ({count})"
    if slot[0] >= len(pair.rows.units) or slot[1] >= len(pair.columns.units):
        return f"{text}; the single entries agree, so the adjoint is not linear in its seed"
    return f"{text}; {count} differ by more than the tolerance{_signature(pair, ad, codes)}"


def _signature(pair: Comparison, ad: Floats, codes: Codes) -> str:
    """Name a constant ratio of AD to FD: it often tells the cause."""
    wrong = codes == WRONG
    with np.errstate(all="ignore"):
        ratio = (ad / pair.reference.value)[wrong]
    ratio = ratio[np.isfinite(ratio)]
    if not ratio.size:
        return ""
    common = float(np.median(ratio))
    if np.abs(ratio - common).max() > 1e-3 * max(1.0, abs(common)) or abs(common - round(common)) > 1e-3:
        return ""
    causes = {0: "the chain is severed, or the term is missing", -1: "a wrong sign", 2: "counted twice"}
    cause = causes.get(round(common))
    return f"; AD is {round(common)} × FD in each" + (f": {cause}" if cause else "")


def _undecidable(pair: Comparison, ad: Floats, slot: Slot) -> str:
    value, bar = float(pair.reference.value[slot]), float(pair.reference.bar[slot])
    if not np.isfinite(value):
        return "the function has no finite values around here"
    if bar > float(pair.tolerance.of(np.array(value))):
        return "the error bar is wider than the tolerance: differences can not decide"
    return (
        "the float64 twin of the adjoint agrees with the differences, "
        "float32 rounding is as large as the gradient"
    )


def kink_words(left: float, right: float) -> str:
    """What a kink, or a jump, with these slopes on both sides is."""
    if max(abs(left), abs(right)) > 1e9 * max(1.0, min(abs(left), abs(right))):
        return "the function jumps here: no derivative exists"
    if np.isfinite(left) and np.isfinite(right) and abs(right - left) > 1e-12 * max(abs(left), abs(right)):
        return f"the slope is {left:.6g} on the left and {right:.6g} on the right: no derivative exists here"
    return "the gradient is that of the other side of a kink within one float32 rounding"


def _atol_note(pair: Comparison, ad: Floats, alone: Bools, error: Floats) -> str:
    units = len(pair.rows.units), len(pair.columns.units)
    slot = _worst_slot(error, alone, units)
    assert slot is not None
    return (
        f"{pair.source.name} → {pair.target.name}: agreement rests on atol={pair.tolerance.atol:g} alone for "
        f"{int(alone.sum())} of {units[0] * units[1]} entries; the largest is {_place(pair, ad, slot)}"
    )
