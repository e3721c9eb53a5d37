"""Find structs, vectors and matrices that changed after a launch: Warp's reverse pass reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tapedebug.autograd.thresholds import GRADIENT_CHANGED, GRADIENT_WRONG
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import relative_errors
from tapedebug.diagnose.gradient_diff import largest_difference, off_by, worst_element
from tapedebug.diagnose.rule import RuleFinding
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.trace import Finding, Launch, Trace


def find_changed_structs(case: RuleContext, rule: str) -> Iterator[Finding]:
    """Yield a finding for each line whose launches have arguments that changed before the reverse pass."""
    trace, experiment = case.trace, case.experiment
    changed = experiment.changed_structs()
    places: dict[str, list[Launch]] = {}
    for index in changed:
        places.setdefault(str(trace.launches[index].call_site), []).append(trace.launches[index])
    if not places or experiment.blocked:
        return
    right = experiment.gradients()
    for group in places.values():
        wrong = experiment.gradients_with_structs([launch.index for launch in group])
        if wrong is None:
            where = words.place(group[0].call_site)
            case.skipped(
                f"the structs of {where} hold, since they were changed, arrays that are not on this tape: "
                "the effect on the gradient was not measured"
            )
            continue
        errors = {trace.arrays[leaf].label: e for leaf, e in relative_errors(right, wrong).items()}
        if max(errors.values(), default=0.0) > GRADIENT_CHANGED:
            params = [group[0].args[p].name for p in changed[group[0].index]]
            yield _finding(trace, rule, group, params, errors, largest_difference(trace, right, wrong))


def _finding(
    trace: Trace,
    rule: str,
    group: list[Launch],
    params: list[str],
    errors: dict[str, float],
    gradients: dict[str, Any],
) -> Finding:
    launch = group[0]
    ids = [arg.array for arg in launch.args if arg.name in params]
    labels = [trace.arrays[number].label for number in ids if number is not None]
    kept = " Here a launch keeps what its structs held, so the gradient is right."
    holder, changed = ("struct", "assigned anew") if "." in params[0] else ("object", "changed")
    message = (
        f"{words.listed(params)} of {words.launch_words(launch)} {'was' if len(params) == 1 else 'were'} "
        f"{changed} between the launch and the reverse pass.{'' if trace.tape.engine else kept} Warp's tape "
        f"keeps the {holder}, and finds in it what it holds by then: its gradient of "
        f"{off_by(errors, 'is ')}{worst_element(gradients, errors)}."
    )
    if len(group) > 1:
        message += f" {len(group) - 1} more like it (×{len(group)})."
    return RuleFinding(
        rule=rule,
        severity="error" if max(errors.values()) > GRADIENT_WRONG else "warning",
        message=message,
        launches=[each.index for each in group],
        arrays=list(dict.fromkeys(labels)),
        location=launch.call_site,
        call_site=launch.call_site,
        harmless=False,
        evidence={
            "kind": "struct",
            "fields": params,
            "occurrences": len(group),
            "gradients": gradients,
            "relative_error": errors,
        },
        fix=(
            f"make a new {holder} for each launch instead of "
            f"{'assigning to' if holder == 'struct' else 'changing'} {words.listed(params)}"
        ),
    )
