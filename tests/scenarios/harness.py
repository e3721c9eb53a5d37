"""Runs the programs of `programs/`: what users write, with the bugs that they have, and look-alikes.

A program is a script that leaves behind `tape` (or `tapes`), and may leave `loss` and `inputs` for
`diagnose`.
Comments on a line of their own are about the line of code below them:

    # EXPECT rule severity: array, array   a finding of this rule whose location (or call site) is that line
    # CALLED rule                          and one of whose launches was called there
    # FIX: code                            following the advice of the finding, the line becomes this
    # ADD: code                            … and this line is added here
    # DROP                                 … and the line goes

and anywhere: `# VERDICT X` (of the program as it is), `# FIXED X` (of the fixed one, by default AGREE), and
`# RUN as-warp`: by `tapedebug run --as-warp`, for a program that says `import warp as wp`.
Names of files: `c01_what.py` shows the bug of class 1 of the design's table, `c01_alike_what.py` only
looks like it, `pair_01_07_what.py` has two bugs.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from tapedebug.cli import main
from tapedebug.diagnose import Diagnosis
from tapedebug.trace import Finding, Location

PROGRAMS = Path(__file__).parent / "programs"
NAME = re.compile(r"(?:c(?P<one>\d\d)|pair_(?P<two>\d\d_\d\d))_(?P<alike>alike_)?(?P<what>\w+)")
DIRECTIVE = re.compile(
    r"(?P<indent>\s*)# (?P<word>EXPECT|CALLED|FIX|ADD|DROP|VERDICT|FIXED|RUN)\b:? ?(?P<rest>.*)"
)


@dataclass
class Expected:
    """A finding that must be there."""

    rule: str
    severity: str
    arrays: list[str]
    line: int
    called: int | None = None

    def fits(self, finding: Finding, launched: list[int]) -> bool:
        """True if `finding`, with launches called on the lines `launched`, is the expected one."""
        places = [place.line for place in (finding.location, finding.call_site) if place is not None]
        return (
            finding.rule == self.rule
            and (not self.severity or finding.severity == self.severity)
            and set(self.arrays) <= set(finding.arrays)
            and self.line in places
            and (self.called is None or self.called in [*places, *launched])
        )


@dataclass
class Program:
    """A program, and what it says of itself."""

    path: Path
    number: str
    alike: bool
    expected: list[Expected] = field(default_factory=list)
    verdict: str = ""
    fixed_verdict: str = "AGREE"
    as_warp: bool = False
    fixable: bool = False

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass
class Outcome:
    """The diagnosis of a program."""

    verdict: str
    findings: list[Finding]
    notes: list[str]
    text: str
    launched: list[list[int]]
    """For each finding the lines of the script that called its launches."""

    def alarms(self) -> list[Finding]:
        """Return the findings that a user would have to look at."""
        return [finding for finding in self.findings if finding.severity != "info"]


def programs() -> list[Program]:
    """All programs, by name."""
    return [read(path) for path in sorted(PROGRAMS.glob("*.py"))]


def read(path: Path) -> Program:
    """Return a program with the directives in its comments."""
    match = NAME.fullmatch(path.stem)
    assert match, f"{path.name}: call it c01_what.py, c01_alike_what.py or pair_01_07_what.py"
    program = Program(path, match["one"] or match["two"], bool(match["alike"]))
    called: dict[str, int] = {}
    for line, word, rest in _directives(path.read_text("utf-8").splitlines()):
        if word == "EXPECT":
            messages, _, arrays = rest.partition(":")
            rule, _, severity = messages.strip().partition(" ")
            names = [name.strip() for name in arrays.split(",") if name.strip()]
            program.expected.append(Expected(rule, severity.strip(), names, line))
        elif word == "CALLED":
            called[rest.strip()] = line
        elif word == "VERDICT":
            program.verdict = rest.strip()
        elif word == "FIXED":
            program.fixed_verdict = rest.strip()
        elif word == "RUN":
            assert rest.strip() == "as-warp"
            program.as_warp = True
        else:
            program.fixable = True
    for item in program.expected:
        item.called = called.get(item.rule)
    return program


def _directives(lines: list[str]) -> list[tuple[int, str, str]]:
    """(number of the line that it is about, word, rest)."""
    found = []
    for number, text in enumerate(lines):
        match = DIRECTIVE.fullmatch(text)
        if match is not None:
            below = number + 1
            while below < len(lines) and DIRECTIVE.fullmatch(lines[below]):
                below += 1
            found.append((below + 1, match["word"], match["rest"]))
    return found


def fixed(text: str) -> str:
    """Return a program with the advice followed; lines keep their numbers."""
    lines = text.splitlines()
    for number, old in enumerate(list(lines)):
        match = DIRECTIVE.fullmatch(old)
        if match is None or match["word"] not in {"FIX", "ADD", "DROP"}:
            continue
        if match["word"] == "ADD":
            lines[number] = match["indent"] + match["rest"]
            continue
        below = number + 1
        while DIRECTIVE.fullmatch(lines[below]):
            below += 1
        indent = lines[below][: len(lines[below]) - len(lines[below].lstrip())]
        lines[below] = indent + (match["rest"] if match["word"] == "FIX" else "pass")
    return "\n".join(lines) + "\n"


def run(program: Program, folder: Path, *, with_fix: bool = False) -> Outcome:
    """Run a program, as it is or fixed, and diagnose what it recorded."""
    path = program.path
    if with_fix:
        path = folder / program.path.name
        path.write_text(fixed(program.path.read_text("utf-8")), "utf-8")
    return _as_warp(path, folder) if program.as_warp else _in_process(path)


def _in_process(path: Path) -> Outcome:
    import tapedebug as wp

    module = ModuleType(f"scenario_{path.stem}")
    module.__file__ = str(path)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)
    asked = ", ".join(f"{name}={name}" for name in ("loss", "inputs") if name in module.__dict__)
    subject = "tapes" if "tapes" in module.__dict__ else "tape"
    # As a user would write it at the end of the program: arrays get the names that they have there.
    call = f"diagnosed({subject}, {asked})"
    diagnosis: Diagnosis = eval(call, module.__dict__, {"diagnosed": wp.diagnose})
    traces = diagnosis.traces or [diagnosis.trace]
    launched = []
    for item in diagnosis.findings:
        (trace,) = [each for each in traces if any(item is own for own in each.findings)]
        sites = [trace.launches[index].call_site for index in item.launches]
        launched.append([site.line for site in sites if site is not None])
    notes = list(diagnosis.coverage.notes)
    return Outcome(diagnosis.verdict, diagnosis.findings, notes, str(diagnosis), launched)


def _as_warp(path: Path, folder: Path) -> Outcome:
    target = folder / f"{path.stem}.json"
    printed = io.StringIO()
    with contextlib.redirect_stdout(
        printed
    ):  # in this process: to start one takes longer than to run the program
        main(["run", "--as-warp", "--json", str(target), str(path)])
    text = printed.getvalue()
    assert target.exists(), text
    data = json.loads(target.read_text("utf-8"))
    findings = []
    for item in data["findings"]:
        places = {key: Location(**item[key]) if item.get(key) else None for key in ("location", "call_site")}
        findings.append(Finding(**{**{k: item[k] for k in _FIELDS if k in item}, **places}))
    notes = data["coverage"].get("notes", []) if isinstance(data["coverage"], dict) else []
    return Outcome(data["verdict"], findings, notes, text, [[] for _ in findings])


_FIELDS = ("rule", "severity", "message", "launches", "arrays", "evidence", "fix")


REASONS = (
    "float32 rounding moves it by ",
    "differences of the loss do not resolve the gradient in ",
    "is meant to differ (func_grad with differs=True)",
    "differences of the loss see through what was detached with requires_grad=False",
    "record_func ",
)
"""Reasons for which nothing can be said of a gradient; UNDECIDABLE is accepted with one of these only."""


def check_verdicts(outcome: Outcome) -> None:
    """WRONG comes with an error that names a place, a number and a fix; UNDECIDABLE with a reason."""
    errors = [finding for finding in outcome.findings if finding.severity == "error"]
    if outcome.verdict == "WRONG":
        assert errors, f"WRONG without a finding:\n{outcome.text}"
        for finding in errors:
            assert finding.location or finding.call_site, f"{finding.rule} names no place:\n{outcome.text}"
            assert re.search(r"\d", finding.message), f"{finding.rule} names no number:\n{outcome.text}"
            assert finding.fix, f"{finding.rule} has no fix:\n{outcome.text}"
    if outcome.verdict == "UNDECIDABLE":
        plain = " ".join(outcome.text.split())
        assert any(reason in plain for reason in REASONS), f"UNDECIDABLE, unexplained:\n{outcome.text}"


def matches(expected: Expected, outcome: Outcome) -> list[int]:
    """Positions of the findings that are the expected one."""
    pairs = zip(outcome.findings, outcome.launched, strict=True)
    return [position for position, pair in enumerate(pairs) if expected.fits(*pair)]
