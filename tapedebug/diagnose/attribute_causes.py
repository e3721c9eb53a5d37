"""Attribute a bug to one main finding; findings that another rule explains better become notes."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.diagnose.rules import (
    after_loss,
    disconnected,
    nonfinite,
    out_of_bounds,
    overwrite,
    replayed_counter,
    unused,
    warp_limitation,
)
from tapedebug.trace import Finding


def attribute_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one tape, those that another one explains as notes."""
    for cause in findings:
        for finding in findings:
            if cause.rule == after_loss.RULE and cause.severity == "error":
                _after_loss(finding, cause)
            elif cause.rule == out_of_bounds.RULE and cause.severity == "error":
                _out_of_bounds(finding, cause)
            elif cause.rule == unused.RULE and cause.severity == "warning":
                _unused(finding, cause)
            elif cause.rule in (warp_limitation.RULE, replayed_counter.RULE) and cause.severity == "error":
                _same_line(finding, cause)
    return list(findings)


def _same_line(finding: Finding, cause: Finding) -> None:
    """What a launch overwrites of its own, with `*=` or an atomic, is told once."""
    if finding.rule != overwrite.RULE or finding.severity == "info" or finding.location is None:
        return
    lines = {line for _, line in cause.evidence.get("constructs", ())}
    launches = set(cause.launches)
    own = all(reader == clobberer and reader in launches for reader, clobberer in finding.evidence["pairs"])
    if own and finding.location.line in lines:
        _demote(finding, f"See {cause.rule}, which is about the same line.", cause.rule)


def _out_of_bounds(finding: Finding, cause: Finding) -> None:
    """Return what no operation explains came from memory that a launch read beside its arrays."""
    if finding.rule != nonfinite.RULE or finding.severity == "info":
        return
    if finding.evidence["cause"] == "unknown" and set(finding.launches) & set(cause.launches):
        told = f"See {out_of_bounds.RULE}: the launch reads memory that is not the array's."
        _demote(finding, told, out_of_bounds.RULE)


def _unused(finding: Finding, cause: Finding) -> None:
    """An input leads nowhere because its array, or what is computed of it, is in the wrong place."""
    if finding.rule != disconnected.RULE or finding.evidence["kind"] != "no data flow":
        return
    if set(finding.evidence["inputs"]) <= set(cause.evidence.get("inputs", ())):
        _demote(finding, f"Why that is so, {unused.RULE} says.", unused.RULE)


def _after_loss(finding: Finding, cause: Finding) -> None:
    """Leave to `after-loss` the findings that launches after the loss cause."""
    if finding.severity == "info":
        return
    if finding.rule == disconnected.RULE and finding.evidence["kind"].startswith(
        ("no data flow", "through ")
    ):
        if set(finding.evidence["inputs"]) <= set(cause.evidence["relative_error"]):
            _demote(finding, f"See {after_loss.RULE}, which says what replaces the loss.", after_loss.RULE)
        return
    if finding.rule == overwrite.RULE:
        guilty = {clobberer for _, clobberer in finding.evidence["pairs"]}
    elif finding.rule == nonfinite.RULE:
        guilty = set(finding.launches)
    else:
        return
    if guilty and guilty <= set(cause.launches):
        told = f"It was recorded after the loss: see {after_loss.RULE}, which says what to move."
        _demote(finding, told, after_loss.RULE)


def _demote(finding: Finding, told: str, rule: str) -> None:
    finding.severity = "info"
    finding.message += f" {told}"
    finding.evidence["explained_by"] = rule
