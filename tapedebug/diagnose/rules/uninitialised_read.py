"""Rule `uninitialised-read`: an element of `empty` memory is read before anything wrote it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tapedebug.autograd.thresholds import FLOAT64_RUNS_DIFFER
from tapedebug.contract import AccessConflict, ElementTracking
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.effect import Effect
from tapedebug.diagnose.experiments.element_accesses import (
    element_of,
    element_words,
    elements_of,
    place_words,
)
from tapedebug.diagnose.experiments.memory_effects import uninitialised_effect
from tapedebug.diagnose.experiments.places import place_of
from tapedebug.diagnose.rule import RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import NO_ELEMENTS, RuleContext
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.trace import Finding
from tapedebug.trace.model import Severity


class UninitialisedRead(TapeRule):
    """An element of `empty` memory is read before anything wrote it."""

    code = "uninitialised-read"
    title = "Memory is read before it is written"
    severity = "error"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a look at the trace."""
        return READS_TRACE

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield one finding for each block of memory that is read before it is written."""
        groups: dict[int, list[AccessConflict]] = {}
        for item in context.elements.unset:
            a = context.rerun.records[item.launch].args[item.param]
            groups.setdefault(id(a.region), []).append(item)
        for group in groups.values():
            yield _finding(context, group)


def _finding(context: RuleContext, group: list[AccessConflict]) -> Finding:
    trace, first = context.trace, group[0]
    launch = trace.launches[first.launch]
    record = context.rerun.records[first.launch]
    a = record.args[first.param]
    label = words.label_of(trace, launch, first.param)
    index = element_of(a, min(first.elements))
    elements = set(map(tuple, elements_of(a, first.elements).tolist()))
    effect = _measured(context, a.region)
    severity, outcome = _judged(effect)
    verb = "adds to" if first.first.kind == "atomic" else "reads"
    text = (
        f"thread {first.first.thread} of {words.launch_words(launch)} {verb} {element_words(label, index)} "
        f"({place_words(first.first)}), which was never written: {label} was created by empty()."
    )
    if len(elements) > 1:
        text += f" {len(elements)} of its {a.size} elements are affected."
    launches = list(dict.fromkeys(item.launch for item in group))
    return RuleFinding(
        rule=UninitialisedRead.code,
        severity=severity,
        message=f"{text} {outcome}",
        launches=launches,
        arrays=[label],
        location=place_of(first.first.span),
        call_site=launch.call_site,
        harmless=severity == "info",
        evidence={
            "element": list(index),
            "elements": len(elements),
            "thread": first.first.thread,
            "occurrences": sum(item.count for item in group),
            "measured": effect is not None,
            "loss_change": None if effect is None else effect.loss,
            "gradient_change": None if effect is None else effect.gradient,
        },
        fix=""
        if severity == "info"
        else f"make {label} with zeros, or write every element before the first that is read",
    )


def _measured(context: RuleContext, buffer: Hashable) -> Effect | None:
    """Return the effect of other contents, as all of the memory is undefined before the tape."""
    replay = context.rerun
    if replay.blocked:
        return None
    tracking = context.need(ElementTracking, NO_ELEMENTS)
    return uninitialised_effect(replay, tracking.arrays_in(buffer))


def _judged(effect: Effect | None) -> tuple[Severity, str]:
    if effect is None or effect.loss is None or effect.gradient is None:
        return "warning", "What it holds is arbitrary; what that does to a gradient was not measured."
    if effect.gradient > FLOAT64_RUNS_DIFFER:
        also = f" and the loss by {words.percent(effect.loss)}" if effect.loss > FLOAT64_RUNS_DIFFER else ""
        by = words.percent(effect.gradient)
        return "error", f"With other numbers in its memory the gradient changes by {by}{also}."
    if effect.loss > FLOAT64_RUNS_DIFFER:
        return (
            "warning",
            f"With other numbers in its memory the loss changes by {words.percent(effect.loss)}.",
        )
    return "info", "Harmless: measured, neither the loss nor its gradient depends on what its memory holds."
