"""A `Diff` as the data of its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug.report._diff.result import Diff
from tapedebug.report._diff.text import check, describe, divergence, gradient, notes, overview, still
from tapedebug.report._redact import Redactor
from tapedebug.report._sentences import compared

Json = dict[str, Any]

BRIEFLY = 90
"""Largest length of a fixed finding's message; the panel of the first tape has the whole message."""
MOST = 500
"""Largest number of rows of one kind, to keep the page readable."""


def to_data(diff: Diff, heads: Sequence[Json], *, redact: bool = False) -> Json:
    """Return JSON-compatible data of a comparison.

    Args:
        diff: The comparison.
        heads: The heads of its packed traces.
        redact: Leave out their code.

    Rows are sentences with the launches concerned, ``[before, after]``: None if there is none.
    """
    redactors = [Redactor(head) for head in heads] if redact else []

    def words(text: str) -> str:
        for redactor in redactors:
            text = redactor.text(text)
        return text

    counts = (len(diff.gone), len(diff.new), len(diff.still))
    worst = diff.gone[0].to_json() if diff.gone else None
    partner = {run.before + k: run.after + k for run in diff.matches for k in range(run.length)}

    def place(launches: list[int]) -> int | None:
        return launches[0] if launches else None

    def row(kind: str, text: str, launches: list[int | None], findings: list[int | None]) -> Json:
        return {"kind": kind, "text": words(text), "launches": launches, "findings": findings}

    rows = []
    for f in diff.gone[:MOST]:
        at = place(f.launches)
        rows.append(
            row("gone", describe(f, BRIEFLY), [at, None if at is None else partner.get(at)], [f.id, None])
        )
    rows += [row("new", describe(f), [None, place(f.launches)], [None, f.id]) for f in diff.new[:MOST]]
    for one, other in diff.still[:MOST]:
        launches = [place(one.launches), place(other.launches)]
        rows.append(row("still", still(one, other), launches, [one.id, other.id]))
    rows += [row("gradient", gradient(g), [None, None], [None, None]) for g in diff.gradients[:MOST]]
    rows += [row("check", check(c), [None, None], [None, None]) for c in diff.checks[:MOST]]
    rows += [row("values", divergence(p), [p.before, p.after], [None, None]) for p in diff.diverged[:MOST]]
    rows += [row("note", note, [None, None], [None, None]) for note in notes(diff)]
    return {
        "text": words(str(diff)),
        "names": [name[:200] for name in diff.names],
        "verdicts": [diff.before.verdict, diff.after.verdict],
        "overview": [[name, words(text)] for name, text in overview(diff)],
        "rows": rows,
        "sentences": [words(text) for text in compared(diff.names, heads, counts, worst)],
        "matches": [list(run) for run in diff.matches],
    }
