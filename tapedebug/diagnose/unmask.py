"""Find bugs that another bug hides: diagnose again with the first one fixed in private memory.

Where a chain is severed, or the loss is reset on the tape, gradients are 0; where one number is NaN, all
are: then nothing that happens further up can be measured. So arrays get the gradient that they lack, what
came after the loss is left out, numbers become finite, and the rules look once more. What they find then is
told with the name of what hid it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from tapedebug.contract import RecordedTape
from tapedebug.diagnose.attribute_causes import attribute_causes
from tapedebug.diagnose.experiments.patched_replay import ReplayPatch
from tapedebug.diagnose.experiments.patched_tape import patched_tape
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rule_table import RULES, apply
from tapedebug.diagnose.rules import (
    after_loss,
    disconnected,
    duplicate_launch,
    flat_op,
    nonfinite,
    overwrite,
    seed,
    wrong_adjoint,
)
from tapedebug.diagnose.rules._latent_accumulation import latent
from tapedebug.diagnose.trace_analysis.dependencies import is_float
from tapedebug.trace import Coverage, Finding

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

DEPTH = 3
"""So many bugs may stand behind each other."""
CUT = ("no requires_grad", "backward disabled")
MEASURABLE = (overwrite.RULE, disconnected.RULE, duplicate_launch.RULE, seed.RULE)
"""Rules that compare gradients of the tape with each other, so that any gradient will do."""

ANYTHING = tuple(rule.id for rule in RULES if rule.id != wrong_adjoint.RULE)
"""But what is left when nothing else explains it: it would be blamed for what was told before."""

MOST_LAUNCHES = 2_000
"""Of longer tapes the verdict is not looked for a second time, and only what hides easily is."""


class Rediagnose(Protocol):
    """Makes a case of another tape, with the same loss and inputs, and its verdict if `check`."""

    def __call__(self, tape: RecordedTape, *, check: bool = True) -> RuleContext:
        """Return the case of `tape`."""
        ...


def unmask(case: RuleContext, again: Rediagnose, depth: int = DEPTH) -> None:
    """Add to the findings of a case what stands behind those that hide something."""
    replay = case.replay
    if replay is None or depth == 0:
        return
    for hiding, fixed in _fixed(case, replay, again):
        unmask(fixed, again, depth - 1)
        _add(case, fixed.trace.findings, hiding)
    if depth == DEPTH:
        _reveal_latent(case)


def _reveal_latent(case: RuleContext) -> None:
    gradients = case.experiment.gradients()
    labels = {case.trace.arrays[leaf].label for leaf, values in gradients.items() if not values.any()}
    for hiding in [finding for finding in case.trace.findings if finding.severity != "info"]:
        inputs = [label for label in hiding.evidence.get("inputs", ()) if label in labels]
        found = latent(case, hiding, inputs) if inputs else []
        if found:
            case.trace.findings += found
            return


def _fixed(case: RuleContext, replay: Replay, again: Rediagnose) -> Iterator[tuple[Finding, RuleContext]]:
    """The case without the bugs that hide others, and the first of those."""
    serious = [finding for finding in case.trace.findings if finding.severity != "info"]
    cuts = [f for f in serious if f.rule == disconnected.RULE and f.evidence["kind"] in CUT]
    late = [f for f in serious if f.rule == after_loss.RULE and f.evidence["relative_error"]]
    if cuts or late:
        stop = late[0].evidence["last"] + 1 if late else None
        tape = patched_tape(replay.recorded, _between(case) if cuts else (), stop)
        case.progress("looking for what stands behind what was found")
        few = len(tape.operations) <= MOST_LAUNCHES
        if not few:
            looked = ", ".join((*MEASURABLE, nonfinite.RULE, flat_op.RULE))
            case.skipped(f"behind what was found only {looked} were looked for: the tape is long")
        found = again(tape, check=few)
        _name(found, case)
        found.as_warp = case.as_warp
        apply(found, only=ANYTHING if few else (*MEASURABLE, nonfinite.RULE, flat_op.RULE))
        found.trace.findings = attribute_causes(found.trace.findings)
        yield (cuts + late)[0], found
    wild = [f for f in serious if f.rule == nonfinite.RULE]
    flat = [f for f in serious if f.rule == flat_op.RULE]
    if wild or flat:
        case.progress("looking for what stands behind what was found")
        yield (wild + flat)[0], _calmed(case, replay, bool(wild), flat)


def _between(case: RuleContext) -> set[int]:
    """The arrays between the inputs and the loss: those that a gradient passes unless it is cut."""
    graph, experiment = case.dependencies, case.experiment
    last = {version.array: version.version for version in case.trace.versions}
    below = graph.upstream([(array, last[array]) for array in experiment.losses], with_gradient=False)
    above = graph.leaves_above(experiment.leaves)
    detached = {
        label
        for finding in case.trace.findings
        if finding.evidence.get("detached")
        for label in finding.arrays[:1]
    }
    arrays = {node[0] for node in below if above.get(node)}
    return {
        number
        for number in arrays
        if is_float(case.trace.arrays[number]) and case.trace.arrays[number].label not in detached
    }


def _name(found: RuleContext, case: RuleContext) -> None:
    """Arrays are called what they were called before, and have the gradient that they were given."""
    names = {info.id: info.label for info in case.trace.arrays}
    replay = found.replay
    for info in found.trace.arrays:
        info.label = names[info.id]
    for record, launch in zip(replay.records if replay else (), found.trace.launches, strict=False):
        for p in record.active:
            number = launch.args[p].array
            if number is not None:
                found.trace.arrays[number].requires_grad = True


def _calmed(case: RuleContext, replay: Replay, finite: bool, flat: list[Finding]) -> RuleContext:
    """The same tape with finite numbers, and adjoints past its flat operations."""
    trace = copy.copy(case.trace)
    trace.findings, trace.coverage, trace.checks = [], Coverage(), []
    experiment = replay.patched(ReplayPatch(finite, _past(case, flat)))
    found = RuleContext(trace, experiment, case.as_warp, case.named_loss, case.progress)
    apply(found, only=MEASURABLE)
    trace.findings = attribute_causes(trace.findings)
    return found


def _past(case: RuleContext, flat: list[Finding]) -> dict[int, tuple[int, ...]]:
    """The launches at which adjoints die, with what they read."""
    dead = set(case.experiment.dead_adjoints()) if flat else set()
    dead |= {launch for finding in flat for launch in finding.launches}
    return {
        index: tuple(
            p
            for p, arg in enumerate(case.trace.launches[index].args)
            if arg.reads and arg.array is not None and is_float(case.trace.arrays[arg.array])
            if case.trace.arrays[arg.array].requires_grad
        )
        for index in dead
    }


def _add(case: RuleContext, found: list[Finding], hiding: Finding) -> None:
    """What was not told before, or not as what it is."""
    known: dict[Any, Finding] = {}
    for finding in case.trace.findings:
        known.setdefault(_place(finding), finding)
    for finding in found:
        before = known.get(_place(finding))
        if finding.severity == "info" or (before is not None and before.severity != "info"):
            continue
        if "behind" not in finding.evidence:
            seen = f" It is hidden by what {hiding.rule} says, and was seen with that fixed."
            evidence = {**finding.evidence, "behind": hiding.rule}
            finding = replace(finding, message=finding.message + seen, evidence=evidence)
        case.trace.findings = [each for each in case.trace.findings if each is not before] + [finding]
        known[_place(finding)] = finding


def _place(finding: Finding) -> Any:
    places = [(at.file, at.line) if at is not None else None for at in (finding.location, finding.call_site)]
    return (finding.rule, *places)
