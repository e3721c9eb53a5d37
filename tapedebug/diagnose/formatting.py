"""Formats a diagnosis as text, with colours on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from tapedebug.diagnose.trace_analysis.kernel_source import code_at
from tapedebug.trace import Check, Coverage, Finding, Location, Timing, Trace
from tapedebug.trace.json_codec import encode
from tapedebug.trace.level import Level, gradient_words, level_of
from tapedebug.trace.model import Verdict

WIDTH, NARROWEST, WIDEST = 100, 60, 120
"""Columns of prose without a terminal, on the narrowest terminal, and on the widest."""
SLOW = 0.05
"""Seconds from which on a step of a diagnosis is listed by itself."""
MARKS = {"error": "✕", "warning": "!", "info": "i"}
_STYLES: dict[Level, str] = {"good": "good", "warning": "warning", "error": "error", "unknown": "warning"}
_COLOURS = {"error": "31", "warning": "33", "info": "36", "bold": "1", "dim": "2", "good": "32"}


def wants_colour(stream: TextIO) -> bool:
    """True if `stream` is a terminal that shows colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, colour: bool) -> str:
    """Return `text` in a colour, if colours are wanted."""
    text = plain(text)
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if colour else text


def plain(text: str) -> str:
    """Return `text` without terminal control characters: labels and lines of a trace are not trusted."""
    if text.isprintable():
        return text
    return "".join(character if character >= " " and character.isprintable() else " " for character in text)


def format_diagnosis(trace: Trace, *, colour: bool = False, printed: dict[str, str] | None = None) -> str:
    """Return verdict, coverage and findings of `trace` as text, prose in lines of at most 100 characters.

    Args:
        trace: A tape.
        colour: Use colours.
        printed: Findings already printed for other tapes, each with its tape; a repeated one takes one line.
            New ones are added.
    """
    launches = f"{len(trace.launches)} launch{'es' if len(trace.launches) != 1 else ''}"
    ran_by = trace.tape.engine or f"on_overwrite={trace.tape.on_overwrite!r}"
    head = f"{trace.name} · {launches} · {ran_by}"
    verdict = _gradient(trace.verdict, trace.findings, trace.coverage, colour)
    lines = [f"{paint(head, 'bold', colour)} · {verdict}"]
    lines += _wrapped(f"coverage: {trace.coverage.summary}", "  ")
    for note in trace.coverage.notes:
        lines += _wrapped(f"- {note}", "    ")
    if not trace.findings:
        lines.append("  no findings")
    printed = {} if printed is None else printed
    for finding in trace.findings:
        before = printed.setdefault(_what(finding), trace.name)
        if before != trace.name:
            lines.append("  " + paint(f"{_title(finding)} · as on {before}", finding.severity, colour))
        else:
            lines += ["", *format_finding(finding, trace, colour=colour)]
    return "\n".join(lines)


def format_details(trace: Trace) -> list[str]:
    """Return the checks of a tape, the evidence of its findings, and its slow steps as lines."""
    lines = [f"  check: {_check(check)}" for check in trace.checks if check.verdict is not None]
    for finding in trace.findings:
        known = json.dumps(encode(finding.evidence), ensure_ascii=False)
        lines += _wrapped(f"evidence of {finding.rule}: {known}", "  ", "    ")
    return lines + format_timings(trace.timings)


def format_timings(timings: Sequence[Timing]) -> list[str]:
    """Return the steps of a diagnosis that took long as lines, the longest first, and the others as one."""
    shown = [timing for timing in timings if timing.seconds >= SLOW or not timing.completed]
    shown.sort(key=lambda timing: -timing.seconds)
    lines = [f"  time: {_timing(timing)}" for timing in shown]
    others = [timing for timing in timings if timing not in shown]
    if others:
        took = sum(timing.seconds for timing in others)
        lines.append(f"  time: {len(others)} other step{'s' * (len(others) != 1)}: {took:.2f} s")
    return lines


def _timing(timing: Timing) -> str:
    """Return `overwrite: 1.20 s (estimated 0.90 s)`."""
    text = f"{timing.step}: {timing.seconds:.2f} s"
    if timing.estimate is not None:
        text += f" (estimated {timing.estimate:.2f} s)"
    return text if timing.completed else f"{text}, not completed"


def _check(check: Check) -> str:
    """Return `d loss / d x: AGREE, largest error 1e-06 (absolute), 2e-07 (relative)`."""
    text = f"d {check.output} / d {check.input}: {check.verdict}"
    if check.max_abs_error is not None and check.max_rel_error is not None:
        text += f", largest error {check.max_abs_error:.3g} (absolute), {check.max_rel_error:.3g} (relative)"
    return text


