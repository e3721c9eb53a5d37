"""Rule `stale-value`: code off the tape overwrote values that an adjoint needs, before backward.

Examples are NumPy through a view, `array(ptr=…)`, `assign`, and a launch outside of the `with` block, but not
an optimiser's step after `backward`. The effect on the gradient is measured: the reverse pass runs once on
the values of the forward pass, and once on the current content of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_CHANGED, GRADIENT_WRONG
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.ablation import consumed_by
from tapedebug.diagnose.experiments.experiment import ValueChange, Values, relative_errors
from tapedebug.diagnose.experiments.stale_operands import (
    OffTapeWrite,
    change_by,
    gradients_seeing,
    off_tape_writes,
)
from tapedebug.diagnose.gradient_diff import off_by
from tapedebug.diagnose.rule import TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import PROFILE, Cost
from tapedebug.trace import Finding, Location
from tapedebug.trace.model import Severity

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

MEASURED = 8
"""Largest number of groups of writes that are measured one by one; each costs a replay."""
SHARED_MEMORY = "NumPy or another library that shares its memory"
"""The writer, in messages, if no call was seen to write."""


@dataclass(slots=True)
class Group:
    """Writes to one array at one place."""

    label: str
    how: str
    site: Location | None
    writes: list[OffTapeWrite] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The (launch, parameter) pairs whose values were overwritten."""
        return [pair for write in self.writes for pair in write.pairs]


class StaleValue(TapeRule):
    """Code off the tape overwrote values that an adjoint needs, before backward."""

    code = "stale-value"
    title = "Values that an adjoint needs were overwritten outside the tape"
    severity = "error"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a forward and a reverse run for each place that writes outside the tape."""
        return Cost(PROFILE.runs * min(MEASURED, len(_groups(context))))

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each place that overwrites needed values."""
        groups = _groups(context)
        if len(groups) > MEASURED:
            context.skipped(
                f"{self.code}: of {len(groups)} places that write outside the tape {MEASURED} were measured"
            )
        for number, group in enumerate(groups):
            yield _finding(context, group, measured=number < MEASURED)
        yield from written_meanwhile(context)


def _groups(context: RuleContext) -> list[Group]:
    groups: dict[Any, Group] = {}
    for write in off_tape_writes(context.rerun):
        label = context.trace.arrays[write.array].label
        site = _site(context, write.clock)
        key = (label, write.how, site and (site.file, site.line, site.column))
        groups.setdefault(key, Group(label, write.how, site)).writes.append(write)
    return list(groups.values())


def _site(context: RuleContext, clock: int) -> Location | None:
    return next((e.call_site for e in context.trace.events if e.clock == clock and e.kind == "write"), None)


def _finding(context: RuleContext, group: Group, *, measured: bool) -> Finding:
    trace, experiment = context.trace, context.experiment
    change = change_by(context.rerun, group.writes[0])
    errors: dict[str, float] = {}
    if measured and not experiment.blocked:
        found = relative_errors(experiment.gradients(), gradients_seeing(context.rerun, group.writes))
        errors = {trace.arrays[leaf].label: error for leaf, error in found.items()}
    launch, param = group.pairs[0]
    reader = trace.launches[launch]
    location = words.access_location(trace, reader, param, ("read",), needed=True)
    severity, outcome = _outcome(context, group.label, change, errors)
    message = f"{_what(context, group)} The adjoint of {words.launch_words(reader)} needs the values that it "
    message += f"read at {words.place(location)}: {_changed(change)}. {outcome}"
    if len(group.writes) > 1:
        message += f" {len(group.writes) - 1} more like it (×{len(group.writes)})."
    return Finding(
        rule=StaleValue.code,
        severity=severity,
        message=message,
        launches=list(dict.fromkeys(index for index, _ in group.pairs)),
        arrays=[group.label],
        location=location,
        call_site=group.site or reader.call_site,
        evidence={
            "how": group.how,
            "written_at": None if group.site is None else asdict(group.site),
            "records": group.writes[0].at,
            "occurrences": len(group.writes),
            "preserved": trace.tape.on_overwrite != "ignore",
            "elements": change.elements,
            "changed": change.changed,
            "max_change": change.largest,
            "relative_error": errors,
        },
        fix=_fix(context, group.label, severity, errors),
    )


def _what(context: RuleContext, group: Group) -> str:
    at = group.writes[0].at
    total = len(context.trace.launches)
    site = "" if group.site is None else f" at {words.place(group.site)}"
    who = {
        "numpy": SHARED_MEMORY,
        "unseen": SHARED_MEMORY,
        "launch": f"a launch{site} that is not on the tape",
        "mark_write": f"code that announced it{site}",
    }.get(group.how, f"{group.how}{site}, which is not on the tape")
    when = "after the tape had recorded and before backward"
    if at < total:
        when = f"before launch {at} ({context.trace.launches[at].name}) was recorded"
    return f"{group.label} was overwritten {when}, by {who}."


def _changed(change: ValueChange) -> str:
    if not change.changed:
        return f"none of {change.elements} elements changed value"
    return (
        f"{change.changed} of {change.elements} elements changed value, by up to "
        f"{words.number(change.largest)}"
    )


