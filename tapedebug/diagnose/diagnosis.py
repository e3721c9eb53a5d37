"""`Diagnosis`, the result of `diagnose`: verdict, coverage, and findings, worst first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tapedebug._display import renderer
from tapedebug._errors import TapedebugError
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.formatting import format_diagnosis, format_several
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.trace import Check, Coverage, Finding, Trace
from tapedebug.trace.json_codec import encode
from tapedebug.trace.level import Level, level_of
from tapedebug.trace.model import Verdict

SEVERITY_ORDER = {"error": 0, "warning": 1, "info": 2}


class GradientError(TapedebugError, AssertionError):
    """`Diagnosis.raise_if_wrong`: the gradient of a tape is wrong or not finite.

    Attributes:
        diagnosis: All of it.
    """

    def __init__(self, message: str, diagnosis: Diagnosis) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its diagnosis: test runners send failures from process to process."""
        return type(self), (self.message, self.diagnosis)


@dataclass(slots=True, repr=False)
class Diagnosis:
    """The result of `diagnose`: verdict, coverage and findings.

    Attributes:
        verdict: Of the end-to-end check: ``"AGREE"``, ``"WRONG"``, ``"UNDECIDABLE"``, ``"KINK"``,
            ``"NONDETERMINISTIC"``, or ``"NOT CHECKED"``. With ``"WRONG"`` a finding is an error that names a
            place, a number and a fix.
        coverage: What the verdict rests on, and what was left out.
        findings: Worst first.
        trace: The tape as data, with all of this in it; of several, the one with the worst verdict.
        traces: All tapes, in the order of recording, where several were diagnosed; `Finding.tape` is a
            position in it.
        rules: Ids of the rules that were looked for, to the end; of others the coverage says why not.
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
    def wrong(self) -> bool:
        """True if a finding is an error; where the end-to-end check came out WRONG, one is."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def level(self) -> Level:
        """The badge's level: ``"good"``, ``"warning"``, ``"error"``, or ``"unknown"`` (nothing compared).

        ``"good"`` means that everything that was asked for is covered and agrees, and no finding is a
        warning or an error.
        """
        severities = [finding.severity for finding in self.findings]
        return level_of(self.verdict, severities, partial=self.coverage.partial)

    def by_rule(self, *rules: str) -> list[Finding]:
        """The findings of these rules, worst first."""
        return [finding for finding in self.findings if finding.rule in rules]

    def raise_if_wrong(self) -> None:
        """Do nothing if the gradients are right; for tests.

        Raises:
            GradientError: A finding is an error, or the verdict is WRONG; the message is the diagnosis.
        """
        if self.wrong:
            raise GradientError(str(self), self)

    def to_json(self) -> dict[str, Any]:
        """Return ``{"schema", "verdict", "coverage", "tapes", "findings"}`` as `json.dumps` takes it."""
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
        """Show the panel in a notebook; the notebook room decides how."""
        try:
            shown = renderer()
        except ImportError:  # the notebook extras are not installed: text will do
            return {"text/plain": str(self)}
        return shown.panel(self)

    def _display_(self) -> Any:
        return renderer().marimo(self)


def severity(finding: Finding) -> tuple[int, int]:
    """Return the key that sorts findings: the worst first; among equals, harmless ones last."""
    return SEVERITY_ORDER[finding.severity], int(isinstance(finding, RuleFinding) and bool(finding.harmless))


def diagnoses_to_json(diagnoses: list[Diagnosis], notes: list[str] | None = None) -> dict[str, Any]:
    """Return the content of the ``--json`` file for any number of tapes.

    Each finding of `findings` also says which entry of `tapes` it belongs to (`tape`).
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
    """Return the verdict that counts for all: a single wrong gradient makes the whole wrong."""
    order: tuple[Verdict, ...] = ("WRONG", "NONDETERMINISTIC", "UNDECIDABLE", "KINK", "NOT CHECKED", "AGREE")
    return min(verdicts, key=order.index, default="NOT CHECKED")


def merged_coverage(parts: list[Coverage], notes: list[str]) -> Coverage:
    """Return the coverage of several tapes as one."""
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
