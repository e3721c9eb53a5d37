"""Tapes as static HTML, for notebooks with neither a kernel nor our extension."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from tapedebug.trace.level import LEVEL_SIGNS, gradient_words, level_of

MOST_FINDINGS = 20
SIGNS = {"error": "✕", "warning": "!", "info": "i"}
COLOURS = {"error": "#c62828", "warning": "#b26a00", "info": "#5f6b7a"}


def trace_html(trace: dict[str, Any], note: str = "") -> str:
    """Return a summary of a trace: verdict, coverage, findings with their lines.

    Args:
        trace: The trace as JSON-compatible data.
        note: A sentence to add at the end.
    """
    tape = trace["tape"]
    facts = [
        _amount(tape["launches"], "launch", "launches"),
        _amount(len(trace["arrays"]), "array", "arrays"),
        f"on_overwrite={tape['on_overwrite']}",
    ]
    if tape["preserved_bytes"]:
        facts.append(f"{tape['preserved_bytes']:,} bytes kept for the reverse pass")
    parts = [
        f"<p><strong>{escape(str(trace['name']))}</strong> · {_verdict(trace)} · "
        f"{escape(' · '.join(facts))}</p>",
        f"<p>{escape(str(trace['coverage'].get('summary', '')))}</p>",
        _engine(tape.get("engine"), trace["coverage"].get("notes", ())),
        _findings(trace["findings"]),
    ]
    if note:
        parts.append(f"<p><em>{escape(note)}</em></p>")
    return f'<div class="tapedebug-static">{"".join(parts)}</div>'


def _engine(engine: str | None, notes: Sequence[str]) -> str:
    """Return the name of another engine than that of tapedebug, with the notes of the coverage to unfold."""
    if not engine:
        return ""
    items = "".join(f"<li>{escape(str(note))}</li>" for note in notes)
    return f"<details><summary>{escape(str(engine))}</summary><ul>{items}</ul></details>"


def _verdict(trace: dict[str, Any]) -> str:
    verdict, partial = trace["verdict"], bool(trace["coverage"].get("partial"))
    severities = [finding["severity"] for finding in trace["findings"]]
    level = level_of(verdict, severities, partial=partial)
    colour = {"good": "#2e7d32", "unknown": COLOURS["info"]}.get(level) or COLOURS[level]
    text = f"{LEVEL_SIGNS[level]} {gradient_words(verdict, severities, partial=partial)}"
    return f'<span style="color:{colour};font-weight:600">{escape(text)}</span>'


def _findings(findings: list[dict[str, Any]]) -> str:
    if not findings:
        return "<p>No findings.</p>"
    items = "".join(_finding(finding) for finding in findings[:MOST_FINDINGS])
    left = len(findings) - MOST_FINDINGS
    more = f"<p>{left} more not shown.</p>" if left > 0 else ""
    return f'<ul style="list-style:none;margin:0;padding:0">{items}</ul>{more}'


def _finding(finding: dict[str, Any]) -> str:
    severity = finding["severity"] if finding["severity"] in SIGNS else "info"
    arrays = ", ".join(str(label) for label in finding["arrays"])
    title = f"{SIGNS[severity]} {finding['rule']}" + (f" · {arrays}" if arrays else "")
    lines = [f"<strong>{escape(title)}</strong>", escape(str(finding["message"]))]
    place, site = _place(finding["location"]), _place(finding["call_site"])
    if place or site:
        lines.append(
            "<code>" + escape(", launched at ".join(text for text in (place, site) if text)) + "</code>"
        )
    if finding["fix"]:
        lines.append(f"<strong>Fix:</strong> {escape(str(finding['fix']))}")
    style = f"border-left:3px solid {COLOURS[severity]};margin:6px 0;padding:2px 10px"
    return f'<li style="{style}">{"<br>".join(lines)}</li>'


def _place(location: dict[str, Any] | None) -> str:
    return f"{location['file']}:{location['line']}" if location else ""


def _amount(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
