"""Rule `stale-value`: code off the tape overwrote values that an adjoint needs, before backward.

NumPy through a view, `array(ptr=…)`, `assign`, a launch outside of the `with` block. An optimiser's step
after `backward` is none. What it does to the gradient is measured: the reverse pass runs once on the values
of the forward pass, once on those that memory holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tapedebug.autograd.thresholds import GRADIENT_CHANGED, GRADIENT_WRONG
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import ValueChange, relative_errors
from tapedebug.diagnose.experiments.stale_operands import (
    OffTapeWrite,
    change_by,
    gradients_seeing,
    off_tape_writes,
)
from tapedebug.diagnose.gradient_diff import off
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._external_writes import written_meanwhile
from tapedebug.trace import Finding, Location
from tapedebug.trace.model import Severity

RULE = "stale-value"
MEASURED = 8
"""How many groups of writes are measured one by one; each costs a run of the tape."""


@dataclass(slots=True)
class Group:
    """Writes to one array at one place."""

    label: str
    how: str
    site: Location | None
    writes: list[OffTapeWrite] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The (launch, parameter) pairs whose values were taken."""
        return [pair for write in self.writes for pair in write.pairs]


def find(case: RuleContext) -> list[Finding]:
    """Return a finding for each place that writes over what an adjoint needs."""
    groups = _groups(case)
    if len(groups) > MEASURED:
        case.skipped(f"{RULE}: of {len(groups)} places that write outside the tape {MEASURED} were measured")
    found = [_finding(case, group, measured=n < MEASURED) for n, group in enumerate(groups)]
    return [*found, *written_meanwhile(case)]


def _groups(case: RuleContext) -> list[Group]:
    groups: dict[Any, Group] = {}
    for write in off_tape_writes(case.rerun):
        label = case.trace.arrays[write.array].label
        site = _site(case, write.clock)
        key = (label, write.how, site and (site.file, site.line, site.column))
        groups.setdefault(key, Group(label, write.how, site)).writes.append(write)
    return list(groups.values())


def _site(case: RuleContext, clock: int) -> Location | None:
    return next((e.call_site for e in case.trace.events if e.clock == clock and e.kind == "write"), None)


def _finding(case: RuleContext, group: Group, *, measured: bool) -> Finding:
    trace, experiment = case.trace, case.experiment
    change = change_by(case.rerun, group.writes[0])
    errors: dict[str, float] = {}
    if measured and not experiment.blocked:
        found = relative_errors(experiment.gradients(), gradients_seeing(case.rerun, group.writes))
        errors = {trace.arrays[leaf].label: error for leaf, error in found.items()}
    launch, param = group.pairs[0]
    reader = trace.launches[launch]
    location = words.access_location(trace, reader, param, ("read",), needed=True)
    severity, told = _outcome(case, group.label, change, errors)
    message = f"{_what(case, group)} The adjoint of {words.launch_words(reader)} needs the values that it "
    message += f"read at {words.place(location)}: {_changed(change)}. {told}"
    if len(group.writes) > 1:
        message += f" {len(group.writes) - 1} more like it (×{len(group.writes)})."
    return Finding(
        rule=RULE,
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
        fix=_fix(case, group.label, severity, errors),
    )


def _what(case: RuleContext, group: Group) -> str:
    at = group.writes[0].at
    total = len(case.trace.launches)
    site = "" if group.site is None else f" at {words.place(group.site)}"
    who = {
        "numpy": "NumPy (or another library that shares its memory)",
        "launch": f"a launch{site} that is not on the tape",
        "mark_write": f"code that announced it{site}",
    }.get(group.how, f"{group.how}{site}, which is not on the tape")
    when = "after the tape had recorded and before backward"
    if at < total:
        when = f"before launch {at} ({case.trace.launches[at].name}) was recorded"
    return f"{group.label} was written over {when}, by {who}."


def _changed(change: ValueChange) -> str:
    if not change.changed:
        return f"none of {change.elements} elements changed value"
    return (
        f"{change.changed} of {change.elements} elements changed value, by up to "
        f"{words.number(change.largest)}"
    )


def _outcome(
    case: RuleContext, label: str, change: ValueChange, errors: Mapping[str, float]
) -> tuple[Severity, str]:
    consumed = case.trace.tape.on_overwrite in ("ignore", "warn")
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
        return severity, f"The reverse pass sees the new ones: that puts the gradient of {off(errors, '')}."
    if case.as_warp:
        return severity, (
            f"Warp's reverse pass sees the new ones: that puts the gradient of {off(errors, '')}. Here the "
            "tape kept a copy, and it is right."
        )
    return "info", (
        f"The tape kept a copy of {label} for the adjoint, so the gradient is right; without it that of "
        f"{off(errors, 'would be ')}."
    )


def _fix(case: RuleContext, label: str, severity: Severity, errors: Mapping[str, float]) -> str:
    if severity != "info":
        kept = "" if case.as_warp else ', or record with on_overwrite="preserve"'
        return f"write to {label} after backward{kept}"
    if max(errors.values(), default=1.0) <= GRADIENT_CHANGED:
        return ""
    return f"nothing has to change; to save the copy, write to {label} after backward"
