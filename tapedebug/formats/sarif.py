"""Findings as SARIF 2.1.0, which code hosts show at the lines concerned.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from tapedebug._environment import environment
from tapedebug._source import source_line
from tapedebug.formats._run import INTERRUPTED, Run, fails
from tapedebug.trace import Finding, Location, Trace

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""The name of the base folder of relative paths."""
LEVEL = {"error": "error", "warning": "warning", "info": "note"}
WRONG = "wrong-gradient"
"""The rule of a gradient that is WRONG although no finding is an error."""
WRONG_TITLE = "The gradient does not agree with its reference"


def sarif(run: Run, titles: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Return a run as a SARIF log; the same finding on several tapes is one result with a count.

    Args:
        run: The run.
        titles: The title of each rule by its code; by default the code is the title.
    """
    results: dict[str, dict[str, Any]] = {}
    for trace in run.traces:
        for finding in trace.findings:
            _count(results, _result(run, trace, finding))
        if fails(trace, "wrong") and all(finding.severity != "error" for finding in trace.findings):
            _count(results, _wrong(run, trace))
    listed = list(results.values())
    rules = sorted({result["ruleId"] for result in listed})
    for result in listed:
        result["ruleIndex"] = rules.index(result["ruleId"])
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(rules, {**titles, WRONG: WRONG_TITLE})},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {ROOT: {"uri": run.root.as_uri().rstrip("/") + "/"}},
                "invocations": [_invocation(run)],
                "results": listed,
            }
        ],
    }


def _driver(rules: list[str], titles: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": "tapedebug",
        "semanticVersion": environment()["tapedebug"],
        "rules": [{"id": rule, "shortDescription": {"text": titles.get(rule, rule)}} for rule in rules],
    }


def _invocation(run: Run) -> dict[str, Any]:
    notifications = [{"level": "note", "message": {"text": note}} for note in (*run.engines, *run.notes)]
    if run.failed:
        text = f"the program failed ({run.reason})" + (f"\n{run.message}" if run.message else "")
        notifications.append({"level": "error", "message": {"text": text}})
    if run.interrupted:
        notifications.append({"level": "error", "message": {"text": INTERRUPTED}})
    return {
        "executionSuccessful": not (run.failed or run.interrupted),
        "exitCode": run.status,
        "toolExecutionNotifications": notifications,
    }


def _count(results: dict[str, dict[str, Any]], result: dict[str, Any]) -> None:
    place = result["locations"], result["relatedLocations"]
    key = repr((result["ruleId"], result["level"], result["properties"].get("arrays"), place))
    known = results.setdefault(key, result)
    if known is not result:
        known["occurrenceCount"] += 1


def _result(run: Run, trace: Trace, finding: Finding) -> dict[str, Any]:
    place = finding.location or finding.call_site
    text = finding.message + (f"\nFix: {finding.fix}" if finding.fix else "")
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": LEVEL[finding.severity],
        "message": {"text": text},
        "locations": [_location(run, place)],
        "relatedLocations": _related(run, finding, place),
        "occurrenceCount": 1,
        "properties": {**_tape(trace), "launches": finding.launches, "arrays": finding.arrays},
    }
    return _recognisable(result, place, finding.arrays)


def _tape(trace: Trace) -> dict[str, Any]:
    """Return the name of a tape, and the engine if it is not that of tapedebug."""
    engine = {"engine": trace.tape.engine} if trace.tape.engine else {}
    return {"tape": trace.name, **engine}


def _related(run: Run, finding: Finding, shown: Location | None) -> list[dict[str, Any]]:
    """Return the call site, and the other launches that the evidence lists with their lines."""
    places: list[tuple[str, Location]] = []
    if finding.call_site is not None:
        places.append(("launched here", finding.call_site))
    for value in finding.evidence.values():
        if isinstance(value, dict) and isinstance(value.get("location"), dict) and "launch" in value:
            words = (
                f"launch {value['launch']} ({value['kernel']})" if "kernel" in value else "the other place"
            )
            places.append((words, Location(**value["location"])))
    found: list[dict[str, Any]] = []
    seen = [shown]
    for words, place in places:
        if place not in seen:
            seen.append(place)
            found.append({"id": len(found) + 1, "message": {"text": words}, **_location(run, place)})
    return found


def _wrong(run: Run, trace: Trace) -> dict[str, Any]:
    result = {
        "ruleId": WRONG,
        "level": "error",
        "message": {"text": trace.coverage.summary},
        "locations": [_location(run, None)],
        "relatedLocations": [],
        "occurrenceCount": 1,
        "properties": _tape(trace),
    }
    return _recognisable(result, None, [])


def _location(run: Run, place: Location | None) -> dict[str, Any]:
    """Return a place as a SARIF location; code without a file is located in the program."""
    found: dict[str, Any] = {}
    file = run.file if place is None else _file(place)
    inside = place if file is not None else None
    file = file or run.file
    if file is not None:
        physical: dict[str, Any] = {"artifactLocation": _artifact(run, file)}
        if inside is not None:
            region: dict[str, Any] = {"startLine": inside.line, "startColumn": inside.column + 1}
            text = source_line(inside.file, inside.line)
            if text:
                region["snippet"] = {"text": text}
            physical["region"] = region
        found["physicalLocation"] = physical
    if place is not None:
        name = place.function or "<module>"
        qualified = name if inside is not None else f"{place}, {name}"  # a cell of a notebook: In [4]:2
        found["logicalLocations"] = [{"name": name, "fullyQualifiedName": qualified, "kind": "function"}]
    return found


def _file(place: Location) -> Path | None:
    path = Path(place.file)
    return path if path.is_absolute() and path.is_file() else None


def _artifact(run: Run, file: Path) -> dict[str, str]:
    relative = run.relative(file)
    if relative is not None:
        return {"uri": quote(relative), "uriBaseId": ROOT}
    return {"uri": file.absolute().as_uri()}


def _recognisable(result: dict[str, Any], place: Location | None, arrays: list[str]) -> dict[str, Any]:
    """Add a fingerprint that the same finding has in other runs, also if its line has moved."""
    text = "" if place is None else f"{place.function}\n{source_line(place.file, place.line).strip()}"
    digest = hashlib.sha256("\n".join((result["ruleId"], text, *arrays)).encode()).hexdigest()
    result["partialFingerprints"] = {"tapedebug/v1": digest[:32]}
    return result
