"""Rule `seed`: backward started from another number than the reported objective.

For example a sum is differentiated but the mean is reported: every gradient is too large by exactly N, and
the run still descends, but a learning rate chosen for the mean is N times too large. The objective is named
by the user (`loss=`) or inferred: a scalar that the tape computes from the seeded one and that alone is read
afterwards, or a number that the program computes off the tape (see `_off_tape`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from tapedebug.autograd.thresholds import FACTOR_CONFIRMED, FACTOR_EXPLAINS
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments import seeds as seeds_of
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.experiments.host_objective import (
    HostObjective,
    began_from,
    find_host_objectives,
    slopes_along,
)
from tapedebug.diagnose.gradient_pattern import GradientPattern, factor_words, find_pattern
from tapedebug.diagnose.rule import TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import FOLLOWS_DATA, Cost
from tapedebug.diagnose.trace_analysis.count_scaling import divides_step
from tapedebug.diagnose.trace_analysis.dependencies import differentiable
from tapedebug.diagnose.trace_analysis.gradient_history import at
from tapedebug.trace import ArrayInfo, Event, Finding, Launch
from tapedebug.trace.model import Severity


class Seed(TapeRule):
    """Backward started from another number than the reported objective."""

    code = "seed"
    title = "The reverse pass was seeded with something other than the objective"
    severity = "error"
    outside_pass = True

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a search through the data flow."""
        return FOLLOWS_DATA

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding if the objective is known and backward started from something else."""
        apart = _off_the_tape(context)
        if apart or (context.experiment.leaves and not context.experiment.losses):
            yield from apart or _unseeded(context)
            return
        if context.experiment.blocked or not context.experiment.leaves:
            return
        seeds = seeds_of.consumed_seeds(context.rerun)
        if seeds is None:
            return
        if not _same(seeds, context):
            yield from _pass_from_elsewhere(context, seeds)
        elif not context.named_loss:
            yield from _stale(context, seeds)
            yield from _seen(context, seeds) or _off_tape(context)


def _same(seeds: Mapping[int, Values], context: RuleContext) -> bool:
    """Return True if the diagnosis is about the last pass, or about an earlier one."""
    reported = seeds_of.seeded(context.rerun)
    if reported.keys() == seeds.keys():
        return all(np.array_equal(reported[number], seeds[number], equal_nan=True) for number in seeds)
    if reported.keys() < seeds.keys():
        return False  # it started from more arrays
    return len(reported) == 1 and reported.keys() <= seeds_of.passes_from(context.rerun)


def _off_the_tape(context: RuleContext) -> list[Finding]:
    """Return a finding if the pass was given a seed for an array that no operation of the tape uses."""
    calls = context.rerun.recorded.tape.reverse_passes
    apart = calls[-1].off_tape if calls else ()
    if not apart or context.named_loss:
        return []
    event, seeded = _last_pass(context), calls[-1].seeds
    listed = words.listed(f"an array of shape {array.shape}" for array in apart)
    began = words.listed(context.trace.arrays[number].label for number in context.experiment.losses)
    effect = (
        f"Its seed has no effect: the gradients are those of {began} alone"
        if seeded
        else "So it added 0 to every gradient"
    )
    return [
        Finding(
            rule=Seed.code,
            severity="error",
            message=f"Backward ran{at(event)} from {listed}, which no launch of the tape uses. {effect}.",
            call_site=None if event is None else event.call_site,
            evidence={"pattern": "off tape", "seeded": [], "objective": []},
            fix="compute it in launches inside `with tape:`, from arrays that are on the tape (library "
            "functions, such as those of wp.utils, and NumPy are not recorded)",
        )
    ]


def _unseeded(context: RuleContext) -> list[Finding]:
    """Return a finding if the pass had no seed, so that it added 0 to every gradient."""
    calls = context.rerun.recorded.tape.reverse_passes
    functions = any(launch.kind == "func" for launch in context.trace.launches)  # may give seeds themselves
    if not calls or not calls[-1].unseeded or functions:
        return []
    event = _last_pass(context)
    results = [info for info in context.trace.arrays if info.role == "output" and differentiable(info)]
    listed = f" ({words.listed(info.label for info in results)})" if results else ""
    name = results[0].label if results else "y"
    return [
        Finding(
            rule=Seed.code,
            severity="warning",
            message=(
                f"Backward ran{at(event)} without a seed: it was given no loss and no grads, and the "
                f"gradients of all that the tape writes{listed} were 0. So it added 0 to every gradient."
            ),
            arrays=[info.label for info in results],
            call_site=None if event is None else event.call_site,
            evidence={"pattern": "zero", "seeded": [], "objective": []},
            fix=f"call backward(loss) or backward(grads={{{name}: seed}}), or set {name}.grad before it",
        )
    ]


def _pass_from_elsewhere(context: RuleContext, seeds: Mapping[int, Values]) -> list[Finding]:
    """Return a finding if the user named a loss and backward started from something else."""
    right = context.experiment.gradients()
    consumed = seeds_of.gradients_from(context.rerun, seeds)
    found = find_pattern(consumed, right)
    if found.name == "equal":
        return []
    reported = [context.trace.arrays[number] for number in context.experiment.losses]
    began = [context.trace.arrays[number] for number in seeds]
    downstream = _depends(context, context.experiment.losses, list(seeds))
    scaled = began == reported and found.name in ("factor", "sign")  # an explicit seed is intended
    given = set(seeds) - seeds_of.preset_seeds(context.rerun)
    more = given == set(context.experiment.losses)  # and what was left
    known = (found.name != "other" or downstream or more) and not scaled
    severity: Severity = "error" if known else "info"
    zero = not any(np.any(seed) for seed in seeds.values())
    return [_finding(context, severity, began, reported, found, _readers(context, began, reported), zero)]


def _stale(context: RuleContext, seeds: Mapping[int, Values]) -> list[Finding]:
    """Return a finding if the pass also started from an adjoint left by an earlier pass of another tape."""
    stale = seeds_of.stale_seeds(context.rerun)
    meant = {number: seed for number, seed in seeds.items() if number not in stale}
    if not stale or not meant:
        return []  # the same loss as before, whose gradient still is 1
    right = seeds_of.gradients_from(context.rerun, meant)
    off = _off(context.experiment.gradients(), right)
    changed = [context.trace.arrays[number] for number, change in off.items() if change > FACTOR_EXPLAINS]
    if not changed:
        return []
    event = _last_pass(context)
    aim = words.listed(context.trace.arrays[number].label for number in meant)
    stale_arrays = [context.trace.arrays[number] for number in stale]
    rest = words.listed(info.label for info in stale_arrays)
    gradients = words.listed(f"{info.label} by {words.percent(off[info.id])}" for info in changed)
    text = (
        f"Backward ran{at(event)} from {aim}, and the gradient of {rest} was not 0 then: an earlier pass had "
        f"left it there. It counts as a seed, too, and changes the gradient of {gradients}."
    )
    return [
        Finding(
            rule=Seed.code,
            severity="warning",
            message=text,
            arrays=[info.label for info in [*stale_arrays, *changed]],
            call_site=None if event is None else event.call_site,
            evidence={
                "pattern": "stale",
                "seeded": [context.trace.arrays[number].label for number in seeds],
                "objective": [context.trace.arrays[number].label for number in meant],
                "relative_change": {info.label: off[info.id] for info in changed},
                "backward_at": None if event is None or event.call_site is None else asdict(event.call_site),
            },
            fix=f"call {stale_arrays[0].label}.grad.zero_() before backward, or tape.zero() after each pass",
        )
    ]


def _off(consumed: Mapping[int, Values], right: Mapping[int, Values]) -> dict[int, float]:
    """Return the relative error of the gradient of each input."""
    found = {}
    for number, wanted in right.items():
        size = float(np.linalg.norm(np.asarray(wanted, np.float64)))
        change = float(np.linalg.norm(np.asarray(consumed[number], np.float64) - wanted))
        found[number] = change / size if size else math.inf if change else 0.0
    return found


def _seen(context: RuleContext, seeds: Mapping[int, Values]) -> list[Finding]:
    """Return a finding if the tape scales the seeded scalar and the program reads only the scaled result."""
    if len(seeds) != 1:
        return []
    (seeded,) = seeds
    info = context.trace.arrays[seeded]
    if math.prod(info.shape) != 1 or _was_read(context, seeded):
        return []
    for launch in _readers(context, [info], None):
        for arg in launch.args:
            if arg.array is None or not arg.writes or arg.array == seeded:
                continue
            scalar = context.trace.arrays[arg.array]
            scales = math.prod(scalar.shape) == 1 and differentiable(scalar) and _was_read(context, scalar.id)
            if scales and (found := _scaled(context, info, scalar)) is not None:
                return [_finding(context, "warning", [info], [scalar], found, [launch])]
    return []


def _scaled(context: RuleContext, info: ArrayInfo, scalar: ArrayInfo) -> GradientPattern | None:
    """Return the relation of the seeded scalar's gradient to that of the reported scalar."""
    one, two = seeds_of.final_values(context.rerun, info.id), seeds_of.final_values(context.rerun, scalar.id)
    right = seeds_of.gradients_from(context.rerun, {scalar.id: np.ones_like(two)})
    found = find_pattern(context.experiment.gradients(), right)
    value = float(np.ravel(one)[0]) - found.ratio * float(np.ravel(two)[0])
    linear = abs(value) <= FACTOR_EXPLAINS * abs(float(np.ravel(one)[0]))
    return found if found.name in ("factor", "sign") and linear else None


