"""A `Diff` as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from tapedebug.report._diff.result import CheckChange, Diff, GradientChange, ValueDivergence
from tapedebug.trace import Finding

MOST = 20
"""Largest number of lines of one kind; the rest is only counted."""
WIDTH = 100
LONGEST_LINE = 200
"""Largest number of characters of a message in a terminal."""
LONGEST = 260
"""Largest number of characters on a page, which includes the effect of an overwrite at the end."""
SIGNS = {"error": "✕", "warning": "!", "info": "i"}


def format_diff(diff: Diff) -> str:
    """Return the complete comparison as text, in lines of at most `WIDTH` characters."""
    return "\n".join(
        piece
        for line in _lines(diff)
        for piece in textwrap.wrap(
            line, WIDTH, subsequent_indent=" " * 13, break_long_words=False, break_on_hyphens=False
        )
    )


def _lines(diff: Diff) -> Iterator[str]:
    yield " → ".join(shortened(name, 60) for name in diff.names)
    for name, text in overview(diff):
        yield f"  {name:<10} {text}"
    yield from _listed([f"  gone       {shortened(describe(finding), WIDTH - 13)}" for finding in diff.gone])
    yield from _listed([f"  new        {describe(finding, LONGEST_LINE)}" for finding in diff.new])
    yield from _listed([f"  still      {still(*pair, LONGEST_LINE)}" for pair in diff.still])
    yield from _listed([f"  gradient   {gradient(change)}" for change in diff.gradients])
    yield from _listed([f"  check      {check(change)}" for change in diff.checks])
    yield from _listed([f"  values     {divergence(found)}" for found in diff.diverged[:5]])
    yield from (f"  note       {note}" for note in notes(diff))


def _listed(lines: list[str]) -> Iterator[str]:
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield f"  {'':<10} and {len(lines) - MOST:,} more"


def overview(diff: Diff) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary: a name and the change."""
    before, after = diff.before, diff.after
    yield "verdict", f"{before.verdict} → {after.verdict}"
    counts = [f"{len(diff.gone)} gone", f"{len(diff.new)} new", f"{len(diff.still)} still there"]
    yield "findings", ", ".join(counts)
    lost = len(before.launches) - diff.matched
    added = len(after.launches) - diff.matched
    text = f"{len(before.launches):,} → {len(after.launches):,}"
    yield "launches", f"{text}: {diff.matched:,} the same, {lost:,} only before, {added:,} only after"
    mine, theirs = ({info.label for info in trace.arrays} for trace in (before, after))
    both = len(mine & theirs)
    text = f"{len(mine):,} → {len(theirs):,}"
    yield "arrays", f"{text}: {both:,} of the same label"
    if before.tape.on_overwrite != after.tape.on_overwrite:
        yield "overwrites", f"on_overwrite={before.tape.on_overwrite!r} → {after.tape.on_overwrite!r}"


def describe(finding: Finding, longest: int = LONGEST) -> str:
    """Return a finding in one line."""
    arrays = f" · {shortened(', '.join(finding.arrays), 60)}" if finding.arrays else ""
    place = finding.call_site or finding.location
    where = f" ({place.file.replace(chr(92), '/').rpartition('/')[2]}:{place.line})" if place else ""
    head = f"{SIGNS[finding.severity]} {shortened(finding.rule, 60)}{arrays}{where}"
    return f"{head}: {shortened(finding.message, longest)}"


def still(before: Finding, after: Finding, longest: int = LONGEST) -> str:
    """Return a finding of both tapes with its changes in one line."""
    changed = "" if before.severity == after.severity else f"was {before.severity}, now {after.severity}: "
    return changed + describe(after, longest)


def gradient(change: GradientChange) -> str:
    """Return the norms of a gradient as text."""
    text = f"‖∂{shortened(change.label, 40)}‖ {number(change.before)} → {number(change.after)}"
    if change.same:
        return f"{text} (the same)"
    return text if change.ratio is None else f"{text} (× {number(change.ratio)})"


def check(change: CheckChange) -> str:
    """Return the verdicts of a pair as text."""
    pair = f"∂{shortened(change.output, 40)}/∂{shortened(change.input, 40)}"
    sides = [
        f"{verdict or 'not checked'}{'' if error is None else f', off by {number(error)}'}"
        for verdict, error in ((change.before, change.error_before), (change.after, change.error_after))
    ]
    return f"{pair} {sides[0]} → {sides[1]}"


def divergence(found: ValueDivergence) -> str:
    """Return the first place where values differ, as text."""
    at = f"launch {found.before}" if found.before == found.after else f"launch {found.before} ({found.after})"
    names = (
        found.arrays[0] if found.arrays[0] == found.arrays[1] else f"{found.arrays[0]} ({found.arrays[1]})"
    )
    figures = f"{found.what} {number(found.values[0])} → {number(found.values[1])}"
    return f"part at {at}, {shortened(found.kernel, 40)}, {shortened(names, 60)}: {figures}"


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} ({after})"


def notes(diff: Diff) -> Iterator[str]:
    """Yield the remaining notes."""
    if diff.begin:
        labels = shortened(", ".join(diff.begin), 120)
        yield f"The tapes began with different values of {labels}: what they compute differs anyway."
    yield from diff.notes


def number(value: float | None) -> str:
    """Return a number with four digits."""
    if value is None:
        return "–"
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def shortened(text: str, most: int) -> str:
    """Return one line of text of limited length, without control and bidirectional characters."""
    line = "".join(c if c.isprintable() else " " for c in text[: 2 * most])
    line = " ".join(line.split())
    return line if len(line) <= most else line[: most - 1] + "…"
