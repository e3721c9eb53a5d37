"""Findings about operations of another library, inside of which a gradient ends: `.detach()`, NumPy."""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug.contract import GradientStop, LibraryAdjoint
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import CODE, DisconnectedFinding
from tapedebug.diagnose.trace_analysis.reachability import Reachability

OPERATIONS = 32
"""Largest number of operations that are searched, the last ones: those of a time loop are alike."""


def library_stops(context: RuleContext, reach: Reachability) -> Iterator[DisconnectedFinding]:
    """Yield a finding for each call in a library's operation that ends the gradient of a wrong input.

    The launches and inputs of later operations with the same call are added to it.
    """
    trace, replay = context.trace, context.replay
    if replay is None or trace.verdict != "WRONG":
        return
    found: dict[GradientStop, DisconnectedFinding] = {}
    adjoints = [
        (record, adjoint)
        for record in replay.records
        if (adjoint := record.capability(LibraryAdjoint)) is not None
    ]
    for record, adjoint in adjoints[-OPERATIONS:]:
        launch = trace.launches[record.index]
        leaves = _inputs(context, reach, record.index)
        if not leaves:
            continue
        context.progress(f"searching {launch.name} for calls that end a gradient")
        for stop in adjoint.stops():
            if stop in found:
                found[stop].launches.append(record.index)
                found[stop].inputs = [*dict.fromkeys([*(found[stop].inputs or []), *leaves])]
                continue
            found[stop] = _finding(context, record.index, adjoint.library, stop, leaves)
            yield found[stop]


def _inputs(context: RuleContext, reach: Reachability, launch: int) -> list[str]:
    """Return the labels of the inputs with a wrong gradient that lead to a launch."""
    trace = context.trace
    edges = [
        edge
        for node, version in reach.graph.versions.items()
        if version.written_by == launch
        for edge in reach.graph.into(node)
    ]
    above = [reach.above.get(edge.source, 0) for edge in edges]
    return [
        trace.arrays[leaf].label
        for position, leaf in enumerate(reach.leaves)
        if leaf in context.experiment.wrong and any(bits >> position & 1 for bits in above)
    ]


def _finding(
    context: RuleContext, index: int, library: str, stop: GradientStop, inputs: list[str]
) -> DisconnectedFinding:
    trace, launch = context.trace, context.trace.launches[index]
    them = "its gradient lacks" if len(inputs) == 1 else "their gradients lack"
    return DisconnectedFinding(
        rule=CODE,
        severity="error",
        message=(
            f"The gradient ends in {words.launch_words(launch)}, at {words.place(location_at(stop.place))}: "
            f"{stop.call} returns values that {library} does not differentiate, and the results depend on "
            f"them. The loss depends on {words.listed(inputs)} through that line, and {them} this part."
        ),
        launches=[index],
        arrays=list(dict.fromkeys([*_written(context, index), *inputs])),
        location=location_at(stop.place),
        call_site=trace.launches[index].call_site,
        kind=f"in {library}",
        inputs=inputs,
        evidence={"call": stop.call},
        fix=(
            f"compute this value so that {library} differentiates it; if it shall be a constant, pass it to "
            f"{launch.name} as an array without requires_grad"
        ),
    )


def _written(context: RuleContext, launch: int) -> list[str]:
    """Return the labels of the arrays that a launch writes."""
    trace = context.trace
    return [trace.arrays[v.array].label for v in trace.versions if v.written_by == launch]
