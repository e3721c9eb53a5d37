"""Rule `race`: two threads of one launch access an element, and their order changes the result.

This engine runs the threads of a launch in order, so that results are reproducible; on a parallel device they
are not. The effect of the order is measured: the launch runs with its threads reversed, shuffled, in pairs
and all at once, with the tape's inputs and with displaced ones, and the loss and its slopes are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tapedebug._progress import OutOfTime
from tapedebug.autograd.thresholds import FLOAT64_RUNS_DIFFER, GRADIENT_WRONG
from tapedebug.contract import AccessConflict, Array, Operation, ThreadAccess, ThreadScheduling
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.effect import Effect
from tapedebug.diagnose.experiments.element_accesses import (
    element_of,
    element_words,
    elements_of,
    place_words,
)
from tapedebug.diagnose.experiments.places import place_of
from tapedebug.diagnose.experiments.thread_order import SCALE, ThreadOrders
from tapedebug.diagnose.experiments.thread_schedules import (
    COPIED,
    Places,
    at_once,
    backwards,
    pieces_of,
    restoring_pieces,
    shuffled,
    together,
)
from tapedebug.diagnose.rule import RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import Cost
from tapedebug.trace import Finding, Launch
from tapedebug.trace.model import Severity

MEASURED = 4
"""Largest number of kernels that are measured; each costs several replays."""
MANY_PIECES = 20_000
"""Pieces of launches from which on no further order is compared once one has proved the gradient wrong."""
FEWEST = 2
"""Smallest number of pairs of threads of a launch that run at the same time."""
PER_PIECE, PER_RESTORED_PIECE, PER_RESTORED = 1e-6, 1e-5, 6e-9
"""Seconds for a piece of a launch in another order, one that restores values, and each number restored."""
SLOPES_COST = 5.0
"""The cost of the values, and of the loss with its slopes, in times that of the values."""
RUNS = 20.0
"""Forward runs that the orders of threads of one kernel take, if their launches ran in one piece."""
VERBS = {"read": "reads", "write": "writes", "atomic": "changes", "exchange": "exchanges"}
DISPLACED = words.percent(SCALE)
PLAINLY = ("read", "write")
"""The kinds of accesses that are not atomic."""


class Race(TapeRule):
    """Two threads of one launch access an element, and their order changes the result."""

    code = "race"
    title = "Two threads of a launch race on an element"
    severity = "error"
    explains = ("warp-limitation",)

    def cost(self, context: RuleContext) -> Cost:
        """Estimate the runs of the launches with conflicts in other orders of threads."""
        groups = list(_groups(context).values())[:MEASURED]
        return Cost(len(groups) * RUNS, seconds=sum(_reordering_seconds(context, each) for each in groups))

    def explain(self, cause: Finding, finding: Finding) -> str:
        """Explain an adjoint of Warp that differs: its threads run in another order than the exact one's."""
        whole = finding.evidence.get("construct") == "adjoint"
        if cause.severity == "info" or not whole or not set(finding.launches) <= set(cause.launches):
            return ""
        return f"See {self.code}: the adjoint depends on the order of threads, too."

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield one finding for each kernel and array with conflicting threads.

        If time is up, or Ctrl-C ends a measurement, the conflicts are reported without their effect.
        """
        groups, measured = list(_groups(context).values()), 0
        ended: OutOfTime | KeyboardInterrupt | None = None
        for group in groups:
            effect = None
            if measured < MEASURED and ended is None:
                name = context.trace.launches[group[0].launch].name
                try:
                    context.progress(f"running {name} in other orders of threads")
                    effect = _measured(context, group)
                    measured += 1
                except (OutOfTime, KeyboardInterrupt) as error:
                    ended = error.with_traceback(None)  # which would keep the replays alive
            yield _finding(context, group, effect)
        if isinstance(ended, KeyboardInterrupt):
            raise ended
        if ended is not None:
            context.trace.coverage.partial = True
            context.skipped(
                f"{self.code}: time was up before the effect of "
                f"{words.plural(min(len(groups), MEASURED) - measured, 'conflict')} was measured"
            )


def _groups(context: RuleContext) -> dict[tuple[Any, ...], list[AccessConflict]]:
    """Return the conflicts by kernel and array."""
    groups: dict[tuple[Any, ...], list[AccessConflict]] = {}
    for meeting in context.elements.races:
        record, launch = context.rerun.records[meeting.launch], context.trace.launches[meeting.launch]
        groups.setdefault((launch.kernel, _first_name(record, meeting.param)), []).append(meeting)
    return groups


def _first_name(record: Operation, param: int) -> int:
    """Return the first parameter with the same memory."""
    a: Array = record.args[param]

    def same(b: Array) -> bool:
        met = a.is_contiguous and b.is_contiguous and a.start < b.stop and b.start < a.stop
        return b.region is a.region and (met or b.offset == a.offset)

    return int(min(p for p in record.touched if same(record.args[p])))


def _measured(context: RuleContext, group: list[AccessConflict]) -> Effect | None:
    scheduling: ThreadScheduling | None = context.rerun.recorded.tape.capability(ThreadScheduling)
    if scheduling is None:
        return None
    records = context.rerun.records
    places = _contested(records, group)
    pairs = _pairs(group, places)
    apart = sorted({thread for found in pairs.values() for pair in found for thread in pair})[:64]
    launches = _alike(context, group)
    params = {(item.launch, item.param): None for item in group}
    meet = {index: [records[index].args[p] for at, p in params if at == index] for index in pairs}
    schedules = [  # those that restore values take fewer pieces, and lose what two threads add
        together(pairs, places),
        at_once(apart, len(launches), places, first_wins=False),
        at_once(apart, len(launches), places, first_wins=True),
        backwards(apart, len(launches)),
        shuffled(apart, len(launches)),
    ]
    enough = GRADIENT_WRONG if _pieces(records, launches) > MANY_PIECES else math.inf
    return ThreadOrders(context.rerun, scheduling, launches, meet, schedules, enough).effect()


def _pieces(records: Sequence[Operation], launches: Sequence[int]) -> int:
    """Return the number of pieces in which launches run in another order."""
    return sum(pieces_of(math.prod(records[index].dim), len(launches)) for index in launches)


def _alike(context: RuleContext, group: list[AccessConflict]) -> list[int]:
    """Return the launches of the kernels with conflicts, with the same gradients."""
    own = {_kind(context, item.launch) for item in group}
    return [index for index in range(len(context.rerun.records)) if _kind(context, index) in own]


def _reordering_seconds(context: RuleContext, group: list[AccessConflict]) -> float:
    """Return the estimated seconds of what the runs of `_measured` do besides running a tape."""
    records = context.rerun.records
    places = _contested(records, group)
    pairs = _pairs(group, places)
    launches = _alike(context, group)
    sizes = {index: sum(len(where) for _, where in found) for index, found in places.items()}
    restored = alone = 0.0
    for index, size in sizes.items():
        found = len(pairs[index])
        if size:
            threads = math.prod(records[index].dim)
            found += pieces_of(threads, len(launches), restoring_pieces(size, len(places)))
        alone += 2 * found
        restored += 2 * found * size
    each = 2 * _pieces(records, launches) * PER_PIECE + alone * PER_RESTORED_PIECE + restored * PER_RESTORED
    return each * SLOPES_COST


def _kind(context: RuleContext, launch: int) -> tuple[int | None, frozenset[int]]:
    """Return the key of launches of one kernel with the same gradients."""
    return context.trace.launches[launch].kernel, frozenset(context.rerun.records[launch].active)


def _finding(context: RuleContext, group: list[AccessConflict], effect: Effect | None) -> Finding:
    trace, first = context.trace, _telling(group)
    launch = trace.launches[first.launch]
    record = context.rerun.records[first.launch]
    label = words.label_of(trace, launch, first.param)
    index = element_of(record.args[first.param], first.place)
    elements = _elements(record, [item for item in group if item.launch == first.launch])
    severity, outcome = _judged(effect, unread=_unread(context, launch, first.param))
    assert first.second is not None
    exchanges = "exchange" in (first.first.kind, first.second.kind)
    how = ", where the order of threads decides" if exchanges else " without an atomic"
    text = (
        f"threads {first.second.thread} and {first.first.thread} of {words.launch_words(launch)} race on "
        f"{element_words(label, index)}{how}: thread {_does(first.second)}, thread {_does(first.first)}."
    )
    if elements > 1:
        text += f" {elements} elements are affected."
    launches = list(dict.fromkeys(item.launch for item in group))
    if len(launches) > 1:
        text += f" And in {words.plural(len(launches) - 1, 'launch')} more."
    return RuleFinding(
        rule=Race.code,
        severity=severity,
        message=f"{text} {outcome}",
        launches=launches,
        arrays=[label],
        location=place_of(_culprit(first).span),
        call_site=launch.call_site,
        harmless=severity == "info",
        evidence=_evidence(group, index, elements, effect, severity),
        fix="" if severity == "info" else _fix(label, launch.args[first.param].name, first),
    )


def _telling(group: list[AccessConflict]) -> AccessConflict:
    """Return the conflict to report: preferably one in which both threads write."""
    return next(filter(_both_write, group), group[0])


def _both_write(meeting: AccessConflict) -> bool:
    return meeting.second is not None and "read" not in (meeting.first.kind, meeting.second.kind)


def _pairs(group: list[AccessConflict], places: Places) -> dict[int, list[tuple[int, int]]]:
    """Return conflicting pairs of threads by launch, each thread once; fewer if they share many scalars."""
    found: dict[int, list[tuple[int, int]]] = {item.launch: [] for item in group}
    busy: dict[int, set[int]] = {index: set() for index in found}
    for item in group:
        size = sum(len(where) for _, where in places.get(item.launch, ()))
        most = max(FEWEST, COPIED // max(1, size * len(found)))
        for pair in item.pairs:
            if len(found[item.launch]) < most and not busy[item.launch] & set(pair):
                found[item.launch].append(pair)
                busy[item.launch] |= set(pair)
    return found


def _contested(
    records: Sequence[Operation], group: list[AccessConflict]
) -> dict[int, list[tuple[Array, set[int]]]]:
    """Return the contested arrays by launch, with the scalars that no atomic accesses."""
    plain: dict[tuple[int, int], set[int]] = {}
    atomic: dict[tuple[int, int], set[int]] = {}
    for item in group:
        assert item.second is not None
        kinds = {item.first.kind, item.second.kind}
        found = plain if kinds <= set(PLAINLY) else atomic
        found.setdefault((item.launch, item.param), set()).update(item.elements)
    places: dict[int, list[tuple[Array, set[int]]]] = {}
    for (launch, param), elements in plain.items():
        free = elements - atomic.get((launch, param), set())
        places.setdefault(launch, []).append((records[launch].args[param], free))
    return places


def _elements(record: Operation, group: list[AccessConflict]) -> int:
    """Return the number of elements with conflicts, through any parameter with the same memory."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for item in group:
        own = found.setdefault(item.param, set())
        own.update(map(tuple, elements_of(record.args[item.param], item.elements).tolist()))
    return max(map(len, found.values()))


