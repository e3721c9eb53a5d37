"""Rule `wrong-adjoint`: one launch's adjoint is wrong, and no other rule explains the gradient.

It runs last, so that every wrong gradient is attributed to a launch: Python operations and native functions
with a wrong hand-written adjoint, and errors of this engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from tapedebug._source import display_file
from tapedebug.autograd.finite_diff.first_divergence import can_search, find_first_divergence
from tapedebug.contract import CustomGradients, HandWrittenAdjoint, Place
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.launch_check import launch_slopes
from tapedebug.diagnose.experiments.places import place_of
from tapedebug.diagnose.rule import TapeRule, inputs_of, is_detached
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._no_derivative import repeated_values
from tapedebug.diagnose.timings import PROFILE, READS_TRACE, Cost
from tapedebug.trace import Finding, Location

if TYPE_CHECKING:
    from tapedebug.autograd.finite_diff.first_divergence import Divergence
    from tapedebug.diagnose.experiments.replay import Replay

OPERATIONS = 256
"""Largest number of operations that are examined one by one."""
MAY_DIFFER = "gradient (func_grad)"


class WrongAdjoint(TapeRule):
    """One launch's adjoint is wrong, and no other rule explains the gradient."""

    code = "wrong-adjoint"
    title = "The adjoint of a launch is wrong"
    severity = "error"
    last_resort = True

    def cost(self, context: RuleContext) -> Cost:
        """Estimate the bisection of the tape, if nothing else explains the gradient."""
        explained = any(finding.severity == "error" for finding in context.trace.findings)
        if context.replay is None or context.trace.verdict != "WRONG" or explained:
            return READS_TRACE
        return Cost(PROFILE.runs * math.log2(2 + len(context.trace.launches)), 1.0)

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield the first launch of the reverse pass whose adjoint is wrong, if nothing else explains it."""
        replay = context.replay
        explained = any(finding.severity == "error" for finding in context.trace.findings)
        if replay is None or context.trace.verdict != "WRONG" or explained:
            return
        cut = {
            label
            for finding in context.trace.findings
            if is_detached(finding)
            for label in inputs_of(finding)
        }
        meanwhile = {v.array for v in context.trace.versions if v.version and v.written_by is None}
        leaves = [
            leaf
            for leaf in sorted(replay.wrong)
            # An array written off the tape during recording has two values, but one gradient for both.
            if context.trace.arrays[leaf].label not in cut and leaf not in meanwhile
        ]
        if not leaves:  # finite differences also include paths that were detached on purpose
            return
        if not can_search(replay.recorded.tape):
            yield from _one_by_one(context, replay)
            return
        context.progress("bisecting the tape for a wrong adjoint")
        # Adjoints read the values of their launches: overwrites by others are no error of an adjoint.
        divergence = find_first_divergence(
            cast("Any", replay.twin), replay.seeds, [replay.arrays[leaf] for leaf in leaves], "versions"
        )
        if divergence is not None:
            yield _finding(context, replay, divergence)
        else:
            context.skipped(
                f"{self.code}: no launch was found whose adjoint differs from differences of it in float64"
            )


def _one_by_one(context: RuleContext, replay: Replay) -> list[Finding]:
    """Return the last operation whose adjoint is not its derivative, for other engines than this one."""
    context.progress("comparing each adjoint with differences of its operation")
    trace, looked = context.trace, [record for record in replay.records if record.has_adjoint][-OPERATIONS:]
    for record in reversed(looked):
        off = [slope for slope in launch_slopes(replay, record.index) if slope.off]
        if not off:
            continue
        launch = trace.launches[record.index]
        wrong = {words.label_of(trace, launch, slope.param): (slope.given, slope.right) for slope in off}
        return [
            Finding(
                rule=WrongAdjoint.code,
                severity="error",
                message=f"The adjoint of {words.launch_words(launch)} is wrong{_slopes_of(wrong)}.",
                launches=[launch.index],
                arrays=list(wrong),
                location=words.access_location(trace, launch, off[0].param, ("read",)),
                call_site=launch.call_site,
                evidence={
                    "along": {label: {"adjoint": a, "difference": d} for label, (a, d) in wrong.items()},
                    "by_hand": "",
                    "same_kernel": [other.index for other in trace.launches if other.name == launch.name],
                },
                fix=f"correct the adjoint of {launch.name}, which is not the transpose of its derivative",
            )
        ]
    context.skipped(
        f"{WrongAdjoint.code}: each of {len(looked)} adjoints agrees with differences of its operation"
    )
    return []


def _finding(context: RuleContext, replay: Replay, divergence: Divergence) -> Finding:
    trace = context.trace
    launch = trace.launches[divergence.launch]
    record = replay.records[divergence.launch]
    wrong = {words.label_of(trace, launch, p): pair for p, pair in divergence.by_param.items()}
    own = _written_by_hand(record.capability(CustomGradients))
    same = [
        other.index for other in trace.launches if other.kernel == launch.kernel and other.kernel is not None
    ]
    message = (
        f"The adjoint of {words.launch_words(launch)} is wrong{_slopes_of(wrong)}. "
        "Across this launch the change of the loss that the adjoints predict goes from "
        f"{words.number(divergence.after.value)}, which finite differences confirm, to "
        f"{words.number(divergence.before.value)}; the adjoints of the "
        f"{words.plural(len(trace.launches) - divergence.launch - 1, 'launch')} after it are right."
    )
    if len(same) > 1:
        message += (
            f" {words.plural(len(same), 'launch')} of the tape run{'s' * (len(same) == 1)} this kernel."
        )
    fix = (
        f"look at what {launch.name} computes, and report it with a program that shows it: adjoints that "
        "are not written by hand should be right"
    )
    location = words.access_location(trace, launch, next(iter(divergence.by_param), 0), ("read",))
    repeated = repeated_values(context, divergence.launch) if own is None else None
    if repeated is not None:
        text, fix = repeated
        message = (
            f"The gradient through {words.launch_words(launch)} is not the slope of the loss"
            f"{_slopes_of(wrong)}. Across this launch the change of the loss that the adjoints predict goes "
            f"from {words.number(divergence.after.value)}, which finite differences confirm, to "
            f"{words.number(divergence.before.value)}. {text}."
        )
    if own is not None:
        what, name, span = own
        message += f" It calls {name}, whose adjoint is written by hand."
        fix = f"look at the {what} of {name}, which does not compute the derivative of the function"
        location = place_of(span) or location
        if what == MAY_DIFFER:
            fix += f", or say that it is meant to differ: @wp.func_grad({name}, differs=True)"
    adjoint = record.capability(HandWrittenAdjoint)
    if launch.kind == "python":
        fix = (
            f"look at the backward of {launch.name}, which was given to launch_python: it does not compute "
            "the transpose of the derivative of forward"
        )
        location = _adjoint_location(adjoint) or location
    return Finding(
        rule=WrongAdjoint.code,
        severity="error",
        message=message,
        launches=[divergence.launch],
        arrays=list(wrong)
        or [words.label_of(trace, launch, p) for p in sorted(set(record.active) & set(record.reads))],
        location=location,
        call_site=launch.call_site,
        evidence={
            "after": divergence.after.value,
            "before": divergence.before.value,
            "error": divergence.after.error,
            "along": {label: {"adjoint": a, "difference": d} for label, (a, d) in wrong.items()},
            "by_hand": own[1] if own is not None else "",
            "same_kernel": same,
        },
        fix=fix,
    )


def _slopes_of(wrong: dict[str, tuple[float, float]]) -> str:
    parts = []
    for label, (adjoint, difference) in wrong.items():
        ratio = adjoint / difference if difference else float("inf")
        known = f" ({words.number(ratio)} times as much)" if 0.01 < abs(ratio) < 100 else ""
        parts.append(
            f"for {label} it gives {words.number(adjoint)} along a direction in which differences of the "
            f"launch give {words.number(difference)}{known}"
        )
    return f": {', and '.join(parts)}" if parts else ""


def _written_by_hand(custom: CustomGradients | None) -> tuple[str, str, Place | None] | None:
    """Return the part of a kernel's adjoint that the user wrote: its kind, the function, and the call."""
    if custom is None:
        return None
    for native in custom.native_calls():
        return "adjoint snippet", native.name, native.span
    for call in custom.calls():
        if call.has_gradient:
            return MAY_DIFFER, call.name, call.span
    return None


def _adjoint_location(adjoint: HandWrittenAdjoint | None) -> Location | None:
    """Return the first line of the adjoint that the user wrote."""
    text = None if adjoint is None else adjoint.text
    if text is None:
        return None
    return Location(file=display_file(text.file), line=text.first_line, column=0, function=text.name)
