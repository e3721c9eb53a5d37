"""The history of one input and its gradient: passes, reads, zeros and updates, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Generic, Protocol, TypeVar

from tapedebug._dataclass import dataclass
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.dependencies import overlaps
from tapedebug.diagnose.wording import place
from tapedebug.trace import ArrayInfo, Event, Finding, Location, Trace

FOLLOWED = 500
"""Largest number of inputs of a tape whose histories are examined."""


@dataclass(slots=True)
class GradientHistory:
    """The events of an input and of its gradient, in order.

    Attributes:
        info: The input.
        events: Passes, zeros, reads and writes of the gradient, writes of the values.
        gaps: The clocks of the events before which some are no longer stored.
    """

    info: ArrayInfo
    events: list[Event] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)

    def passes(self, trace: Trace | None = None) -> list[Event]:
        """Return the reverse passes that added to the gradient; given a trace, those of its records."""
        every = [event for event in self.events if event.kind == "backward"]
        if trace is None:
            return every
        start, end = trace.tape.began, _forgotten(trace)
        return [event for event in every if event.tape == trace.tape.id and start < event.clock < end]

    def between(self, first: int, last: int | None) -> list[Event]:
        """Return the events after one time and before another."""
        return [
            event for event in self.events if first < event.clock and (last is None or event.clock < last)
        ]

    def before(self, event: Event) -> Event | None:
        """Return the pass before a pass; None also if events between the two are no longer stored."""
        found = next((item for item in reversed(self.passes()) if item.clock < event.clock), None)
        if found is None or any(found.clock < gap <= event.clock for gap in self.gaps):
            return None
        return found

    def filled_before(self, event: Event) -> Event | None:
        """Return the `fill_` that set the gradient to what it was when a pass began, if it was one."""
        if any(gap <= event.clock for gap in self.gaps):
            return None
        last = [
            item for item in self.between(-1, event.clock) if item.of == "gradient" and item.kind != "read"
        ]
        return last[-1] if last and (last[-1].kind, last[-1].how) == ("zero", "fill_") else None

    def end_of(self, event: Event) -> int | None:
        """Return the clock at which the next pass began, or until which no event is stored."""
        ends = [item.clock for item in self.passes()] + self.gaps
        return min((clock for clock in ends if clock > event.clock), default=None)


def _forgotten(trace: Trace) -> float:
    """Return the clock at which the tape dropped these records for reuse."""
    resets = (e.clock for e in trace.events if e.kind == "reset" and e.clock > trace.tape.ended)
    return min(resets, default=float("inf"))


def history_of(trace: Trace, array: int) -> GradientHistory:
    """Return the history of one input of a tape."""
    info = trace.arrays[array]
    history = GradientHistory(info)
    found: dict[tuple[int, str], Event] = {}
    for event in trace.events:
        if event.numbers.get("gap") == 2:
            history.gaps.append(event.clock)
        if event.array is None:
            continue
        other = trace.arrays[event.array]
        whole = "arrays" in event.numbers and other.buffer == info.buffer  # one event for several arrays
        if not whole and not overlaps(other, info):
            continue
        if event.numbers.get("gap") == 1:
            history.gaps.append(event.clock)
        key = (event.clock, event.of)
        if key not in found or event.numbers.get("norm_before"):
            found[key] = event
    history.events = sorted(found.values(), key=lambda event: event.clock)
    return history


def histories(context: RuleContext) -> Iterator[GradientHistory]:
    """Yield the histories of the inputs of a tape with events of their gradients."""
    trace = context.trace
    buffers = {
        trace.arrays[event.array].buffer
        for event in trace.events
        if event.array is not None and (event.kind == "read" or event.numbers.get("norm_before"))
    }
    wanted = [leaf for leaf in context.experiment.leaves if trace.arrays[leaf].buffer in buffers]
    if len(wanted) > FOLLOWED:
        context.skipped(
            f"what happened to gradients between passes: followed for {FOLLOWED} of {len(wanted)} inputs"
        )
    for leaf in wanted[:FOLLOWED]:
        yield history_of(trace, leaf)


def updates(events: list[Event]) -> list[tuple[Event, Event]]:
    """Return the (read of the gradient, write of the values) pairs, the traces of optimiser steps."""
    found = []
    read: Event | None = None
    for event in events:
        if event.kind == "read" and event.of == "gradient":
            read = event
        elif event.kind == "write" and event.of == "values" and read is not None and _moves(read, event):
            found.append((read, event))
            read = None
    return found


def _moves(read: Event, write: Event) -> bool:
    """Return True if a write may be an update; a fill is a restart, unless its line read the gradient."""
    return write.how != "fill_" or same_line(read.call_site, write.call_site)


def one_step(read: Event, write: Event) -> bool:
    """Return True if a read of the gradient and a write of the values certainly belong to one update.

    A program may also read all gradients, and assign the next batch of data on another line.
    """
    if read.how not in ("numpy", "list", "to_torch", "to_jax", "dlpack") or write.how not in (
        "assign",
        "copy",
    ):
        return True
    return same_line(read.call_site, write.call_site)


def touched(events: list[Event]) -> bool:
    """Return True if the gradient was zeroed, or changed outside of a pass."""
    return any(event.of == "gradient" and event.kind in ("zero", "write") for event in events)


def at(event: Event | None) -> str:
    """Return ` at fit.py:40`; empty if the place is not known."""
    return "" if event is None or event.call_site is None else f" at {place(event.call_site)}"


def site_key(location: Location | None) -> tuple[str, int, int] | None:
    """Return the key of a place."""
    return None if location is None else (location.file, location.line, location.column)


def same_line(one: Location | None, other: Location | None) -> bool:
    """Return True if two events come from one line of the user's source."""
    return one is not None and other is not None and (one.file, one.line) == (other.file, other.line)


