"""Finds bugs that another bug hides, by a second diagnosis with the first bug fixed in private memory.

If a chain is disconnected, or the loss is reset on the tape, gradients are 0; if one number is NaN, all are.
Then no bug earlier on the tape can be measured. So arrays get the gradient that they lack, launches after the
loss are left out, numbers become finite, and the rules run once more. Each new finding names the bug that
hid it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from tapedebug.contract import RecordedTape
from tapedebug.diagnose.attribute_causes import attribute_causes
from tapedebug.diagnose.experiments.patched_replay import ReplayPatch
from tapedebug.diagnose.experiments.patched_tape import patched_tape
from tapedebug.diagnose.registry import RULES, apply_rules, rule_of
from tapedebug.diagnose.rule import Repair, inputs_of, is_detached
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules.accumulated import latent
from tapedebug.diagnose.timings import END_TO_END, PER_OPERATION
from tapedebug.diagnose.trace_analysis.dependencies import is_float
from tapedebug.trace import Coverage, Finding

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

DEPTH = 3
"""Largest number of bugs that are repaired one after another."""
MOST_LAUNCHES = 2_000
"""Launches up to which the rest is diagnosed in full; longer tapes get no verdict and only likely rules."""


class Rediagnose(Protocol):
    """Creates a context of another tape, with the same loss and inputs, and its verdict if `check`."""

    def __call__(self, tape: RecordedTape, *, check: bool = True) -> RuleContext:
        """Return the context of `tape`."""
        ...


def unmask(context: RuleContext, again: Rediagnose, depth: int = DEPTH) -> None:
    """Add to a context the findings that were hidden by its other findings.

    An interrupt or an error keeps those before it.
    """
    replay = context.replay
    if replay is None or depth == 0:
        return
    for hiding, fixed, rules in _fixed(context, replay, again):
        try:
            try:
                apply_rules(fixed, rules)
            finally:
                fixed.trace.findings = attribute_causes(fixed.trace.findings)
            unmask(fixed, again, depth - 1)
        finally:
            _add(context, fixed.trace.findings, hiding)
    if depth == DEPTH:
        _reveal_latent(context)


def estimated_seconds(context: RuleContext) -> float:
    """Return the estimated seconds of `unmask`: what the same steps took on the tape with its bugs."""
    repairs = [
        (found, repair)
        for finding in context.trace.findings
        if finding.severity != "info" and (repair := (found := rule_of(finding)).repair(finding)) is not None
    ]
    recorded = [found for found, repair in repairs if repair.records_again]
    replayed = [found for found, repair in repairs if not repair.records_again]
    few = len(context.trace.launches) <= MOST_LAUNCHES
    seconds = len(context.trace.launches) * PER_OPERATION
    if recorded and few:
        seconds += sum(timing.seconds for timing in context.trace.timings)
    rules = {rule.code for rule in RULES}
    for rule in [*(() if few else recorded[:1]), *replayed[:1]]:
        # Experiments that rules share run again, too.
        others = rules.difference(rule.unmasks) | {END_TO_END}
        seconds += sum(each.seconds for each in context.trace.timings if each.step not in others)
    return seconds


def _reveal_latent(context: RuleContext) -> None:
    gradients = context.experiment.gradients()
    labels = {context.trace.arrays[leaf].label for leaf, values in gradients.items() if not values.any()}
    for hiding in [finding for finding in context.trace.findings if finding.severity != "info"]:
        inputs = [label for label in inputs_of(hiding) if label in labels]
        found = latent(context, hiding, inputs) if inputs else []
        if found:
            context.trace.findings += found
            return


def _fixed(
    context: RuleContext, replay: Replay, again: Rediagnose
) -> Iterator[tuple[Finding, RuleContext, Collection[str]]]:
    """Yield the first bug that hides others, the context of the tape without such bugs, and rules for it."""
    serious = [finding for finding in context.trace.findings if finding.severity != "info"]
    repairs = [(item, repair) for item in serious if (repair := rule_of(item).repair(item)) is not None]
    recorded = [each for each in repairs if each[1].records_again]
    if recorded:
        yield recorded[0][0], *_recorded_again(context, replay, again, recorded)
    replayed = [each for each in repairs if not each[1].records_again]
    if replayed:
        context.progress("looking for what stands behind what was found")
        hiding = replayed[0][0]
        yield hiding, _calmed(context, replay, replayed), rule_of(hiding).unmasks


Repairs = Sequence[tuple[Finding, Repair]]


def _recorded_again(
    context: RuleContext, replay: Replay, again: Rediagnose, repairs: Repairs
) -> tuple[RuleContext, Collection[str]]:
    """Return another tape, with the gradients that arrays lacked and without the launches after the loss.

    Returns:
        Its context, and the rules to apply.
    """
    stop = next((repair.stop for _, repair in repairs if repair.stop is not None), None)
    cut = any(repair.requires_grad for _, repair in repairs)
    tape = patched_tape(replay.recorded, _between(context) if cut else (), stop)
    context.progress("looking for what stands behind what was found")
    few = len(tape.operations) <= MOST_LAUNCHES
    hidden = rule_of(repairs[0][0]).unmasks
    if not few:
        context.skipped(f"behind what was found only {', '.join(hidden)} were looked for: the tape is long")
    found = again(tape, check=few)
    _name(found, context)
    found.as_warp = context.as_warp
    return found, [rule.code for rule in RULES if not rule.last_resort] if few else hidden


def _between(context: RuleContext) -> set[int]:
    """Return the arrays between the inputs and the loss, through which the gradient should pass."""
    graph, experiment = context.dependencies, context.experiment
    last = {version.array: version.version for version in context.trace.versions}
    below = graph.upstream([(array, last[array]) for array in experiment.losses], with_gradient=False)
    above = graph.leaves_above(experiment.leaves)
    detached = {
        label for finding in context.trace.findings if is_detached(finding) for label in finding.arrays[:1]
    }
    arrays = {node[0] for node in below if above.get(node)}
    return {
        number
        for number in arrays
        if is_float(context.trace.arrays[number]) and context.trace.arrays[number].label not in detached
    }


def _name(found: RuleContext, context: RuleContext) -> None:
    """Restore the labels of arrays, and mark the gradients that were added."""
    names = {info.id: info.label for info in context.trace.arrays}
    replay = found.replay
    for info in found.trace.arrays:
        info.label = names[info.id]
    for record, launch in zip(replay.records if replay else (), found.trace.launches, strict=False):
        for p in record.active:
            number = launch.args[p].array
            if number is not None:
                found.trace.arrays[number].requires_grad = True


def _calmed(context: RuleContext, replay: Replay, repairs: Repairs) -> RuleContext:
    """Return the same tape with finite numbers, and adjoints past its flat operations."""
    finite = any(repair.finite for _, repair in repairs)
    revived = {launch for _, repair in repairs for launch in repair.revive}
    trace = copy.copy(context.trace)
    trace.findings, trace.coverage, trace.checks, trace.timings = [], Coverage(), [], []
    experiment = replay.patched(ReplayPatch(finite, _past(context, revived)))
    found = RuleContext(trace, experiment, context.as_warp, context.named_loss, context.progress)
    found.run_seconds = context.run_seconds
    return found


def _past(context: RuleContext, revived: set[int]) -> dict[int, tuple[int, ...]]:
    """Return the launches at which adjoints become 0, with the parameters that they read."""
    dead = {*context.experiment.dead_adjoints(), *revived} if revived else set()
    return {
        index: tuple(
            p
            for p, arg in enumerate(context.trace.launches[index].args)
            if arg.reads and arg.array is not None and is_float(context.trace.arrays[arg.array])
            if context.trace.arrays[arg.array].requires_grad
        )
        for index in dead
    }


def _add(context: RuleContext, found: list[Finding], hiding: Finding) -> None:
    """Add the findings that are new, or that were only an `info` before."""
    known: dict[Any, Finding] = {}
    for finding in context.trace.findings:
        known.setdefault(_place(finding), finding)
    for finding in found:
        before = known.get(_place(finding))
        if finding.severity == "info" or (before is not None and before.severity != "info"):
            continue
        if "behind" not in finding.evidence:
            seen = f" It is hidden by what {hiding.rule} says, and was seen with that fixed."
            evidence = {**finding.evidence, "behind": hiding.rule}
            finding = replace(finding, message=finding.message + seen, evidence=evidence)
        context.trace.findings = [each for each in context.trace.findings if each is not before] + [finding]
        known[_place(finding)] = finding


def _place(finding: Finding) -> Any:
    places = [(at.file, at.line) if at is not None else None for at in (finding.location, finding.call_site)]
    return (finding.rule, *places)
