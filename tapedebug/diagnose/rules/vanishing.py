"""Rule `vanishing`: an adjoint that fades in the reverse pass until it is negligible.

A damped system forgets its initial state: a gradient of 1e-12 is right, an `info`. If an operation is
saturated (`tanh` of 20, a `clamp` at its limit), no step of an optimiser has an effect: a `warning`, if no
input has a gradient of relevant size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tapedebug.autograd.thresholds import VANISHED_GRADIENT, VANISHING_LOSS_FALLS, VANISHING_SLOPE
from tapedebug.contract import CannotFollow, LocalDerivative
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.adjoint_profile import AdjointProfile
from tapedebug.diagnose.experiments.places import code_of, place_of
from tapedebug.diagnose.experiments.replay import perturbed
from tapedebug.diagnose.experiments.zero_grad_paths import FINITE, ZeroGradPath, threads_of
from tapedebug.diagnose.rule import RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import Cost
from tapedebug.diagnose.trace_analysis.adjoint_growth import AdjointGrowth, growths, largest, table
from tapedebug.trace import Finding, Launch
from tapedebug.trace.model import Severity

LAUNCHES = 3
TRIED = 3
"""Largest number of inputs that are changed to test if the loss falls."""

DISPLACED_RUNS = 1 + 4 * len(FINITE[1:])
"""Runs that try whether the loss falls when an input is displaced."""


class Vanishing(TapeRule):
    """An adjoint that fades in the reverse pass until it is negligible."""

    code = "vanishing"
    title = "Almost nothing is left of an adjoint in the reverse pass"
    severity = "warning"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate runs with a displaced input for each of those with no gradient."""
        profile = context.profile
        zero = 0 if profile is None else sum(norm == 0 for norm in profile.gradients.values())
        return Cost(DISPLACED_RUNS * min(TRIED, zero))

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for the inputs whose gradients have vanished."""
        profile = context.profile
        if profile is None:
            return
        saturated = {leaf: end for leaf, end in context.zero_grad_paths.items() if end.kind == "saturated"}
        small = {leaf for leaf, end in context.zero_grad_paths.items() if end.kind == "underflow"}
        faded = [
            leaf
            for leaf in context.experiment.leaves
            if leaf in small or _left(context, profile, leaf) < VANISHED_GRADIENT
        ]
        gone = [*saturated, *faded]
        if not gone:
            return
        flat = {leaf for leaf, end in context.zero_grad_paths.items() if end.kind == "flat"}
        hopeless = set(gone) | flat >= set(context.experiment.leaves) and any(
            _could_fall(context, leaf) for leaf in gone[:TRIED]
        )
        for leaves in _grouped(saturated):
            yield _dead(context, profile, leaves, hopeless)
        if faded:
            yield _faded(context, profile, faded, hopeless)


def _could_fall(context: RuleContext, leaf: int) -> bool:
    """Return True if the loss falls when an input changes; at a hinge's minimum a gradient of 0 is right."""
    replay = context.replay
    assert replay is not None
    shadow, a = replay._shadow(double=True), replay.arrays[leaf]

    def loss() -> float:
        shadow.forward(start=0)
        return float(sum(np.sum(seed * shadow.values(b)) for b, seed in replay.seeds.items()))

    values = shadow.forward(stop=0).values(a)
    begin = loss()
    for scale in FINITE[1:]:
        ways = [
            perturbed(values, scale),
            perturbed(values, -scale),
            values * (1 + scale),
            values * (1 - scale),
        ]
        for way in ways:
            shadow.forward(stop=0).set(a, way)
            if loss() < begin - VANISHING_LOSS_FALLS * abs(begin):
                return True
    return False


def _left(context: RuleContext, profile: AdjointProfile, leaf: int) -> float:
    """Return the remaining size of a gradient relative to the loss; inf if it is exactly 0."""
    gradient, size = profile.gradients[leaf], profile.inputs[leaf]
    assert context.replay is not None
    seeds = math.hypot(*(float(abs(seed).max(initial=0.0)) for seed in context.replay.seeds.values()))
    loss = math.hypot(*profile.losses.values()) * seeds
    if not gradient or not loss:
        return math.inf
    return max(gradient / seeds, gradient * size / loss)


def _grouped(saturated: dict[int, ZeroGradPath]) -> list[list[int]]:
    groups: dict[tuple[int, int], list[int]] = {}
    for leaf, end in saturated.items():
        groups.setdefault((end.launch.index, end.param), []).append(leaf)
    return list(groups.values())


# ------------------------------------------------------------------------------------------------- exactly 0


def _dead(context: RuleContext, profile: AdjointProfile, leaves: Sequence[int], hopeless: bool) -> Finding:
    end = context.zero_grad_paths[leaves[0]]
    labels = [context.trace.arrays[leaf].label for leaf in leaves]
    operands = (
        f" (operands {words.listed(words.number(value) for value in end.operands)})" if end.operands else ""
    )
    message = (
        f"the gradient of {words.listed(labels)} is exactly 0: {end.text} in "
        f"{words.launch_words(end.launch)} "
        f"has slope 0{operands}. "
    )
    if end.moved:
        message += (
            f"Perturbing {labels[0]} by {100 * end.scale:g} % moves the loss by {words.number(end.moved)}."
        )
    else:
        message += f"Even perturbing {labels[0]} by 100 % does not move the loss."
    return RuleFinding(
        rule=Vanishing.code,
        severity="warning" if hopeless else "info",
        message=message,
        launches=[end.launch.index],
        arrays=labels,
        location=end.place,
        call_site=end.launch.call_site,
        inputs=labels,
        evidence={
            "kind": "saturated",
            "operation": end.text,
            "operands": list(end.operands),
            "slope": 0.0,
            "perturbation": end.scale,
            "loss_moves": end.moved,
            "log10_norms": table(profile),
        },
        fix=f"start from values at which the slope of {end.text} is not 0" if hopeless else "",
    )


