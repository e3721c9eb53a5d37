"""Confirms or refutes a gradient of 0 of connected inputs by displacing them.

At a stationary point (a minimum, a symmetry) the loss changes with the square of a displacement; behind a
factor of 0 or a branch not taken it does not change at all. That is an `info`. If it changes in proportion,
the gradient is unexplained; if all chains pass an array of integers, it ends there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import ZERO_GRADIENT_CURVED, ZERO_GRADIENT_NOISE
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.rule import inputs_of
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import CODE, DisconnectedFinding
from tapedebug.diagnose.rules._no_derivative import zero_only_here
from tapedebug.diagnose.trace_analysis.dependencies import Edge, is_float
from tapedebug.diagnose.trace_analysis.reachability import Reachability
from tapedebug.trace import Finding, Launch
from tapedebug.trace.model import Severity

SCALES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Relative displacements, up and down."""
ALONE = 12
"""Number of inputs that are displaced one by one; any others are displaced together first."""


_DTYPE = re.compile(r"dtype=(\w+)")


@dataclass(frozen=True, slots=True)
class Response:
    """The change of the loss for each of `SCALES`, the larger of up and down; 0 for rounding."""

    changes: tuple[float, ...]

    @property
    def kind(self) -> str:
        """The kind: `none`, `flat` (only a large displacement has an effect), `stationary`, or `slope`."""
        if not any(self.changes):
            return "none"
        if not self.changes[1]:
            return "flat"
        pairs = [(a, b) for a, b in itertools.pairwise(self.changes[:3]) if a > 0]
        return "stationary" if pairs and all(b > ZERO_GRADIENT_CURVED * a for a, b in pairs) else "slope"

    def text(self) -> str:
        """The measurement as a clause."""
        kind = self.kind
        if kind == "none":
            return f"displacing it by {_share(SCALES[0])} to {_share(SCALES[-1])} does not change the loss"
        first = next(number for number, change in enumerate(self.changes) if change)
        if kind == "flat":
            return (
                f"displacing it by up to {_share(SCALES[first - 1])} does not change the loss, by "
                f"{_share(SCALES[first])} changes it by {words.number(self.changes[first])}"
            )
        a, b = self.changes[1:3]
        if kind == "stationary":
            return (
                f"the loss is stationary there: displacing it by {_share(SCALES[1])} changes the loss by "
                f"{words.number(a)}, and by {_share(SCALES[2])} {words.number(b / a)} times as much, where a "
                "slope gives 10 times"
            )
        return f"displacing it by {_share(SCALES[1])} changes the loss by {words.number(a)}"


def respond(context: RuleContext, leaves: Sequence[int]) -> Response:
    """Displace inputs together and measure the loss."""
    *found, size = context.experiment.loss_changes(leaves, [sign * s for s in SCALES for sign in (1.0, -1.0)])
    changes = [max(pair) for pair in zip(found[::2], found[1::2], strict=True)]
    # Displaced by its own size, an input may make the loss overflow: that says nothing of smaller changes.
    floor = ZERO_GRADIENT_NOISE * max(size, *changes[:-1])
    return Response(tuple(change if change > floor or not np.isfinite(change) else 0.0 for change in changes))


def zero_slopes(context: RuleContext, reach: Reachability, leaves: Sequence[int]) -> Iterator[Finding]:
    """Yield a finding for each connected input whose gradient is exactly 0."""
    if not leaves:
        return
    rest = list(leaves[ALONE:])
    together = respond(context, rest) if rest else Response(())
    quiet = bool(rest) and together.kind == "none"
    dead = context.experiment.dead_adjoints()
    for number, leaf in enumerate(leaves):
        response = together if quiet and number >= ALONE else respond(context, [leaf])
        edge = reach.integers(leaf)
        bits = _read_as_integers(context) if response.kind == "slope" else None
        if edge is not None and response.kind != "none":
            yield _integers(context, reach, leaf, edge, response)
        elif bits is not None:
            yield _bits(context, leaf, *bits, response)
        else:
            yield _zero(context, reach, leaf, dead, response)


