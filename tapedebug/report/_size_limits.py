"""Size limits of reports: data beyond them is left out, which the report states.

Columns of numbers are embedded as packed; long or confidential data is in the head only.
"""

from __future__ import annotations

from typing import Any

from tapedebug.report._redact import Redactor

Json = dict[str, Any]

MOST_TEXT = 4_000
"""Largest number of characters of one message, label or line."""
MOST_ADJOINT = 100_000
"""Largest number of characters of the generated adjoint of one kernel."""
MOST_ITEMS = 500
"""Largest number of entries of one list of evidence."""
MOST_ROWS = {"findings": 2_000, "checks": 20_000, "events": 1_000}
"""Largest number of entries of displayed lists: the worst findings and the last events are kept."""
_SEVERITIES = {"error": 0, "warning": 1, "info": 2}


def reduce_trace(trace: Json, *, redact_source: bool) -> tuple[Json, list[str]]:
    """Return the head of a packed trace for the report, and sentences on the parts that were left out.

    Args:
        trace: The head; it is not changed.
        redact_source: Leave out source, generated code and folders.
    """
    notes: list[str] = []
    result = _cap_rows(trace, notes)
    if redact_source:
        result = Redactor(trace).trace(result)
        notes.append("Source, generated code and folders were left out on request.")
    result["kernels"] = [_cap_adjoint(kernel, notes) for kernel in result["kernels"]]
    cut = _Cutter()
    for key in _TEXTS:
        if key in result:
            result[key] = cut.value(result[key], lists=key == "findings")
    if cut.count:
        what = "long text or list was" if cut.count == 1 else "long texts and lists were"
        notes.append(f"{cut.count} {what} cut.")
    return result, notes


_TEXTS = (
    "name",
    "environment",
    "notes",
    "findings",
    "coverage",
    "checks",
    "kernels",
    "arrays",
    "events",
    "strings",
    "places",
    "values",
)


def _cap_rows(trace: Json, notes: list[str]) -> Json:
    result = dict(trace)
    for key, most in MOST_ROWS.items():
        rows: list[Json] = result[key]
        if len(rows) <= most:
            continue
        if key == "findings":
            worst = sorted(range(len(rows)), key=lambda i: _SEVERITIES[rows[i]["severity"]])[:most]
            result[key] = [rows[i] for i in sorted(worst)]
        else:
            result[key] = rows[-most:] if key == "events" else rows[:most]
        which = {"findings": "the worst", "events": "the last"}.get(key, "the first")
        notes.append(f"Of {len(rows):,} {key} this file has {which} {most:,}.")
    return result


class _Cutter:
    """Cutter of values that are too long, with a count of them."""

    def __init__(self) -> None:
        self.count = 0

    def value(self, value: Any, *, lists: bool) -> Any:
        kind = type(value)  # faster than isinstance: a large trace has millions of values
        if kind is str:
            if len(value) <= MOST_TEXT:
                return value
            self.count += 1
            return value[:MOST_TEXT] + f"… ({len(value) - MOST_TEXT} more characters)"
        if kind is list:
            return [self.value(item, lists=lists) for item in value]
        if kind is dict:
            return {self.value(key, lists=False): self._item(key, item, lists) for key, item in value.items()}
        return value

    def _item(self, key: str, item: object, lists: bool) -> Any:
        if key == "adjoint" and type(item) is str:
            return item  # generated code has its own limit, which was applied before
        return self._evidence(item) if lists and key == "evidence" else self.value(item, lists=lists)

    def _evidence(self, value: object) -> Any:
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            self.count += 1
            value = value[:MOST_ITEMS]
        if isinstance(value, list):
            return [self._evidence(item) for item in value]
        if isinstance(value, dict):
            return {self.value(key, lists=False): self._evidence(item) for key, item in value.items()}
        return self.value(value, lists=False)


def _cap_adjoint(kernel: Json, notes: list[str]) -> Json:
    text = kernel.get("adjoint")
    if text is None or len(text) <= MOST_ADJOINT:
        return kernel
    notes.append(f"The generated adjoint of {kernel['name'][:80]} was cut to {MOST_ADJOINT:,} characters.")
    return {**kernel, "adjoint": text[:MOST_ADJOINT] + "\n# … cut"}
