"""Ensures that every verdict WRONG has an error that names a place, a number and a fix.

Most often a rule has found one. Otherwise the tape is searched launch by launch beside a float64 reverse
pass, as in `gradcheck_tape(end_to_end=True)`. If no single launch is the cause, or time is up, the end-to-end
measurement is reported at the launch that reads the input first.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import TapedebugError
from tapedebug._lazy_module import lazy_module
from tapedebug._progress import OutOfTime
from tapedebug.autograd.finite_diff.first_divergence import can_search
from tapedebug.autograd.subjects.entry_names import entry_name, value_type
from tapedebug.autograd.subjects.whole_tape import whole_tape
from tapedebug.autograd.thresholds import ENTRY_IS_OFF
from tapedebug.contract import SharedGradients
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.gradient_diff import largest_difference, off_by, worst_element
from tapedebug.diagnose.rule import RuleFinding, inputs_of
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._no_derivative import repeated_values
from tapedebug.diagnose.rules.wrong_adjoint import WrongAdjoint
from tapedebug.trace import Finding, Location

if TYPE_CHECKING:
    from tapedebug.autograd.tapes import lockstep
    from tapedebug.autograd.tapes.input_check import InputCheck
    from tapedebug.autograd.tapes.single_launch import Argument
    from tapedebug.diagnose.experiments.changed_gradient import ChangedGradient
    from tapedebug.diagnose.experiments.replay import Replay
else:
    lockstep = lazy_module("tapedebug.autograd.tapes.lockstep")

ECHO = "shown_on_another_tape"
MOST_LAUNCHES = 2_000
"""Largest number of launches of a tape that is searched launch by launch."""
CAUSES = {
    "adjoint": "its adjoint is not the derivative",
    "not finite": "the adjoints that arrive are finite, and those that leave are not",
    "overwritten": "values that its adjoint needs were overwritten before the reverse pass",
    "detached": "the array has requires_grad=False, and nothing goes on to what it was computed from",
    "no adjoint": "the kernel has enable_backward=False",
}
FIXES = {
    "adjoint": "look at what {name} computes at that line, and report it with a program that shows it",
    "not finite": "guard the operation at that line, so that its derivative is finite",
    "overwritten": "write to an array of its own{preserve}",
    "detached": "give {array} requires_grad=True",
    "no adjoint": "leave out enable_backward=False for {name}",
}


def blame(context: RuleContext) -> list[Finding]:
    """Return an error for a tape with the verdict WRONG that has none; otherwise nothing."""
    trace = context.trace
    if trace.verdict != "WRONG":
        return []
    rules = {item.rule for item in trace.findings if item.severity == "error"}
    found = [_echo(item) for item in context.elsewhere if item.rule not in rules]
    if rules or found:
        return found
    return _searched(context) or [_end_to_end(context)]


def blame_measured(context: RuleContext) -> Finding:
    """Return an error with the measured numbers, for a verdict WRONG whose diagnosis was interrupted."""
    return _end_to_end(context, "the diagnosis was interrupted before its cause was found")


def is_echo(finding: Finding) -> bool:
    """Return True if a finding is shown on another tape and repeated here, as it also concerns this one."""
    return bool(finding.evidence.get(ECHO))


def _echo(finding: Finding) -> Finding:
    return replace(
        finding,
        message=f"{finding.message} This tape is one of those that it is about.",
        launches=[],
        evidence={**finding.evidence, ECHO: True},
    )


# ---------------------------------------------------------------- launch by launch


def _searched(context: RuleContext) -> list[Finding]:
    """Return a finding for the first launch of the reverse pass that turns right adjoints into wrong ones."""
    replay = context.replay
    if replay is None or len(replay.records) > MOST_LAUNCHES or not can_search(replay.recorded.tape):
        return []
    labels = {array: info.label for array, info in zip(replay.arrays, context.trace.arrays, strict=True)}
    steps = lockstep.Steps()
    try:
        context.progress("comparing each launch with differences of it")
        tape = replay.recorded.tape
        program = whole_tape(tape, replay.seeds, [item.array for item in _wrong(context)], labels)
        if not program.inputs or program.blind:
            return []
        lockstep.lockstep(program, tape, 1e-3, range(len(replay.records)), steps, replay.pulse)
    except TapedebugError as error:
        context.skipped(f"launches were not searched one by one: {error.message}")
    wrong = [item for item in steps.arguments if item.verdict == "WRONG" and item.wrong is not None]
    return [_at_launch(context, replay, wrong)] if wrong else []


def _at_launch(context: RuleContext, replay: Replay, wrong: list[Argument]) -> Finding:
    trace, worst = context.trace, max(wrong, key=lambda item: item.launch)
    launch, record = trace.launches[worst.launch], replay.records[worst.launch]
    label, entry = words.label_of(trace, launch, worst.param), worst.wrong
    assert entry is not None
    at = f"along a random direction in {label}"
    if entry.index is not None:
        at = f"at {entry_name(label, entry.index, record.args[worst.param].dtype)}"
    count = f", in {entry.count} of {worst.size} entries" if entry.index is not None else ""
    cause = CAUSES.get(worst.cause, CAUSES["adjoint"])
    fix = FIXES.get(worst.cause, FIXES["adjoint"]).format(
        name=launch.name, array=label, preserve=words.or_preserve(context.trace)
    )
    repeated = None
    with contextlib.suppress(OutOfTime):
        repeated = repeated_values(context, worst.launch) if cause == CAUSES["adjoint"] else None
    if repeated is not None:
        cause, fix = f"{repeated[0][0].lower()}{repeated[0][1:]}", repeated[1]
    others = len({item.launch for item in wrong}) - 1
    more = f" {words.plural(others, 'other launch')} of the tape {'is' if others == 1 else 'are'} like it."
    return RuleFinding(
        rule=WrongAdjoint.code,
        severity="error",
        message=(
            f"The gradient goes wrong in {words.launch_words(launch)}: "
            f"{cause}. For the adjoints that arrive it gives "
            f"{_number(entry.given)} {at}, and differences of the launch give {_number(entry.right)} ± "
            f"{entry.bar:.1g}{count}.{more if others else ''}"
        ),
        launches=[worst.launch],
        arrays=[label],
        location=words.access_location(trace, launch, worst.param, ("read",)),
        call_site=launch.call_site,
        inputs=[item.name for item in _wrong(context)],
        evidence={
            "kind": "in lockstep",
            "cause": worst.cause,
            "given": entry.given,
            "right": entry.right,
            "error": entry.bar,
            "relative_error": worst.relative,
        },
        fix=fix,
    )


# ---------------------------------------------------------------- end to end


def _end_to_end(context: RuleContext, unknown: str = "no launch was found that is to blame alone") -> Finding:
    """Return the measurement of the input with the largest error, at the launch that reads it first."""
    trace = context.trace
    check = max(_wrong(context), key=_size, default=None)
    labels = [item.name for item in _wrong(context)]
    numbers = trace.coverage.summary if check is None else _numbers(check)
    index = _first_reader(context, check)
    location, site = _place(context, index)
    where = "" if index is None else f"; it is read first by {words.launch_words(trace.launches[index])}"
    return RuleFinding(
        rule=WrongAdjoint.code,
        severity="error",
        message=(
            f"The gradient of {words.listed(labels) or 'the inputs'} is wrong, and {unknown}: "
            f"{numbers}{where}."
        ),
        launches=[] if index is None else [index],
        arrays=labels,
        location=location,
        call_site=site,
        inputs=labels,
        evidence={
            "kind": "end to end",
            "relative_error": None if check is None else check.rel_error,
            "max_abs_error": None if check is None else check.max_abs_error,
        },
        fix=(
            "look for the launch with gradcheck_tape(tape, end_to_end=True), which compares each with "
            "differences for the adjoints that arrive there; if all of them agree, report it with the trace "
            "(tapedebug run --trace FILE)"
        ),
    )


def _wrong(context: RuleContext) -> list[InputCheck]:
    return [item for item in context.measured if item.verdict == "WRONG"]


def _size(check: InputCheck) -> float:
    return check.rel_error if math.isfinite(check.rel_error) else math.inf


def _numbers(check: InputCheck) -> str:
    """Describe the entry with the largest error, by finite differences or else by the float64 adjoint."""
    off = [probe for probe in check.probes if abs(probe.ad - probe.fd) > probe.bar + probe.allowed]
    error: Any = np.nan_to_num(np.abs(check.consumed - check.reference), nan=np.inf)
    shown = error.max(initial=0.0) > ENTRY_IS_OFF * np.abs(check.reference).max(initial=0.0)
    if off and not (shown and all(probe.entry is None for probe in off)):
        probe = max(off, key=lambda p: (p.entry is not None, p.rel_error))
        given, right, bar = (value / probe.unit for value in (probe.ad, probe.fd, probe.bar))
        place = f"along {probe.along}"
        if probe.entry is not None:
            place = f"at {entry_name(check.name, probe.entry, value_type(check.array))}"
        return (
            f"{place} it is {_number(given)}, and differences of the loss give {_number(right)} ± {bar:.1g}"
        )
    entry = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    given, right = float(check.consumed[entry]), float(check.reference[entry])
    place = entry_name(check.name, entry, value_type(check.array))
    return f"at {place} it is {_number(given)}, and in float64 it is {_number(right)} ({check.reason})"


def _number(value: float) -> str:
    return f"{value:.6g}"


def _first_reader(context: RuleContext, check: InputCheck | None) -> int | None:
    if check is None:
        return 0 if context.trace.launches else None
    ids = {info.id for info in context.trace.arrays if info.label == check.name}
    for launch in context.trace.launches:
        if any(arg.reads and arg.array in ids for arg in launch.args):
            return launch.index
    return 0 if context.trace.launches else None


def _place(context: RuleContext, index: int | None) -> tuple[Location | None, Location | None]:
    """Return the line of the kernel, and the line that launched it."""
    if index is None:
        return None, None
    launch = context.trace.launches[index]
    param = next((p for p, arg in enumerate(launch.args) if arg.reads and arg.array is not None), 0)
    return words.access_location(context.trace, launch, param, ("read",)), launch.call_site


# ---------------------------------------------------------------- outside of the tape


def blame_outside(context: RuleContext) -> list[Finding]:
    """Return an error for inputs whose gradient changed outside of the tape, if no other error names them."""
    named = {
        label
        for finding in context.trace.findings
        if finding.severity == "error"
        for label in (*finding.arrays, *inputs_of(finding), *finding.evidence.get("gradients", ()))
    }
    wrong = [each for each in context.changed if each.is_wrong and each.check.name not in named]
    return [_outside(context, wrong)] if wrong else []


def _outside(context: RuleContext, wrong: Sequence[ChangedGradient]) -> Finding:
    trace = context.trace
    labels = [each.check.name for each in wrong]
    leaves = {info.label: info.id for info in trace.arrays}
    gradients = largest_difference(
        trace,
        {leaves[each.check.name]: each.check.consumed for each in wrong},
        {leaves[each.check.name]: each.given for each in wrong},
    )
    errors = {each.check.name: each.error for each in wrong}
    passes = [e for e in trace.events if e.kind == "backward" and e.of == "tape" and e.tape == trace.tape.id]
    site = passes[-1].call_site if passes else None
    where = "" if site is None else f" at {words.place(site)}"
    reader = next((v.reads[:1] for v in trace.versions_of(leaves[labels[0]]) if v.reads), [])
    reason = "something that is not on the tape changed the gradient while backward ran."
    fix = (
        f"look for what else runs in backward and writes the gradient of {words.listed(labels)}; "
        "record it as a function with tape.record_func"
    )
    shared = _shared_gradient(context)
    if shared is not None:
        one, other, place = shared
        both = words.listed([one, other])
        given = "" if place is None else f" since {words.place(place)}"
        reason = f"the gradients of {both} are the same memory{given}, so that each gets what the other gets."
        fix = f"give {both} gradients of their own"
        site = place or site
    return RuleFinding(
        rule=WrongAdjoint.code,
        severity="error",
        message=(
            f"Backward{where} left another gradient than the adjoints of the tape give: "
            f"{off_by(errors, 'is ')}{worst_element(gradients, errors)}. Differences of the loss confirm "
            f"what a replay of the pass gives: {reason}"
        ),
        launches=reader,
        arrays=labels,
        location=site,
        call_site=site,
        inputs=labels,
        evidence={"kind": "changed in backward", "gradients": gradients, "relative_error": errors},
        fix=fix,
    )


def _shared_gradient(context: RuleContext) -> tuple[str, str, Location | None] | None:
    """Return two arrays of the tape whose gradients are the same memory, and the line that made them so."""
    found = context.rerun.recorded.tape.capability(SharedGradients)
    for pair in () if found is None else found.shared():
        numbers = [context.rerun.recorded.id_of(array) for array in (pair.one, pair.other)]
        labels = [context.trace.arrays[number].label for number in numbers if number is not None]
        if len(labels) == len(numbers):
            return labels[0], labels[1], None if pair.call_site is None else location_at(pair.call_site)
    return None
