"""The class `Diagnosis`, the result of `diagnose`: verdict, coverage, and findings, worst first."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug._display import renderer
from tapedebug._errors import TapedebugError
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.formatting import format_diagnosis, format_several
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.trace import Check, Coverage, Finding, Timing, Trace
from tapedebug.trace.json_codec import encode
from tapedebug.trace.level import Level, level_of
from tapedebug.trace.model import Verdict

SEVERITY_ORDER = {"error": 0, "warning": 1, "info": 2}


class GradientError(TapedebugError, AssertionError):
    """The error of `Diagnosis.raise_if_wrong`: the gradient of a tape is wrong or not finite.

    Attributes:
        diagnosis: The whole diagnosis.
    """

    def __init__(self, message: str, diagnosis: Diagnosis) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with its diagnosis: test runners send failures from process to process."""
        return type(self), (self.message, self.diagnosis)


@dataclass(slots=True, repr=False)
class Diagnosis:
    """The result of `diagnose`: verdict, coverage and findings.

    Attributes:
        verdict: The result of the end-to-end check: ``"AGREE"``, ``"WRONG"``, ``"UNDECIDABLE"``, ``"KINK"``,
            ``"NONDETERMINISTIC"``, or ``"NOT CHECKED"``. With ``"WRONG"`` a finding is an error that names a
            place, a number and a fix.
        coverage: The parts that were checked, and those that were not, with reasons.
        findings: The findings, worst first.
        trace: The tape as data, including this diagnosis; of several tapes, the one with the worst verdict.
        traces: All tapes, in the order of recording, if several were diagnosed; `Finding.tape` is a
            position in it.
        rules: Ids of the rules that ran to completion; the coverage gives the reasons for the others.
    """

    verdict: Verdict
    coverage: Coverage
    findings: list[Finding]
    trace: Trace
    traces: list[Trace] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.verdict == "WRONG" and not any(finding.severity == "error" for finding in self.findings):
            raise ValueError("a diagnosis that is WRONG has a finding that says what is wrong, where")

    @property
    def checks(self) -> list[Check]:
        """The end-to-end checks, one for each pair of input and loss."""
        return self.trace.checks

    @property
    def timings(self) -> list[Timing]:
        """The steps of the diagnosis in the order in which they began, with estimated and measured seconds.

        A step is a rule, or an experiment that several rules share, and its time is that of no other step. Of
        several tapes, the steps of each are listed, in the order of `traces`.
        """
        return [timing for trace in self.traces or [self.trace] for timing in trace.timings]

    @property
    def wrong(self) -> bool:
        """True if a finding is an error, which is always so for the verdict WRONG."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def level(self) -> Level:
        """The badge's level: ``"good"``, ``"warning"``, ``"error"``, or ``"unknown"`` (nothing compared).

        ``"good"`` means that everything requested was checked and agrees, and no finding is a warning or an
        error.
        """
        severities = [finding.severity for finding in self.findings]
        return level_of(self.verdict, severities, partial=self.coverage.partial)

    def by_rule(self, *rules: str) -> list[Finding]:
        """Return the findings of these rules, worst first."""
        return [finding for finding in self.findings if finding.rule in rules]

    def raise_if_wrong(self) -> None:
        """Raise an error unless the gradients are right; for tests.

        Raises:
            GradientError: A finding is an error, or the verdict is WRONG; the message is the diagnosis.
        """
        if self.wrong:
            raise GradientError(str(self), self)

    def to_json(self) -> dict[str, Any]:
        """Return ``{"schema", "verdict", "coverage", "tapes", "findings"}`` as data for `json.dumps`."""
        return diagnoses_to_json([self])

    def __repr__(self) -> str:
        kinds = [finding.severity for finding in self.findings]
        counts = ", ".join(words.plural(kinds.count(kind), kind) for kind in SEVERITY_ORDER if kind in kinds)
        what = f"{len(self.traces)} tapes" if len(self.traces) > 1 else self.trace.name
        return f"<Diagnosis of {what}: {self.verdict}, {counts or 'no findings'}; {self.coverage.summary}>"

    def __str__(self) -> str:
        if len(self.traces) > 1:
            return format_several(self.verdict, self.coverage, self.findings, self.traces)
        return format_diagnosis(self.trace)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """Return the panel for a notebook, or text if the notebook extras are missing."""
        try:
            shown = renderer()
        except ImportError:  # the notebook extras are not installed: text is enough
            return {"text/plain": str(self)}
        return shown.panel(self)

    def _display_(self) -> Any:
        return renderer().marimo(self)


def severity(finding: Finding) -> tuple[int, int]:
    """Return the sort key of a finding: the worst first; among equals, harmless ones last."""
    return SEVERITY_ORDER[finding.severity], int(isinstance(finding, RuleFinding) and bool(finding.harmless))


def diagnoses_to_json(diagnoses: list[Diagnosis], notes: list[str] | None = None) -> dict[str, Any]:
    """Return the content of the ``--json`` file for any number of tapes.

    Each entry of `findings` has the index of its tape in `tapes` (`tape`).
    """
    traces = [trace for diagnosis in diagnoses for trace in (diagnosis.traces or [diagnosis.trace])]
    found = [
        {**finding.to_json(), "tape": number}
        for number, trace in enumerate(traces)
        for finding in trace.findings
    ]
    found.sort(key=lambda item: SEVERITY_ORDER[item["severity"]])
    coverage = merged_coverage([trace.coverage for trace in traces], notes or [])
    return {
        "schema": 1,
        "verdict": worst_verdict([trace.verdict for trace in traces]),
        "coverage": encode(coverage),
        "tapes": [
            {
                "name": trace.name,
                **encode(trace.tape),
                "verdict": trace.verdict,
                "coverage": encode(trace.coverage),
                "checks": encode(trace.checks),
            }
            for trace in traces
        ],
        "findings": found,
    }


def worst_verdict(verdicts: list[Verdict]) -> Verdict:
    """Return the combined verdict: a single wrong gradient makes the whole wrong."""
    order: tuple[Verdict, ...] = ("WRONG", "NONDETERMINISTIC", "UNDECIDABLE", "KINK", "NOT CHECKED", "AGREE")
    return min(verdicts, key=order.index, default="NOT CHECKED")


def merged_coverage(parts: list[Coverage], notes: list[str]) -> Coverage:
    """Return the combined coverage of several tapes."""
    if len(parts) == 1 and not notes:
        return parts[0]
    launches, checked = sum(part.launches for part in parts), sum(part.checked for part in parts)
    tapes = "no tape was recorded" if not parts else f"{len(parts)} tape{'s' if len(parts) > 1 else ''}"
    summary = tapes if not parts else f"{tapes}: {checked} of {launches} launches checked end to end"
    inner = list(dict.fromkeys(note for part in parts for note in part.notes))
    partial = any(part.partial for part in parts)
    return Coverage(
        summary=summary, launches=launches, checked=checked, notes=[*inner, *notes], partial=partial
    )
