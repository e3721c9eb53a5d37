"""Removal of code from reports: source, generated adjoints, scripts and folder names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import PurePath
from typing import Any

Json = dict[str, Any]

REMOVED = "…"
_BRACKETS = 3
"""Length of lines that only close brackets: hiding those, or single words, would garble all messages."""
_FOLDERS = re.compile(r"(?<![\w/.:])/(?:[^\s/:'\"(),]+/)+|\b[A-Za-z]:[\\/](?:[^\s\\/:'\"(),]+[\\/])+")
_CODE = frozenset({"adjoint", "code", "lines", "program", "reproduce", "script", "source", "text"})
"""Keys of answers whose values are always treated as code."""


class Redactor:
    """Filter that removes the code of one trace from texts.

    Names of kernels, arrays and scopes, line numbers and values stay.
    """

    def __init__(self, trace: Json) -> None:
        snippets = sorted(set(_snippets(trace["kernels"])), key=len, reverse=True)
        self._snippets = re.compile("|".join(map(re.escape, snippets))) if snippets else None

    def text(self, text: str) -> str:
        """Return `text` without code and folders."""
        if self._snippets is not None:
            text = self._snippets.sub(REMOVED, text)
        return _FOLDERS.sub("", text)

    def trace(self, trace: Json) -> Json:
        """Return the head of a packed trace without code and folders; it is not changed."""
        coverage = trace["coverage"]
        return {
            **trace,
            "name": _FOLDERS.sub("", trace["name"]),
            "environment": {key: self.text(value) for key, value in trace["environment"].items()},
            "coverage": {
                **coverage,
                "summary": self.text(coverage["summary"]),
                "notes": [self.text(note) for note in coverage["notes"]],
            },
            "notes": [self.text(note) for note in trace.get("notes", ())],
            "kernels": [_kernel(kernel) for kernel in trace["kernels"]],
            "places": [_place(place) for place in trace["places"]],
            "values": [self._data(value) for value in trace["values"]],
            "findings": [self._finding(finding) for finding in trace["findings"]],
            "checks": [{**check, "message": self.text(check["message"])} for check in trace["checks"]],
            "events": [
                {**event, "call_site": _place(event["call_site"]), "how": self.text(event["how"])}
                for event in trace["events"]
            ],
        }

    def answer(self, answer: Json) -> Json:
        """Return an embedded answer without code and folders."""
        return {**answer, "data": self._data(answer["data"])}

    def _finding(self, finding: Json) -> Json:
        return {
            **finding,
            "message": self.text(finding["message"]),
            "fix": self.text(finding["fix"]),
            "location": _place(finding["location"]),
            "call_site": _place(finding["call_site"]),
            "evidence": _numbers(finding["evidence"]),
        }

    def _data(self, value: object) -> Any:
        if isinstance(value, str):
            return REMOVED if "\n" in value else self.text(value)
        if isinstance(value, list):
            return [self._data(item) for item in value]
        if isinstance(value, dict):
            kept = {key: item for key, item in value.items() if key not in _CODE}
            return {
                key: _name(item) if key == "file" and isinstance(item, str) else self._data(item)
                for key, item in kept.items()
            }
        return value


def _snippets(kernels: list[Json]) -> Iterator[str]:
    """Yield code that a message may quote: whole lines, and the expressions that read or write an array."""
    for kernel in kernels:
        parts: list[Json] = [kernel, *kernel.get("functions", ())]
        for line in [*(line for part in parts for line in part["lines"]), *_adjoint_of(kernel)]:
            code = line.strip()
            if len(code) > _BRACKETS and re.search(r"\W", code.rstrip(":")):
                yield code
        for access, part in product(kernel["accesses"], parts):
            at = access["line"] - part["line"]
            if access.get("file", "") in ("", part["file"]) and 0 <= at < len(part["lines"]):
                text = part["lines"][at][access["column"] : access["end_column"]].strip()
                if "[" in text:
                    yield text


def _adjoint_of(kernel: Json) -> list[str]:
    return (kernel.get("adjoint") or "").splitlines()


def _kernel(kernel: Json) -> Json:
    redacted = {**kernel, "file": _name(kernel["file"]), "lines": [], "adjoint": None}
    redacted["accesses"] = [_without_folder(access) for access in kernel["accesses"]]
    if "functions" in kernel:
        redacted["functions"] = [{**_without_folder(part), "lines": []} for part in kernel["functions"]]
    return redacted


def _without_folder(item: Json) -> Json:
    return {**item, "file": _name(item["file"])} if "file" in item else item


def _numbers(evidence: Json) -> Json:
    """Return evidence without its texts, which may quote code or contain folder names."""
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