def _finding(
    context: RuleContext,
    severity: Severity,
    began: list[ArrayInfo],
    reported: list[ArrayInfo],
    found: GradientPattern,
    launches: list[Launch],
    zero: bool = False,
) -> Finding:
    event = _last_pass(context)
    aim = words.listed(info.label for info in reported)
    same = [info.id for info in began] == [info.id for info in reported]
    beside = [info for info in began if info.id in seeds_of.preset_seeds(context.rerun)]
    given = [info for info in began if info not in beside]
    what = f"from {words.listed(info.label for info in given or began)}" if began else "without a seed"
    if given and beside:
        what += f" and from what the gradient of {words.listed(info.label for info in beside)} held"
    if began and (zero or same):
        what += " with a seed of 0" if zero else " with a seed that is not 1"
    text = f"Backward ran{at(event)} {what}, and the objective is {aim}: "
    text += _comparison(context, found, began, reported)
    fix = f"call backward({aim})" if len(reported) == 1 else f"begin backward from {aim}"
    if beside and [info.id for info in given] == [info.id for info in reported]:
        fix = f"call {beside[0].label}.grad.zero_() before backward"
    elif beside and not given:
        fix += f", and do not set {beside[0].label}.grad"
    place = event.call_site if event is not None else launches[0].call_site if launches else None
    return Finding(
        rule=Seed.code,
        severity=severity,
        message=text,
        launches=[launch.index for launch in launches],
        arrays=list(dict.fromkeys(info.label for info in [*began, *reported])),
        call_site=place,
        evidence={
            "pattern": found.name,
            "ratio": found.ratio,
            "spread": found.spread,
            "seeded": [info.label for info in began],
            "objective": [info.label for info in reported],
            "backward_at": None if event is None or event.call_site is None else asdict(event.call_site),
        },
        fix="" if severity == "info" else fix,
    )


