"""Objectives computed off the tape, and reverse passes that start from another number.

`float(np.mean(error.numpy()))` is reported, and every error is seeded with 1. The number is known by what
becomes of the values that the program reads. Its gradient must be that of the pass but for a factor which is
how many elements or threads there are: a mean for a sum, or the reverse. If a number with just the gradient
of the pass is reported as well, that is the objective; of one that can not be followed, it is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from tapedebug.autograd.thresholds import FACTOR_CONFIRMED, FACTOR_EXPLAINS
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.host_objective import (
    HostObjective,
    began_from,
    find_host_objectives,
    slopes_along,
)
from tapedebug.diagnose.gradient_pattern import GradientPattern, factor_words
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.count_scaling import divides_step
from tapedebug.diagnose.trace_analysis.gradient_history import at
from tapedebug.trace import ArrayInfo, Event, Finding
from tapedebug.trace.model import Severity

RULE = "seed"

Sizes = Callable[[RuleContext, list[ArrayInfo]], dict[int, str]]


def off_tape(case: RuleContext, sizes: Sizes) -> list[Finding]:
    """Return a finding if all that the program reports is a sum where it seeded a mean, or the reverse."""
    replay, consumed = case.replay, case.experiment.gradients()
    if replay is None or not any(values.any() for values in consumed.values()):
        return []
    known = sizes(case, [case.trace.arrays[number] for number in case.experiment.losses])
    candidates: list[HostObjective] = []
    for item in find_host_objectives(replay, consumed):
        if item.unknown and began_from(replay, item):
            _note(case, item)
            return []
        if item.found is None:
            continue
        if item.found.name == "equal":
            return []
        if item.found.name == "factor" and _count(item.found, known):
            candidates.append(item)
    chosen = min(candidates, key=lambda item: bool(item.number and item.number.passed), default=None)
    if chosen is None or chosen.found is None:
        return []
    by_gradient, by_differences = slopes_along(replay, chosen, consumed)
    if abs(by_gradient - chosen.found.ratio * by_differences) > FACTOR_CONFIRMED * abs(by_gradient):
        return []
    return [_finding(case, chosen, known, (by_gradient, by_differences))]


def _count(found: GradientPattern, known: dict[int, str]) -> int:
    """The number of elements or threads that a factor is, or is one over; 0 if it is none."""
    for count in known:
        if count > 1 and (
            abs(found.ratio - count) <= FACTOR_EXPLAINS * count
            or abs(found.ratio * count - 1) <= FACTOR_EXPLAINS
        ):
            return count
    return 0


def _note(case: RuleContext, item: HostObjective) -> None:
    """Say that the objective is not known, where a pass began from more than one number."""
    info = case.trace.arrays[item.array]
    if len(info.shape) == 1 and info.shape[0] == 1:
        return
    case.skipped(
        f"backward began from {info.label}, and the program computes something of it off the tape that could "
        "not be followed: whether that is the objective is not known (pass loss= to compare with it)"
    )


def _finding(
    case: RuleContext, item: HostObjective, known: dict[int, str], slopes: tuple[float, float]
) -> Finding:
    assert item.number is not None and item.found is not None
    event = _last_pass(case)
    began = [case.trace.arrays[number].label for number in case.experiment.losses]
    label = case.trace.arrays[item.array].label
    count = _count(item.found, known)
    files = [] if event is None or event.call_site is None else [event.call_site.file]
    divided = divides_step(item.number, item.frames, files, count)
    severity: Severity = "info" if divided is not None else "warning"
    message = (
        f"Backward ran{at(event)} from {words.listed(began)}, and what the program reports at "
        f"{words.place(item.number.place)}, `{item.number.text}`, is computed off the tape from {label}: "
        f"every entry of the gradient that was consumed is {factor_words(item.found.ratio, known)} that of "
        f"this number (to {max(item.found.spread, 1e-7):.0e}). Along it the slope of the number is "
        f"{words.number(slopes[1])} by differences in float64 and {words.number(slopes[0])} by the gradient."
    )
    if divided is not None:
        message += f" A step is divided at {words.place(divided)}, which may make up for it."
    factor = f"1/{count}" if item.found.ratio > 1 else str(count)
    fix = (
        f"begin backward with {factor} of this seed, by grads= or in the kernel that writes {began[0]}; or "
        "report the number that backward begins from"
    )
    return Finding(
        rule=RULE,
        severity=severity,
        message=message,
        launches=[],
        arrays=list(dict.fromkeys([*began, label])),
        call_site=item.number.place if event is None else event.call_site,
        evidence={
            "signature": item.found.name,
            "ratio": item.found.ratio,
            "spread": item.found.spread,
            "seeded": began,
            "objective": [item.number.text],
            "reported_at": asdict(item.number.place),
            "slope_consumed": slopes[0],
            "slope_difference": slopes[1],
            "backward_at": None if event is None or event.call_site is None else asdict(event.call_site),
        },
        fix="" if severity == "info" else fix,
    )


def _last_pass(case: RuleContext) -> Event | None:
    own = [event for event in case.trace.events if event.kind == "backward" and event.of == "tape"]
    return own[-1] if own else None
