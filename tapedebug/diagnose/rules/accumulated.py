"""Rule `accumulated`: a gradient was not zero when a reverse pass began, by mistake.

Passes add to gradients. That is intended for mini-batches and for several losses. It is a mistake if the
input was updated between two passes, so that the sum mixes gradients at different values, if one tape ran
backward twice from the same loss, or if `fill_` set the gradient to another number than 0. The order of
events is recorded while the program runs; the gradient of the pass alone is measured by a replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_WRONG
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.rule import CrossTapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.diagnose.trace_analysis import gradient_history
from tapedebug.diagnose.trace_analysis.gradient_history import GradientHistory, at
from tapedebug.trace import Event, Finding, Trace
from tapedebug.trace.model import Severity

Why = Literal["updated", "again", "read", "filled"]


@dataclass(slots=True)
class Found:
    """One input whose gradient was not zero when a pass began."""

    history: GradientHistory
    event: Event
    why: Why
    read: Event | None = None
    update: Event | None = None

    @property
    def norms(self) -> tuple[float, float]:
        """The norms of the gradient before and after the pass."""
        numbers = self.event.numbers
        return numbers.get("norm_before", 0.0), numbers.get("norm_after", 0.0)


class Accumulated(CrossTapeRule):
    """A gradient was not zero when a reverse pass began, by mistake."""

    code = "accumulated"
    title = "A gradient was not zero when a reverse pass began"
    severity = "error"
    outside_pass = True

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a look at the trace."""
        return READS_TRACE

    def check(self, contexts: Sequence[RuleContext]) -> Iterator[tuple[RuleContext, Finding]]:
        """Yield a finding for each line that runs a pass on gradients that should have been zero."""
        groups = gradient_history.grouped(
            contexts,
            lambda history, context: _suspect_passes(history, context.trace),
            lambda found: found.event,
        )
        yield from gradient_history.findings_of(groups, _finding)


def _suspect_passes(history: GradientHistory, trace: Trace) -> list[Found]:
    """Return the passes at whose start the gradient of an input should have been zero but was not."""
    found = []
    for event in history.passes(trace):
        if not event.numbers.get("norm_before"):
            continue
        fill = history.filled_before(event)
        if fill is not None:
            found.append(Found(history, event, "filled", update=fill))
            continue
        before = history.before(event)
        if before is None:
            continue
        meanwhile = history.between(before.clock, event.clock)
        if gradient_history.touched(meanwhile):
            continue  # a gradient scaled between passes, as with momentum, is kept on purpose
        steps = gradient_history.updates(meanwhile)
        reads = [item for item in meanwhile if item.kind == "read"]
        seen = [item for item in meanwhile if item.kind == "write" and item.how != "fill_"]
        if steps:
            found.append(Found(history, event, "updated", *steps[0]))
        elif "viewed" in before.numbers and seen:  # read through a view that was open all the time
            found.append(Found(history, event, "updated", None, seen[0]))
        elif event.again and before.tape == trace.tape.id:
            found.append(Found(history, event, "again", reads[0] if reads else None))
        elif reads:
            found.append(Found(history, event, "read", reads[0]))
    return found


def _finding(group: gradient_history.HistoryGroup[Found]) -> Finding:
    context, first = group.context, group.found[0]
    right = {} if context.experiment.blocked else context.experiment.gradients()
    facts = {found.history.info.label: _facts(found, right) for found in group.found}
    label, worst = max(facts.items(), key=lambda item: item[1]["off"])
    chosen = next(found for found in group.found if found.history.info.label == label)
    severity = _severity(chosen, worst["off"])
    message = _was_read(chosen, worst) if chosen.why == "read" else _wrong(chosen, worst, severity)
    others = [name for name in facts if name != label]
    if others:
        message += f" Likewise that of {words.listed(others)}."
    if len(group.times) > 1:
        message += f" {len(group.times) - 1} more passes like it (×{len(group.times)})."
    return Finding(
        rule=Accumulated.code,
        severity=severity,
        message=message,
        launches=gradient_history.first_reader(context.trace, chosen.history.info.id),
        arrays=[label, *others],
        call_site=first.event.call_site,
        evidence={
            "kind": chosen.why,
            "occurrences": len(group.times),
            "pass": int(chosen.event.numbers.get("pass", 0)),
            "gradients": facts,
            "read_at": _place(chosen.read),
            "updated_at": _place(chosen.update),
        },
        fix="" if severity == "info" else _fix(chosen),
    )


def _facts(found: Found, right: Mapping[int, Values]) -> dict[str, float]:
    """Return the norms before and after, that of the pass alone, and the relative error of the sum."""
    before, after = found.norms
    facts = {"norm_before": before, "norm_after": after, "off": float("inf")}
    gradient = right.get(found.history.info.id)
    if gradient is not None:
        alone = float(np.linalg.norm(gradient.astype(np.float64)))
        facts["norm_added"] = alone
        if alone > 0:
            facts["ratio"] = after / alone
            facts["off"] = before / alone
    return facts


