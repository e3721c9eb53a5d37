"""Rule `truncated`: a state passes from tape to tape, and the gradient does not.

Each tape alone is right. But the sum that the optimiser consumes is not the gradient of the whole run: the
effect of the parameter through the state that the next tape starts from is missing, or through one array of
it. The tapes may be recorded one after the other, or from checkpoints, the last window first; the state may
be passed on in the same arrays or in copies. An adjoint is handed on if it seeds the earlier window's pass.

Windows with an update between them are truncated on purpose, and so is a state that was reset, that has no
gradient, or whose own gradient was zeroed between two passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_WRONG
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.cross_tape import (
    CrossTapeGradient,
    TapeLink,
    carried,
    carries_loss,
    confirm,
    gradient_events,
    is_confirmed,
    last_pass,
    losses_of,
    measure,
    with_handed,
)
from tapedebug.diagnose.experiments.experiment import relative_errors
from tapedebug.diagnose.experiments.seeds import seeded
from tapedebug.diagnose.gradient_diff import off_by
from tapedebug.diagnose.rule import CrossTapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import FOLLOWS_DATA, Cost
from tapedebug.diagnose.trace_analysis import gradient_history
from tapedebug.diagnose.trace_analysis.gradient_history import GradientHistory, at
from tapedebug.trace import Event, Finding, Launch
from tapedebug.trace.model import Severity

MEASURED = 8
"""Largest number of consecutive tapes over which the gradient is measured."""


NO_LOSS = "no loss is known"
"""The reason why a window without a seed of its own cannot be examined alone."""


@dataclass(slots=True)
class Row:
    """Tapes that are windows of one run, in its order, and the parameters that collect all their gradients.

    Attributes:
        contexts: The tapes.
        links: The arrays carried from each tape to the next.
        params: The parameters, arrays of all the tapes.
        spans: The loss itself is carried, so that it belongs to the whole row.
        again: The tapes were recorded from the last to the first.
    """

    contexts: list[RuleContext]
    links: list[list[TapeLink]] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)
    spans: bool = True
    again: bool = False

    @property
    def handed(self) -> list[TapeLink]:
        """Return the links whose adjoints were handed back to the earlier window."""
        return [edge for edges in self.links for edge in edges if edge.handed]

    @property
    def meant(self) -> bool:
        """True if the gradient of the whole run is intended, by its loss or by adjoints handed on."""
        alone = any(losses_of(*pair) for pair in zip(self.contexts, self.links, strict=False))
        return self.spans or bool(self.handed) or not alone

    def add(self, first: RuleContext, second: RuleContext, edges: list[TapeLink]) -> None:
        """Add the next tape at the growing end of the row."""
        self.contexts[:] = [first, *self.contexts] if self.again else [*self.contexts, second]
        self.links[:] = [edges, *self.links] if self.again else [*self.links, edges]
        self.spans = self.spans and not self.again and carries_loss(first, second)


class Truncated(CrossTapeRule):
    """A state passes from tape to tape, and the gradient does not."""

    code = "truncated"
    title = "The gradient is cut between the tapes of one simulation"
    severity = "error"
    outside_pass = True
    several_tapes = True

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a search through the data flow."""
        return FOLLOWS_DATA

    def check(self, contexts: Sequence[RuleContext]) -> Iterator[tuple[RuleContext, Finding]]:
        """Yield a finding for each row of tapes that a state is carried along."""
        usable = [
            context
            for context in contexts
            if context.trace.launches and context.experiment.blocked in ("", NO_LOSS)
        ]
        usable.sort(key=lambda context: context.trace.tape.began)
        for row in _rows(usable):
            found = _finding(row)
            if found is not None:
                yield found


def _rows(contexts: Sequence[RuleContext]) -> list[Row]:
    rows: list[Row] = []
    for one, other in pairwise(contexts):
        params = _collecting(one, other)
        for again in (False, True) if params else ():
            first, second = (other, one) if again else (one, other)
            edges = _edges_between(first, second)
            if not edges:
                continue
            last = rows[-1] if rows else None
            end = None if last is None else last.contexts[0 if last.again else -1]
            if last is None or last.again != again or end is not one or len(last.contexts) >= MEASURED:
                last = Row([one], again=again)
                rows.append(last)
            last.add(first, second, edges)
            last.params = params if len(last.contexts) == 2 else [a for a in last.params if _in(a, params)]
            break
    return rows


def _in(a: object, arrays: Iterable[object]) -> bool:
    return any(a is each for each in arrays)


