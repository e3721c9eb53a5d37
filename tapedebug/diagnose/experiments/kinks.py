"""The operation that stands at its kink: `abs` of 0, the `max` of equals, a branch about to change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tapedebug.diagnose.experiments.local_derivatives import COMPARISONS, place_of, text_of
from tapedebug.trace import Launch, Location

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.thread_interpreter import Step, ThreadInterpreter
    from tapedebug.diagnose.rule_context import RuleContext

THREADS = 256
LAUNCHES = 8
"""Launches that are followed, the last of each kernel; the corner of a time loop may be in another round."""
NEAR = 1e-6
"""A relative difference that a float32 rounding or two explains."""


@dataclass(frozen=True, slots=True)
class Kink:
    """An operation at its corner: its launch, text, place and operands."""

    launch: Launch
    text: str
    place: Location | None
    operands: tuple[float, ...]


def find_kink(case: RuleContext) -> Kink | None:
    """Return the operation nearest to the loss that stands at a corner in a value with an adjoint."""
    from tapedebug.autograd.tapes.rule_evaluation import CannotFollow

    if case.replay is None:
        return None
    last = {launch.kernel: launch for launch in case.trace.launches if launch.kind == "kernel"}
    for launch in sorted(last.values(), key=lambda item: -item.index)[:LAUNCHES]:
        flow = case.experiment.flow(launch.index, "versions")
        for index in range(min(math.prod(launch.dim), THREADS)):
            thread = case.experiment.thread(launch.index, index, flow)
            try:
                thread.run()
            except CannotFollow:
                break
            step = _at_corner(thread)
            if step is not None:
                operands = tuple(float(arg.value) for arg in step.args)
                span = step.op.span
                return Kink(launch, text_of(span) or step.op.kind, place_of(span), operands)
    return None


def _at_corner(thread: ThreadInterpreter) -> Step | None:
    for step in thread.steps:
        if not any(arg.active for arg in step.args):
            continue
        if step.op.kind == "abs" and step.args[0].value == 0:
            return step
        if step.op.kind in COMPARISONS | {"min", "max"} and len(step.args) == 2:
            one, other = (float(arg.value) for arg in step.args)
            if abs(one - other) <= NEAR * max(abs(one), abs(other)):
                return step
    return None