def _severity(found: Found, off: float) -> Severity:
    if found.why == "read":
        return "info"
    if off <= GRADIENT_WRONG:
        return "info"
    later = found.history.between(found.event.clock, found.history.end_of(found.event))
    reads = [item.clock for item in later if item.kind == "read"]
    zeros = [item.clock for item in later if item.kind == "zero"]
    if zeros and not (reads and reads[0] < zeros[0]):
        return "info"  # the gradient was never read
    if found.why == "filled":
        return "warning"
    if found.why == "updated" and found.update is not None:
        read = found.read
        return "error" if read is None or gradient_history.one_step(read, found.update) else "warning"
    return "error" if reads else "warning"


def _wrong(found: Found, facts: Mapping[str, float], severity: Severity) -> str:
    label = found.history.info.label
    where = at(found.event)
    before, after = words.number(facts["norm_before"]), words.number(facts["norm_after"])
    if found.why == "updated":
        since = f"{label} was updated since the pass before{at(found.update)}"
        text = (
            f"The gradient of {label} was not zero when backward ran{where}: its norm was {before}. "
            f"{since}, and nothing zeroed the gradient"
        )
    elif found.why == "filled":
        text = (
            f"The gradient of {label} was filled with a number other than 0{at(found.update)}, and backward"
            f"{where} added to it: its norm was {before}"
        )
    else:
        text = (
            f"Backward ran again on this tape from the same loss{where}, and nothing had zeroed the "
            f"gradient of {label}: its norm was {before}"
        )
    left = "what it was filled with" if found.why == "filled" else "the leftover gradient"
    if "norm_added" in facts:
        alone = words.number(facts["norm_added"])
        text += f". The pass alone gives a norm of {alone}; with {left} it was {after}"
        if "ratio" in facts:
            text += f", {words.number(facts['ratio'])} times that"
    if severity == "info":
        text += (
            ". It was zeroed before anything read it"
            if facts["off"] > GRADIENT_WRONG
            else ". That is rounding"
        )
    return f"{text}."


def _was_read(found: Found, facts: Mapping[str, float]) -> str:
    label, before = found.history.info.label, words.number(facts["norm_before"])
    return (
        f"The gradient of {label} was read{at(found.read)} and not zeroed before "
        f"backward ran again{at(found.event)}: the pass added to a gradient of norm {before}. "
        f"{label} was not updated in between, so this is assumed to be intended."
    )


def _fix(found: Found) -> str:
    zero = f"tape.zero() or {found.history.info.label}.grad.zero_()"
    if found.why == "filled":
        own = f"call {found.history.info.label}.grad.zero_() in place of fill_"
        return f"{own}; a seed belongs to the loss: backward(loss), or backward(grads={{loss: …}})"
    if found.why == "updated":
        return f"call {zero} after the update{at(found.update)}"
    return f"call backward once, or {zero} before it runs again"


def _place(event: Event | None) -> dict[str, Any] | None:
    return None if event is None or event.call_site is None else asdict(event.call_site)


# ---------------------------------------------------------------------- hidden by a gradient of 0


def latent(context: RuleContext, hiding: Finding, inputs: list[str]) -> list[Finding]:
    """Return a finding if the gradients of some inputs, all 0, would add up from pass to pass.

    # ---------------------------------------------------------------------- hidden by a gradient of 0
    because of that, the fix of the one makes the other matter.
    """
    for history in gradient_history.histories(context):
        if history.info.label not in inputs:
            continue
        for event in history.passes(context.trace):
            before = history.before(event)
            if before is None or any(event.numbers.get(norm) for norm in ("norm_before", "norm_after")):
                continue
            meanwhile = history.between(before.clock, event.clock)
            steps = [] if gradient_history.touched(meanwhile) else gradient_history.updates(meanwhile)
            if steps:
                return [_latent_finding(context, history, event, steps[0][1], hiding)]
    return []


def _latent_finding(
    context: RuleContext,
    history: GradientHistory,
    event: Event,
    update: Event,
    hiding: Finding,
) -> Finding:
    label = history.info.label
    return Finding(
        rule=Accumulated.code,
        severity="warning",
        message=(
            f"Nothing zeroed the gradient of {label} before backward ran{at(event)}, and {label} was "
            f"updated since the pass before{at(update)}. The gradient is exactly 0 in every pass, "
            f"which hides it; it will accumulate once the {hiding.rule} finding is fixed."
        ),
        launches=gradient_history.first_reader(context.trace, history.info.id),
        arrays=[label],
        call_site=event.call_site,
        evidence={"kind": "updated", "behind": hiding.rule, "norm_before": 0.0, "norm_after": 0.0},
        fix=f"call tape.zero() or {label}.grad.zero_() after the update{at(update)}",
    )