def _comparison(
    context: RuleContext, found: GradientPattern, began: list[ArrayInfo], reported: list[ArrayInfo]
) -> str:
    kinds = {
        "zero": "the consumed gradient is 0, that of the objective is not.",
        "sign": "the consumed gradient is that of the objective with the opposite sign.",
        "transposed": "the consumed gradient is that of the objective, transposed.",
        "other": "the consumed gradient differs from it, and not by a constant factor.",
    }
    if found.name in kinds:
        return kinds[found.name]
    factor = factor_words(found.ratio, sizes(context, [*reported, *began]))
    return (
        f"every entry of the consumed gradient is {factor} that of the objective "
        f"(to {max(found.spread, 1e-7):.0e})."
    )


def sizes(context: RuleContext, scalars: list[ArrayInfo]) -> dict[int, str]:
    """Return candidate factors: the number of threads that added to a loss, and sizes of its inputs."""
    found: dict[int, str] = {}
    for info in scalars:
        for launch in context.trace.launches:
            if any(arg.writes and arg.array == info.id for arg in launch.args):
                found.setdefault(math.prod(launch.dim), f"the threads of {words.launch_words(launch)}")
    for info in context.trace.arrays:
        found.setdefault(math.prod(info.shape), f"the elements of {info.label}")
    return found


