"""A `Diff` as an HTML table for notebooks, without a script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tapedebug.report._diff.result import Diff
from tapedebug.report._diff.text import MOST, check, describe, divergence, gradient, notes, overview, still

_COLOURS = {"gone": "#2e7d32", "new": "#c62828", "still": "#b26a00"}


def diff_html(diff: Diff) -> str:
    """Return the summary as static HTML; every text of the traces is escaped."""
    rows = "".join(_row(name, text) for name, text in _rows(diff))
    title = " → ".join(escape(name[:120]) for name in diff.names)
    return (
        f'<div class="tapedebug-static"><p><strong>{title}</strong></p>'
        f'<table style="text-align:left">{rows}</table></div>'
    )


def _rows(diff: Diff) -> Iterator[tuple[str, str]]:
    yield from overview(diff)
    groups = (
        ("gone", [describe(finding) for finding in diff.gone]),
        ("new", [describe(finding) for finding in diff.new]),
        ("still", [still(*pair) for pair in diff.still]),
        ("gradient", [gradient(change) for change in diff.gradients]),
        ("check", [check(change) for change in diff.checks]),
        ("values", [divergence(found) for found in diff.diverged[:5]]),
        ("note", list(notes(diff))),
    )
    for name, texts in groups:
        yield from ((name, text) for text in texts[:MOST])
        if len(texts) > MOST:
            yield name, f"and {len(texts) - MOST:,} more"


def _row(name: str, text: str) -> str:
    colour = f";color:{_COLOURS[name]};font-weight:600" if name in _COLOURS else ""
    return (
        f'<tr><th style="vertical-align:top;text-align:left{colour}">{escape(name)}</th>'
        f'<td style="text-align:left;white-space:pre-wrap">{escape(text)}</td></tr>'
    )
