"""Findings about launches, copies and calls that a tape did not record, between its inputs and its loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import OffTapeLaunch
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import CODE, DisconnectedFinding
from tapedebug.diagnose.trace_analysis.dependencies import Node, differentiable
from tapedebug.diagnose.trace_analysis.reachability import Reachability

SCALE = 1e-3
"""Relative perturbation of the values that such a launch wrote, to test if the loss depends on them."""


def off_tape_launches(
    context: RuleContext, reach: Reachability, is_zero: Callable[[int], bool]
) -> list[DisconnectedFinding]:
    """Return a finding for each line that computes, off the tape, what the loss depends on from an input.

    Arrays that have no gradient of their own are constants on purpose.

    Args:
        context: The tape and its experiments.
        reach: The data flow of its trace.
        is_zero: Tells of an input if its gradient is exactly 0.
    """
    found: dict[tuple[str, str], DisconnectedFinding] = {}
    for launch in context.experiment.off_tape_launches():
        key = launch.name, words.place(launch.place)
        if key in found:
            found[key].evidence["occurrences"] += 1
            continue
        finding = _finding(context, reach, launch, is_zero)
        if finding is not None:
            found[key] = finding
    return list(found.values())


def _finding(
    context: RuleContext, reach: Reachability, launch: OffTapeLaunch, is_zero: Callable[[int], bool]
) -> DisconnectedFinding | None:
    trace = reach.trace
    source, bits = _source(reach, launch)
    leaves = [leaf for position, leaf in enumerate(reach.leaves) if bits >> position & 1]
    target, moves = _target(context, reach, launch)
    if source is None or target is None or not leaves:
        return None
    labels = [trace.arrays[leaf].label for leaf in leaves]
    start, end = trace.arrays[source[0]].label, trace.arrays[target].label
    gone = [trace.arrays[leaf].label for leaf in leaves if is_zero(leaf)]
    part = [label for label in labels if label not in gone]
    effects = [f"the gradient of {words.listed(gone)} is exactly 0"] if gone else []
    effects += [f"the gradient of {words.listed(part)} misses what flows through {end}"] if part else []
    what = "a copy" if launch.kind == "copy" else f"the {launch.kind} of {launch.name}"
    why = "while the tape did not record" if launch.paused else "which record_tape=False kept off the tape"
    if launch.kind == "call":
        why = "which no tape records"
    message = (
        f"{' and '.join(effects)}: {what} at {words.place(launch.place)}, {why}, computes {end} "
        f"from {start}. The tape takes {end} as a constant. The loss does depend on it: "
        f"perturbing {end} by {SCALE:.1%} moves the loss by {words.number(moves)}."
    )
    run = "copy" if launch.kind == "copy" else f"launch {launch.name}"
    fix = f"{run} while the tape records" if launch.paused else f"{run} without record_tape=False"
    if launch.kind == "call":
        fix = f"compute {end} in a kernel"
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=message,
        launches=[],
        arrays=list(dict.fromkeys([end, start, *labels])),
        location=None,
        call_site=launch.place,
        kind="through a launch off the tape",
        inputs=labels,
        source=start,
        evidence={"to": end, "perturbation": SCALE, "loss_moves": moves, "occurrences": 1},
        fix=f"{fix}; if {end} is meant as a constant, create it without requires_grad",
    )


def _source(reach: Reachability, launch: OffTapeLaunch) -> tuple[Node | None, int]:
    """Return a version that the launch read and that inputs lead to, and these inputs, as bits."""
    for array in launch.reads:
        before: Iterable[Node] = (
            node
            for node, version in reach.graph.versions.items()
            if node[0] == array and (version.written_by is None or version.written_by < launch.at)
        )
        node = max(before, default=None)
        if node is not None and (bits := _above(reach, node)):
            return node, bits
    return None, 0


def _above(reach: Reachability, node: Node) -> int:
    own = 1 << reach.leaves.index(node[0]) if node[1] == 0 and node[0] in reach.leaves else 0
    return reach.above.get(node, 0) | own


def _target(context: RuleContext, reach: Reachability, launch: OffTapeLaunch) -> tuple[int | None, float]:
    """Return an array that the launch wrote and that moves the loss, and the change of the loss."""
    for array in launch.writes:
        if array in launch.reads or not differentiable(reach.trace.arrays[array]):
            continue
        used = any(
            node[0] == array and node in reach.reached and any(read >= launch.at for read in version.reads)
            for node, version in reach.graph.versions.items()
        )
        if used and (moves := context.experiment.loss_moved(array, None, SCALE)) > 0:
            return array, moves
    return None, 0.0
