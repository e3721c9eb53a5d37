"""One bug, one main finding: what another rule explains better becomes a note that says so."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.diagnose import after_loss, nonfinite, overwrite
from tapedebug.trace import Finding


def settle(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one tape, those that another one explains as notes."""
    for cause in findings:
        if cause.rule == after_loss.RULE and cause.severity == "error":
            for finding in findings:
                _explain(finding, cause)
    return list(findings)


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
