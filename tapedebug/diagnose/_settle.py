"""One bug, one main finding: what another rule explains better becomes a note that says so."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.diagnose import after_loss, nonfinite, overwrite, replayed_counter, warp_limitation
from tapedebug.trace import Finding


def settle(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one tape, those that another one explains as notes."""
    for cause in findings:
        if cause.rule == after_loss.RULE and cause.severity == "error":
            for finding in findings:
                _explain(finding, cause)
        if cause.rule in (warp_limitation.RULE, replayed_counter.RULE) and cause.severity == "error":
            for finding in findings:
                _same_line(finding, cause)
    return list(findings)


def _same_line(finding: Finding, cause: Finding) -> None:
    """What a launch overwrites of its own, with `*=` or an atomic, is told once."""
    if finding.rule != overwrite.RULE or finding.severity == "info" or finding.location is None:
        return
    lines = {line for _, line in cause.evidence["constructs"]}
    launches = set(cause.launches)
    own = all(reader == clobberer and reader in launches for reader, clobberer in finding.evidence["pairs"])
    if own and finding.location.line in lines:
        finding.severity = "info"
        finding.message += f" See {cause.rule}, which is about the same line."
        finding.evidence["explained_by"] = cause.rule


def _explain(finding: Finding, cause: Finding) -> None:
    """What launches after the loss overwrite, or make NaN of, is theirs to mend."""
    if finding.severity == "info":
        return
    if finding.rule == overwrite.RULE:
        guilty = {clobberer for _, clobberer in finding.evidence["pairs"]}
    elif finding.rule == nonfinite.RULE:
        guilty = set(finding.launches)
    else:
        return
    if guilty and guilty <= set(cause.launches):
        finding.severity = "info"
        finding.message += f" It was recorded after the loss: see {after_loss.RULE}, which says what to move."
        finding.evidence["explained_by"] = after_loss.RULE
