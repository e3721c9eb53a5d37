"""Unfinished diagnoses: what is known of a tape while rules are running, or when they are interrupted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

from tapedebug.diagnose import wording as words
from tapedebug.diagnose.attribute_causes import attribute_causes
from tapedebug.diagnose.blame import blame_measured
from tapedebug.diagnose.diagnosis import severity
from tapedebug.diagnose.registry import applicable
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.trace import Check, Coverage, Finding, Trace

WAITING = "still being looked for: "
INTERRUPTED = "interrupted, and not looked for: "


class SoFar:
    """Reports a tape after each comparison and each rule, and all tapes if Ctrl-C ends the diagnosis.

    Args:
        report: Called with the trace of a tape as `trace_so_far` returns it; None reports nothing.
        tapes: The number of all tapes of the diagnosis.
    """

    def __init__(self, report: Callable[[Trace], Any] | None, tapes: int) -> None:
        self._report = report
        self._tapes = tapes
        self._contexts: dict[str, RuleContext] = {}

    def compared(self, trace: Trace, checks: list[Check], inputs: int) -> None:
        """Report the results for some inputs of a tape while others are compared: it has no verdict yet.

        Args:
            trace: The tape.
            checks: The results.
            inputs: The number of all inputs.
        """
        if self._report is not None and len(checks) < inputs:
            found = copy.copy(trace)
            found.checks = checks
            found.coverage = Coverage(
                summary=f"the gradients of {len(checks)} of {inputs} inputs were compared",
                launches=len(trace.launches),
                notes=list(trace.coverage.notes),
                partial=True,
            )
            self._report(found)

    def follow(self, context: RuleContext) -> RuleContext:
        """Report a tape now, and from now on after each rule; return its context."""
        report = self._report
        if report is not None and context.trace.launches:
            self._contexts[context.trace.recording] = context
            context.after_rule = lambda: report(trace_so_far(context, self._tapes))
            context.after_rule()
        return context

    def __enter__(self) -> SoFar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt) and self._report is not None:
            for context in self._contexts.values():
                self._report(trace_so_far(context, self._tapes, interrupted=True))


def trace_so_far(context: RuleContext, tapes: int, *, interrupted: bool = False) -> Trace:
    """Return a copy of a trace with the findings so far; its coverage lists the rules that have not run.

    Args:
        context: The tape under diagnosis.
        tapes: The number of all tapes of the diagnosis.
        interrupted: They will not run. A gradient that is WRONG then has an error with the measured numbers.
    """
    trace = copy.copy(context.trace)
    findings = attribute_causes([_copied(finding) for finding in trace.findings])
    if interrupted and trace.verdict == "WRONG" and all(each.severity != "error" for each in findings):
        findings.append(blame_measured(context))
    names = words.names_in(trace)
    trace.findings = [
        replace(finding, id=number, message=words.capitalised(finding.message, names))
        for number, finding in enumerate(sorted(findings, key=severity))
    ]
    rules = [rule.code for rule in applicable(tapes) if rule.code not in context.ended]
    note = f"{INTERRUPTED if interrupted else WAITING}{', '.join(rules)}"
    notes = [*trace.coverage.notes, *([note] if rules else [])]
    trace.coverage = replace(trace.coverage, notes=notes, partial=True)
    trace.timings = list(trace.timings)
    return trace


def _copied(finding: Finding) -> Finding:
    """Return a copy that shares only what no rule changes: source locations, and values in its evidence."""
    copied = copy.copy(finding)
    copied.launches, copied.arrays = list(finding.launches), list(finding.arrays)
    copied.evidence = dict(finding.evidence)
    return copied


def rules_left(trace: Trace) -> int | None:
    """Return the number of rules that an unfinished diagnosis has yet to run; None if it is unknown."""
    notes = [note for note in trace.coverage.notes if note.startswith(WAITING)]
    return len(notes[-1].split(", ")) if notes else None
