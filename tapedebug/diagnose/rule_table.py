"""The table of rules in the order in which they run: the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tapedebug._errors import TapedebugError
from tapedebug._progress import OutOfTime
from tapedebug.diagnose.rule_context import NotOffered, RuleContext
from tapedebug.diagnose.rules import (
    accumulated,
    after_loss,
    custom_grad,
    disconnected,
    duplicate_launch,
    exploding,
    flat_op,
    loop_memory,
    nonfinite,
    not_reset,
    out_of_bounds,
    overwrite,
    race,
    replayed_counter,
    seed,
    stale_gradient,
    stale_value,
    truncated,
    unconverged,
    uninitialised_read,
    unused,
    vanishing,
    warp_limitation,
    wrong_adjoint,
)
from tapedebug.trace import Finding

OURS = "an error in tapedebug"
"""How a note begins that should never be there; tests look for it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its id, and what looks for it on one tape.

    `find_across` looks at all tapes of a program together, in the order of recording; with `pairs` there must
    be more than one.
    """

    id: str
    find: Callable[[RuleContext], list[Finding]] | None = None
    find_across: Callable[[Sequence[RuleContext]], list[tuple[RuleContext, Finding]]] | None = None
    pairs: bool = False


MEASURED: tuple[Rule, ...] = (
    Rule(nonfinite.RULE, nonfinite.find),
    Rule(custom_grad.RULE, custom_grad.find),
    Rule(disconnected.RULE, disconnected.find),
    Rule(flat_op.RULE, flat_op.find),
    Rule(vanishing.RULE, vanishing.find),
    Rule(exploding.RULE, exploding.find),
    Rule(unconverged.RULE, unconverged.find),
    Rule(overwrite.RULE, overwrite.find),
    Rule(after_loss.RULE, after_loss.find),
    Rule(duplicate_launch.RULE, duplicate_launch.find),
    Rule(stale_value.RULE, stale_value.find),
    Rule(seed.RULE, seed.find),
    Rule(not_reset.RULE, not_reset.find),
    Rule(accumulated.RULE, find_across=accumulated.find_across),
    Rule(stale_gradient.RULE, find_across=stale_gradient.find_across),
    Rule(truncated.RULE, find_across=truncated.find_across, pairs=True),
    Rule(unused.RULE, unused.find),
    Rule(warp_limitation.RULE, warp_limitation.find),
    Rule(replayed_counter.RULE, replayed_counter.find),
    Rule(loop_memory.RULE, loop_memory.find),
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

RULES: tuple[Rule, ...] = (*MEASURED, *TRACKED, *LAST)


def apply(case: RuleContext, only: Collection[str] | None = None) -> None:
    """Add what the rules find on one tape. A rule that fails is a gap in the coverage, not the end.

    Args:
        case: The tape.
        only: The ids of the rules to apply; by default all.
    """
    late: list[str] = []
    for rule in RULES:
        if rule.find is not None and (only is None or rule.id in only):
            with _gaps(case, rule.id, late):
                case.progress(f"looking for {rule.id}")
                case.trace.findings += rule.find(case)
                case.looked_for(rule.id)
    _not_looked_for(case, late)


def apply_across(cases: Sequence[RuleContext]) -> None:
    """Add what the rules find between tapes, each to the tape that it is shown on."""
    late: list[str] = []
    for rule in RULES:
        if rule.find_across is not None and (len(cases) > 1 or not rule.pairs):
            what = f"{rule.id} between tapes" if rule.pairs else rule.id
            with _gaps(cases[0], what, late):
                cases[0].progress(f"looking for {what}")
                for case, finding in rule.find_across(cases):
                    case.trace.findings.append(finding)
                for case in cases:
                    case.looked_for(rule.id)
    _not_looked_for(cases[0], late)


def _not_looked_for(case: RuleContext, late: list[str]) -> None:
    """Name the rules that there was no time for, all in one note."""
    notes, start = case.trace.coverage.notes, "not looked for, as time was up: "
    for note in [note for note in notes if note.startswith(start) and late]:
        notes.remove(note)
        late = [note.removeprefix(start), *late]
    if late:
        case.trace.coverage.partial = True
        case.skipped(f"{start}{', '.join(late)}")


@contextmanager
def _gaps(case: RuleContext, what: str, late: list[str]) -> Iterator[None]:
    try:
        yield
    except OutOfTime:
        late.append(what)
    except NotOffered as error:
        _skip(case, what, error.message)
    except TapedebugError as error:
        case.trace.coverage.partial = True
        _skip(case, what, error.message)

    except Exception as error:  # a mistake of ours must not take what the other rules know with it
        case.trace.coverage.partial = True
        case.skipped(f"{what} was not looked for: {OURS} ({type(error).__name__}: {error}); please report it")


def _skip(case: RuleContext, what: str, reason: str) -> None:
    """Note a gap; gaps with one reason are one note."""
    notes, end = case.trace.coverage.notes, f" not looked for: {reason}"
    for place, note in enumerate(notes):
        if note.endswith(end):
            others = note.removesuffix(end).removesuffix(" was").removesuffix(" were")
            notes[place] = f"{others}, {what} were{end}"
            return
    case.skipped(f"{what} was{end}")
