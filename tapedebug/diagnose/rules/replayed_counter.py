"""Rule `replayed-counter`: numbers from an atomic counter, in programs written for Warp.

The assignment of numbers to threads is decided once, in the forward pass. This engine saves the numbers;
Warp's reverse pass neither saves them nor may count again, unless a custom replay function provides them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug.autograd.thresholds import GRADIENT_CHANGED
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules.warp_limitation import (
    ConstructFinding,
    ConstructRule,
    Group,
    as_run,
    by_kernel,
    effect,
    measurable,
    measure,
    measured_cost,
    severity_of,
    who,
)
from tapedebug.diagnose.timings import Cost
from tapedebug.trace import Finding


class ReplayedCounter(ConstructRule):
    """Numbers from an atomic counter, in programs written for Warp."""

    code = "replayed-counter"
    title = "Warp's reverse pass lacks a number that an atomic returned"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a reverse pass like Warp's for each kernel with a counter."""
        return measured_cost(sum(1 for _ in _counted(context)))

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each kernel whose gradient depends on the return value of an atomic."""
        for group in _counted(context):
            if not measurable(context, self.code):
                continue
            if measure(context, group) and severity_of(group.errors) is not None:
                yield _finding(context, group)


def _counted(context: RuleContext) -> Iterator[Group]:
    """Yield the launches of each kernel whose gradient depends on the return value of an atomic."""
    if not context.as_warp:
        return
    limits = context.reverse_divergences
    for launches in by_kernel(context, limits).values():
        counters = [item for item in limits[launches[0]] if item.kind == "counter"]
        if counters:
            yield Group(launches, counters)


def _finding(context: RuleContext, group: Group) -> Finding:
    location = location_at(group.first.span)
    return ConstructFinding(
        rule=ReplayedCounter.code,
        severity=severity_of(group.errors) or "info",
        message=as_run(
            context,
            f"{who(context, group.launches)}: the atomic at {words.place(location)} hands out numbers that "
            "the gradient depends on. Here each thread finds the number that it had, so the gradient is "
            "right. Warp's reverse pass does not hand them out again, and the variable holds nothing in "
            f"particular: with 0 {effect(group.errors, group.gradients)}.",
        ),
        launches=group.launches,
        arrays=[label for label, error in group.errors.items() if error > GRADIENT_CHANGED],
        location=location,
        call_site=context.trace.launches[group.launches[0]].call_site,
        constructs=[(item.kind, item.span.line) for item in group.limits],
        evidence={
            "construct": "counter",
            "relative_error": group.errors,
            "gradients": group.gradients,
            "occurrences": len(group.launches),
        },
        fix=(
            "for Warp, move the atomic into a @wp.func that stores the number in an array, and give it a "
            "@wp.func_replay that reads it back"
        ),
    )
