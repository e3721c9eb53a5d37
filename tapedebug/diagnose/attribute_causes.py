"""Attributes a bug to one main finding; findings that another one explains become an `info`."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.diagnose.registry import rule_of
from tapedebug.trace import Finding


def attribute_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one tape; those that another one explains become an `info`."""
    for cause in findings:
        rule = rule_of(cause)
        for finding in findings:
            sentence = rule.explain(cause, finding) if finding.rule in rule.explains else ""
            if sentence and sentence not in finding.message:  # it may have been attributed before
                finding.severity = "info"
                finding.message += f" {sentence}"
                finding.evidence["explained_by"] = rule.code
    return list(findings)
