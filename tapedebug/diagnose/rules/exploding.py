"""Rule `exploding`: an adjoint that grows in the reverse pass, round by round or at one launch.

That alone is no error: if the gradient agrees with the float64 reference and a change of the inputs grows as
the adjoint does, the system itself amplifies, and the gradient is right. It is a `warning` if such a gradient
is useless, because a change below the resolution of float32 determines the loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tapedebug.autograd.thresholds import (
    EXPLODING_NOISE,
    EXPLODING_REPORTED,
    EXPLODING_WARNS,
    EXPLODING_WARNS_FLOAT64,
)
from tapedebug.contract import CannotFollow, LocalDerivative
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.adjoint_profile import AdjointProfile, LaunchNorms
from tapedebug.diagnose.experiments.places import code_of, place_of
from tapedebug.diagnose.rule import RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import FOLLOWS_DATA, Cost
from tapedebug.diagnose.trace_analysis.adjoint_growth import (
    AdjointGrowth,
    alternates,
    growths,
    largest,
    table,
    tangent_rate,
)
from tapedebug.diagnose.trace_analysis.dependencies import read_by
from tapedebug.trace import Finding, Launch
from tapedebug.trace.model import Severity

THREADS = 64
TURNS = 8
"""Iterations that a loop inside a kernel must exceed to count as amplifying."""


class Exploding(TapeRule):
    """An adjoint that grows in the reverse pass, round by round or at one launch."""

    code = "exploding"
    title = "An adjoint grows beyond use in the reverse pass"
    severity = "error"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a search through the data flow."""
        return FOLLOWS_DATA

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for the loop that amplifies most, or else for the launch with the largest jump."""
        profile, replay = context.profile, context.replay
        if profile is None or replay is None:
            return
        found = [item for item in largest(growths(context, profile)) if item.total >= EXPLODING_REPORTED]
        finding = _loop(context, profile, found[0]) if found else _jump(context, profile)
        if finding is not None:
            yield finding


# --------------------------------------------------------------------------------------------------- a loop


def _loop(context: RuleContext, profile: AdjointProfile, growth: AdjointGrowth) -> Finding | None:
    replay, trace = context.replay, context.trace
    assert replay is not None
    rounds, item = growth.rounds, growth.rounds.carried[0]
    launch = trace.launches[rounds.launch(growth.start + len(growth.norms) - 1, item.writer)]
    first = trace.launches[rounds.launch(growth.start, item.writer)]
    label = _label(context, launch, item.written)
    rate = tangent_rate(replay, growth)
    right = rate >= 1 + (growth.rate - 1) / 2
    if not right and not context.experiment.wrong:
        return None  # it agrees end to end: the growing adjoint is no derivative of the carried values
    flips = alternates(replay, growth)
    noise = _noise(context)
    limit = EXPLODING_WARNS_FLOAT64 if _is_double(context, launch, item.written) else EXPLODING_WARNS
    useless = (
        growth.relative >= limit or (flips and growth.total >= EXPLODING_WARNS) or noise > EXPLODING_NOISE
    )
    useless |= growth.overflows
    severity: Severity = "error" if not right else "warning" if useless else "info"
    message = (
        f"the adjoint of {label} grows by {growth.rate:.3g} a round on its way back through "
        f"{len(growth.norms)} rounds of {_round(context, growth)}: its norm is "
        f"{words.number(growth.norms[-1])} after {words.launch_words(launch)} and "
        f"{words.number(growth.norms[0])} after {words.launch_words(first)}"
        f"{', and not finite further back' if growth.overflows else ''}. "
        f"{_verdict(context, right, rate, label)}"
    )
    message += _why(growth, right, flips, noise, useless and growth.relative >= limit)
    return RuleFinding(
        rule=Exploding.code,
        severity=severity,
        message=message,
        launches=[launch.index, first.index],
        arrays=[label],
        location=words.access_location(trace, launch, item.written, ("write", "atomic")),
        call_site=launch.call_site,
        evidence={
            "kind": "loop",
            "rate": growth.rate,
            "tangent_rate": rate,
            "rounds": len(growth.norms),
            "amplification": growth.total,
            "relative_amplification": growth.relative,
            "alternates": flips,
            "float32_difference": noise,
            "adjoint_is_right": right,
            "overflows": growth.overflows,
            "log10_norms": table(profile),
        },
        fix=_fix(right, flips, useless),
    )


def _round(context: RuleContext, growth: AdjointGrowth) -> str:
    """Return the launches of one round, in words."""
    rounds = growth.rounds
    names = [context.trace.launches[rounds.first + offset].name for offset in range(rounds.length)]
    return words.listed(dict.fromkeys(names))


def _verdict(context: RuleContext, right: bool, rate: float, label: str) -> str:
    amplifies = f"the system amplifies a change of {label} by {rate:.3g} a round"
    if right and context.trace.verdict in ("AGREE", "KINK", "UNDECIDABLE"):
        return f"The gradient is right; {amplifies}"
    if right:  # another finding reports the error of the gradient, if there is one
        return f"{amplifies[0].upper()}{amplifies[1:]}"
    return f"A change of the inputs grows by {rate:.3g} a round only: the adjoint is not that of the program"


def _why(growth: AdjointGrowth, right: bool, flips: bool, noise: float, beyond: bool) -> str:
    if not right:
        return "."
    text = ""
    if flips:
        text += (
            ", and its sign changes from round to round, as with a time step beyond the limit of stability"
        )
    if noise > EXPLODING_NOISE:
        text += f". In float32 and in float64 it differs by {words.percent(noise)}"
    if beyond:
        text += (
            f". Relative to its size a change is amplified {words.number(growth.relative)} times: the last "
            "digit "
            "of a float32 decides about the loss, and the gradient says nothing about a step of any length"
        )
    elif not flips and noise <= EXPLODING_NOISE and growth.relative < growth.total / 100:
        text += ", and its values grow with it"
    return text + "."


def _fix(right: bool, flips: bool, useless: bool) -> str:
    if not right:
        return "look for the launch whose adjoint is wrong: wp.autograd.gradcheck_tape checks each by itself"
    if not useless:
        return ""
    if flips:
        return "take a smaller time step, or an implicit one"
    return (
        "take the gradient over fewer rounds, or damp what amplifies; a smaller learning rate does not help"
    )


def _noise(context: RuleContext) -> float:
    """Return the error of the float32 gradient if nothing but rounding explains it."""
    errors = [
        item.max_rel_error
        for item in context.trace.checks
        if item.verdict == "UNDECIDABLE" and item.max_rel_error is not None
    ]
    return max((error for error in errors if not math.isnan(error)), default=0.0)


# --------------------------------------------------------------------------------------------------- a jump


def _jump(context: RuleContext, profile: AdjointProfile) -> Finding | None:
    """Return a finding for the launch with most of the growth, if it makes a gradient useless."""
    trace = context.trace
    worst = max(context.experiment.leaves, key=lambda leaf: _amplified(context, profile, leaf), default=None)
    if worst is None or not EXPLODING_WARNS <= _amplified(context, profile, worst) < math.inf:
        return None
    above = context.dependencies.leaves_above(context.experiment.leaves)
    bit = 1 << context.experiment.leaves.index(worst)
    steps = [
        (_local(profile.passages[launch.index], param), launch.index, param)
        for launch in trace.launches
        for param in profile.passages[launch.index].outgoing
        if above.get(read_by(launch.args[param]), 0) & bit
    ]
    if not steps:
        return None
    gain, index, param = max(steps)
    if not EXPLODING_REPORTED <= gain < math.inf:
        return None
    launch, passage = trace.launches[index], profile.passages[index]
    steep, turns = _followed(context, launch, param)
    if steep is None and turns < TURNS:
        return None  # a large constant: units, or a stiff penalty
    label, passed = trace.arrays[worst].label, _label(context, launch, param)
    amplified = _amplified(context, profile, worst)
    message = (
        f"the gradient of {label} is {words.number(profile.gradients[worst])}, and relative to its size a "
        "change "
        f"of {label} is amplified {words.number(amplified)} times. The adjoint jumps in "
        f"{words.launch_words(launch)}: from {words.number(passage.arrives)} that arrives to "
        f"{words.number(passage.outgoing[param])} for {passed}{_steep_words(steep, turns)}. The gradient"
        f"{' is right, and' if trace.verdict == 'AGREE' else ''} holds only for changes that float32 cannot "
        "resolve."
    )
    place = place_of(steep.span) if steep is not None else None
    return RuleFinding(
        rule=Exploding.code,
        severity="warning",
        message=message,
        launches=[index],
        arrays=list(dict.fromkeys([label, passed])),
        location=place or words.access_location(trace, launch, param, ("read",)),
        call_site=launch.call_site,
        inputs=[label],
        evidence={
            "kind": "jump",
            "relative_amplification": amplified,
            "arrives": passage.arrives,
            "leaves": passage.outgoing[param],
            "operation": code_of(steep) if steep is not None else "",
            "operands": list(steep.operands) if steep is not None else [],
            "slope": steep.slope if steep is not None else None,
            "log10_norms": table(profile),
        },
        fix=f"keep {code_of(steep)} away from where it is that steep, for instance by a larger constant in "
        "the denominator"
        if steep is not None
        else "take fewer turns of the loop, or damp what amplifies",
    )


def _amplified(context: RuleContext, profile: AdjointProfile, leaf: int) -> float:
    """Return the amplification of an input's change in the loss: the smaller of absolute and relative.

    Units may be large, and a loss may be near its minimum of 0, but neither makes both numbers large.
    """
    gradient, size = profile.gradients[leaf], profile.inputs[leaf]
    seeds = math.hypot(*(float(abs(seed).max(initial=0.0)) for seed in context.replay.seeds.values()))  # type: ignore[union-attr]
    loss = math.hypot(*profile.losses.values()) * seeds
    if not loss or not seeds:
        return 0.0
    return min(gradient / seeds, gradient * size / loss)


def _local(passage: LaunchNorms, param: int) -> float:
    """Return the amplification of one launch, as `_amplified` does."""
    arrives = passage.arrives
    through = math.hypot(*(norm * passage.written.get(p, 0.0) for p, norm in passage.incoming.items()))
    if not arrives or not through or math.isinf(arrives):
        return 0.0
    out = passage.outgoing[param]
    return min(out / arrives, out * passage.read.get(param, 0.0) / through)


def _followed(context: RuleContext, launch: Launch, param: int) -> tuple[LocalDerivative | None, int]:
    """Return the steepest operation in the likeliest threads, and the number of their loop iterations."""
    flow = context.experiment.flow(launch.index, "versions")
    total = math.prod(launch.dim)
    out: Any = flow.outgoing.get(param)
    order = range(min(total, THREADS))
    if out is not None and launch.dim and out.shape[: len(launch.dim)] == tuple(launch.dim):
        sizes = abs(out.reshape(total, -1)).max(axis=1)
        order = sizes.argsort()[::-1][:THREADS].tolist()
    found: list[LocalDerivative] = []
    turns = 0
    for index in order:
        try:
            thread = context.experiment.thread(launch.index, index, flow)
            thread.active = frozenset({param})
            thread.run()
        except CannotFollow:
            continue
        found += [item for item in thread.operation_derivatives(flow.incoming) if item.bent]
        turns = max(turns, thread.turns())
    steep = max(found, key=lambda item: item.slope, default=None)
    return (steep if steep is not None and steep.slope >= math.sqrt(EXPLODING_REPORTED) else None), turns


def _steep_words(steep: LocalDerivative | None, turns: int) -> str:
    if steep is None:
        return f", in {turns} turns of a loop of its kernel"
    operands = words.listed(words.number(value) for value in steep.operands)
    return f", by {code_of(steep)} with a slope of {words.number(steep.slope)} (operands {operands})"


def _is_double(context: RuleContext, launch: Launch, param: int) -> bool:
    array = launch.args[param].array
    return array is not None and context.trace.arrays[array].dtype.endswith(("float64", "d"))


def _label(context: RuleContext, launch: Launch, param: int) -> str:
    array = launch.args[param].array
    return launch.args[param].name if array is None else context.trace.arrays[array].label
