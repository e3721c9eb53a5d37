"""Gradients that cannot exist: of integers, and of a tape without any `requires_grad`."""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug.diagnose import wording as words
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.dependencies import Dependencies, differentiable, is_float, is_integer
from tapedebug.trace import ArrayInfo, Finding

RULE = "disconnected"


def integer_inputs(case: RuleContext) -> Iterator[Finding]:
    """A finding for each array of integers that the tape starts from and that is to have a gradient."""
    for info in case.trace.arrays:
        wanted = info.requires_grad or (case.experiment.named and info.id in case.experiment.leaves)
        reads = case.trace.versions_of(info.id)[0].reads
        if not (wanted and is_integer(info) and reads):
            continue
        launch = case.trace.launches[reads[0]]
        param = words.param_of(launch, info.id)
        yield Finding(
            rule=RULE,
            severity="warning",
            message=(
                f"{info.label} gets no gradient: it is an array of {info.dtype}, and integers have no "
                f"derivative. L{words.launch_words(launch)[1:]} reads it."
            ),
            launches=[launch.index],
            arrays=[info.label],
            location=words.access_location(case.trace, launch, param, ("read",)),
            call_site=launch.call_site,
            evidence={"kind": "integers", "inputs": [info.label], "dtype": info.dtype},
            fix=f"create {info.label} with dtype=float; if its gradient is not wanted, without requires_grad",
        )


def nothing_asked(case: RuleContext) -> Finding | None:
    """`backward` ran, and no array that the tape starts from has a gradient."""
    trace = case.trace
    if trace.tape.backward_runs == 0 or case.experiment.leaves or case.experiment.retains():
        return None
    inputs = [info for info in _starts(case, trace.arrays) if is_float(info)]
    if not inputs or any(map(differentiable, inputs)):
        return None
    launch = trace.launches[trace.versions_of(inputs[0].id)[0].reads[0]]
    param = words.param_of(launch, inputs[0].id)
    labels = [info.label for info in inputs]
    them = "it has no" if len(labels) == 1 else "none of them has"
    return Finding(
        rule=RULE,
        severity="warning",
        message=(
            f"the reverse pass gives no gradient of an input: the loss depends on {words.listed(labels)}, "
            f"and {them} requires_grad."
        ),
        launches=[launch.index],
        arrays=labels,
        location=words.access_location(trace, launch, param, ("read",)),
        call_site=launch.call_site,
        evidence={"kind": "no input", "inputs": []},
        fix=f"create {labels[0] if len(labels) == 1 else 'what the gradient is wanted of'} with "
        "requires_grad=True",
    )


def _starts(case: RuleContext, arrays: list[ArrayInfo]) -> Iterator[ArrayInfo]:
    """The arrays whose first values lead to the loss."""
    graph: Dependencies = case.dependencies
    last = {version.array: version.version for version in case.trace.versions}
    reached = graph.upstream([(array, last[array]) for array in case.experiment.losses], with_gradient=False)
    for info in arrays:
        if (info.id, 0) in reached and case.trace.versions_of(info.id)[0].reads:
            yield info