def _outcome(
    context: RuleContext, label: str, change: ValueChange, errors: Mapping[str, float]
) -> tuple[Severity, str]:
    consumed = context.trace.tape.on_overwrite in ("ignore", "warn")
    worst = max(errors.values(), default=None)
    if worst is None:
        if consumed and change.changed:
            return "warning", "The reverse pass sees the new values; what that does was not measured."
        return "info", f"The tape kept a copy of {label} for the adjoint."
    if worst <= GRADIENT_CHANGED:
        same = "is the same to the bit" if worst == 0 else "is the same up to rounding"
        return "info", f"Harmless: measured, the gradient {same}."
    severity: Severity = "error" if worst > GRADIENT_WRONG else "warning"
    if consumed:
        return (
            severity,
            f"The reverse pass sees the new ones: that puts the gradient of {off_by(errors, '')}.",
        )
    if context.as_warp:
        return severity, (
            f"Warp's reverse pass sees the new ones: that puts the gradient of {off_by(errors, '')}. "
            "Here the tape kept a copy, and it is right."
        )
    return "info", (
        f"The tape kept a copy of {label} for the adjoint, so the gradient is right; without it that of "
        f"{off_by(errors, 'would be ')}."
    )


def _fix(context: RuleContext, label: str, severity: Severity, errors: Mapping[str, float]) -> str:
    if severity != "info":
        return f"write to {label} after backward{words.or_preserve(context.trace, context.as_warp)}"
    if max(errors.values(), default=1.0) <= GRADIENT_CHANGED:
        return ""
    return f"nothing has to change; to save the copy, write to {label} after backward"


# --------------------------------------------------------------------------- between two launches


def written_meanwhile(context: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each array that was written off the tape between launches, if it has an effect.

    The tape detects that values changed between two launches, and replays them. But old and new values share
    one adjoint array, and no record of the tape separates their adjoints.
    """
    replay = context.replay
    if replay is None:
        return
    total = len(context.trace.launches)
    events: dict[int, list[Any]] = {}
    computed = {record.args[p].region for record in replay.records for p in record.written}
    for event in replay.recorded.tape.outside_writes:
        number = replay.recorded.id_of(event.array)
        if event.settled and event.array.region not in computed:
            continue  # an optimiser's step: its gradient adds up over all values of the parameter
        if number is not None and 0 < event.at < total:
            events.setdefault(number, []).append(event)
    consumed = replay.without(()) if events else {}
    for array, written in events.items():
        right = _stopped(replay, array, [event.at for event in written])
        errors = {
            context.trace.arrays[leaf].label: error
            for leaf, error in relative_errors(right, consumed).items()
            if leaf not in replay.losses
        }
        wrong = {label for label in errors if context.trace.array(label).id in replay.wrong}
        if max((errors[label] for label in wrong), default=0.0) > GRADIENT_WRONG:
            yield _between_launches(context, array, written, errors)


def _stopped(replay: Replay, array: int, places: list[int]) -> dict[int, Values]:
    """Return the gradients if adjoints ended at the writes off the tape."""
    scout, a = replay._shadow().forward(stop=0), replay.arrays[array]
    changed: dict[int, Values] = {}
    for place in sorted(set(places)):
        scout.forward(start=scout.position, stop=place)
        before = scout.values(a)
        scout.inject()  # and keeps nothing of what was there: another one runs backward
        changed[place] = before != scout.values(a)
    shadow = replay._shadow().forward()
    seeds: Any = replay.seeds
    start = shadow.position
    for place in sorted(changed, reverse=True):
        shadow.backward(seeds, consume=consumed_by(replay), start=start, stop=place)
        adjoint = shadow.gradient(a)
        adjoint[changed[place]] = 0
        shadow.set_gradient(a, adjoint)
        seeds, start = None, place
    shadow.backward(None, consume=consumed_by(replay), start=start)
    return {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}


def _between_launches(
    context: RuleContext, array: int, written: list[Any], errors: dict[str, float]
) -> Finding:
    trace, first = context.trace, written[0]
    label = trace.arrays[array].label
    readers = [v.reads[0] for v in trace.versions_of(array) if v.reads and v.reads[0] >= first.at]
    reader = trace.launches[min(readers, default=first.at)]
    site = _site(context, first.clock)
    who = {"numpy": "through NumPy", "unseen": f"by {SHARED_MEMORY}"}.get(first.how, f"by {first.how}")
    where = "" if site is None else f" at {words.place(site)}"
    location = words.access_location(trace, reader, words.param_of(reader, array), ("read", "atomic"))
    before = trace.launches[first.at - 1]
    times = f" {len(written) - 1} more like it (×{len(written)})." if len(written) > 1 else ""
    return Finding(
        rule=StaleValue.code,
        severity="error",
        message=(
            f"{label} was written{where} {who} between {words.launch_words(before)} and "
            f"{words.launch_words(reader)}, which reads it, and that is not on the tape. The reverse pass "
            f"goes on through it, as if the values were those from before: measured, that puts the gradient "
            f"of {off_by(errors, '')}.{times}"
        ),
        launches=[before.index, reader.index],
        arrays=[label],
        location=location,
        call_site=site or reader.call_site,
        evidence={
            "how": first.how,
            "written_at": None if site is None else asdict(site),
            "records": first.at,
            "occurrences": len(written),
            "relative_error": errors,
            "meanwhile": True,
        },
        fix=_fix_between_launches(label, first.settled),
    )


def _fix_between_launches(label: str, settled: bool) -> str:
    if settled:  # written between two passes of a tape that goes on recording
        return (
            f"record each pass on a tape of its own, or tape.reset() before it, or use a new {label} in each"
        )
    return f"write to {label} on the tape, by assign, copy or a launch, or use another array from there on"
