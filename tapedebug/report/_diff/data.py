"""A `Diff` as the data that its page reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug.report._diff.result import Diff
from tapedebug.report._diff.text import check, describe, gradient, notes, overview, parting, still
from tapedebug.report._redact import Redactor

Json = dict[str, Any]

MOST = 500
"""Rows of one kind; a page of more is not read."""


def to_data(diff: Diff, secret: Sequence[Json] = ()) -> Json:
    """Return JSON-compatible data, from which the code of the traces `secret` is left out.

    Rows are sentences with the launches that they are about, ``[before, after]``: None where there is none.
    """
    redactors = [Redactor(trace) for trace in secret]

    def words(text: str) -> str:
        for redactor in redactors:
            text = redactor.text(text)
        return text

    partner = {run.before + k: run.after + k for run in diff.matches for k in range(run.length)}

    def place(launches: list[int]) -> int | None:
        return launches[0] if launches else None

    def told(kind: str, text: str, launches: list[int | None], findings: list[int | None]) -> Json:
        return {"kind": kind, "text": words(text), "launches": launches, "findings": findings}

    rows = []
    for f in diff.gone[:MOST]:
        at = place(f.launches)
        rows.append(told("gone", describe(f), [at, None if at is None else partner.get(at)], [f.id, None]))
    rows += [told("new", describe(f), [None, place(f.launches)], [None, f.id]) for f in diff.new[:MOST]]
    for one, other in diff.still[:MOST]:
        launches = [place(one.launches), place(other.launches)]
        rows.append(told("still", still(one, other), launches, [one.id, other.id]))
    rows += [told("gradient", gradient(g), [None, None], [None, None]) for g in diff.gradients[:MOST]]
    rows += [told("check", check(c), [None, None], [None, None]) for c in diff.checks[:MOST]]
    rows += [told("values", parting(p), [p.before, p.after], [None, None]) for p in diff.parted[:MOST]]
    rows += [told("note", note, [None, None], [None, None]) for note in notes(diff)]
    return {
        "text": words(str(diff)),
        "names": [name[:200] for name in diff.names],
        "verdicts": [diff.before.verdict, diff.after.verdict],
        "overview": [[name, words(text)] for name, text in overview(diff)],
        "rows": rows,
        "matches": [list(run) for run in diff.matches],
    }
