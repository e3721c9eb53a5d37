"""Create a `PairResult` from judged entries, with a message that gives the place and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.array_types import Bools, Floats
from tapedebug.autograd.finite_diff.compared_entries import (
    MOST_AGREEING_ENTRIES,
    MOST_ENTRIES,
    ComparedEntries,
)
from tapedebug.autograd.finite_diff.verdict import (
    KINK,
    UNDECIDABLE,
    VERDICTS,
    WRONG,
    Codes,
    Verdict,
    by_atol_alone,
)
from tapedebug.autograd.results.error_patterns import (
    ErrorPattern,
    error_patterns,
    not_finite,
    other_side,
    swapped,
    where,
)
from tapedebug.autograd.results.one_sided import one_sided_slopes
from tapedebug.autograd.results.pair_result import Entry, Layout, PairResult
from tapedebug.autograd.results.wrong_entries import WrongEntries
from tapedebug.autograd.subjects.entry_names import entry_name
from tapedebug.autograd.subjects.probes import shape_index

if TYPE_CHECKING:
    from tapedebug.autograd.finite_diff.comparison import Comparison

Slot = tuple[int, ...]  # where in the arrays of a comparison


def describe(
    pair: Comparison,
    codes: Codes,
    *,
    nondeterministic: str = "",
    rounding: Bools | None = None,
    notes: tuple[str, ...] = (),
) -> PairResult:
    """Sum up one pair.

    Args:
        pair: What was compared.
        codes: The verdict of each entry.
        nondeterministic: A sentence on how much two runs on the same values differ; empty if they are equal.
        rounding: Entries that agree except for float32 rounding.
        notes: Notes to add.
    """
    program, ad = pair.program, pair.ad
    with np.errstate(all="ignore"):
        error = np.abs(ad - pair.reference.value)
        absolute, relative = error[pair.singles], _relative(error, pair)[pair.singles]
    verdict, slot, message = _verdict(pair, ad, codes, error, nondeterministic)
    keep = ad.size <= (MOST_AGREEING_ENTRIES if verdict == "AGREE" else MOST_ENTRIES)
    wrong = verdict == "WRONG" and slot is not None and bool(pair.singles[slot])
    compared = compared_entries(pair, codes) if keep or wrong else None
    signature = None
    if wrong and compared is not None:
        # At a kink, FD is not a derivative, so AD / FD means nothing.
        bent = bool(((codes == WRONG) & pair.singles & pair.reference.kink).any())
        signature, words = describe_errors(pair, evidence_of(pair, compared), bent=bent)
        message += words
    alone = by_atol_alone(ad, pair.reference, pair.tolerance, codes) & pair.singles
    if rounding is not None:
        alone &= ~rounding
    if alone.any():
        notes = (*notes, _atol_note(pair, ad, alone, error))
    if rounding is not None and rounding.any():
        notes = (
            *notes,
            f"{pair.source.name} → {pair.target.name}: {_count(int(rounding.sum()), 'entry', 'entries')} "
            f"by float32 rounding only: the float64 twin of the {pair.kind} agrees",
        )
    return PairResult(
        launch=program.launch,
        subject=program.subject,
        input=pair.source.label,
        output=pair.target.label,
        verdict=verdict,
        max_abs_error=_largest(absolute),
        max_rel_error=_largest(relative),
        message=message,
        worst=_entry(pair, ad, slot) if slot is not None else None,
        largest=_largest_entry(pair, ad, error),
        entries=pair.source.size * pair.target.size,
        evaluated=int(pair.singles.sum()),
        by_atol=int(alone.sum()),
        notes=notes,
        compared=compared if keep else None,
        layout=Layout.of(pair.target, pair.source),
        signature=signature,
        written=pair.target.written,
    )


def compared_entries(pair: Comparison, codes: Codes) -> ComparedEntries:
    """Return the single entries of a comparison and which are wrong; of very many, rows with wrong ones."""
    found = replace(pair.compared(), wrong=(codes == WRONG)[pair.singles].ravel())
    assert found.wrong is not None
    if len(found) <= MOST_ENTRIES:
        return found
    rows = np.unique(found.rows[found.wrong])[: max(1, MOST_ENTRIES // max(1, pair.source.size))]
    return found.some(np.isin(found.rows, rows))


def evidence_of(pair: Comparison, compared: ComparedEntries) -> WrongEntries:
    """Return the wrong entries of a comparison."""
    target, source = pair.target, pair.source
    return WrongEntries(
        compared,
        np.zeros(len(compared), dtype=bool) if compared.wrong is None else compared.wrong,
        target.shape,
        source.shape,
        target.name,
        source.name,
        target.value_type,
        source.value_type,
    )


BRANCHES = {"severed", "sign", "repeated", "factor"}
"""Patterns that a gradient of the wrong branch may show as well."""


def describe_errors(
    pair: Comparison, evidence: WrongEntries, *, bent: bool = False
) -> tuple[ErrorPattern | None, str]:
    """Return the simplest pattern that all wrong entries share, and a description with their places.

    Args:
        pair: What was compared.
        evidence: Its wrong entries.
        bent: True if some of them are at kinks; then only their places are described, not their values.
    """
    found = not_finite(evidence) if bent else next(error_patterns(evidence), None)
    clauses = [] if found is None else [found.text]
    written = pair.target.written
    if found is not None and found.name == "severed" and written is not None and written.dead:
        clauses.append(f"no gradient passes {' and '.join(written.dead)}: requires_grad=False")
    if not bent and (found is None or found.name in BRANCHES):
        beyond = _other_side(pair, evidence)
        clauses += [] if beyond is None else [beyond.text]
        found = found or beyond
    clauses.append(where(evidence))
    return found, "".join(f"; {clause}" for clause in clauses if clause)


def _other_side(pair: Comparison, evidence: WrongEntries) -> ErrorPattern | None:
    """Return a pattern if the gradient is that of another branch; needs some forward runs."""
    if not evidence.finite or not evidence.wrong.any():
        return None
    slopes = one_sided_slopes(
        pair.program, pair.source, pair.target, evidence.row, evidence.column, evidence.fd, evidence.ad
    )
    if slopes is None:
        return None
    beyond = np.full(len(evidence.compared), np.nan)
    beyond[evidence.wrong] = slopes
    return other_side(replace(evidence, beyond=beyond))


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one} differs" if number == 1 else f"{number} {many} differ"


def _relative(error: Floats, pair: Comparison) -> Floats:
    value = np.abs(pair.reference.value)
    # Below this share of the largest entry of its row, float32 cannot tell an entry from zero.
    small = (value <= 1e-6 * pair.largest_in_row()) & (
        error <= np.maximum(pair.tolerance.atol, pair.reference.bar)
    )
    relative: Floats = np.where(small, 0.0, error / value)
    return relative


def _largest(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else float("nan")


def _entry(pair: Comparison, ad: Floats, slot: Slot) -> Entry | None:
    if not pair.singles[slot]:
        return None
    reference, (row, column) = pair.reference, pair.place(slot)
    return Entry(
        output_index=(output := shape_index(row, pair.target.shape)),
        input_index=(input := shape_index(column, pair.source.shape)),
        ad=float(ad[slot]),
        fd=float(reference.value[slot]),
        bar=float(reference.bar[slot]),
        left=float(reference.left[slot]),
        right=float(reference.right[slot]),
        output=entry_name(pair.target.name, output, pair.target.value_type),
        input=entry_name(pair.source.name, input, pair.source.value_type),
    )


def _largest_entry(pair: Comparison, ad: Floats, error: Floats) -> Entry | None:
    """Return the entry with the largest absolute error."""
    slot = _worst_slot(pair, error, pair.singles & ~np.isnan(error))
    return None if slot is None else _entry(pair, ad, slot)


def _worst_slot(pair: Comparison, error: Floats, among: Bools) -> Slot | None:
    """Return the place of the largest error among the marked entries.

    Single entries are preferred to combinations, and non-finite entries to finite ones; of several non-finite
    entries, the one whose derivative is largest (a NaN in one factor also spoils entries that are zero).
    """
    if not among.any():
        return None
    if (among & pair.singles).any():
        among = among & pair.singles
    endless = among & ~np.isfinite(error)
    if endless.any():
        among, error = endless, np.nan_to_num(np.abs(pair.reference.value))
    ranked = np.where(among, error, -1.0)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), ranked.shape))


def _verdict(
    pair: Comparison, ad: Floats, codes: Codes, error: Floats, nondeterministic: str
) -> tuple[Verdict, Slot | None, str]:
    if not codes.size and pair.source.size * pair.target.size:
        return "AGREE", None, ""
    if not codes.size:
        return "AGREE", None, f"{pair.source.name if pair.source.size == 0 else pair.target.name} is empty"
    if nondeterministic:
        return "NONDETERMINISTIC", None, nondeterministic
    top = int(codes.max())
    among = codes == top
    slot = _worst_slot(pair, error, among)
    assert slot is not None
    text = _place(pair, ad, slot)
    count = f"{int((among & pair.singles).sum())} of {int(pair.singles.sum())} entries"
    if top == WRONG:
        return "WRONG", slot, _wrong(pair, ad, text, count, slot)
    if top == UNDECIDABLE:
        return "UNDECIDABLE", slot, f"{text}; {_undecidable(pair, ad, slot)} ({count})"
    if top == KINK:
        left, right = pair.reference.left[slot], pair.reference.right[slot]
        return "KINK", slot, f"{text}; {kink_words(float(left), float(right))} ({count})"
    return VERDICTS[top], slot, ""


def _place(pair: Comparison, ad: Floats, slot: Slot) -> str:
    entry = _entry(pair, ad, slot)
    if entry is not None:
        return entry.describe()
    return (
        f"a combination of entries of {pair.target.name} (negative, large and small adjoint seeds) by "
        f"{pair.source.name}: AD {ad[slot]:.6g}, "
        f"FD {pair.reference.value[slot]:.6g} ± {pair.reference.bar[slot]:.1g}"
    )


def _wrong(pair: Comparison, ad: Floats, text: str, count: str, slot: Slot) -> str:
    if not np.isfinite(ad[slot]):
        return f"{text}; the gradient is not finite ({count}){_spoiled(pair, slot)}"
    if not pair.singles[slot]:
        return f"{text}; the single entries agree, so the adjoint is not linear in its seed"
    if pair.reference.kink[slot]:
        left, right = pair.reference.left[slot], pair.reference.right[slot]
        text += f"; it is not between the slopes, {left:.6g} on the left and {right:.6g} on the right"
    return f"{text}; {count} differ by more than the tolerance"


def _spoiled(pair: Comparison, slot: Slot) -> str:
    """Return a clause that names a non-finite value of the inputs, if only that can be the cause."""
    if np.isfinite(pair.reference.value[slot]):
        return ""
    for source in pair.program.inputs:
        values = pair.program.values(source)
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            place = entry_name(source.name, shape_index(at, source.shape), source.value_type)
            return f"; {place} is {values[at]} to begin with"
    return ""


def _undecidable(pair: Comparison, ad: Floats, slot: Slot) -> str:
    value, bar = float(pair.reference.value[slot]), float(pair.reference.bar[slot])
    if not np.isfinite(value):
        return f"the function has no finite values around here{_spoiled(pair, slot)}"
    if bar > float(pair.tolerance.of(np.array(value))):
        return "the error bar is wider than the tolerance: differences cannot decide"
    return (
        f"the float64 twin of the {pair.kind} agrees with the differences, "
        "float32 rounding is as large as the gradient"
    )


def kink_words(left: float, right: float) -> str:
    """Return the description of a kink, or a jump, with these slopes on both sides."""
    low, high = sorted((abs(left), abs(right)))
    if high > 1e9 * max(1.0, low) or (left == right and low > 1e9):
        return "the function jumps here: no derivative exists"
    if np.isfinite(left) and np.isfinite(right) and abs(right - left) > 1e-12 * max(abs(left), abs(right)):
        return f"the slope is {left:.6g} on the left and {right:.6g} on the right: no derivative exists here"
    return "the gradient is that of the other side of a kink within one float32 rounding"


def _atol_note(pair: Comparison, ad: Floats, alone: Bools, error: Floats) -> str:
    slot = _worst_slot(pair, error, alone)
    assert slot is not None
    return (
        f"{pair.source.name} → {pair.target.name}: agreement rests on atol={pair.tolerance.atol:g} alone for "
        f"{int(alone.sum())} of {int(pair.singles.sum())} entries; the largest is {_place(pair, ad, slot)}"
    )


def note_swaps(results: Sequence[PairResult]) -> list[PairResult]:
    """Search the derivatives by other inputs, or of other outputs, for one that a wrong gradient equals."""
    return [_swap(result, results) for result in results]


def _swap(result: PairResult, others: Sequence[PairResult]) -> PairResult:
    compared, layout = result.compared, result.layout
    explained = result.signature is not None and result.signature.name != "other side"
    if explained or compared is None or layout is None or compared.wrong is None:
        return result
    if not compared.wrong.any():
        return result
    for other in others:
        same = (other.input == result.input) + (other.output == result.output)
        if same != 1 or other.compared is None:
            continue
        evidence = WrongEntries(compared, compared.wrong, layout.output_shape, layout.input_shape)
        name = f"{other.output} by {other.input}"
        found = swapped(evidence, name, other.compared)
        if found is not None:
            return replace(result, signature=found, message=f"{result.message}; {found.text}")
    return result
