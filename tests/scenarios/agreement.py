"""Findings of scenario programs on NVIDIA Warp, compared with those of `--as-warp`, and their page."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.scenarios.differences import BY_PROGRAM, BY_RULE

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "on_warp.json"
PAGE = ROOT / "docs" / "watched-scenarios.md"

Row = dict[str, Any]
Results = dict[str, Any]

SAME = 1e-3
"""Largest relative difference of two gradients that count as equal; Warp computes in float32."""


def load() -> Results:
    """Return the stored results."""
    if RESULTS.exists():
        found: Results = json.loads(RESULTS.read_text("utf-8"))
        return found
    return {"warp": "", "programs": {}}


@dataclass(frozen=True)
class Difference:
    """A difference between the two runs of a program.

    Attributes:
        program: The program.
        rule: The rule of the finding; `verdict` and `run` for these.
        side: The side that has more: `as-warp` or `watched`; `both` for a finding whose contents differ.
        text: The difference, in words.
    """

    program: str
    rule: str
    side: str
    text: str

    @property
    def reason(self) -> str | None:
        """The explanation; None if there is none."""
        own = BY_PROGRAM.get((self.program, self.rule))
        return own or BY_RULE.get((self.rule, self.side))


def loud(outcome: Row) -> list[Row]:
    """Return errors and warnings."""
    return [item for item in outcome.get("findings", []) if item["severity"] != "info"]


def place(finding: Row) -> tuple[str, str, int, int]:
    """Return the rule, kernel, line and line of the call of a finding."""
    return finding["rule"], finding["kernel"], finding["line"], finding["call"]


def _tape_and_place(finding: Row) -> tuple[Any, ...]:
    return finding["tape"], *place(finding)


def differences(row: Row) -> list[Difference]:
    """Return the differences between the two runs of a program."""
    return list(_differences(row))


def _differences(row: Row) -> Iterator[Difference]:
    name, ours, theirs = row["name"], row["as_warp"], row["watched"]
    if "failed" in ours or "failed" in theirs:
        if ours.get("failed") != theirs.get("failed"):
            side = "watched" if "failed" in theirs else "as-warp"
            yield Difference(name, "run", side, str(theirs.get("failed") or ours.get("failed")))
        return
    wanted, found = consumed(ours), theirs["verdicts"]
    if wanted != found:
        yield Difference(name, "verdict", "both", f"{_listed(wanted)} here, {_listed(found)} on Warp")
    one, other = (Counter(map(place, loud(outcome))) for outcome in (ours, theirs))
    for side, more in (("as-warp", one - other), ("watched", other - one)):
        for rule, kernel, line, call in sorted(more):
            yield Difference(name, rule, side, f"{rule} {_where(kernel, line, call)}")
    partners = {_tape_and_place(item): item for item in loud(theirs)}
    for item in loud(ours):
        partner = partners.get(_tape_and_place(item))
        if partner is not None:
            yield from _contents(name, item, partner)


def consumed(outcome: Row) -> list[str]:
    """Return the verdicts of the gradients that Warp would consume, as `--as-warp` says."""
    errors = {
        item["tape"] for item in outcome["findings"] if item["severity"] == "error" and item["gradients"]
    }
    return ["WRONG" if tape in errors else verdict for tape, verdict in enumerate(outcome["verdicts"])]


def _contents(name: str, item: Row, partner: Row) -> Iterator[Difference]:
    """Yield the differences between two findings of one place."""
    rule = item["rule"]
    if item["severity"] != partner["severity"]:
        yield Difference(
            name, rule, "both", f"{rule}: {item['severity']} here, {partner['severity']} on Warp"
        )
    if set(item["arrays"]) != set(partner["arrays"]):
        yield Difference(
            name,
            rule,
            "both",
            f"{rule}: {_listed(item['arrays'])} here, {_listed(partner['arrays'])} on Warp",
        )
    for label, numbers in item["gradients"].items():
        others = partner["gradients"].get(label, {})
        if numbers.get("element") != others.get("element"):
            continue
        for key in ("wrong", "right"):
            if key in numbers and key in others and not _same(numbers[key], others[key]):
                text = f"{rule}: {label}, {key}: {numbers[key]:.6g} here, {others[key]:.6g} on Warp"
                yield Difference(name, rule, "both", text)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= SAME * max(abs(one), abs(other)) + 1e-6


def _listed(items: list[str]) -> str:
    return ", ".join(items) or "none"


def _where(kernel: str, line: int, call: int) -> str:
    where = f"in {kernel}, line {line}" if line else ""
    return f"{where}{', ' if where and call else ''}{f'called at line {call}' if call else ''}"


def page(results: Results) -> str:
    """Return the page as Markdown."""
    rows = [results["programs"][name] for name in sorted(results["programs"])]
    found = {row["name"]: differences(row) for row in rows}
    same = sum(not items for items in found.values())
    lines = [
        "# Watched scenarios",
        "",
        "This page compares the two ways to debug a program that says `import warp as wp`: `tapedebug run` watches it",
        "on NVIDIA Warp, and `tapedebug run --as-warp` runs it on tapedebug's engine. The programs are those of",
        "`tests/scenarios` that import Warp, and others whose import was exchanged, one for most kinds of bugs.",
        "",
        f"Measured with warp-lang {results['warp']} on a CPU: of {len(rows)} programs {same} agree in the verdict of the",
        "gradient that Warp consumes, and in rule, severity, kernel, line, call and arrays of every error and warning.",
        f"Their gradients, wrong and right, agree to {SAME:g}. The differences of the others are explained below.",
        "",
        "| Program | Verdict as Warp | Verdict watched | Errors and warnings as Warp | Watched | Agree |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        ours, theirs = row["as_warp"], row["watched"]
        cells = [
            row["name"],
            _verdicts(ours, consumed(ours) if "failed" not in ours else []),
            _verdicts(theirs, theirs.get("verdicts", [])),
            _rules(ours),
            _rules(theirs),
            "no" if found[row["name"]] else "yes",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Differences", "", "| Program | Finding | Reason |", "| --- | --- | --- |"]
    for name, items in found.items():
        reasons = dict.fromkeys((item.rule, item.reason or "") for item in items)
        lines += [f"| {name} | {rule} | {reason} |" for rule, reason in reasons]
    lines += [
        "",
        "In the column *Verdict as Warp* stands the verdict of the gradient that Warp would consume; on this engine",
        "the gradient is right. × gives the number of tapes.",
        "",
        "## How to make this page",
        "",
        "`python -m tests.scenarios.on_warp --all` measures all programs again (it needs `warp-lang`), and `--write`",
        "writes the page from the stored results.",
        "",
    ]
    return "\n".join(lines)


def _verdicts(outcome: Row, verdicts: list[str]) -> str:
    """Return the verdicts, each once with its number of tapes."""
    if "failed" in outcome:
        return "stopped with an error"
    counts = Counter(verdicts)
    return ", ".join(f"{verdict} ×{n}" if len(verdicts) > 1 else verdict for verdict, n in counts.items())


def _rules(outcome: Row) -> str:
    """Return the rules of errors and warnings with their lines, each once."""
    found = dict.fromkeys((item["rule"], item["line"] or item["call"]) for item in loud(outcome))
    return ", ".join(f"{rule} (line {line})" for rule, line in found) or "none"