def _zero(
    context: RuleContext, reach: Reachability, leaf: int, dead: Sequence[int], response: Response
) -> Finding:
    trace, label = context.trace, context.trace.arrays[leaf].label
    launch = next((trace.launches[index] for index in dead if _leads_to(reach, index, leaf)), None)
    at = f": it becomes 0 in the adjoint of {words.launch_words(launch)}" if launch is not None else ""
    slope = response.kind == "slope"
    severity: Severity = "info"
    fix = ""
    location = None
    if not slope:
        message = f"the gradient of {label} is exactly 0{at}, and that is right: {response.text()}."
    else:
        message = f"the gradient of {label} is exactly 0{at}, although {response.text()}."
        severity = _of_slope(context, leaf)
        beside = None
        if severity != "info" and launch is not None:
            beside = zero_only_here(context, leaf, launch.index)
        if beside is not None:
            words_of, fix, location = beside
            message = f"{message} {words_of}"
        elif severity != "info":
            ends = f"the adjoint of {launch.name}" if launch is not None else f"what is computed of {label}"
            fix = f"look at {ends}, where the gradient ends"
    return DisconnectedFinding(
        rule=CODE,
        severity=severity,
        message=message,
        launches=[launch.index] if launch is not None else [],
        arrays=[label],
        location=location,
        call_site=launch.call_site if launch is not None else None,
        kind="zero slope",
        inputs=[label],
        evidence={
            "response": response.kind,
            "perturbation": list(SCALES),
            "loss_moves": list(response.changes),
        },
        fix=fix,
    )


def _of_slope(context: RuleContext, leaf: int) -> Severity:
    """Return the severity of a gradient of 0 if the loss has a slope."""
    if leaf in context.experiment.wrong:
        # The effect of overwrites on a gradient is reported by another rule.
        return "info" if np.any(context.experiment.without(())[leaf]) else "error"
    findings = context.trace.findings
    others = [finding for finding in findings if finding.severity != "info" and finding.rule != CODE]
    label = context.trace.arrays[leaf].label
    return "info" if any(label in inputs_of(finding) for finding in others) else "warning"


def _leads_to(reach: Reachability, index: int, leaf: int) -> bool:
    reads = [
        (arg.array, arg.read_version)
        for arg in reach.trace.launches[index].args
        if arg.read_version is not None
    ]
    nodes = [(array, version) for array, version in reads if array is not None and version is not None]
    return (leaf, 0) in reach.graph.upstream(nodes, with_gradient=True)


def _integers(
    context: RuleContext, reach: Reachability, leaf: int, edge: Edge, response: Response
) -> Finding:
    trace = context.trace
    label, between = trace.arrays[leaf].label, trace.arrays[edge.source[0]]
    assert edge.launch is not None
    reader = trace.launches[edge.launch]
    writer = reach.graph.versions[edge.source].written_by
    launch: Launch = reader if writer is None else trace.launches[writer]
    by = "" if writer is None else f"{words.launch_words(launch)} writes it and "
    param = words.written_param(launch, between, trace) if writer is not None else edge.param
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=(
            f"the gradient of {label} is exactly 0: it ends at {between.label}, an array of {between.dtype}, "
            f"as integers carry no gradient: {by}{words.launch_words(reader)} reads it. Yet the loss depends "
            f"on {label}: {response.text()}."
        ),
        launches=list(dict.fromkeys([launch.index, reader.index])),
        arrays=[label, between.label],
        location=words.access_location(trace, launch, param, ("write", "atomic", "read")),
        call_site=launch.call_site,
        kind="integers",
        inputs=[label],
        evidence={
            "through": between.label,
            "dtype": between.dtype,
            "perturbation": list(SCALES),
            "loss_moves": list(response.changes),
        },
        fix=f"keep floats in {between.label}: round or cast to integers only what indexes an array",
    )


def _read_as_integers(context: RuleContext) -> tuple[Launch, int, str] | None:
    """Return the first launch that reads an array of floats with a gradient through a view of integers."""
    trace = context.trace
    for launch in trace.launches:
        params = [] if launch.kernel is None else trace.kernels[launch.kernel].params
        for param, (arg, declared) in enumerate(zip(launch.args, params, strict=False)):
            if arg.array is None or not arg.reads or not trace.arrays[arg.array].requires_grad:
                continue
            info, named = trace.arrays[arg.array], _DTYPE.search(declared.type)
            if named is not None and is_float(info) and not is_float(replace(info, dtype=named[1])):
                return launch, param, named[1]
    return None


def _bits(
    context: RuleContext, leaf: int, launch: Launch, param: int, dtype: str, response: Response
) -> Finding:
    trace, label = context.trace, context.trace.arrays[leaf].label
    read = trace.arrays[launch.args[param].array or 0].label
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=(
            f"the gradient of {label} is exactly 0: {words.launch_words(launch)} reads {read} through a view "
            f"of {dtype}, and integers carry no gradient, whatever their bits mean. Yet the loss depends on "
            f"{label}: {response.text()}."
        ),
        launches=[launch.index],
        arrays=list(dict.fromkeys([label, read])),
        location=words.access_location(trace, launch, param, ("read",)),
        call_site=launch.call_site,
        kind="integers",
        inputs=[label],
        evidence={
            "through": read,
            "dtype": dtype,
            "perturbation": list(SCALES),
            "loss_moves": list(response.changes),
        },
        fix=f"read {read} as the floats that it holds: pass it without the view",
    )


def _share(scale: float) -> str:
    return f"{100 * scale:g} %"
