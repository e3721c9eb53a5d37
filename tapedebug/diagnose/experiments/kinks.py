"""Finds an operation at its kink: `abs` of 0, `max` of equal values, `floor` of an integer.

A comparison of equal values is one too: its branch is on the verge of changing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tapedebug._dataclass import dataclass
from tapedebug.contract import CannotFollow
from tapedebug.diagnose.experiments.places import code_of, place_of
from tapedebug.trace import Launch, Location

if TYPE_CHECKING:
    from tapedebug.diagnose.rule_context import RuleContext

THREADS = 256
LAUNCHES = 8
"""Launches that are followed, the last of each kernel; in a time loop the kink may be in another round."""


@dataclass(frozen=True, slots=True)
class Kink:
    """An operation at a kink: its launch, text, place and operands."""

    launch: Launch
    text: str
    place: Location | None
    operands: tuple[float, ...]


def find_kink(case: RuleContext) -> Kink | None:
    """Return the operation nearest to the loss that is at a kink and whose result has an adjoint."""
    if case.replay is None:
        return None
    last = {launch.kernel: launch for launch in case.trace.launches if launch.kind == "kernel"}
    for launch in sorted(last.values(), key=lambda item: -item.index)[:LAUNCHES]:
        flow = case.experiment.flow(launch.index, "versions")
        for index in range(min(math.prod(launch.dim), THREADS)):
            try:
                thread = case.experiment.thread(launch.index, index, flow)
                thread.run()
            except CannotFollow:
                break
            found = thread.corner()
            if found is not None:
                text = code_of(found)
                return Kink(launch, text, place_of(found.span), tuple(found.operands))
    return None
