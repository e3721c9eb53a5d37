"""The result of running a program: its tapes, how it ended, and what makes it fail."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from tapedebug.trace import Finding, Location, Trace

FailOn = Literal["warning", "error", "wrong"]
LEVELS: tuple[FailOn, ...] = get_args(FailOn)


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of `tapedebug run`.

    Attributes:
        name: The program, as it was named on the command line.
        file: Its file, if it has one.
        root: Where it was started: paths below are relative to this folder.
        traces: The diagnosed tapes.
        fail_on: What makes the run fail.
        failed: Whether the program itself failed.
        reason: Why, in a few words.
        message: Its traceback.
        notes: What was not diagnosed, and why.
        status: The exit status.
        seconds: The time that all of it took.
    """

    name: str
    file: Path | None
    root: Path
    traces: list[Trace] = field(default_factory=list)
    fail_on: FailOn = "error"
    failed: bool = False
    reason: str = ""
    message: str = ""
    notes: list[str] = field(default_factory=list)
    status: int = 0
    seconds: float = 0.0

    def relative(self, file: str | Path) -> str | None:
        """The path of a file below `root`, with slashes; None if it is no file, or stands elsewhere."""
        path = Path(os.path.normpath(file))
        if not path.is_absolute() or not path.is_file():
            return None
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return None


def failing(trace: Trace, fail_on: FailOn) -> list[Finding]:
    """The findings of a tape that make a run fail; with ``"wrong"`` the errors of a wrong gradient."""
    if fail_on == "wrong" and trace.verdict != "WRONG":
        return []
    wanted = {"error", "warning"} if fail_on == "warning" else {"error"}
    return [finding for finding in trace.findings if finding.severity in wanted]


def fails(trace: Trace, fail_on: FailOn) -> bool:
    """True if a tape makes a run fail.

    With ``"wrong"`` its gradient is WRONG; with ``"error"`` that, or a finding is an error; with
    ``"warning"`` that, or a finding is a warning.
    """
    return trace.verdict == "WRONG" or bool(failing(trace, fail_on))


def one_line(finding: Finding, root: Path) -> str:
    """A finding as compilers and linters print one: place, severity, rule, its first sentence."""
    place = finding.location or finding.call_site
    at = f"{_short(place, root)}: " if place is not None else ""
    sentence, _, _ = finding.message.partition(". ")
    return f"{at}{finding.severity}: {finding.rule}: {sentence.rstrip('.')}"


def _short(place: Location, root: Path) -> str:
    file = place.file
    if os.path.isabs(file) and Path(file).is_relative_to(root):
        file = str(Path(file).relative_to(root))
    return f"{file}:{place.line}:{place.column + 1}"