def first_reader(trace: Trace, array: int) -> list[int]:
    """Return the first launch that reads an array, as a list for a finding."""
    return next(([launch] for v in trace.versions_of(array) for launch in v.reads[:1]), [])


class PassResult(Protocol):
    """A result of the rules about passes: its pass and its reason."""

    event: Event
    why: Any


F = TypeVar("F", bound=PassResult)


@dataclass(slots=True)
class HistoryGroup(Generic[F]):
    """The results of one finding: inputs of one pass or step, and later ones of the same line and reason.

    Attributes:
        context: The tape on which it is shown.
        found: The results of the first pass or step.
        times: The clock of each pass or step.
        others: The other tapes that it concerns.
    """

    context: RuleContext
    found: list[F] = field(default_factory=list)
    times: set[int] = field(default_factory=set)
    others: list[RuleContext] = field(default_factory=list)


def grouped(
    contexts: Sequence[RuleContext],
    look: Callable[[GradientHistory, RuleContext], list[F]],
    when: Callable[[F], Event],
) -> list[HistoryGroup[F]]:
    """Return the results of `look` on all tapes, grouped by line of the event `when` and by reason."""
    groups: dict[Any, HistoryGroup[F]] = {}
    for context in contexts:
        for history in histories(context):
            for found in look(history, context):
                event = when(found)
                group = groups.setdefault((site_key(event.call_site), found.why), HistoryGroup(context))
                group.times.add(event.clock)
                if group.context is not context:
                    group.others.append(context)
                elif found.event.clock == (group.found or [found])[0].event.clock:
                    group.found.append(found)
    return list(groups.values())


def findings_of(
    groups: Sequence[HistoryGroup[F]], put: Callable[[HistoryGroup[F]], Finding | None]
) -> Iterator[tuple[RuleContext, Finding]]:
    """Yield the findings of groups, and list errors on the other tapes that they concern."""
    for group in groups:
        finding = put(group)
        if finding is not None:
            for other in group.others if finding.severity == "error" else ():
                other.elsewhere.append(finding)
            yield group.context, finding