def _what(finding: Finding) -> str:
    """Return the key of a finding, which is equal for findings of the same mistake."""
    return repr((finding.rule, finding.severity, finding.arrays, finding.location, finding.call_site))


def _title(finding: Finding) -> str:
    arrays = ", ".join(finding.arrays)
    return f"{MARKS[finding.severity]} {finding.severity} · {finding.rule}" + (
        f" · {arrays}" if arrays else ""
    )


def format_several(
    verdict: Verdict,
    coverage: Coverage,
    findings: Sequence[Finding],
    traces: Sequence[Trace],
    *,
    colour: bool = False,
) -> str:
    """Return the diagnosis of several tapes as text: the summary, a line for each tape, the findings."""
    head = f"{len(traces)} tapes · {sum(len(trace.launches) for trace in traces)} launches"
    lines = [f"{paint(head, 'bold', colour)} · {_gradient(verdict, findings, coverage, colour)}"]
    lines += _wrapped(f"coverage: {coverage.summary}", "  ")
    for note in coverage.notes:
        lines += _wrapped(f"- {note}", "    ")
    for number, trace in enumerate(traces):
        result = paint(trace.verdict, _STYLES[level_of(trace.verdict, ())], colour)
        lines += _wrapped(f"[{number}] {trace.name}: {result}, {trace.coverage.summary}", "  ", "      ")
    if not findings:
        lines.append("  no findings")
    for finding in findings:
        trace = traces[finding.tape or 0]
        lines += ["", *format_finding(finding, trace, colour=colour, tape=f"[{finding.tape}] {trace.name}")]
    return "\n".join(lines)


def _gradient(verdict: Verdict, findings: Sequence[Finding], coverage: Coverage, colour: bool) -> str:
    """Return `gradient AGREE, 1 warning` in green, amber or red."""
    severities = [finding.severity for finding in findings]
    level = level_of(verdict, severities, partial=coverage.partial)
    return paint(gradient_words(verdict, severities, partial=coverage.partial), _STYLES[level], colour)


def format_finding(
    finding: Finding, trace: Trace | None = None, *, colour: bool = False, tape: str = ""
) -> list[str]:
    """Return one finding as lines: message, tape, the lines of the kernel and the call, fix."""
    title = _title(finding) + (f" · {tape}" if tape else "")
    lines = ["  " + paint(title, finding.severity, colour)]
    lines += _wrapped(finding.message, "    ")
    if finding.location and finding.location != finding.call_site:
        lines += _place("kernel", finding.location, trace, colour)
    if finding.call_site:
        lines += _place(_called(finding, trace), finding.call_site, None, colour)
    if finding.fix:
        lines += _wrapped(f"fix: {finding.fix}", "    ", "         ")
    return lines


def _called(finding: Finding, trace: Trace | None) -> str:
    """Return the label of a call site: a launch, or another call of the user."""
    launched = trace is None or any(
        trace.launches[index].call_site == finding.call_site for index in finding.launches
    )
    return "launched" if launched or finding.location is not None else "called"


def _place(what: str, location: Location, trace: Trace | None, colour: bool) -> list[str]:
    function = f", in {location.function}" if location.function else ""
    lines = [plain(f"    {what} at {_short(location.file)}:{location.line}{function}")]
    code = _kernel_line(location, trace) if trace else code_at(location)
    if code and code.strip():
        lines.append(paint(f"        {code.strip()}", "dim", colour))
    return lines


def _short(file: str) -> str:
    """Return the relative path of a file below the working directory; other paths stay."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if file.startswith(("In [", "<")) or relative.startswith("..") else relative


def _kernel_line(location: Location, trace: Trace) -> str:
    """Return the line as recorded, because the file may have changed or be on another machine."""
    for kernel in trace.kernels:
        text = kernel.text_at(location.file, location.line)
        if text is not None:
            return text
    return code_at(location)


def _width() -> int:
    """Return the length of lines of prose: the width of the terminal, within readable limits."""
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDTH
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size().columns - 1))


def _wrapped(text: str, indent: str, following: str | None = None) -> list[str]:
    """Wrap at spaces; a long path or label stays in one piece."""
    wrapped = [
        piece.replace("\u00a0", " ")
        for line in text.splitlines()
        for piece in textwrap.wrap(
            plain(line).replace(" %", "\u00a0%"),
            _width(),
            initial_indent=indent,
            subsequent_indent=following or indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return wrapped or [indent.rstrip()]
