"""Green, amber, red or grey: only what was asked for, is covered and agrees is green."""

from __future__ import annotations

from typing import Any

import pytest

from tapedebug.diagnose import Diagnosis
from tapedebug.diagnose.formatting import format_diagnosis
from tapedebug.notebook._html import trace_html
from tapedebug.trace import Coverage, Finding, TapeInfo, Trace
from tapedebug.trace.level import LEVEL_SIGNS, gradient_words, level_of

TABLE: list[tuple[Any, str, bool, str, str]] = [
    ("AGREE", "", False, "good", "✓ gradient AGREE"),
    ("AGREE", "iii", False, "good", "✓ gradient AGREE"),
    ("AGREE", "w", False, "warning", "! gradient AGREE, 1 warning"),
    ("AGREE", "ewe", False, "error", "✕ gradient AGREE, 2 errors"),
    ("AGREE", "", True, "warning", "! gradient AGREE, checked in part"),
    ("WRONG", "ew", True, "error", "✕ gradient WRONG"),
    ("KINK", "i", False, "warning", "! gradient KINK"),
    ("UNDECIDABLE", "e", False, "error", "✕ gradient UNDECIDABLE, 1 error"),
    ("NONDETERMINISTIC", "", False, "warning", "! gradient NONDETERMINISTIC"),
    ("NOT CHECKED", "i", True, "unknown", "– gradient NOT CHECKED"),
    ("NOT CHECKED", "ww", False, "warning", "! gradient NOT CHECKED, 2 warnings"),
]
NAMES: Any = {"e": "error", "w": "warning", "i": "info"}


@pytest.mark.parametrize(("verdict", "kinds", "partial", "level", "text"), TABLE)
def test_the_level_of_a_diagnosis(verdict: Any, kinds: str, partial: bool, level: str, text: str) -> None:
    severities = [NAMES[kind] for kind in kinds]
    found = level_of(verdict, severities, partial=partial)
    assert found == level
    assert f"{LEVEL_SIGNS[found]} {gradient_words(verdict, severities, partial=partial)}" == text


def _trace(severity: Any) -> Trace:
    finding = Finding(rule="disconnected", severity=severity, message="The gradient stops.")
    coverage = Coverage(summary="1 of 1 launches checked", launches=1, checked=1)
    tape = TapeInfo(id=1, on_overwrite="preserve", launches=0)
    return Trace(name="t", tape=tape, verdict="AGREE", coverage=coverage, findings=[finding])


def test_a_warning_is_seen_in_the_first_line_in_its_colour() -> None:
    amber, green = "\x1b[33mgradient AGREE, 1 warning\x1b[0m", "\x1b[32mgradient AGREE\x1b[0m"
    assert format_diagnosis(_trace("warning"), colour=True).splitlines()[0].endswith(amber)
    assert format_diagnosis(_trace("info"), colour=True).splitlines()[0].endswith(green)


def test_saved_notebooks_show_it_too() -> None:
    shown = trace_html(_trace("warning").to_json())
    assert '<span style="color:#b26a00;font-weight:600">! gradient AGREE, 1 warning</span>' in shown
    assert ">✓ gradient AGREE</span>" in trace_html(_trace("info").to_json())


def test_a_diagnosis_says_its_level() -> None:
    trace = _trace("warning")
    diagnosis = Diagnosis(trace.verdict, trace.coverage, trace.findings, trace)
    assert diagnosis.level == "warning"
    assert repr(diagnosis) == "<Diagnosis of t: AGREE, 1 warning; 1 of 1 launches checked>"
    diagnosis.findings[0].severity = "info"
    assert diagnosis.level == "good"
