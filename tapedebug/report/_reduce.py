"""What of a trace goes into a report: everything up to limits that are said, without the code if so asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

Json = dict[str, Any]

MOST_TEXT = 4_000
"""Characters kept of one message, label or line."""
MOST_ADJOINT = 100_000
"""Characters kept of the generated adjoint of one kernel."""
MOST_ITEMS = 500
"""Entries kept of one list of evidence."""
MOST_HISTOGRAMS = 20_000
"""Versions of arrays whose histograms are kept: ten times that would make a report of tens of megabytes."""
_REMOVED = "…"
_BRACKETS = 3
"""Characters of lines that only close brackets: hiding those would riddle every message."""


def reduce_trace(trace: Json, *, redact_source: bool) -> tuple[Json, list[str]]:
    """Return the trace as it goes into the report, and sentences that say what was left out of it.

    Args:
        trace: JSON-compatible data of a `Trace`; it is not changed.
        redact_source: Leave out source, generated code and folders.
    """
    notes: list[str] = []
    result = dict(trace)
    if redact_source:
        result = _redact(result)
        notes.append("Source, generated code and folders were left out on request.")
    result["kernels"] = [_cap_adjoint(kernel, notes) for kernel in result["kernels"]]
    result["versions"] = _cap_histograms(result["versions"], notes)
    cut = _Cutter()
    for key in ("findings", "coverage", "checks", "kernels", "arrays", "scopes", "launches"):
        result[key] = cut.value(result[key], lists=key == "findings")
    if cut.count:
        what = "long text or list was" if cut.count == 1 else "long texts and lists were"
        notes.append(f"{cut.count} {what} cut.")
    return result, notes


class _Cutter:
    """Cuts what is too long, and counts it."""

    def __init__(self) -> None:
        self.count = 0

    def value(self, value: Any, *, lists: bool) -> Any:
        kind = type(value)  # compared, not tested with isinstance: a large trace has millions of values
        if kind is str:
            # generated code has a limit of its own, and has been through it
            if len(value) <= MOST_TEXT or "\n" in value[:MOST_TEXT]:
                return value
            self.count += 1
            return value[:MOST_TEXT] + f"… ({len(value) - MOST_TEXT} more characters)"
        if kind is list:
            return [self.value(item, lists=lists) for item in value]
        if kind is dict:
            return {self.value(key, lists=False): self._item(key, item, lists) for key, item in value.items()}
        return value

    def _item(self, key: str, item: Any, lists: bool) -> Any:
        return self._evidence(item) if lists and key == "evidence" else self.value(item, lists=lists)

    def _evidence(self, value: Any) -> Any:
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


def _cap_histograms(versions: list[Json], notes: list[str]) -> list[Json]:
    if len(versions) <= MOST_HISTOGRAMS:
        return versions
    notes.append(
        f"Histograms were left out: there are {len(versions):,} versions of arrays, "
        f"more than {MOST_HISTOGRAMS:,}."
    )
    return [
        {**version, **{key: _without_histogram(version.get(key)) for key in ("value", "adjoint")}}
        for version in versions
    ]


def _without_histogram(summary: Json | None) -> Json | None:
    return None if summary is None else {**summary, "histogram": None}


# ------------------------------------------------------------------ leaving code out
def _redact(trace: Json) -> Json:
    snippets = sorted(set(_snippets(trace["kernels"])), key=len, reverse=True)

    def hide(text: str) -> str:
        for snippet in snippets:
            text = text.replace(snippet, _REMOVED)
        return text

    return {
        **trace,
        "kernels": [{**k, "file": _name(k["file"]), "lines": [], "adjoint": None} for k in trace["kernels"]],
        "launches": [{**launch, "call_site": _place(launch["call_site"])} for launch in trace["launches"]],
        "findings": [
            {
                **finding,
                "message": hide(finding["message"]),
                "fix": hide(finding["fix"]),
                "location": _place(finding["location"]),
                "call_site": _place(finding["call_site"]),
                "evidence": _numbers(finding["evidence"]),
            }
            for finding in trace["findings"]
        ],
        "checks": [{**check, "message": hide(check["message"])} for check in trace["checks"]],
    }


def _snippets(kernels: list[Json]) -> Iterator[str]:
    """Code that a message may quote: whole lines, and the expressions that read or write an array."""
    for kernel in kernels:
        lines: list[str] = kernel["lines"]
        for line in lines:
            if len(line.strip()) > _BRACKETS:
                yield line.strip()
        for access in kernel["accesses"]:
            at = access["line"] - kernel["line"]
            if 0 <= at < len(lines):
                text = lines[at][access["column"] : access["end_column"]].strip()
                if "[" in text:
                    yield text


def _numbers(evidence: Json) -> Json:
    """Evidence without its texts, which may quote code or name folders."""
    kept = {}
    for key, value in evidence.items():
        if isinstance(value, dict):
            kept[key] = _numbers(value)
        elif value is None or all(
            isinstance(v, int | float) for v in (value if isinstance(value, list) else [value])
        ):
            kept[key] = value
    return kept


def _place(place: Json | None) -> Json | None:
    return None if place is None else {**place, "file": _name(place["file"])}


def _name(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name or path
