"""Rule `disconnected`: a gradient that ends between the loss and an input.

The rule traverses the data flow back from the loss. At an array without `requires_grad`, or a launch without
an adjoint, the gradient ends although the data flow continues. The first such place is reported if an
experiment shows that the loss really depends on the input through it. A gradient that is 0 although nothing
is cut is reported separately: a flat operation such as `floor`, or a slope that is really 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, field
from itertools import chain

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.experiment import Experiment
from tapedebug.diagnose.rule import Repair, TapeRule, inputs_of
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._disconnected_finding import CODE, CUTS, DisconnectedFinding
from tapedebug.diagnose.rules._interop_findings import crossings
from tapedebug.diagnose.rules._library_stops import library_stops
from tapedebug.diagnose.rules._no_data_flow import through_numpy, unconnected
from tapedebug.diagnose.rules._off_tape_launches import off_tape_launches
from tapedebug.diagnose.rules._zero_gradient import zero_slopes
from tapedebug.diagnose.rules.custom_grad import CustomGradFinding
from tapedebug.diagnose.timings import Cost
from tapedebug.diagnose.trace_analysis.dependencies import (
    Dependencies,
    Edge,
    Node,
    differentiable,
    has_adjoint,
    is_float,
    is_integer,
)
from tapedebug.diagnose.trace_analysis.kernel_source import code_at
from tapedebug.diagnose.trace_analysis.reachability import Reachability
from tapedebug.trace import ArrayInfo, Finding, Launch, Location, Trace
from tapedebug.trace.model import Severity

SCALE = 1e-3
"""Relative perturbation of values to test if the loss depends on them."""


@dataclass(slots=True)
class Cut:
    """The end of a gradient: `edges` from an array without one, or through a launch without an adjoint.

    `moved`: the change of the array by each input; `moves_loss`: the change of the loss by the array.
    """

    kind: str
    edges: list[Edge]
    count: int = 1
    moves_loss: float = 0.0
    moved: dict[int, float] = field(default_factory=dict)

    @property
    def edge(self) -> Edge:
        """The first edge."""
        return self.edges[0]

    @property
    def leaves(self) -> list[int]:
        """The inputs whose gradient is cut."""
        return list(self.moved)


class Disconnected(TapeRule):
    """A gradient that ends between the loss and an input."""

    code = CODE
    title = "The loss depends on an input, but no gradient reaches it"
    severity = "error"
    unmasks = ("overwrite", "disconnected", "duplicate-launch", "seed", "nonfinite", "flat-op")

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a run in float64, and searches through the data flow."""
        return Cost(1.0, visits=20.0)

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each place where a gradient is cut, and for gradients that are 0."""
        if context.experiment.blocked:
            return
        found = False
        for finding in _cut_or_zero(context):
            found = True
            yield finding
        nothing = None if found else nothing_asked(context)
        if nothing is not None:
            yield nothing

    def repair(self, finding: Finding) -> Repair | None:
        """Return a repair that gives a gradient to the arrays at which it ends."""
        cut = isinstance(finding, DisconnectedFinding) and finding.kind in CUTS
        return Repair(requires_grad=True) if cut else None


def _cut_or_zero(context: RuleContext) -> Iterator[Finding]:
    """Yield the findings about gradients that inputs lack."""
    trace, experiment = context.trace, context.experiment
    search = _Search(trace, experiment)
    reach = search.reach
    kinked = {check.input for check in trace.checks if check.verdict == "KINK"}
    explained = {leaf for leaf in experiment.leaves if trace.arrays[leaf].label in kinked}
    explained |= _without_effect(context)
    cuts: list[Finding] = []
    for cut in chain(map(search.finding, search.cuts()), library_stops(context, reach)):
        cuts.append(cut)
        yield cut
    # Only now: a stop in a library gets further inputs until the search for others has ended.
    explained |= {leaf for finding in cuts for leaf in search.leaves_of(finding)}
    apart = [leaf for leaf in experiment.leaves if not reach.leads_to_loss(leaf)]
    covered: set[int] = set()
    for crossed in chain(crossings(context, reach), off_tape_launches(context, reach, search.is_zero)):
        covered |= set(search.leaves_of(crossed)) if crossed.source else set()
        yield crossed
    explained |= covered
    apart = [leaf for leaf in apart if leaf not in covered]
    lost = through_numpy(context, reach, apart)
    if lost is not None:
        explained |= set(search.leaves_of(lost))
        yield lost
    zero = [leaf for leaf in experiment.leaves if leaf not in explained and search.is_zero(leaf)]
    yield from unconnected(context, reach, [leaf for leaf in zero if leaf in apart])
    connected = [leaf for leaf in zero if leaf not in apart and leaf not in context.zero_grad_paths]
    yield from zero_slopes(context, reach, connected)
    yield from integer_inputs(context)


def _without_effect(context: RuleContext) -> set[int]:
    """Return the inputs whose gradient ends in a custom gradient without effect, already reported."""
    labels = {
        label
        for finding in context.trace.findings
        if isinstance(finding, CustomGradFinding) and finding.kind == "missing"
        for label in inputs_of(finding)
    }
    return {leaf for leaf in context.experiment.leaves if context.trace.arrays[leaf].label in labels}


class _Search:
    def __init__(self, trace: Trace, experiment: Experiment) -> None:
        self.trace = trace
        self.experiment = experiment
        self.reach = Reachability(trace, experiment.leaves, experiment.losses)
        self.graph = self.reach.graph
        self.alive = self.graph.upstream(self.reach.roots, with_gradient=True)
        self.gradients = experiment.gradients()

    # -------------------------------------------------------------------- cuts

    def cuts(self) -> Iterator[Cut]:
        """Yield the first places at which a gradient ends, nearest to the loss first; one per time loop."""
        found: dict[tuple[object, ...], Cut] = {}
        for node in sorted(self.alive, key=self._written_at, reverse=True):
            for edge in self.graph.into(node):
                kind = self._kind(edge)
                if kind is None or not self._leaves_above(edge):
                    continue
                launch = self.trace.launches[edge.launch or 0]
                param = edge.param if kind == "no requires_grad" else None
                cut = found.setdefault((kind, launch.kernel, launch.name, param), Cut(kind, [], 0))
                if not cut.edges or cut.edge.launch == edge.launch:
                    cut.edges.append(edge)
                    cut.count = max(cut.count, 1)
                else:
                    cut.count += 1
        return filter(self._confirmed, found.values())

    def _written_at(self, node: Node) -> int:
        writer = self.graph.versions[node].written_by
        return -1 if writer is None else writer

    def _kind(self, edge: Edge) -> str | None:
        """Return the reason why no gradient flows back along an edge; None if one does or none can."""
        if edge.launch is None or self.graph.carries(edge):
            return None
        source = self.trace.arrays[edge.source[0]]
        if not is_float(source):
            return None  # integers have no slope: `_zero_gradient` handles them
        if not has_adjoint(self.trace, edge.launch):
            return "backward disabled"
        return None if source.requires_grad else "no requires_grad"

    def _leaves_above(self, edge: Edge) -> list[int]:
        bits = self.reach.above.get(edge.source, 0)
        return [leaf for position, leaf in enumerate(self.experiment.leaves) if bits >> position & 1]

    def _confirmed(self, cut: Cut) -> bool:
        """Return True if the loss depends on the array and the array on an input."""
        for edge in cut.edges:
            array = edge.source[0]
            writer = self.graph.versions[edge.source].written_by
            moves_loss = self.experiment.loss_moved(array, writer, SCALE)
            if not moves_loss > 0:
                continue
            cut.moves_loss = max(cut.moves_loss, moves_loss)
            for leaf in self._leaves_above(edge):
                itself = (leaf, 0) == edge.source
                moved = SCALE if itself else self.experiment.values_moved(leaf, array, writer, SCALE)
                if moved > 0:
                    cut.moved[leaf] = moved
        return bool(cut.moved)

    # ---------------------------------------------------------------- findings

    def leaves_of(self, finding: Finding) -> list[int]:
        """Return the inputs that a finding explains."""
        return [self.trace.array(label).id for label in inputs_of(finding)]

    def finding(self, cut: Cut) -> Finding:
        """Return the finding about a cut."""
        trace = self.trace
        label = trace.arrays[cut.edge.source[0]].label
        reader = trace.launches[cut.edge.launch or 0]
        inputs = [trace.arrays[leaf].label for leaf in cut.leaves]
        lost = {trace.arrays[leaf].label: self.is_zero(leaf) for leaf in cut.leaves}
        launch, location, cause, fix = self._cause(cut, reader)
        detached = self._detached(launch)
        severity: Severity = "error" if set(cut.leaves) & self.experiment.wrong else "warning"
        if detached:
            severity, fix = "info", ""
            cause += " (requires_grad=False was asked for at that line)"
        message = f"{cause}. The gradient of {words.listed(inputs)} ends there. {self._effect(cut, lost)}"
        if cut.count > 1:
            message += f" {cut.count - 1} more like it (×{cut.count})."
        return DisconnectedFinding(
            rule=Disconnected.code,
            severity=severity,
            message=message,
            launches=list(dict.fromkeys([launch.index, reader.index])),
            arrays=[label, *(name for name in inputs if name != label)],
            location=location,
            call_site=launch.call_site,
            kind=cut.kind,
            detached=detached,
            inputs=inputs,
            evidence={
                "gradient_is_zero": lost,
                "perturbation": SCALE,
                "loss_moves": cut.moves_loss,
                "array_moves": {trace.arrays[leaf].label: moved for leaf, moved in cut.moved.items()},
                "occurrences": cut.count,
                "reader": {
                    "launch": reader.index,
                    "call_site": asdict(reader.call_site) if reader.call_site else None,
                },
            },
            fix=fix,
        )

    def _cause(self, cut: Cut, reader: Launch) -> tuple[Launch, Location | None, str, str]:
        """Return the launch that causes a cut, its line, the reason, and the fix."""
        trace, who = self.trace, words.launch_words(reader)
        info = trace.arrays[cut.edge.source[0]]
        if cut.kind == "backward disabled":
            cause = f"{who} passes no gradient on: {reader.name} has enable_backward=False"
            fix = f"remove enable_backward=False from {reader.name}"
            return reader, self._kernel_location(reader.kernel), cause, fix
        fix = f"create {info.label} with requires_grad=True"
        writer = self.graph.versions[cut.edge.source].written_by
        if writer is None:
            location = words.access_location(trace, reader, cut.edge.param, ("read",))
            return reader, location, f"{info.label} has no requires_grad, and {who} reads it", fix
        launch = trace.launches[writer]
        location = words.access_location(
            trace, launch, words.written_param(launch, info, trace), ("write", "atomic")
        )
        cause = (
            f"{info.label} has no requires_grad: {words.launch_words(launch)} writes it and {who} reads it"
        )
        return launch, location, cause, fix

    def _effect(self, cut: Cut, lost: dict[str, bool]) -> str:
        label = words.listed(dict.fromkeys(self.trace.arrays[edge.source[0]].label for edge in cut.edges))
        zero = [name for name, is_zero in lost.items() if is_zero]
        part = [name for name, is_zero in lost.items() if not is_zero]
        what = []
        if zero:
            what.append(f"the gradient of {words.listed(zero)} is exactly 0")
        if part:
            what.append(f"the gradient of {words.listed(part)} misses what flows through {label}")
        return (
            f"The loss does depend on that: perturbing {label} by {SCALE:.1%} moves the loss by "
            f"{words.number(cut.moves_loss)}; yet {' and '.join(what)}."
        )

    def _detached(self, launch: Launch) -> bool:
        """Return True if the caller cut the gradient on purpose, as in `clone(x, requires_grad=False)`."""
        if launch.kind != "copy" or launch.call_site is None:
            return False
        return "requires_grad=False" in code_at(launch.call_site).replace(" ", "")

    def _kernel_location(self, kernel: int | None) -> Location | None:
        if kernel is None:
            return None
        info = self.trace.kernels[kernel]
        return Location(file=info.file, line=info.line, column=0, function=info.name)

    def is_zero(self, leaf: int) -> bool:
        """Return True if the gradient of an input is exactly 0."""
        values = self.gradients.get(leaf)
        return values is not None and not np.any(values)


# -------------------------------------------------------------------- gradients that cannot exist


def integer_inputs(context: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each array of integers that the tape starts from and that has `requires_grad`."""
    for info in context.trace.arrays:
        wanted = info.requires_grad or (context.experiment.named and info.id in context.experiment.leaves)
        reads = context.trace.versions_of(info.id)[0].reads
        if not (wanted and is_integer(info) and reads):
            continue
        launch = context.trace.launches[reads[0]]
        param = words.param_of(launch, info.id)
        yield DisconnectedFinding(
            rule=CODE,
            severity="warning",
            message=(
                f"{info.label} gets no gradient: it is an array of {info.dtype}, and integers have no "
                f"derivative. L{words.launch_words(launch)[1:]} reads it."
            ),
            launches=[launch.index],
            arrays=[info.label],
            location=words.access_location(context.trace, launch, param, ("read",)),
            call_site=launch.call_site,
            kind="integers",
            inputs=[info.label],
            evidence={"dtype": info.dtype},
            fix=f"create {info.label} with dtype=float; if its gradient is not wanted, without requires_grad",
        )


