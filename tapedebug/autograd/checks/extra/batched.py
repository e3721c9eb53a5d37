"""The options `check_batched_grad` and `check_batched_forward_grad`: batches must equal single runs."""

from __future__ import annotations

import numpy as np

from tapedebug.autograd.array_types import Checkpoint, Floats
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.subjects.entry_names import entry_name
from tapedebug.autograd.subjects.probes import random_directions, shape_index
from tapedebug.autograd.subjects.program import Pairs, Port
from tapedebug.autograd.subjects.shadow_program import ShadowProgram

ADJOINT, TANGENT = "batched adjoint", "batched tangent"
COUNT = 5  # at once: more than one register holds, and no multiple of one

Vectors = dict[Port, Floats]


def check_batched_adjoints(
    program: ShadowProgram, pairs: Pairs, plan: CheckPlan, checkpoint: Checkpoint | None = None
) -> list[PairResult]:
    """Compare several adjoint seeds of each output at once with single ones, in both precisions."""
    found: dict[tuple[Port, Port], PairResult] = {}
    for target in pairs.outputs():
        seeds = random_directions(target.size, COUNT)
        runs = [
            (
                program.pull_many({target: seeds}, double=double),
                [program.pull({target: seed}, double=double) for seed in seeds],
            )
            for double in (False, True)
        ]
        sources = [i for i, o in pairs.chosen if o is target]
        if checkpoint is not None:
            checkpoint()
        apart = _largest_differences(sources, runs)
        for source in sources:
            found[source, target] = _result(program, source, target, source, apart[source], plan, ADJOINT)
    return [found[pair] for pair in pairs.chosen]


def check_batched_tangents(
    program: ShadowProgram, pairs: Pairs, plan: CheckPlan, checkpoint: Checkpoint | None = None
) -> list[PairResult]:
    """Compare several tangents of each input at once with single ones, in both precisions."""
    found: dict[tuple[Port, Port], PairResult] = {}
    for source in pairs.inputs():
        directions = random_directions(source.size, COUNT)
        runs = [
            (
                program.push_many({source: directions}, double=double),
                [program.push({source: direction}, double=double) for direction in directions],
            )
            for double in (False, True)
        ]
        targets = pairs.outputs(source)
        if checkpoint is not None:
            checkpoint()
        apart = _largest_differences(targets, runs)
        for target in targets:
            found[source, target] = _result(program, source, target, target, apart[target], plan, TANGENT)
    return [found[pair] for pair in pairs.chosen]


Slot = tuple[float, int, int, float, float]
"""The difference, the seed, the scalar, and both numbers."""


def _largest_differences(ports: list[Port], runs: list[tuple[Vectors, list[Vectors]]]) -> dict[Port, Slot]:
    """Return for each port the entry at which the two ways differ most."""
    worst: dict[Port, Slot] = {port: (0.0, 0, 0, 0.0, 0.0) for port in ports}
    for together, alone in runs:
        for k, one in enumerate(alone):
            for port in ports:
                here, there = together[port][k], one[port]
                same = (here == there) | (np.isnan(here) & np.isnan(there))
                with np.errstate(all="ignore"):
                    gap = np.where(same, 0.0, np.abs(here - there))
                gap = np.where(np.isnan(gap), np.inf, gap)
                i = int(np.argmax(gap))
                if gap[i] > worst[port][0]:
                    worst[port] = float(gap[i]), k, i, float(here[i]), float(there[i])
    return worst


def _result(
    program: ShadowProgram, source: Port, target: Port, where: Port, slot: Slot, plan: CheckPlan, check: str
) -> PairResult:
    apart, k, i, together, alone = slot
    tolerance = plan.options.nondet_tol
    message = ""
    if apart > tolerance:
        place = entry_name(where.name, shape_index(i, where.shape), where.value_type)
        kind = check.removeprefix("batched ")
        message = (
            f"with {COUNT} {kind}s at once the {kind} of {place} is {together:.9g} for the one "
            f"at {k}, alone it is {alone:.9g}: they differ by {apart:.3g}, nondet_tol is {tolerance:g}"
        )
    return PairResult(
        launch=program.launch,
        subject=program.subject,
        input=source.label,
        output=target.label,
        verdict="WRONG" if message else "AGREE",
        max_abs_error=apart,
        max_rel_error=apart / abs(alone) if alone else apart,
        message=message,
        notes=_note_of_single_rows(program, check),
        entries=COUNT * where.size,
        evaluated=COUNT * where.size,
        check=check,
    )


def _note_of_single_rows(program: ShadowProgram, check: str) -> tuple[str, ...]:
    """Return the note that several rows run one by one, so that there is nothing to compare; else nothing."""
    reason = program.one_by_one.get("backward" if check == ADJOINT else "push")
    kind = check.removeprefix("batched ")
    return () if reason is None else (f"several {kind}s run one by one here: {reason}",)
