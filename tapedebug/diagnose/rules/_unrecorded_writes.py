"""Find writes that Warp does not record on its tape, and the gradients that they break.

Those are `zero_`, `fill_`, and copies (and `assign`) from arrays without a gradient. The adjoint of the new
values must be dropped; in Warp it stays in the array's gradient and is added to that of the old values.
Launches of a recorded command (`launch(…, record_cmd=True)`) are not on Warp's tape either: it treats their
results as constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tapedebug.autograd.thresholds import GRADIENT_CHANGED, GRADIENT_WRONG
from tapedebug.contract import Values
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import relative_errors
from tapedebug.diagnose.gradient_diff import largest_difference, off_by, worst_element
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.dependencies import differentiable
from tapedebug.trace import Finding, Launch, Trace
from tapedebug.trace.model import Severity


def find_unrecorded_writes(case: RuleContext, rule: str) -> Iterator[Finding]:
    """Yield a finding for each line whose fills or copies pass a gradient through in Warp."""
    trace, experiment = case.trace, case.experiment
    places: dict[Any, list[Launch]] = {}
    for launch in trace.launches:
        if _is_unrecorded(trace, launch):
            places.setdefault((launch.kind, str(launch.call_site), launch.args[0].array), []).append(launch)
    if not places or experiment.blocked:
        return
    right = experiment.gradients()
    every = experiment.gradients(unrecorded=[item.index for group in places.values() for item in group])
    if max(relative_errors(right, every).values(), default=0.0) <= GRADIENT_CHANGED:
        return
    for effect in _effects(case, right, places.values()):
        yield _finding(case, rule, effect)


def find_unrecorded_commands(case: RuleContext, rule: str) -> Iterator[Finding]:
    """Yield a finding for each line that launches a recorded command whose gradient is missing in Warp."""
    trace, experiment = case.trace, case.experiment
    places: dict[Any, list[Launch]] = {}
    for index in experiment.commands():
        launch = trace.launches[index]
        places.setdefault((launch.kernel, str(launch.call_site)), []).append(launch)
    if not places or experiment.blocked or not experiment.leaves:
        return
    for effect in _effects(case, experiment.gradients(), places.values()):
        yield _command(case, rule, effect)


class _Effect(NamedTuple):
    """The error of Warp's gradient because its tape does not record some launches.

    Attributes:
        group: The launches, which one line makes.
        errors: The relative error of each gradient, by the label of its array.
        gradients: The gradients at the element that differs most.
    """

    group: list[Launch]
    errors: dict[str, float]
    gradients: dict[str, Any]

    @property
    def severity(self) -> Severity:
        """The severity of a finding about it."""
        return "error" if max(self.errors.values()) > GRADIENT_WRONG else "warning"


def _effects(
    case: RuleContext, right: Mapping[int, Values], groups: Iterable[list[Launch]]
) -> Iterator[_Effect]:
    """Yield the effect of each group of launches, of those that change a gradient."""
    trace = case.trace
    for group in groups:
        wrong = case.experiment.gradients(unrecorded=[item.index for item in group])
        errors = {trace.arrays[leaf].label: e for leaf, e in relative_errors(right, wrong).items()}
        if max(errors.values()) > GRADIENT_CHANGED:
            yield _Effect(group, errors, largest_difference(trace, right, wrong))


def _command(case: RuleContext, rule: str, effect: _Effect) -> Finding:
    trace, (group, errors, gradients) = case.trace, effect
    launch = group[0]
    more = f" and {len(group) - 1} more like it" if len(group) > 1 else ""
    ours = "Here the tape records it, so the gradient is right. "
    if case.experiment.is_warp:
        ours = ""
    elif trace.tape.on_overwrite == "ignore":
        ours = 'Here the tape records it; with on_overwrite="ignore" its gradient is left out, as in Warp. '
    return Finding(
        rule=rule,
        severity=effect.severity,
        message=(
            f"{words.launch_words(launch)}{more} is the launch of a command (record_cmd=True). {ours}"
            "Warp's tape does not record it, and takes what it computes as constant: its gradient of "
            f"{off_by(errors, 'is ')}{worst_element(gradients, errors)}."
        ),
        launches=[each.index for each in group],
        arrays=[label for label, error in errors.items() if error > GRADIENT_CHANGED],
        call_site=launch.call_site,
        location=launch.call_site,
        evidence={
            "construct": "command",
            "relative_error": errors,
            "gradients": gradients,
            "occurrences": len(group),
        },
        fix=f"for Warp, launch {launch.name} with wp.launch(…) while the tape records",
    )


def _is_unrecorded(trace: Trace, launch: Launch) -> bool:
    """Return True if a launch writes an array with a gradient and has no adjoint in Warp."""
    if launch.kind not in ("fill", "copy"):
        return False
    arrays = [trace.arrays[arg.array] for arg in launch.args if arg.array is not None]
    return differentiable(arrays[0]) and not any(differentiable(info) for info in arrays[1:])


def _finding(case: RuleContext, rule: str, effect: _Effect) -> Finding:
    trace, (group, errors, gradients) = case.trace, effect
    launch = next((each for each in group if _writer(trace, each) is not None), group[0])
    label = trace.arrays[launch.args[0].array or 0].label
    writer = _writer(trace, launch)
    before = f" and to {words.launch_words(writer)}, which wrote them" if writer else ""
    what = "zero_ and fill_" if launch.kind == "fill" else "a copy of what has no gradient"
    verb = "are" if launch.kind == "fill" else "is"
    ours = "Here it ends, so the gradient is right; "
    if case.experiment.is_warp:
        ours = ""
    elif trace.tape.on_overwrite == "ignore":
        ours = 'Here it ends as well, unless on_overwrite="ignore" asks for what Warp gives; '
    message = (
        f"{words.launch_words(launch)} writes new values into {label}, and the gradient of those ends there. "
        f"In Warp {what} {verb} not on the tape: the gradient goes through to the old values{before}. "
        f"{ours}Warp's gradient of {off_by(errors, 'is ')}"
        f"{worst_element(gradients, errors)}."
    )
    if len(group) > 1:
        message += f" {len(group) - 1} more like it (×{len(group)})."
    written = "0.0" if launch.kind == "fill" else "source[i]"
    launches = [writer.index, launch.index] if writer else [launch.index]
    return RuleFinding(
        rule=rule,
        severity=effect.severity,
        message=message,
        launches=[*launches, *(each.index for each in group if each is not launch)],
        arrays=[label],
        location=launch.call_site,
        call_site=launch.call_site,
        harmless=False,
        evidence={
            "kind": "unrecorded",
            "occurrences": len(group),
            "gradients": gradients,
            "relative_error": errors,
        },
        fix=f"write {label} in a kernel (`{label}[i] = {written}`), which Warp records, or give each round "
        "an array of its own",
    )


def _writer(trace: Trace, launch: Launch) -> Launch | None:
    """Return the launch that wrote the values that a fill or copy overwrites."""
    array = launch.args[0].array
    for version in trace.versions:
        if version.array == array and version.overwritten_by == launch.index:
            return None if version.written_by is None else trace.launches[version.written_by]
    return None
