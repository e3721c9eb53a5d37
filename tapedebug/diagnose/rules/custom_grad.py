"""Rule `custom-grad`: a custom gradient that is not the derivative of its function.

Each function with `func_grad` that kernels on the tape call is checked on its own, at arguments from some
threads and from the threads of entries that the end-to-end check found wrong. A gradient that differs on
purpose is declared with `func_grad(f, differs=True)`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._even_sample import evenly_spread
from tapedebug.autograd.tapes.custom_gradients import is_gradient_off
from tapedebug.contract import (
    CannotFollow,
    CheckedCall,
    CustomCall,
    CustomFunction,
    CustomGradients,
    PartialDerivative,
)
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.adjoint_lines import adjoint_line, own_name
from tapedebug.diagnose.experiments.launch_check import DirectionalSlope, launch_slopes, values_before
from tapedebug.diagnose.experiments.places import place_of
from tapedebug.diagnose.experiments.zero_grad_paths import THREADS, threads_of
from tapedebug.diagnose.rule import EVIDENCE, RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules._bypassed_gradients import find_bypassed_gradients
from tapedebug.diagnose.rules._partly_wrong_gradients import find_partly_wrong_gradients
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.trace import Finding, Launch
from tapedebug.trace.model import Severity

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.experiment import LaunchFlow

LAUNCHES = 3
"""Launches of a kernel that are examined: the first, the last, and one in between."""
KERNELS = 12
PER_THREAD = 6e-3
"""Seconds that following a thread and its calls takes; a loop of a few rounds takes four times as long."""
SUSPECTS = 6
"""Wrong entries of an input whose threads are followed, in addition to some of each launch."""


@dataclass(slots=True)
class Checked:
    """All calls of one function that were checked."""

    function: CustomFunction
    calls: list[tuple[Launch, CheckedCall]] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, repr=False)
class CustomGradFinding(RuleFinding):
    """A custom gradient that is not the derivative of its function.

    Attributes:
        kind: The error: `"sign"`, `"factor"`, `"missing"` (it has no effect), `"assigned"`, `"wrong"`, or
            `"launch"` if only the whole launch was compared.
        functions: The names of the functions with custom gradients in that launch.
    """

    kind: str = field(metadata=EVIDENCE)
    functions: list[str] | None = field(default=None, metadata=EVIDENCE)


class CustomGrad(TapeRule):
    """A custom gradient that is not the derivative of its function."""

    code = "custom-grad"
    title = "A custom gradient is not the derivative of its function"
    severity = "error"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a run up to the launches that are examined, and following some of their threads."""
        if context.replay is None:
            return READS_TRACE
        _, chosen = _chosen(context)
        return Cost(bool(chosen), seconds=len(chosen) * THREADS * PER_THREAD)

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a finding for each custom gradient that differs from finite differences of its function."""
        if context.replay is None:
            return
        known: set[int] = set()
        for number, checked in _checked(context).items():
            judged = _judged(context, checked)
            known |= {number} if judged else set()
            yield from judged
        reported: set[str] = set()
        if context.experiment.wrong and not known:
            for finding in _launches(context):
                reported |= {*(finding.functions or ())}
                yield finding
        yield from find_partly_wrong_gradients(
            context, lambda function: id(function) in known or function.name in reported
        )
        yield from find_bypassed_gradients(context)


def _checked(context: RuleContext) -> dict[int, Checked]:
    assert context.replay is not None
    functions: dict[int, Checked] = {}
    kernels, chosen = _chosen(context)
    flows = values_before(context.replay, [launch.index for launch in chosen]) if chosen else {}
    for launch in chosen:
        for call in _calls(context, launch, flows[launch.index]):
            checked = functions.setdefault(id(call.function), Checked(call.function))
            checked.calls.append((launch, call))
            if launch.name not in checked.kernels:
                checked.kernels.append(launch.name)
    if kernels > KERNELS:
        context.skipped(f"{CustomGrad.code}: {kernels - KERNELS} of {kernels} kernels were not looked into")
    return functions


def _chosen(context: RuleContext) -> tuple[int, list[Launch]]:
    """Return the number of kernels with custom gradients, and the launches of them that are examined."""
    kernels: dict[int, list[Launch]] = {}
    for launch in context.trace.launches:
        if launch.kernel is not None:
            kernels.setdefault(launch.kernel, []).append(launch)
    own = [launches for launches in kernels.values() if _has_own(context, launches[0])]
    return len(own), [
        launches[place] for launches in own[:KERNELS] for place in evenly_spread(len(launches), LAUNCHES)
    ]


def _custom(context: RuleContext, launch: Launch) -> CustomGradients | None:
    """Return the custom gradients of a launch; None if the engine does not expose them."""
    assert context.replay is not None
    return context.replay.records[launch.index].capability(CustomGradients)


def _has_own(context: RuleContext, launch: Launch) -> bool:
    custom = _custom(context, launch)
    calls = () if custom is None else custom.calls()
    return any(call.has_gradient and call.function is not None for call in calls)


def _calls(context: RuleContext, launch: Launch, flow: LaunchFlow) -> Iterator[CheckedCall]:
    """Yield the calls in a few threads of a launch."""
    custom = _custom(context, launch)
    assert custom is not None
    for index in dict.fromkeys([*_suspected(context, launch), *threads_of(launch, flow)]):
        with contextlib.suppress(CannotFollow):
            yield from custom.check(index, flow.values)


def _suspected(context: RuleContext, launch: Launch) -> list[int]:
    """Return the threads with the indices of wrong gradient elements: usually these cause the error."""
    elements = [
        int(at) // max(1, departure.port.components)
        for departure in context.departures
        for at in departure.entries[:SUSPECTS]
    ]
    threads = math.prod(launch.dim)
    return [index for index in dict.fromkeys(elements) if index < threads]


# ------------------------------------------------------------------------- what cannot be taken by itself


def _launches(context: RuleContext) -> Iterator[CustomGradFinding]:
    """Yield findings about native functions and gradients of arrays: whole launches are checked."""
    replay = context.replay
    assert replay is not None
    kernels: dict[int, list[Launch]] = {}
    for launch in context.trace.launches:
        if launch.kernel is not None and launch.kind == "kernel":
            kernels.setdefault(launch.kernel, []).append(launch)
    for launches in list(kernels.values())[:KERNELS]:
        custom = _custom(context, launches[0])
        calls = () if custom is None else custom.calls()
        nodes = [call for call in calls if call.has_gradient and not _meant(call)]
        for place in evenly_spread(len(launches), LAUNCHES) if nodes else ():
            off = [slope for slope in launch_slopes(replay, launches[place].index) if slope.off]
            if off:
                yield _as_a_whole(context, launches[place], nodes, off)
                break


def _meant(call: CustomCall) -> bool:
    """Return True if the gradient is meant to differ from the derivative."""
    gradient = None if call.function is None else call.function.gradient
    return gradient is not None and gradient.differs


def _as_a_whole(
    context: RuleContext, launch: Launch, nodes: list[CustomCall], off: list[DirectionalSlope]
) -> CustomGradFinding:
    names = list(dict.fromkeys(node.name for node in nodes))
    worst = max(off, key=lambda slope: abs(slope.given - slope.right))
    labels = [arg.name if arg.array is None else context.trace.arrays[arg.array].label for arg in launch.args]
    severity, consequence = _severity(context, "wrong")
    native = all(node.function is None for node in nodes)
    what = "adj_snippet" if native else "func_grad"
    message = (
        f"{words.launch_words(launch)} calls {words.listed(names)}, with "
        f"{'a gradient' if len(names) == 1 else 'gradients'} "
        f"by {what}, and its adjoint is not its derivative: along a random direction in "
        f"{labels[worst.param]} it "
        f"gives {worst.given:.6g}, where differences give {worst.right:.6g} ± {worst.bar:.1g}. {consequence}"
    )
    return CustomGradFinding(
        rule=CustomGrad.code,
        severity=severity,
        message=message.strip(),
        launches=[launch.index],
        arrays=list(dict.fromkeys(labels[slope.param] for slope in off)),
        location=place_of(nodes[0].span),
        call_site=launch.call_site,
        kind="launch",
        functions=names,
        inputs=[
            context.trace.arrays[leaf].label
            for leaf in context.experiment.leaves
            if leaf in context.experiment.wrong
        ],
        evidence={
            "function": names[0],
            "parameters": [launch.args[slope.param].name for slope in off],
            "given": worst.given,
            "right": worst.right,
            "bar": worst.bar,
        },
        fix=f"correct the {what} of {words.listed(names)}"
        + ("" if native else f", or say that it is meant to differ: @wp.func_grad({names[0]}, differs=True)"),
    )


# ------------------------------------------------------------------------------------------------- verdicts


def _judged(context: RuleContext, checked: Checked) -> list[CustomGradFinding]:
    found = []
    names = list(dict.fromkeys(p.name for _, call in checked.calls for p in call.partials))
    for name in names:
        samples = [
            (launch, call, partial)
            for launch, call in checked.calls
            for partial in call.partials
            if partial.name == name and partial.right is not None
        ]
        off = [item for item in samples if is_gradient_off(item[1], item[2])]
        if off:
            found.append((name, samples, off))
    # One mistake may show in several arguments: components of a vector, or a factor in all of them.
    groups: dict[tuple[str, int], list[Any]] = {}
    for name, samples, off in found:
        kind = _kind([partial for _, _, partial in off])
        gradient = checked.function.gradient
        assert gradient is not None
        own = own_name(checked.function, gradient, name)
        line = adjoint_line(gradient, own, assigned=kind == "assigned")
        groups.setdefault((kind, line.line), []).append((name, samples, off, line))
    return [_finding(context, checked, kind, group) for (kind, _), group in groups.items()]


def _kind(off: list[PartialDerivative]) -> str:
    """Return the kind of error, by the ratio of the given to the right derivative."""
    if all(p.thrown_away for p in off):
        return "assigned"
    if all(p.given == 0 for p in off):
        return "missing"
    ratios = np.array([p.given / p.right for p in off if p.right and math.isfinite(p.given)])
    if len(ratios) < len(off) or not len(ratios) or np.ptp(ratios) > 1e-3 * abs(ratios[0]):
        return "wrong"
    return "sign" if abs(ratios[0] + 1.0) < 1e-3 else "factor"


def _finding(context: RuleContext, checked: Checked, kind: str, group: list[Any]) -> CustomGradFinding:
    _name, samples, off, line = group[0]
    names = [item[0] for item in group]
    launch, call, worst = max(off, key=lambda item: _size(kind, item[2]))
    gradient = checked.function.gradient
    assert gradient is not None
    severity, consequence = _severity(context, kind)
    arguments = ", ".join(f"{p.name} = {words.number(p.value)}" for p in call.partials[:6])
    message = (
        f"{gradient.name}, the gradient of {checked.function.name}, {_words(kind, names, worst)}. In "
        f"{words.launch_words(launch)}, thread {call.thread}, at {arguments}, the derivative by "
        f"{worst.name} is "
        f"{worst.right:.6g} and {_given_words(kind, worst)}; of {len(samples)} calls that were checked "
        f"{len(off)} are off. {consequence}"
    )
    affected = [
        context.trace.arrays[leaf].label
        for leaf in context.experiment.leaves
        if leaf in context.experiment.wrong
    ]
    return CustomGradFinding(
        rule=CustomGrad.code,
        severity=severity,
        message=message.strip(),
        launches=list(dict.fromkeys(item.index for item, _, _ in off)),
        arrays=affected,
        location=line,
        call_site=launch.call_site,
        kind=kind,
        inputs=affected,
        evidence={
            "function": checked.function.name,
            "gradient": gradient.name,
            "parameters": names,
            "given": worst.given,
            "right": worst.right,
            "ratio": worst.given / worst.right if worst.right else None,
            "arguments": {p.name: p.value for p in call.partials},
            "thread": call.thread,
            "checked": len(samples),
            "off": len(off),
            "kernels": checked.kernels,
        },
        fix=_fix(checked.function, gradient, kind, names[0]),
    )


def _size(kind: str, partial: PartialDerivative) -> float:
    """Return the size of the error."""
    assert partial.right is not None
    lost = partial.right if kind == "assigned" else partial.given - partial.right
    return abs(lost) if math.isfinite(lost) else math.inf


def _severity(context: RuleContext, kind: str) -> tuple[Severity, str]:
    """Return the severity, and the consequence for the gradient that was consumed."""
    if context.experiment.wrong:
        labels = words.listed(context.trace.arrays[leaf].label for leaf in sorted(context.experiment.wrong))
        return "error", f"End to end the gradient of {labels} is wrong."
    if context.trace.verdict == "AGREE":
        why = "nothing else has added to it" if kind == "assigned" else "it does not count there"
        return "info", f"End to end the gradient is right: {why}."
    return "warning", ""


def _words(kind: str, names: list[str], worst: PartialDerivative) -> str:
    listed = words.listed(names)
    if kind == "assigned":
        return (
            f"sets the adjoint of {listed} instead of adding to it, and discards what other uses contributed"
        )
    if kind == "missing":
        return f"has no effect on the adjoint of {listed}"
    if kind == "sign":
        return f"has the wrong sign for {listed}"
    if kind == "factor":
        assert worst.right is not None
        return (
            f"is {worst.given / worst.right:.4g} times too large for {listed}"
            if abs(worst.given) > abs(worst.right)
            else f"is only {worst.given / worst.right:.4g} of what it should be for {listed}"
        )
    return f"is not the derivative by {listed}"


def _given_words(kind: str, worst: PartialDerivative) -> str:
    if kind == "assigned":
        return "is given, but what was there before is gone"
    return "nothing is given" if kind == "missing" else f"{worst.given:.6g} is given"


def _fix(function: CustomFunction, gradient: CustomFunction, kind: str, name: str) -> str:
    own = own_name(function, gradient, name)
    if kind == "assigned":
        return f"write wp.adjoint[{own}] += … in {gradient.name}"
    meant = f"or say that it is meant to differ: @wp.func_grad({function.name}, differs=True)"
    if kind == "missing":
        return f"add the derivative by {own} to wp.adjoint[{own}] in {gradient.name}, {meant}"
    return f"correct wp.adjoint[{own}] in {gradient.name}, {meant}"