def _does(side: ThreadAccess) -> str:
    return f"{side.thread} {VERBS[side.kind]} it ({place_words(side)})"


def _culprit(meeting: AccessConflict) -> ThreadAccess:
    """Return the access whose line is shown: the write, or the earlier line of two writes."""
    sides = [side for side in (meeting.first, meeting.second) if side is not None and side.span is not None]
    return min(sides, key=lambda side: (side.kind == "read", 0 if side.span is None else side.span.line))


def _unread(context: RuleContext, launch: Launch, param: int) -> bool:
    """Return True if no launch reads an array and its gradient is not needed."""
    number = launch.args[param].array
    if number is None or context.trace.arrays[number].requires_grad:
        return False
    return not [version for version in context.trace.versions_of(number) if version.reads]


def _judged(effect: Effect | None, *, unread: bool = False) -> tuple[Severity, str]:
    if effect is None:
        return "warning", "What the order of threads does to the gradient was not measured."
    gradient, loss = _noticed(effect.gradient), _noticed(effect.loss)
    if not effect.changed and not gradient and not loss:
        also = "" if effect.gradient is None else " and the same gradient"
        return "info", f"Harmless: measured, every order of threads leaves the same values{also}."
    values = _values(effect)
    if effect.loss is None and unread:
        return "info", f"{values}; harmless: nothing on the tape reads them."
    if effect.loss is None:
        return "warning", f"{values}; what that does to a gradient was not measured."
    link = ", and" if effect.changed else ", but"
    by = "by at least" if effect.at_least else "by"
    if gradient:
        also = f", the loss {by} {words.percent(loss)}" if loss else ""
        differs = "" if effect.changed else " differs"
        severity: Severity = "error" if gradient > GRADIENT_WRONG else "warning"
        return severity, f"{values}{link} the gradient{differs} {by} {words.percent(gradient)}{also}."
    if loss:
        differs = "" if effect.changed else " differs"
        return "warning", f"{values}{link} the loss{differs} by {words.percent(loss)}."
    return "info", f"{values}; harmless: neither the loss nor its slopes depend on them."


