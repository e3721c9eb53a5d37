"""Findings about launches, copies and calls that a tape did not record, between its inputs and its loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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
) -> Iterator[DisconnectedFinding]:
    """Yield a finding for each line that computes, off the tape, what the loss depends on from an input.

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
            yield finding


def _finding(
    context: RuleContext, reach: Reachability, launch: OffTapeLaunch, is_zero: Callable[[int], bool]
) -> DisconnectedFinding | None:
    trace = reach.trace
    source, bits = _source(reach, launch)
    leaves = [leaf for position, leaf in enumerate(reach.leaves) if bits >> position & 1]
    target, moves = _target(context, reach, launch)
    if target is not None and launch.unset:
        return _beyond_the_tape(context, launch, target, moves)
    if source is None or target is None or not leaves:
        return None
    labels = [trace.arrays[leaf].label for leaf in leaves]
    start, end = trace.arrays[source[0]].label, trace.arrays[target].label
    gone = [trace.arrays[leaf].label for leaf in leaves if is_zero(leaf)]
    part = [label for label in labels if label not in gone]
    effects = [f"the gradient of {words.listed(gone)} is exactly 0"] if gone else []
    effects += [f"the gradient of {words.listed(part)} misses what flows through {end}"] if part else []
    why = "while the tape did not record" if launch.paused else "which record_tape=False kept off the tape"
    if launch.kind == "call":
        why = "which no tape records"
    if launch.earlier:
        why = "before the tape began to record"
    message = (
        f"{' and '.join(effects)}: {_what(launch)} at {words.place(launch.place)}, {why}, computes {end} "
        f"from {start}. The tape takes {end} as a constant. The loss does depend on it: "
        f"perturbing {end} by {SCALE:.1%} moves the loss by {words.number(moves)}."
    )
    fix = _fix(launch, end)
    return DisconnectedFinding(
        rule=CODE,
        severity="info" if launch.earlier and _continues(context, launch) else "warning",
        message=message,
        launches=[],
        arrays=list(dict.fromkeys([end, start, *labels])),
        location=None,
        call_site=launch.place,
        kind="through a launch off the tape",
        inputs=labels,
        source=start,
        evidence={"to": end, "perturbation": SCALE, "loss_moves": moves, "occurrences": 1},
        fix=fix,
    )


def _continues(context: RuleContext, launch: OffTapeLaunch) -> bool:
    """True if the tape may go on, on purpose, with what ran before it: a burn-in, or a copy that is kept."""
    return launch.kind == "copy" or any(launch.name == other.name for other in context.trace.launches)


def _beyond_the_tape(
    context: RuleContext, launch: OffTapeLaunch, target: int, moves: float
) -> DisconnectedFinding:
    """Return the finding about inputs that are not on the tape, and whose gradients the program read."""
    end = context.trace.arrays[target].label
    inputs, one = words.listed(launch.unset), len(launch.unset) == 1
    subject, are, them = ("gradient", "is", "it") if one else ("gradients", "are", "them")
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=(
            f"the {subject} of {inputs}, which the program read after the reverse pass, {are} exactly 0: "
            f"{_what(launch)} at {words.place(launch.place)}, before the tape began to record, computes "
            f"{end} from {them}. The tape takes {end} as a constant. The loss does depend on it: perturbing "
            f"{end} by {SCALE:.1%} moves the loss by {words.number(moves)}."
        ),
        launches=[],
        arrays=[end],
        location=None,
        call_site=launch.place,
        kind="through a launch off the tape",
        inputs=[],
        source=launch.unset[0],
        evidence={
            "to": end,
            "from": list(launch.unset),
            "perturbation": SCALE,
            "loss_moves": moves,
            "occurrences": 1,
        },
        fix=_fix(launch, end),
    )


def _what(launch: OffTapeLaunch) -> str:
    return "a copy" if launch.kind == "copy" else f"the {launch.kind} of {launch.name}"


def _fix(launch: OffTapeLaunch, end: str) -> str:
    run = "copy" if launch.kind == "copy" else f"launch {launch.name}"
    recorded = launch.paused or launch.earlier
    fix = f"{run} while the tape records" if recorded else f"{run} without record_tape=False"
    if launch.kind == "call":
        fix = f"compute {end} in a kernel"
    return f"{fix}; if {end} is meant as a constant, create it without requires_grad"


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