# ------------------------------------------------------------------------------------------------ nearly 0


def _faded(context: RuleContext, profile: AdjointProfile, leaves: Sequence[int], hopeless: bool) -> Finding:
    trace = context.trace
    leaf = leaves[0]
    labels = [trace.arrays[item].label for item in leaves]
    loop = next(
        (item for item in largest(growths(context, profile)) if item.total < VANISHED_GRADIENT**0.5), None
    )
    suspects = _suspects(context, profile, loop)
    cause = next((found for launch in suspects if (found := _saturated(context, launch)) is not None), None)
    launch = cause[0] if cause is not None else suspects[0]
    severity: Severity = "warning" if hopeless and cause is not None else "info"
    end = context.zero_grad_paths.get(leaf)
    left = _left(context, profile, leaf) if end is None else 0.0
    name = words.listed(labels)
    if end is None:
        message = (
            f"the gradient of {name} has vanished: its norm is {words.number(profile.gradients[leaf])}, and "
            f"changing {labels[0]} by 100 % moves the loss by a relative {left:.1g}. "
        )
    else:
        message = (
            f"the gradient of {name} has vanished: it is exactly 0, as its largest entry, "
            f"{words.number(end.operands[0])} in float64, is too small for float32. "
        )
    message += _way(context, profile, loop, launch)
    if cause is not None:
        slope = cause[1]
        operands = words.listed(words.number(value) for value in slope.operands)
        message += (
            f" {code_of(slope)} has reached its flat part: its slope is {words.number(slope.slope)} "
            f"(operands {operands})."
        )
    return RuleFinding(
        rule=Vanishing.code,
        severity=severity,
        message=message,
        launches=[launch.index],
        arrays=labels,
        location=place_of(cause[1].span) if cause is not None else None,
        call_site=launch.call_site,
        inputs=labels,
        evidence={
            "kind": "saturated" if cause is not None else "damped",
            "left": left,
            "rate": loop.rate if loop is not None else None,
            "rounds": len(loop.norms) if loop is not None else None,
            "operation": code_of(cause[1]) if cause is not None else "",
            "operands": list(cause[1].operands) if cause is not None else [],
            "slope": cause[1].slope if cause is not None else None,
            "log10_norms": table(profile),
        },
        fix=f"keep the operands of {code_of(cause[1])} where its slope is not 0: scale them down, or "
        "begin nearer"
        if severity == "warning" and cause is not None
        else "",
    )


def _way(context: RuleContext, profile: AdjointProfile, loop: AdjointGrowth | None, launch: Launch) -> str:
    if loop is not None:
        first, last = words.number(loop.norms[0]), words.number(loop.norms[-1])
        return (
            f"The adjoint shrinks to {loop.rate:.3g} of itself in each of {len(loop.norms)} rounds, from "
            f"{last} to "
            f"{first}."
        )
    passage = profile.passages[launch.index]
    return (
        f"Most of it is lost in {words.launch_words(launch)}, where {words.number(passage.arrives)} "
        "arrives and "
        f"{words.number(passage.leaves)} leaves."
    )


def _suspects(context: RuleContext, profile: AdjointProfile, loop: AdjointGrowth | None) -> list[Launch]:
    """Return the launches that attenuate most: for a loop those of a middle round, else the worst."""
    if loop is not None:
        start = loop.rounds.launch(loop.start + len(loop.norms) // 2, 0)
        indices = list(range(start, start + loop.rounds.length))
    else:
        indices = [index for index, passage in enumerate(profile.passages) if passage.arrives > 0]
    passages = profile.passages

    def share(index: int) -> float:
        arrives = passages[index].arrives
        return passages[index].leaves / arrives if arrives and passages[index].outgoing else math.inf

    return [context.trace.launches[index] for index in sorted(indices, key=share)[:LAUNCHES]]


def _saturated(context: RuleContext, launch: Launch) -> tuple[Launch, LocalDerivative] | None:
    """Return the operation of a launch that is saturated in nearly all followed threads."""
    if launch.kind != "kernel":
        return None
    flow = context.experiment.flow(launch.index, "versions")
    lowest: list[LocalDerivative] = []
    followed = 0
    for index in threads_of(launch, flow):
        try:
            thread = context.experiment.thread(launch.index, index, flow)
            thread.run()
        except CannotFollow:
            continue
        followed += 1
        flat = [item for item in thread.operation_derivatives(flow.incoming) if _is_flat(item)]
        if flat:
            lowest.append(min(flat, key=lambda item: item.slope))
    if not followed or len(lowest) < 0.9 * followed:
        return None
    return launch, max(lowest, key=lambda item: item.slope)


def _is_flat(slope: LocalDerivative) -> bool:
    """Return True if an operation can saturate, and does at its operands."""
    return slope.saturates and slope.slope < VANISHING_SLOPE