def nothing_asked(context: RuleContext) -> Finding | None:
    """Return a finding if `backward` ran although no array that the tape starts from has a gradient."""
    trace = context.trace
    if trace.tape.backward_runs == 0 or context.experiment.leaves or context.experiment.retains():
        return None
    inputs = [info for info in _starts(context, trace.arrays) if is_float(info)]
    if not inputs or any(map(differentiable, inputs)):
        return None
    launch = trace.launches[trace.versions_of(inputs[0].id)[0].reads[0]]
    param = words.param_of(launch, inputs[0].id)
    labels = [info.label for info in inputs]
    them = "it has no" if len(labels) == 1 else "none of them has"
    return DisconnectedFinding(
        rule=CODE,
        severity="warning",
        message=(
            f"the reverse pass gives no gradient of an input: the loss depends on {words.listed(labels)}, "
            f"and {them} requires_grad."
        ),
        launches=[launch.index],
        arrays=labels,
        location=words.access_location(trace, launch, param, ("read",)),
        call_site=launch.call_site,
        kind="no input",
        inputs=[],
        fix=f"create {labels[0] if len(labels) == 1 else 'what the gradient is wanted of'} with "
        "requires_grad=True",
    )


def _starts(context: RuleContext, arrays: list[ArrayInfo]) -> Iterator[ArrayInfo]:
    """Yield the arrays whose first values lead to the loss."""
    graph: Dependencies = context.dependencies
    last = {version.array: version.version for version in context.trace.versions}
    reached = graph.upstream(
        [(array, last[array]) for array in context.experiment.losses], with_gradient=False
    )
    for info in arrays:
        if (info.id, 0) in reached and context.trace.versions_of(info.id)[0].reads:
            yield info
