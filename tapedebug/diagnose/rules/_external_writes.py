"""Writes off the tape during recording, which the reverse pass does not see.

The tape sees that values changed between two launches, and replays them. But the adjoint of what was there
before and of what was put in its place is one array, and nothing on the tape says where the one ends.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tapedebug.autograd.thresholds import GRADIENT_WRONG
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.ablation import consumed_by
from tapedebug.diagnose.experiments.experiment import Values, relative_errors
from tapedebug.diagnose.gradient_diff import off
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.trace import Finding, Location

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

RULE = "stale-value"


def written_meanwhile(case: RuleContext) -> list[Finding]:
    """Return a finding for each array that was written off the tape between launches, if that matters."""
    replay = case.replay
    if replay is None:
        return []
    total = len(case.trace.launches)
    events: dict[int, list[Any]] = {}
    computed = {record.args[p].region for record in replay.records for p in record.written}
    for event in replay.recorded.tape.outside_writes:
        number = replay.recorded.id_of(event.array)
        if event.settled and event.array.region not in computed:
            continue  # an optimiser's step: its gradient adds up over all values of the parameter
        if number is not None and 0 < event.at < total:
            events.setdefault(number, []).append(event)
    consumed = replay.without(()) if events else {}
    findings = []
    for array, written in events.items():
        right = _stopped(replay, array, [event.at for event in written])
        errors = {
            case.trace.arrays[leaf].label: error
            for leaf, error in relative_errors(right, consumed).items()
            if leaf not in replay.losses
        }
        wrong = {label for label in errors if case.trace.array(label).id in replay.wrong}
        if max((errors[label] for label in wrong), default=0.0) > GRADIENT_WRONG:
            findings.append(_finding(case, array, written, errors))
    return findings


def _stopped(replay: Replay, array: int, places: list[int]) -> dict[int, Values]:
    """The gradients if adjoints ended where something off the tape changed values."""
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


def _finding(case: RuleContext, array: int, written: list[Any], errors: dict[str, float]) -> Finding:
    trace, first = case.trace, written[0]
    label = trace.arrays[array].label
    readers = [v.reads[0] for v in trace.versions_of(array) if v.reads and v.reads[0] >= first.at]
    reader = trace.launches[min(readers, default=first.at)]
    site = _site(case, first.clock)
    who = "through NumPy" if first.how == "numpy" else f"by {first.how}"
    where = "" if site is None else f" at {words.place(site)}"
    location = words.access_location(trace, reader, words.param_of(reader, array), ("read", "atomic"))
    before = trace.launches[first.at - 1]
    times = f" {len(written) - 1} more like it (×{len(written)})." if len(written) > 1 else ""
    return Finding(
        rule=RULE,
        severity="error",
        message=(
            f"{label} was written{where} {who} between {words.launch_words(before)} and "
            f"{words.launch_words(reader)}, which reads it, and that is not on the tape. The reverse pass "
            f"goes on through it, as if the values were those from before: measured, that puts the gradient "
            f"of {off(errors, '')}.{times}"
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
        fix=_fix(label, first.settled),
    )


def _fix(label: str, settled: bool) -> str:
    if settled:  # written between two passes of a tape that goes on recording
        return (
            f"record each pass on a tape of its own, or tape.reset() before it, or use a new {label} in each"
        )
    return f"write to {label} on the tape, by assign, copy or a launch, or use another array from there on"


def _site(case: RuleContext, clock: int) -> Location | None:
    return next((e.call_site for e in case.trace.events if e.clock == clock and e.kind == "write"), None)