def _readers(context: RuleContext, began: list[ArrayInfo], reported: list[ArrayInfo] | None) -> list[Launch]:
    """Return the launches that read the seeded arrays; those that write the objective, if it is known."""
    ids = {info.id for info in began}
    aims = None if reported is None else {info.id for info in reported}
    return [
        launch
        for launch in context.trace.launches
        if any(arg.reads and arg.array in ids for arg in launch.args)
        and (aims is None or any(arg.writes and arg.array in aims for arg in launch.args))
    ]


def _depends(context: RuleContext, targets: list[int], sources: list[int]) -> bool:
    """Return True if the final values of one of `targets` were computed from one of `sources`."""
    latest = {version.array: version.version for version in context.trace.versions}
    above = context.dependencies.upstream(
        [(number, latest[number]) for number in targets], with_gradient=False
    )
    return any((number, latest[number]) in above for number in sources if number not in targets)


def _was_read(context: RuleContext, array: int) -> bool:
    return any(
        event.kind == "read" and event.of == "values" and event.array == array
        for event in context.trace.events
    )


def _last_pass(context: RuleContext) -> Event | None:
    own: list[Any] = [e for e in context.trace.events if e.kind == "backward" and e.of == "tape"]
    return own[-1] if own else None


# ------------------------------------------------------------- an objective computed off the tape


def _off_tape(context: RuleContext) -> list[Finding]:
    """Return a finding if the program only reports a mean but seeded a sum, or the reverse.

    `float(np.mean(error.numpy()))` is reported, and every error is seeded with 1. The objective is known by
    following the values that the program reads. Its gradient must be that of the pass but for a factor which
    is the number of elements or threads: a mean for a sum, or the reverse. If a number with just the gradient
    of the pass is reported as well, that is the objective; a number that cannot be followed is left alone.
    """
    replay, consumed = context.replay, context.experiment.gradients()
    if replay is None or not any(values.any() for values in consumed.values()):
        return []
    known = sizes(context, [context.trace.arrays[number] for number in context.experiment.losses])
    candidates: list[HostObjective] = []
    for item in find_host_objectives(replay, consumed):
        if item.unknown and began_from(replay, item):
            _note(context, item)
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
    return [_off_tape_finding(context, chosen, known, (by_gradient, by_differences))]


def _count(found: GradientPattern, known: dict[int, str]) -> int:
    """Return the number of elements or threads that equals a factor or its inverse; 0 if none does."""
    for count in known:
        if count > 1 and (
            abs(found.ratio - count) <= FACTOR_EXPLAINS * count
            or abs(found.ratio * count - 1) <= FACTOR_EXPLAINS
        ):
            return count
    return 0


def _note(context: RuleContext, item: HostObjective) -> None:
    """Add a note that the objective is not known, if a pass started from more than one number."""
    info = context.trace.arrays[item.array]
    if len(info.shape) == 1 and info.shape[0] == 1:
        return
    context.skipped(
        f"backward began from {info.label}, and the program computes something of it off the tape that could "
        "not be followed: whether that is the objective is not known (pass loss= to compare with it)"
    )


def _off_tape_finding(
    context: RuleContext, item: HostObjective, known: dict[int, str], slopes: tuple[float, float]
) -> Finding:
    assert item.number is not None and item.found is not None
    event = _last_pass(context)
    began = [context.trace.arrays[number].label for number in context.experiment.losses]
    label = context.trace.arrays[item.array].label
    count = _count(item.found, known)
    files = [] if event is None or event.call_site is None else [event.call_site.file]
    divided = divides_step(item.number, item.frames, files, count)
    severity: Severity = "info" if divided is not None else "warning"
    message = (
        f"Backward ran{at(event)} from {words.listed(began)}, and what the program reports at "
        f"{words.place(item.number.place)}, `{item.number.text}`, is computed off the tape from {label}: "
        f"every entry of the consumed gradient is {factor_words(item.found.ratio, known)} that of "
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
        rule=Seed.code,
        severity=severity,
        message=message,
        launches=[],
        arrays=list(dict.fromkeys([*began, label])),
        call_site=item.number.place if event is None else event.call_site,
        evidence={
            "pattern": item.found.name,
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
