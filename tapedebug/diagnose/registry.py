"""The list of rules, and the functions that apply them to tapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tapedebug._errors import TapedebugError
from tapedebug._progress import OutOfTime
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.diagnosis import SEVERITY_ORDER
from tapedebug.diagnose.rule import CrossTapeRule, Rule, TapeRule
from tapedebug.diagnose.rule_context import NotOffered, RuleContext
from tapedebug.diagnose.rules.accumulated import Accumulated
from tapedebug.diagnose.rules.after_loss import AfterLoss
from tapedebug.diagnose.rules.custom_grad import CustomGrad
from tapedebug.diagnose.rules.disconnected import Disconnected
from tapedebug.diagnose.rules.duplicate_launch import DuplicateLaunch
from tapedebug.diagnose.rules.exploding import Exploding
from tapedebug.diagnose.rules.flat_op import FlatOp
from tapedebug.diagnose.rules.loop_memory import LoopMemory
from tapedebug.diagnose.rules.nonfinite import Nonfinite
from tapedebug.diagnose.rules.not_reset import NotReset
from tapedebug.diagnose.rules.not_reversed import NotReversed
from tapedebug.diagnose.rules.out_of_bounds import OutOfBounds
from tapedebug.diagnose.rules.overwrite import Overwrite
from tapedebug.diagnose.rules.race import Race
from tapedebug.diagnose.rules.replayed_counter import ReplayedCounter
from tapedebug.diagnose.rules.seed import Seed
from tapedebug.diagnose.rules.stagnation import Stagnation
from tapedebug.diagnose.rules.stale_gradient import StaleGradient
from tapedebug.diagnose.rules.stale_value import StaleValue
from tapedebug.diagnose.rules.truncated import Truncated
from tapedebug.diagnose.rules.unconverged import Unconverged
from tapedebug.diagnose.rules.uninitialised_read import UninitialisedRead
from tapedebug.diagnose.rules.unused import Unused
from tapedebug.diagnose.rules.vanishing import Vanishing
from tapedebug.diagnose.rules.warp_limitation import WarpLimitation
from tapedebug.diagnose.rules.wrong_adjoint import WrongAdjoint
from tapedebug.trace import Finding

OURS = "an error in tapedebug"
"""The start of a note on an internal error; tests assert that no diagnosis has one."""

RULES: tuple[Rule, ...] = (
    Nonfinite(),
    CustomGrad(),
    Disconnected(),
    FlatOp(),
    Vanishing(),
    Exploding(),
    Unconverged(),
    Stagnation(),
    Overwrite(),
    AfterLoss(),
    DuplicateLaunch(),
    StaleValue(),
    Seed(),
    NotReset(),
    Accumulated(),
    StaleGradient(),
    Truncated(),
    NotReversed(),
    Unused(),
    WarpLimitation(),
    ReplayedCounter(),
    LoopMemory(),
    # These replay suspect launches element by element.
    OutOfBounds(),
    UninitialisedRead(),
    Race(),
    # These run if no other rule has explained the error.
    WrongAdjoint(),
)
"""All rules in the order in which they run: the cheapest first, each after those whose findings it reads."""


def rule_of(finding: Finding) -> Rule:
    """Return the rule that a finding belongs to."""
    return next(rule for rule in RULES if rule.code == finding.rule)


def titles() -> dict[str, str]:
    """Return the title of each rule by its code."""
    return {rule.code: rule.title for rule in RULES}


def applicable(tapes: int) -> list[Rule]:
    """Return the rules for a program with some number of tapes, in the order in which they run."""
    alone = [rule for rule in RULES if isinstance(rule, TapeRule)]
    across = [rule for rule in RULES if isinstance(rule, CrossTapeRule)]
    return [*alone, *(rule for rule in across if tapes > 1 or not rule.several_tapes)]


def apply_rules(context: RuleContext, only: Collection[str] | None = None) -> None:
    """Add the findings about one tape. A rule that fails becomes a gap in the coverage; the others still run.

    Args:
        context: The tape.
        only: The codes of the rules to apply; by default all.
    """
    late: list[str] = []
    for rule in RULES:
        if isinstance(rule, TapeRule) and (only is None or rule.code in only):
            _apply(rule, [context], rule.code, late)
            context.after_rule()
    _not_looked_for(context, late)


def apply_cross_tape_rules(contexts: Sequence[RuleContext]) -> None:
    """Add the findings that concern several tapes, each to the tape on which it is shown."""
    late: list[str] = []
    for rule in applicable(len(contexts)):
        if isinstance(rule, CrossTapeRule):
            what = f"{rule.code} between tapes" if rule.several_tapes else rule.code
            for context in _apply(rule, contexts, what, late):
                context.after_rule()
    _not_looked_for(contexts[0], late)


def _apply(rule: Rule, contexts: Sequence[RuleContext], what: str, late: list[str]) -> list[RuleContext]:
    """Add the findings of a rule one by one, so that an interrupt or an error keeps those before it.

    Args:
        rule: The rule.
        contexts: The tapes that it examines; gaps are noted in the coverage of the first.
        what: What it looks for, in words.
        late: Gets `what` if time was up before the first finding.

    Returns:
        The tapes whose trace it has changed.
    """
    first, count = contexts[0], 0
    changed = {id(first): first}
    try:
        first.progress(f"looking for {what}")
        with first.timer.measure(what, _estimate(rule, contexts)):
            for context, finding in _findings(rule, contexts):
                context.trace.findings.append(_checked(rule, finding))
                changed[id(context)] = context
                count += 1
        for context in contexts:
            context.looked_for(rule.code)
    except (Exception, KeyboardInterrupt) as error:
        _add_gap_of(first, what, error, count, late)
        if isinstance(error, KeyboardInterrupt):
            if count:
                first.ended.append(rule.code)
            raise
    for context in contexts:
        context.ended.append(rule.code)
    return list(changed.values())


def _findings(rule: Rule, contexts: Sequence[RuleContext]) -> Iterator[tuple[RuleContext, Finding]]:
    """Yield the findings of a rule as it finds them, each with its tape."""
    if isinstance(rule, CrossTapeRule):
        yield from rule.check(contexts)
    elif isinstance(rule, TapeRule):
        for context in contexts:
            for finding in rule.check(context):
                yield context, finding


def _estimate(rule: Rule, contexts: Sequence[RuleContext]) -> float | None:
    """Return the estimated seconds of a rule about several tapes; None if one of them is unknown."""
    found = [context.estimate(rule.cost(context)) for context in contexts]
    known = [seconds for seconds in found if seconds is not None]
    return sum(known) if len(known) == len(found) else None


def _checked(rule: Rule, finding: Finding) -> Finding:
    """Return a finding after checking it against the declarations of its rule."""
    if finding.rule != rule.code or SEVERITY_ORDER[finding.severity] < SEVERITY_ORDER[rule.severity]:
        raise AssertionError(f"{rule.code} cannot report {finding.rule} as {finding.severity}")
    return finding


def _not_looked_for(context: RuleContext, late: list[str]) -> None:
    """Add one note that names all rules skipped for lack of time."""
    notes, start = context.trace.coverage.notes, "not looked for, as time was up: "
    for note in [note for note in notes if note.startswith(start) and late]:
        notes.remove(note)
        late = [note.removeprefix(start), *late]
    if late:
        context.trace.coverage.partial = True
        context.skipped(f"{start}{', '.join(late)}")


def _add_gap_of(
    context: RuleContext, what: str, error: Exception | KeyboardInterrupt, count: int, late: list[str]
) -> None:
    """Add to the coverage what a rule did not find because of an error; see `_apply`."""
    if isinstance(error, KeyboardInterrupt):
        reason = "interrupted"
    elif isinstance(error, TapedebugError):
        reason = error.message
    else:  # an internal error must not lose the findings of other rules
        reason = f"{OURS} ({type(error).__name__}: {error}); please report it"
    context.trace.coverage.partial |= not isinstance(error, NotOffered)
    if isinstance(error, OutOfTime) and not error.step and not count:
        late.append(what)
    elif count or not isinstance(error, KeyboardInterrupt):  # else it is among the rules that have not run
        add_gap(context, what, reason, count)


def add_gap(context: RuleContext, what: str, reason: str, count: int = 0) -> None:
    """Add a gap to the coverage; gaps with the same reason share one note.

    Args:
        context: The tape.
        what: What was looked for.
        reason: The reason why it was not, or not further.
        count: The number of findings before that.
    """
    if count:
        context.skipped(f"{what} was cut short after {words.plural(count, 'finding')}: {reason}")
        return
    notes, end = context.trace.coverage.notes, f" not looked for: {reason}"
    for place, note in enumerate(notes):
        if note.endswith(end):
            others = note.removesuffix(end).removesuffix(" was").removesuffix(" were")
            notes[place] = f"{others}, {what} were{end}"
            return
    context.skipped(f"{what} was{end}")
