"""The result of running a program: its tapes, its outcome, and the criterion of failure."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from typing import Literal, get_args

from tapedebug._dataclass import dataclass
from tapedebug.trace import Finding, Location, Trace

FailOn = Literal["warning", "error", "wrong"]
LEVELS: tuple[FailOn, ...] = get_args(FailOn)

INTERRUPTED = "the diagnosis was interrupted"


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of `tapedebug run`.

    Attributes:
        name: The program, as named on the command line.
        file: The file of the program, if it has one.
        root: The folder it was started in: paths below it are printed relative to it.
        traces: The diagnosed tapes.
        fail_on: The kind of findings that make the run fail.
        failed: The program itself failed.
        reason: The reason of that failure, in a few words.
        message: The traceback of the program.
        interrupted: Ctrl-C ended the diagnosis.
        engines: A line for each engine other than tapedebug's own, with the launches that it ran.
        notes: Sentences on the parts that were not diagnosed, and why.
        status: The exit status.
        seconds: The duration of the whole run.
    """

    name: str
    file: Path | None
    root: Path
    traces: list[Trace] = field(default_factory=list)
    fail_on: FailOn = "error"
    failed: bool = False
    reason: str = ""
    message: str = ""
    interrupted: bool = False
    engines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    status: int = 0
    seconds: float = 0.0

    @property
    def failures(self) -> list[str]:
        """The reasons why the tapes are not all that could be diagnosed, or not diagnosed to the end."""
        return [
            *([f"the script failed ({self.reason})"] if self.failed else ()),
            *([INTERRUPTED] if self.interrupted else ()),
        ]

    def relative(self, file: str | Path) -> str | None:
        """Return the path of a file below `root`, with slashes; None if it is not a file, or elsewhere."""
        path = Path(os.path.normpath(file))
        if not path.is_absolute() or not path.is_file():
            return None
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return None


def failing(trace: Trace, fail_on: FailOn) -> list[Finding]:
    """Return the findings of a tape that make a run fail; with ``"wrong"`` the errors of a wrong gradient."""
    if fail_on == "wrong" and trace.verdict != "WRONG":
        return []
    wanted = {"error", "warning"} if fail_on == "warning" else {"error"}
    return [finding for finding in trace.findings if finding.severity in wanted]


def fails(trace: Trace, fail_on: FailOn) -> bool:
    """True if a tape makes a run fail.

    With ``"wrong"`` a run fails if the gradient is WRONG; with ``"error"`` also if a finding is an error;
    with ``"warning"`` also if a finding is a warning.
    """
    return trace.verdict == "WRONG" or bool(failing(trace, fail_on))


def one_line(finding: Finding, root: Path) -> str:
    """Return a finding in the format of compilers and linters: place, severity, rule, first sentence."""
    place = finding.location or finding.call_site
    at = f"{_short(place, root)}: " if place is not None else ""
    sentence, _, _ = finding.message.partition(". ")
    return f"{at}{finding.severity}: {finding.rule}: {sentence.rstrip('.')}"


def _short(place: Location, root: Path) -> str:
    file = place.file
    if os.path.isabs(file) and Path(file).is_relative_to(root):
        file = str(Path(file).relative_to(root))
    return f"{file}:{place.line}:{place.column + 1}"
