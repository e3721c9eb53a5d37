"""The result of `diff`: the changes from one tape to another."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass
from tapedebug.report._diff.align import Run

if TYPE_CHECKING:
    from tapedebug.report._report_source import ReportSource
    from tapedebug.trace import Finding, Trace
    from tapedebug.trace.model import Verdict

Json = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class GradientChange:
    """Norms of the adjoint of an input, None if there is none; `same`: all statistics of both agree."""

    label: str
    before: float | None
    after: float | None
    same: bool = False

    @property
    def ratio(self) -> float | None:
        """The norm after divided by the norm before."""
        if self.before is None or self.after is None or self.before == 0:
            return None
        return self.after / self.before


@dataclass(slots=True, kw_only=True)
class CheckChange:
    """Verdicts and relative errors of a pair of the whole tape; None if it was not checked."""

    input: str
    output: str
    before: Verdict | None
    after: Verdict | None
    error_before: float | None = None
    error_after: float | None = None


@dataclass(slots=True, kw_only=True)
class ValueDivergence:
    """A value that matching launches of the two tapes wrote differently.

    Attributes:
        before: Index of the launch before.
        after: Index of the matching launch after.
        kernel: The name of the kernel.
        argument: The parameter.
        arrays: Labels of the argument's array, before and after.
        what: The statistic that differs most: ``"norm"``, ``"mean"``, ``"min"``, ``"max"``, ``"nan"``, …
        values: That statistic, before and after.
    """

    before: int
    after: int
    kernel: str
    argument: str
    arrays: tuple[str, str]
    what: str
    values: tuple[float | None, float | None]


@dataclass(slots=True, kw_only=True, repr=False)
class Diff:
    """The comparison of two tapes.

    Attributes:
        before: The trace of the first tape.
        after: The trace of the second tape.
        matches: The matching launches, as runs ``(before, after, length)``.
        gone: Findings of the first tape only, worst first.
        new: Findings of the second tape only.
        still: Findings of both tapes.
        gradients: The changes of the gradients of inputs.
        checks: The changes of the checks of the whole tape.
        diverged: Values that differ, in the order of the launches, the first for each parameter of a kernel.
        begin: Inputs with different values before the first launch: then the tapes differ anyway.
        notes: Sentences on the parts that could not be compared.
        names: The names of the two tapes.
    """

    before: Trace
    after: Trace
    matches: list[Run]
    gone: list[Finding] = field(default_factory=list)
    new: list[Finding] = field(default_factory=list)
    still: list[tuple[Finding, Finding]] = field(default_factory=list)
    gradients: list[GradientChange] = field(default_factory=list)
    checks: list[CheckChange] = field(default_factory=list)
    diverged: list[ValueDivergence] = field(default_factory=list)
    begin: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: tuple[str, str] = ("", "")
    _subjects: tuple[ReportSource, ReportSource] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.names = (self.names[0] or self.before.name, self.names[1] or self.after.name)

    @property
    def matched(self) -> int:
        """The number of launches in both tapes."""
        return sum(run.length for run in self.matches)

    @property
    def wrong(self) -> bool:
        """True if the second tape has an error or its gradient is WRONG."""
        return self.after.verdict == "WRONG" or any(f.severity == "error" for f in self.after.findings)

    def release_tapes(self) -> None:
        """Release the tapes; `save` then writes values only of tapes that are still alive."""
        self._subjects = None

    def save(self, path: str | os.PathLike[str], *, redact_source: bool = False) -> Path:
        """Write one offline HTML file with both tapes side by side; return its absolute path.

        Args:
            path: The file to write.
            redact_source: Leave out source, generated code and the folders of files.

        Raises:
            BundleError: The front end of this installation has not been built.
            OSError: The file cannot be written.
        """
        from tapedebug.report._diff.data import to_data
        from tapedebug.report._report import write_report
        from tapedebug.report._report_source import answered

        subjects = self._subjects or (answered(self.before), answered(self.after))
        data = to_data(self, [subject.head for subject in subjects], redact=redact_source)
        return write_report(subjects, path, redact_source=redact_source, diff=data)

    def __str__(self) -> str:
        from tapedebug.report._diff.text import format_diff

        return format_diff(self)

    def __repr__(self) -> str:
        return (
            f"<Diff {self.names[0]!r} → {self.names[1]!r}: "
            f"{self.before.verdict} → {self.after.verdict}, findings: "
            f"{len(self.gone)} gone, {len(self.new)} new, {len(self.still)} still there>"
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Json:
        from tapedebug.report._diff.html import diff_html

        return {"text/plain": str(self), "text/html": diff_html(self)}
