"""Rule `stale-gradient`: an update used a gradient that was not yet written, or already zeroed.

An optimiser's step before `backward` uses the gradient of the previous step (or zeros), and one after
`zero()` uses zeros. A gradient that is only read, printed or compared with zero is no update: the parameter
must be written afterwards.

A helper may also copy the gradients before `backward`, and the step may use the copies after it. Then the
result of the pass is not read before the next step. A measurement confirms it: the step is parallel to the
gradient that was read earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.optimizer_step import OptimizerStep, Relation, optimizer_step, relation
from tapedebug.diagnose.rule import CrossTapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.diagnose.trace_analysis import gradient_history
from tapedebug.diagnose.trace_analysis.gradient_history import GradientHistory, at
from tapedebug.trace import Event, Finding
from tapedebug.trace.model import Severity

Why = Literal["before backward", "after zero", "copied before backward"]


@dataclass(slots=True)
class Found:
    """One update of an input with a gradient that was not that of the pass.

    Attributes:
        event: The pass.
        read: The read of the gradient.
        update: The write of the input.
        zero: The event that zeroed the gradient, if that is the reason.
        moved: The size of the update, if a copy of the gradient was read before backward.
        relation: The relation of the updates at this line to the gradients that were read.
    """

    history: GradientHistory
    event: Event
    why: Why
    read: Event
    update: Event
    zero: Event | None = None
    moved: OptimizerStep | None = None
    relation: Relation | None = None

    @property
    def sure(self) -> bool:
        """True if the read and the write certainly belong to one step, and are not a print and a reset."""
        if self.relation is not None:
            return self.relation.name == "multiple" or self.relation.rests
        same = gradient_history.same_line(self.read.call_site, self.update.call_site)
        return self.read.how in ("optimiser", "launch") or same


class StaleGradient(CrossTapeRule):
    """An update used a gradient that was not yet written, or already zeroed."""

    code = "stale-gradient"
    title = "An update used a gradient before it was written, or after it was zeroed"
    severity = "error"
    outside_pass = True

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a look at the trace."""
        return READS_TRACE

    def check(self, contexts: Sequence[RuleContext]) -> Iterator[tuple[RuleContext, Finding]]:
        """Yield a finding for each line that updates inputs with stale gradients."""
        early = _copied_early(contexts)

        def look(history: GradientHistory, context: RuleContext) -> list[Found]:
            return [*_stale_updates(history, context), *early.get((id(context), history.info.id), ())]

        yield from gradient_history.findings_of(
            gradient_history.grouped(contexts, look, lambda found: found.read), _finding
        )


def _stale_updates(history: GradientHistory, context: RuleContext) -> list[Found]:
    tape = context.trace.tape
    own = history.passes(context.trace)
    found: list[Found] = []
    if own and tape.began:
        early = history.between(tape.began, own[0].clock)
        found += [
            Found(history, own[0], "before backward", read, update)
            for read, update in gradient_history.updates(early)
            if update.clock > tape.ended
        ][:1]
    for event in own:
        later = history.between(event.clock, history.end_of(event))
        gradient = [item for item in later if item.of == "gradient"]
        if len(gradient) < 2 or gradient[0].kind != "zero" or gradient[1].kind != "read":
            continue  # read first, or never
        steps = [step for step in gradient_history.updates(later) if step[0] is gradient[1]]
        found += [Found(history, event, "after zero", read, update, gradient[0]) for read, update in steps]
    return found


def _copied_early(contexts: Sequence[RuleContext]) -> dict[tuple[int, int], list[Found]]:
    """Return the updates with a gradient that was copied before backward, by tape and input."""
    places: dict[Any, dict[tuple[int, str], Found]] = {}
    own: list[tuple[RuleContext, Found]] = []
    for context, following in zip(contexts, [*contexts[1:], None], strict=True):
        for history in gradient_history.histories(context):
            of_tape = {event.clock for event in history.passes(context.trace)}
            for event in history.passes():  # passes of discarded tapes concern the same line
                found = _copied(history, event, context, following)
                if found is None:
                    continue
                same = places.setdefault(gradient_history.site_key(found.read.call_site), {})
                same.setdefault((event.clock, history.info.label), found)
                if event.clock in of_tape:
                    own.append((context, found))
    related = {place: _relation(list(found.values())) for place, found in places.items()}
    kept: dict[tuple[int, int], list[Found]] = {}
    for context, found in own:
        found.relation = related[gradient_history.site_key(found.read.call_site)]
        if found.relation is not None:
            kept.setdefault((id(context), found.history.info.id), []).append(found)
    return kept


