"""Green, amber, red or grey: the level that badges and summaries show for a diagnosis."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from tapedebug.trace.model import Severity, Verdict

Level = Literal["good", "warning", "error", "unknown"]

LEVEL_SIGNS: dict[Level, str] = {"good": "✓", "warning": "!", "error": "✕", "unknown": "–"}


def level_of(verdict: Verdict, severities: Collection[Severity], *, partial: bool = False) -> Level:
    """Return the level of a diagnosis.

    ``"error"`` (red): the gradient is wrong, or a finding is an error. ``"warning"`` (amber): a finding is a
    warning, the verdict is neither AGREE nor WRONG, or a rule did not finish. ``"good"`` (green): all
    requested checks are covered and agree. ``"unknown"`` (grey): nothing was compared.

    Args:
        verdict: Verdict of the end-to-end check.
        severities: Severities of the findings.
        partial: True if a rule did not finish.
    """
    if verdict == "WRONG" or "error" in severities:
        return "error"
    if "warning" in severities:
        return "warning"
    if verdict == "NOT CHECKED":
        return "unknown"
    return "good" if verdict == "AGREE" and not partial else "warning"


def gradient_words(verdict: Verdict, severities: Collection[Severity], *, partial: bool = False) -> str:
    """Return the verdict in the words of a badge: `gradient AGREE, 1 warning`, `gradient WRONG`.

    Anything that makes the level worse than the verdict is appended.

    Args:
        verdict: Verdict of the end-to-end check.
        severities: Severities of the findings.
        partial: True if a rule did not finish.
    """
    text = f"gradient {verdict}"
    own, level = level_of(verdict, ()), level_of(verdict, severities, partial=partial)
    if level == own:
        return text
    worst: Severity = "error" if level == "error" else "warning"
    count = list(severities).count(worst)
    return f"{text}, {count} {worst}{'s' * (count != 1)}" if count else f"{text}, checked in part"