def _edges_between(first: RuleContext, second: RuleContext) -> list[TapeLink]:
    """Return the arrays that one window passes to the next, without losses; none if cut on purpose."""
    losses = seeded(second.rerun).keys()
    edges = [edge for edge in carried(first, second) if edge.target not in losses]
    if not edges:
        return []
    found = with_handed(first, second, edges)
    return [edge for edge in found or () if not _detached(first, second, edge)]


def _detached(first: RuleContext, second: RuleContext, edge: TapeLink) -> bool:
    """Return True if the gradient of just this array was zeroed between the passes of two windows.

    If both windows share the array, that is a cut on purpose; a copy's gradient may have been handed on.
    """
    return not edge.copied and any(event.how == "fill_" for event in _zeros(first, second, edge))


def _zeros(first: RuleContext, second: RuleContext, edge: TapeLink) -> list[Event]:
    return [event for event in gradient_events(first, second, edge) if event.kind == "zero"]


def _collecting(one: RuleContext, other: RuleContext) -> list[Any]:
    """Return the inputs of two tapes, with the same values, that collected the gradients of both passes."""
    found = []
    for leaf in other.experiment.leaves:
        a = other.rerun.arrays[leaf]
        own = one.rerun.recorded.id_of(a)
        if own is None or own not in one.experiment.leaves:
            continue
        history = gradient_history.history_of(other.trace, leaf)
        first, second = history.passes(one.trace), history.passes(other.trace)
        if not first or not second:
            continue
        start, end = sorted((first[-1].clock, second[-1].clock))
        meanwhile = history.between(start, end)
        if any(e.of == "values" and e.kind == "write" for e in meanwhile):
            continue
        last = max(first[-1], second[-1], key=lambda event: event.clock)
        added_up = not gradient_history.touched(meanwhile) and bool(last.numbers.get("norm_before"))
        if added_up or _taken(history, meanwhile, end):
            found.append(a)
    return found


def _taken(history: GradientHistory, meanwhile: list[Event], end: int) -> bool:
    """Return True if the gradient of each of two passes was read, and the input was updated after both."""
    zeros = [e.clock for e in meanwhile if e.of == "gradient" and e.kind == "zero"]
    reads = [e.clock for e in meanwhile if e.of == "gradient" and e.kind == "read"]
    if not zeros or not reads or min(reads) > zeros[-1]:
        return False
    return bool(gradient_history.updates(history.between(end, None)))


def _finding(row: Row) -> tuple[RuleContext, Finding] | None:
    if not row.params or not any(edge.handed is False for edges in row.links for edge in edges):
        return None
    horizon = measure(row.contexts, row.links, row.params)
    found = relative_errors(horizon.whole, horizon.consumed)
    errors = {_label(row, place): error for place, error in found.items()}
    if max(errors.values(), default=0.0) <= GRADIENT_WRONG:
        return None
    confirm(horizon, row.contexts, row.links, row.params)
    return _cut_between_windows(row, horizon, errors)


def _label(row: Row, place: int) -> str:
    last = row.contexts[-1]
    number = last.rerun.recorded.id_of(row.params[place])
    return last.trace.arrays[number or 0].label


def _cut_between_windows(
    row: Row, horizon: CrossTapeGradient, errors: dict[str, float]
) -> tuple[RuleContext, Finding]:
    position = next(n for n, edges in enumerate(row.links) if any(e.handed is False for e in edges))
    before, after = row.contexts[position : position + 2]
    dropped = [edge for edge in row.links[position] if edge.handed is False]
    edge = dropped[0]
    state = after.trace.arrays[edge.target]
    reader, param = _reader(after, edge.target)
    sure = is_confirmed(horizon)
    severity: Severity = "info" if not sure else "error" if row.meant else "warning"
    names = words.listed(error for error, size in errors.items() if size > GRADIENT_WRONG)
    message = _words(row, position, dropped, names)
    message += f" Against the gradient over all of them the sum puts {off_by(errors, '')}. "
    message += _differences(horizon, sure)
    labels = [after.trace.arrays[each.target].label for each in dropped]
    return after, Finding(
        rule=Truncated.code,
        severity=severity,
        message=message,
        launches=[reader.index],
        arrays=list(dict.fromkeys([state.label, *labels, *errors])),
        location=words.access_location(after.trace, reader, param, ("read",)),
        call_site=reader.call_site,
        evidence={
            "tapes": [context.trace.tape.id for context in row.contexts],
            "edges": _edges(row)[:100],
            "relative_error": errors,
            "slope_consumed": horizon.along[0],
            "slope_whole": horizon.along[1],
            "slope_difference": horizon.difference,
            "difference_bar": horizon.bar,
            "loss_is_carried": row.spans,
            "recorded_again": row.again,
        },
        fix=_fix(row, before, after, dropped, names),
    )


