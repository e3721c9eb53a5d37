"""The rules, in the order in which they run: what costs nothing first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tapedebug._errors import TapedebugError
from tapedebug.diagnose import (
    after_loss,
    disconnected,
    duplicate_launch,
    exploding,
    flat_op,
    nonfinite,
    out_of_bounds,
    overwrite,
    race,
    replayed_counter,
    uninitialised_read,
    unused,
    vanishing,
    warp_limitation,
    wrong_adjoint,
)
from tapedebug.diagnose._case import Case
from tapedebug.diagnose._pace import OutOfTime
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
    Rule(flat_op.RULE, flat_op.find),
    Rule(vanishing.RULE, vanishing.find),
    Rule(exploding.RULE, exploding.find),
    Rule(overwrite.RULE, overwrite.find),
    Rule(after_loss.RULE, after_loss.find),
    Rule(duplicate_launch.RULE, duplicate_launch.find),
    Rule(unused.RULE, unused.find),
    Rule(warp_limitation.RULE, warp_limitation.find),
    Rule(replayed_counter.RULE, replayed_counter.find),
)
"""Run the tape again."""

TRACKED: tuple[Rule, ...] = (
    Rule(out_of_bounds.RULE, out_of_bounds.find),
    Rule(uninitialised_read.RULE, uninitialised_read.find),
    Rule(race.RULE, race.find),
)
"""Run suspected launches again element by element."""

LAST: tuple[Rule, ...] = (Rule(wrong_adjoint.RULE, wrong_adjoint.find),)
"""Look for what no other rule has explained."""

RULES: tuple[Rule, ...] = (*STRUCTURE, *MEASURED, *TRACKED, *LAST)


def apply(case: Case, only: Collection[str] | None = None) -> None:
    """Add what the rules find on one tape. A rule that fails is a gap in the coverage, not the end.

    Args:
        case: The tape.
        only: The ids of the rules to apply; by default all.
    """
    late: list[str] = []
    for rule in RULES:
        if rule.find is not None and (only is None or rule.id in only):
            with _gaps(case, rule.id, late):
                if rule not in STRUCTURE:  # which costs nothing, even where the time is up
                    case.progress(f"looking for {rule.id}")
                case.trace.findings += rule.find(case)
    if late:
        case.skipped(f"not looked for, as time was up: {', '.join(late)}")


def apply_across(cases: Sequence[Case]) -> None:
    """Add what the rules find between tapes, each to the tape that it is shown on."""
    late: list[str] = []
    for rule in RULES:
        if rule.find_across is not None:
            with _gaps(cases[0], f"{rule.id} between tapes", late):
                cases[0].progress(f"looking for {rule.id} between tapes")
                for case, finding in rule.find_across(cases):
                    case.trace.findings.append(finding)
    if late:
        cases[0].skipped(f"not looked for, as time was up: {', '.join(late)}")


@contextmanager
def _gaps(case: Case, what: str, late: list[str]) -> Iterator[None]:
    try:
        yield
    except OutOfTime:
        late.append(what)
    except TapedebugError as error:
        case.skipped(f"{what} was not looked for: {error.message}")
