"""Missing zeroing that does no harm yet because the gradient is 0, and will later.

Passes that add 0 to 0 do no harm. But where a chain is severed or an operation is flat, and the gradient is 0
because of that, the fix of the one makes the other matter.
"""

from __future__ import annotations

from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules import accumulated
from tapedebug.diagnose.trace_analysis import gradient_history as history
from tapedebug.trace import Event, Finding


def latent(case: RuleContext, hiding: Finding, inputs: list[str]) -> list[Finding]:
    """Return a finding if the gradients of some inputs, all 0, would add up from pass to pass."""
    for story in history.histories(case):
        if story.info.label not in inputs:
            continue
        for event in story.passes(case.trace):
            before = story.before(event)
            if before is None or any(event.numbers.get(norm) for norm in ("norm_before", "norm_after")):
                continue
            meanwhile = story.between(before.clock, event.clock)
            steps = [] if history.touched(meanwhile) else history.updates(meanwhile)
            if steps:
                return [_finding(case, story, event, steps[0][1], hiding)]
    return []


def _finding(
    case: RuleContext, story: history.GradientHistory, event: Event, update: Event, hiding: Finding
) -> Finding:
    label = story.info.label
    return Finding(
        rule=accumulated.RULE,
        severity="warning",
        message=(
            f"Nothing zeroed the gradient of {label} before backward ran{history.at(event)}, and {label} was "
            f"updated since the pass before{history.at(update)}. The gradient is exactly 0 in every pass, "
            f"which hides it; it will add up once what {hiding.rule} says is fixed."
        ),
        launches=history.first_reader(case.trace, story.info.id),
        arrays=[label],
        call_site=event.call_site,
        evidence={"kind": "updated", "behind": hiding.rule, "norm_before": 0.0, "norm_after": 0.0},
        fix=f"call tape.zero() or {label}.grad.zero_() after the update{history.at(update)}",
    )
