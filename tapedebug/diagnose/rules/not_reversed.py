"""Rule `not-reversed`: a tape hands a state on to another one, and only the later tape was reversed.

The reverse pass of the later tape ends in the gradient of the state, and the inputs of the earlier one get
nothing. Each tape alone is right, and no pass has an error; the gradient is that of the last part only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_WRONG
from tapedebug.contract import Array
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.cross_tape import (
    CrossTapeGradient,
    TapeLink,
    carried,
    confirm,
    is_confirmed,
    last_pass,
    measure,
)
from tapedebug.diagnose.experiments.experiment import relative_errors
from tapedebug.diagnose.experiments.seeds import seeded
from tapedebug.diagnose.rule import CrossTapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.diagnose.trace_analysis import gradient_history
from tapedebug.trace import Finding
from tapedebug.trace.model import Severity

MEASURED = 8
"""Largest number of tapes before a reversed one that are examined."""


@dataclass(slots=True)
class Run:
    """Tapes of one run that were not reversed, and the reversed one that follows them.

    Attributes:
        contexts: The tapes, in the order of the run; only the last one was reversed.
        links: The arrays carried from each tape to the next.
    """

    contexts: list[RuleContext]
    links: list[list[TapeLink]]

    @property
    def inputs(self) -> list[Array]:
        """The inputs of the tapes that were not reversed, without what another one of them computed."""
        computed: list[set[int]] = [set(), *({link.target for link in links} for links in self.links)]
        found = [
            context.rerun.arrays[leaf]
            for context, targets in zip(self.contexts[:-1], computed, strict=False)
            for leaf in context.experiment.leaves
            if leaf not in targets
        ]
        return list(dict.fromkeys(found))


class NotReversed(CrossTapeRule):
    """A tape that the loss of a later tape depends on was not reversed."""

    code = "not-reversed"
    title = "A tape that the loss depends on was not reversed"
    severity = "error"
    outside_pass = True
    several_tapes = True

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a look at the trace."""
        return READS_TRACE

    def check(self, contexts: Sequence[RuleContext]) -> Iterator[tuple[RuleContext, Finding]]:
        """Yield a finding for each reversed tape that begins with a state of tapes that were not."""
        usable = [context for context in contexts if context.trace.launches]
        usable.sort(key=lambda context: context.trace.tape.began)
        for place in range(len(usable)):
            run = _run(usable[: place + 1])
            found = None if run is None or _is_recorded_again(run, usable) else _finding(run)
            if found is not None:
                yield found


def _run(contexts: Sequence[RuleContext]) -> Run | None:
    """Return the tapes before the last one whose states reach it, and that were not reversed."""
    last = contexts[-1]
    if last_pass(last) is None or last.replay is None:
        return None
    run = Run([last], [])
    for earlier in reversed(contexts[-1 - MEASURED : -1]):
        if last_pass(earlier) is not None:
            break
        losses = seeded(run.contexts[0].rerun).keys() if run.contexts[0] is last else ()
        links = [link for link in carried(earlier, run.contexts[0]) if link.target not in losses]
        if links:
            run.contexts.insert(0, earlier)
            # The earlier tape would begin with these adjoints alone, not with what gradients hold now.
            run.links.insert(0, [replace(link, handed=True) for link in links])
    return run if run.links and not _is_cut(last, run.links[-1]) else None


def _is_recorded_again(run: Run, contexts: Sequence[RuleContext]) -> bool:
    """Return True if a tape that was reversed leaves the same state: checkpoints that are recorded twice."""
    last = run.contexts[-1]
    targets = {link.target for link in run.links[-1]}
    return any(
        not targets.isdisjoint(link.target for link in carried(other, last))
        for other in contexts
        if other is not last and last_pass(other) is not None
    )


def _is_cut(context: RuleContext, links: Sequence[TapeLink]) -> bool:
    """Return True if the gradients of all these arrays were zeroed one by one after the pass."""
    done = last_pass(context)
    assert done is not None
    return all(
        any(
            event.of == "gradient" and event.kind == "zero" and event.how == "fill_"
            for event in gradient_history.history_of(context.trace, link.target).between(done.clock, None)
        )
        for link in links
    )