def _words(row: Row, position: int, dropped: list[TapeLink], names: str) -> str:
    """Return words for the arrays carried between two tapes, and for the adjoints that are dropped."""
    before, after = row.contexts[position : position + 2]
    edge = dropped[0]
    reader, _ = _reader(after, edge.target)
    state = after.trace.arrays[edge.target].label
    text = (
        f"{names} collects gradient from {words.plural(len(row.contexts), 'tape')}, without an update"
        f"{'' if _were_zeroed(row) else ' or a zero'} in between, and {words.launch_words(reader)} of "
        f"{after.trace.name} reads the {state} that {_wrote(before, edge)} of {before.trace.name} wrote."
    )
    handed = [each for each in row.links[position] if each.handed]
    when = at(last_pass(before))
    if handed:
        given = words.listed(after.trace.arrays[each.target].label for each in handed)
        kept = words.listed(after.trace.arrays[each.target].label for each in dropped)
        return (
            f"{text} The pass of {before.trace.name}{when} begins with the adjoint of {given}, and without "
            f"that of {kept}."
        )
    zeros = _zeros(before, after, edge)
    if zeros and not edge.copied:
        return (
            f"{text} No gradient flows back from tape to tape: that of {state} was zeroed"
            f"{at(zeros[-1])} before the pass of {before.trace.name}{when}."
        )
    return f"{text} No gradient flows back from tape to tape."


def _were_zeroed(row: Row) -> bool:
    """Return True if the gradients of parameters were zeroed between the passes, and summed elsewhere."""
    context = row.contexts[0]
    numbers = [context.rerun.recorded.id_of(a) for a in row.params]
    histories = [
        gradient_history.history_of(context.trace, number) for number in numbers if number is not None
    ]
    clocks = sorted(event.clock for each in row.contexts if (event := last_pass(each)) is not None)
    return any(
        gradient_history.touched(history.between(clocks[0], clocks[-1])) for history in histories if clocks
    )


def _differences(horizon: CrossTapeGradient, sure: bool) -> str:
    consumed, whole = (words.number(value) for value in horizon.along)
    text = f"The slope of all losses along that gradient is {whole} by it, {consumed} by the sum"
    if horizon.difference is None:
        return f"{text}."
    text += f" and {words.number(horizon.difference)} by differences in float64"
    return f"{text}." if sure else f"{text}, which does not settle it."


def _edges(row: Row) -> list[dict[str, object]]:
    found = []
    for before, after, edges in zip(row.contexts, row.contexts[1:], row.links, strict=False):
        for edge in edges:
            version = before.trace.versions_of(edge.source)[-1]
            found.append(
                {
                    "array": after.trace.arrays[edge.target].label,
                    "from_tape": before.trace.tape.id,
                    "from_launch": version.written_by,
                    "to_tape": after.trace.tape.id,
                    "to_launch": _reader(after, edge.target)[0].index,
                    "copied": edge.copied,
                    "handed": edge.handed,
                }
            )
    return found


def _reader(context: RuleContext, array: int) -> tuple[Launch, int]:
    """Return the first launch that reads the initial values of an array, and its parameter."""
    launch = context.trace.launches[context.trace.versions_of(array)[0].reads[0]]
    return launch, words.param_of(launch, array)


def _wrote(context: RuleContext, edge: TapeLink) -> str:
    written = context.trace.versions_of(edge.source)[-1].written_by
    text = words.launch_words(context.trace.launches[written or 0])
    return f"{text}, through a copy," if edge.copied else text


def _fix(row: Row, before: RuleContext, after: RuleContext, dropped: list[TapeLink], names: str) -> str:
    state = after.trace.arrays[dropped[0].target].label
    zeros = _zeros(before, after, dropped[0])
    if zeros and not dropped[0].copied and not row.handed:
        return (
            f"zero the gradient of {names} alone, not that of the state{at(zeros[-1])}; where it is "
            f"truncated on purpose, call {state}.grad.zero_() there"
        )
    if row.again or row.handed:
        lacking = ", ".join(
            f"{before.trace.arrays[edge.source].label}: {after.trace.arrays[edge.target].label}.grad"
            for edge in dropped
        )
        return (
            f"begin the pass of {before.trace.name} with what is missing, as in backward(grads="
            f"{{{lacking}}}); where it is left out on purpose, give the array no gradient "
            "(requires_grad=False)"
        )
    other = f", or run backward from the last tape to the first, which passes the gradient of {state} on"
    return (
        f"record all of it on one tape{'' if dropped[0].copied else other}; "
        f"where it is truncated on purpose, update {names} after each tape"
    )