def _noticed(change: float | None) -> float:
    """Return a relative change, or 0 if it is not known or may be rounding."""
    return change if change is not None and not change <= FLOAT64_RUNS_DIFFER else 0.0


def _values(effect: Effect) -> str:
    """Return `With threads in another order, or at the same time, 3 of 4 numbers there differ, …`."""
    if not effect.changed:
        outcome = "every order of threads leaves the same values there"
    else:
        outcome = (
            f"with threads in another order, or at the same time, {effect.changed} of {effect.numbers} "
            f"numbers there differ, by up to {words.number(effect.largest)}"
        )
    if not effect.displaced:
        return outcome[0].upper() + outcome[1:]
    return (
        f"With these inputs the order of threads is not seen; with inputs displaced by {DISPLACED}, {outcome}"
    )


def _fix(label: str, param: str, meeting: AccessConflict) -> str:
    assert meeting.second is not None
    kinds = (meeting.first.kind, meeting.second.kind)
    if "exchange" in kinds:
        return (
            f"give each thread its own element of {label}, or use an atomic whose result no order changes: "
            "wp.atomic_add, wp.atomic_max or wp.atomic_min"
        )
    if _both_write(meeting):
        return (
            f"add with wp.atomic_add({param}, …) if a sum is meant, take an extreme with wp.atomic_max or "
            "wp.atomic_min, or give each thread its own element"
        )
    return (
        f"read from one array and write to another in place of {label}, or write in a launch of its own "
        "what no other thread of it reads"
    )


def _evidence(
    group: list[AccessConflict],
    index: tuple[int, ...],
    elements: int,
    effect: Effect | None,
    severity: Severity,
) -> dict[str, Any]:
    first = _telling(group)
    assert first.second is not None
    return {
        "element": list(index),
        "elements": elements,
        "occurrences": sum(item.count for item in group),
        "threads": [first.second.thread, first.first.thread],
        "accesses": [first.second.kind, first.first.kind],
        "lines": [None if s.span is None else s.span.line for s in (first.second, first.first)],
        "measured": effect is not None,
        "changed": None if effect is None else effect.changed,
        "max_change": None if effect is None else effect.largest,
        "loss_change": None if effect is None else effect.loss,
        "gradient_change": None if effect is None else effect.gradient,
        "displaced": effect is not None and effect.displaced,
        "at_least": effect is not None and effect.at_least,
    }