def _copied(
    history: GradientHistory, event: Event, context: RuleContext, following: RuleContext | None
) -> Found | None:
    """Return the update after a pass with an unread gradient, if the gradient was read before that pass."""
    if "viewed" in event.numbers:
        return None  # a view shows the gradient without another read
    earlier = history.between(0, event.clock)
    reads = [item for item in earlier if item.of == "gradient" and item.kind == "read"]
    writes = [item.clock for item in earlier if item.of == "values" and item.kind == "write"]
    if not reads or (writes and reads[-1].clock < writes[-1]):
        return None  # nothing was read since the last update, as in a trial step
    later = history.between(event.clock, history.end_of(event))
    update = next((item for item in later if item.of == "values" and item.kind == "write"), None)
    if update is None or any(
        item.of == "gradient" and item.kind == "read" and item.clock < update.clock for item in later
    ):
        return None
    moved = optimizer_step(context, following, history, event, reads[-1], update)
    if moved is None:
        return None
    return Found(history, event, "copied before backward", reads[-1], update, moved=moved)


def _relation(found: Sequence[Found]) -> Relation | None:
    """Return the relation of the steps at one line to the gradients read: one rate, or one per pass."""
    steps = {id(item): item.moved for item in found if item.moved is not None}
    every = relation(list(steps.values()))
    if every is not None and every.name == "multiple":
        return every
    by_pass: dict[int, list[OptimizerStep]] = {}
    for item in found:
        if item.moved is not None and item.moved.read.any():
            by_pass.setdefault(item.event.clock, []).append(item.moved)
    each = [relation(moved) for moved in by_pass.values()]
    if each and all(one is not None and one.name == "multiple" for one in each):
        return each[0]
    return every


def _finding(group: gradient_history.HistoryGroup[Found]) -> Finding | None:
    context = group.context
    right = {} if context.experiment.blocked else context.experiment.gradients()
    facts = {}
    for found in group.found:
        own = right.get(found.history.info.id)
        norm = float("nan") if own is None else float(np.linalg.norm(own.astype(np.float64)))
        facts[found.history.info.label] = {"norm_consumed": found.read.numbers.get("norm", 0.0), "norm": norm}
    nonzero = [found for found in group.found if facts[found.history.info.label]["norm"] != 0]
    if not nonzero:
        return None  # nothing was missed: the gradient of the pass is zero
    chosen = nonzero[0]
    severity: Severity = "error" if chosen.sure else "warning"
    label = chosen.history.info.label
    message = _words(chosen, facts[label])
    others = [found.history.info.label for found in nonzero[1:]]
    if others:
        message += f" Likewise {words.listed(others)}."
    if len(group.times) > 1:
        message += f" {len(group.times) - 1} more steps like it (×{len(group.times)})."
    return Finding(
        rule=StaleGradient.code,
        severity=severity,
        message=message,
        launches=gradient_history.first_reader(context.trace, chosen.history.info.id),
        arrays=[label, *others],
        call_site=chosen.read.call_site,
        evidence={
            "kind": chosen.why,
            "occurrences": len(group.times),
            "gradients": facts,
            "read_by": chosen.read.how,
            "updated_at": _place(chosen.update),
            "zeroed_at": _place(chosen.zero),
            "step": _related(chosen.relation),
            "backward_at": _place(chosen.event),
        },
        fix=_fix(chosen),
    )


def _words(found: Found, facts: dict[str, float]) -> str:
    label, consumed = found.history.info.label, facts["norm_consumed"]
    step = f"{label} was updated{at(found.update if found.update.call_site else found.read)} with a gradient"
    gives = "" if np.isnan(facts["norm"]) else f"; the pass gives a norm of {words.number(facts['norm'])}"
    backward = f"backward{at(found.event)}"
    if found.why == "after zero":
        zeroed = at(found.zero)
        return (
            f"{step} that had been zeroed{zeroed} after {backward} and before it was read: "
            f"its norm was {words.number(consumed)}{gives}."
        )
    if found.relation is not None:
        return _copied_words(found, consumed, gives)
    if consumed == 0:
        return f"{step} that {backward} had not written yet: it was zero{gives}."
    return (
        f"{step} that {backward} had not written yet: it was that of an earlier pass, "
        f"of norm {words.number(consumed)}{gives}."
    )


def _copied_words(found: Found, consumed: float, gives: str) -> str:
    related, label = found.relation, found.history.info.label
    assert related is not None
    content = (
        "it was zero"
        if consumed == 0
        else f"it was that of an earlier pass, of norm {words.number(consumed)}"
    )
    if related.name == "multiple":
        measured = f"each step is {words.number(-related.rate)} times the gradient that was read"
    else:
        measured = "the steps go along the gradient that was read"
    if related.rests:
        measured += ", and where that was zero, nothing moved"
    return (
        f"{label} was updated{at(found.update)}, after backward{at(found.event)}, with a gradient that had "
        f"been read{at(found.read)}, before that pass wrote it: {content}{gives}, which had not been read by "
        f"then. Measured, {measured}."
    )


def _fix(found: Found) -> str:
    if found.why == "after zero":
        return f"zero the gradient after the update, not before it{at(found.zero)}"
    if found.why == "copied before backward":
        return f"read (and clear) the gradient after backward, not before it{at(found.read)}"
    return f"call backward before the update{at(found.read)}"


def _related(found: Relation | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _place(event: Event | None) -> dict[str, Any] | None:
    return None if event is None or event.call_site is None else asdict(event.call_site)
