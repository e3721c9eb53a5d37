"""The rules, in the order in which they run: what costs nothing first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tapedebug._errors import TapedebugError
from tapedebug.diagnose import (
    accumulated,
    after_loss,
    disconnected,
    nonfinite,
    overwrite,
    seed,
    stale_gradient,
    stale_value,
    truncated,
)
from tapedebug.diagnose._case import Case
from tapedebug.trace import Finding


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its id, and what looks for it on one tape.

    `find_across` looks at all tapes of a program together, in the order of recording.
    """

    id: str
    find: Callable[[Case], list[Finding]] | None = None
    find_across: Callable[[Sequence[Case]], list[tuple[Case, Finding]]] | None = None


STRUCTURE: tuple[Rule, ...] = ()
"""Read the trace alone."""

MEASURED: tuple[Rule, ...] = (
    Rule(nonfinite.RULE, nonfinite.find),
    Rule(disconnected.RULE, disconnected.find),
    Rule(overwrite.RULE, overwrite.find),
    Rule(after_loss.RULE, after_loss.find),
    Rule(stale_value.RULE, stale_value.find),
    Rule(seed.RULE, seed.find),
    Rule(accumulated.RULE, find_across=accumulated.find_across),
    Rule(stale_gradient.RULE, find_across=stale_gradient.find_across),
    Rule(truncated.RULE, find_across=truncated.find_across),
)
"""Run the tape again."""

TRACKED: tuple[Rule, ...] = ()
"""Run suspected launches again element by element."""

RULES: tuple[Rule, ...] = (*STRUCTURE, *MEASURED, *TRACKED)


def apply(case: Case) -> Iterator[Finding]:
    """Yield what the rules find on one tape. A rule that fails is a gap in the coverage, not the end."""
    for rule in RULES:
        if rule.find is not None:
            case.progress(f"looking for {rule.id}")
            try:
                yield from rule.find(case)
            except TapedebugError as error:
                case.skipped(f"{rule.id} was not looked for: {error.message}")


def apply_across(cases: Sequence[Case]) -> Iterator[tuple[Case, Finding]]:
    """Yield what the rules find between tapes, each with the tape that it is shown on."""
    for rule in RULES:
        if rule.find_across is not None:
            cases[0].progress(f"looking for {rule.id} between tapes")
            try:
                yield from rule.find_across(cases)
            except TapedebugError as error:
                cases[0].skipped(f"{rule.id} was not looked for between tapes: {error.message}")
