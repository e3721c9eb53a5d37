"""Matches losses to tapes, and combines the diagnoses of several tapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug._errors import ArgumentError
from tapedebug.diagnose.blame import is_echo
from tapedebug.diagnose.diagnosis import Diagnosis, merged_coverage, severity, worst_verdict
from tapedebug.diagnose.rules.truncated import Truncated
from tapedebug.diagnose.target import Loss


def losses_for(tapes: Sequence[object], loss: Loss | Sequence[Loss]) -> list[Loss]:
    """Return the loss of each tape: the same for all, or the one at its position in a list.

    Raises:
        TypeError: The numbers of losses and tapes differ.
    """
    if not isinstance(loss, (list, tuple)):
        return [loss] * len(tapes)
    if len(loss) != len(tapes):
        raise ArgumentError(
            f"diagnose: a list of losses has one for each tape (or None); there are {len(tapes)} tapes "
            f"and {len(loss)} losses"
        )
    return list(loss)


def joined(parts: Sequence[Diagnosis]) -> Diagnosis:
    """Return the diagnoses of several tapes as one; each finding has the index of its trace."""
    traces = [part.trace for part in parts]
    for number, trace in enumerate(traces):
        for finding in trace.findings:
            finding.tape = number
    # A finding of one tape that also concerns others is listed once.
    every = (item for trace in traces for item in trace.findings if not is_echo(item))
    findings = sorted(every, key=severity)
    coverage = merged_coverage([part.coverage for part in parts], [_together(findings)])
    verdict = worst_verdict([part.verdict for part in parts])
    worst = min(parts, key=lambda part: (part.verdict != verdict, -len(part.findings)))
    rules = list(dict.fromkeys(rule for part in parts for rule in part.rules))
    return Diagnosis(verdict, coverage, findings, worst.trace, traces, rules)


def _together(findings: Sequence[Any]) -> str:
    """Return a note on the verdict of all tapes together."""
    cut = [item for item in findings if item.rule == Truncated.code]
    if any(item.severity == "error" for item in cut):
        return "over all tapes together the gradient is WRONG: see truncated"
    if cut:
        return (
            "each verdict is about its own tape, from what it found; the gradient over all tapes together is "
            "another one: see truncated"
        )
    return (
        "each tape was checked by itself, from what it found; between them, no parameter was found that "
        "collects gradient on both sides of a cut"
    )