def _finding(run: Run) -> tuple[RuleContext, Finding] | None:
    inputs = run.inputs
    if not inputs:
        return None
    horizon = measure(run.contexts, run.links, inputs)
    own = run.contexts[-1].rerun
    shadow = own._ready()
    shadow.backward({own.arrays[number]: values for number, values in seeded(own).items()})
    for place, a in enumerate(inputs):
        known = own.recorded.id_of(a) is not None
        horizon.consumed[place] = np.asarray(shadow.gradient(a), float) if known else np.zeros(a.shape)
    errors = relative_errors(horizon.whole, horizon.consumed)
    missing = [place for place, error in errors.items() if error > GRADIENT_WRONG]
    if not missing:
        return None
    confirm(horizon, run.contexts, run.links, inputs)
    return run.contexts[-2], _missing(run, horizon, [inputs[place] for place in missing])


def _missing(run: Run, horizon: CrossTapeGradient, inputs: Sequence[Array]) -> Finding:
    first, last = run.contexts[-2], run.contexts[-1]
    link = run.links[-1][0]
    state = last.trace.arrays[link.target].label
    names = [_name(run, a) for a in inputs]
    sure = is_confirmed(horizon)
    nothing = not any(np.any(values) for values in horizon.consumed.values())
    severity: Severity = "info"
    if sure and nothing:
        severity = "error" if _is_consumed(run, inputs) else "warning"
    written = first.trace.versions_of(link.source)[-1].written_by
    writer = first.trace.launches[written or 0]
    later = last.trace.versions_of(link.target)[0].reads[0]
    reader = last.trace.launches[later]
    consumed, whole = (words.number(value) for value in horizon.along)
    slope = f"is {whole} by it, {consumed} by what was left"
    if horizon.difference is not None:
        slope += f", and {words.number(horizon.difference)} by differences in float64"
    tapes, were = first.trace.name, "was"
    if len(run.contexts) > 2:
        tapes += f" and {words.plural(len(run.contexts) - 2, 'tape')} before it"
        were = "were"
    gets = f"{'gets' if len(names) == 1 else 'get'} {'nothing' if nothing else 'none of it'}"
    return Finding(
        rule=NotReversed.code,
        severity=severity,
        message=(
            f"{words.launch_words(reader)} of {last.trace.name} reads the {state} that "
            f"{words.launch_words(writer)} of {first.trace.name} wrote, and {last.trace.name} was reversed, "
            f"but {tapes} {were} not: the gradient ends in that of {state}, and {words.listed(names)} {gets}."
            f" The slope of the loss along the gradient over all tapes {slope}."
        ),
        launches=[writer.index],
        arrays=list(dict.fromkeys([state, *names])),
        location=words.access_location(
            first.trace, writer, words.param_of(writer, link.source), ("write", "atomic")
        ),
        call_site=writer.call_site,
        evidence={
            "tapes": [context.trace.tape.id for context in run.contexts],
            "slope_consumed": horizon.along[0],
            "slope_whole": horizon.along[1],
            "slope_difference": horizon.difference,
            "difference_bar": horizon.bar,
        },
        fix=_fix(run, state),
    )


def _is_consumed(run: Run, inputs: Sequence[Array]) -> bool:
    """Return True if the program has read one of these gradients since the reverse pass of the last tape."""
    done = last_pass(run.contexts[-1])
    assert done is not None
    for context in run.contexts[:-1]:
        numbers = [context.rerun.recorded.id_of(a) for a in inputs]
        for history in (gradient_history.history_of(context.trace, n) for n in numbers if n is not None):
            events = history.between(done.clock, None)
            if any(event.of == "gradient" and event.kind == "read" for event in events):
                return True
    return False


def _name(run: Run, array: Array) -> str:
    for context in run.contexts:
        number = context.rerun.recorded.id_of(array)
        if number is not None:
            return context.trace.arrays[number].label
    raise AssertionError("an input is an array of one of its tapes")


def _fix(run: Run, state: str) -> str:
    first, last = run.contexts[-2], run.contexts[-1]
    call = f"backward(), which begins with the gradient of {state}"
    if run.links[-1][0].copied:
        source = first.trace.arrays[run.links[-1][0].source].label
        call = f"backward(grads={{{source}: {state}.grad}})"
    return (
        f"reverse {first.trace.name} after {last.trace.name}, by {call}, or record all of it on one tape; "
        f"where the gradient ends there on purpose, give {state} none (requires_grad=False)"
    )
