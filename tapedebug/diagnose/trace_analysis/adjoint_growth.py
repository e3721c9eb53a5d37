"""Measures the growth of the adjoint per round of a loop, and the growth of the system itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._even_sample import evenly_spread
from tapedebug.contract import Operation
from tapedebug.diagnose.trace_analysis.loops import Loop, loops

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.adjoint_profile import AdjointProfile
    from tapedebug.diagnose.experiments.replay import Replay
    from tapedebug.diagnose.rule_context import RuleContext

TABLE = 200
"""Largest number of entries of the table launch → norm in the evidence of a finding."""


@dataclass(frozen=True, slots=True)
class AdjointGrowth:
    """The growth of the adjoint over the rounds of a loop.

    Attributes:
        rounds: The loop.
        norms: Norms of the adjoints of the values that each round passes on, first round to last.
        values: Norms of these values.
        start: The first of these rounds; before it, the adjoint is 0 or not finite.
        overflows: True if the adjoint is not finite before it.
    """

    rounds: Loop
    norms: tuple[float, ...]
    values: tuple[float, ...]
    start: int = 0
    overflows: bool = False

    @property
    def total(self) -> float:
        """The factor by which the adjoint grows from the end of the last round to that of the first."""
        return _ratio(self.norms[0], self.norms[-1])

    @property
    def relative(self) -> float:
        """The growth of adjoint times value, which is the amplification of a relative change."""
        return self.total * _ratio(self.values[0], self.values[-1])

    @property
    def rate(self) -> float:
        """The average factor of one round."""
        return float(self.total ** (1.0 / (len(self.norms) - 1)))

    @property
    def is_sustained(self) -> bool:
        """True if both halves of the loop contribute, unlike in a sum over rounds or a single jump."""
        middle = self.norms[len(self.norms) // 2]
        shares = [_log(_ratio(self.norms[0], middle)), _log(_ratio(middle, self.norms[-1]))]
        total = _log(self.total)
        return all(share * total > 0 and abs(share) > abs(total) / 4 for share in shares)


def growths(context: RuleContext, profile: AdjointProfile) -> list[AdjointGrowth]:
    """Return the growth of the adjoint in each loop with an adjoint at its end."""
    found = []
    for rounds in loops(context.trace):
        norms, values = [], []
        for number in range(rounds.count):
            places = [(rounds.launch(number, item.writer), item.written) for item in rounds.carried]
            passages = [(profile.passages[index], param) for index, param in places]
            norms.append(math.hypot(*(item.incoming.get(param, 0.0) for item, param in passages)))
            values.append(math.hypot(*(item.written.get(param, 0.0) for item, param in passages)))
        while norms and norms[-1] == 0:  # the loss was computed before the last rounds
            norms.pop()
            values.pop()
        lost = [number for number, norm in enumerate(norms) if not math.isfinite(norm)]
        start = lost[-1] + 1 if lost else next((number for number, norm in enumerate(norms) if norm), 0)
        if len(norms) - start > 2:
            kept = tuple(norms[start:]), tuple(values[start:])
            found.append(AdjointGrowth(rounds, *kept, start, overflows=bool(lost)))
    return found


def overflowing(context: RuleContext, least: float) -> AdjointGrowth | None:
    """Return a loop in which the adjoint grows by at least `least`, then overflows; None without one."""
    if context.profile is None:
        return None
    found = [item for item in largest(growths(context, context.profile)) if item.overflows]
    return next((item for item in found if item.total >= least), None)


def table(profile: AdjointProfile) -> list[list[float]]:
    """Return at most `TABLE` entries [launch, log10 of the norm of its incoming adjoint]."""
    known = [
        [index, round(math.log10(passage.arrives), 3)]
        for index, passage in enumerate(profile.passages)
        if 0 < passage.arrives < math.inf
    ]
    return [known[place] for place in evenly_spread(len(known), TABLE)]


def tangent_rate(replay: Replay, growth: AdjointGrowth) -> float:
    """Return the factor by which a tangent along the gradient grows in one round.

    If the adjoint overflows there is no gradient; the tangent is then one of the values that the first of
    these rounds passes on.
    """
    rounds = growth.rounds
    shadow = replay.tangents()
    numbers = range(len(growth.norms))
    at = {rounds.launch(growth.start + k, item.writer): k for k in numbers for item in rounds.carried}
    norms = [0.0] * len(growth.norms)

    def look(record: Operation) -> None:
        if record.index in at:
            norms[at[record.index]] = math.hypot(
                norms[at[record.index]],
                *(
                    float(np.linalg.norm(shadow.tangent(record.args[item.written])))
                    for item in rounds.carried
                    if rounds.launch(growth.start + at[record.index], item.writer) == record.index
                ),
            )

    if growth.overflows:
        first = rounds.launch(growth.start, max(item.writer for item in rounds.carried)) + 1
        shadow.forward(0, first)
        handed = [
            replay.records[rounds.launch(growth.start, item.writer)].args[item.written]
            for item in rounds.carried
        ]
        directions = {a: _direction(np.ones_like(shadow.values(a))) for a in handed}
        shadow.push(directions, start=first, on_operation=look)
        norms[0] = math.hypot(*(float(np.linalg.norm(values)) for values in directions.values()))
    else:
        directions = {replay.arrays[leaf]: _direction(found) for leaf, found in replay.gradients().items()}
        shadow.push(directions, on_operation=look)
    start = len(norms) // 3
    total = _ratio(norms[-1], norms[start])
    return float(total ** (1.0 / max(1, len(norms) - 1 - start)))


def alternates(replay: Replay, growth: AdjointGrowth) -> bool:
    """True if the adjoint changes its sign from round to round, as with too large a time step."""
    rounds = growth.rounds
    item = rounds.carried[0]
    wanted = {rounds.launch(growth.start + k, item.writer) for k in range(len(growth.norms))}
    shadow = replay._ready()
    cosines: list[float] = []
    last: list[Any] = []

    def look(record: Operation) -> None:
        if record.index - 1 in wanted:
            now = shadow.gradient(replay.records[record.index - 1].args[item.written]).ravel()
            now = now.astype(np.float64)
            if last and last[-1].shape == now.shape:
                size = float(np.linalg.norm(now)) * float(np.linalg.norm(last[-1]))
                cosines.append(float(now @ last[-1]) / size if size else 0.0)
            last[:] = [now]

    shadow.backward(replay.seeds, on_operation=look)
    early = cosines[len(cosines) // 2 :]  # by then the fastest-growing part dominates
    return len(early) > 1 and float(np.mean(np.array(early) < -0.5)) > 0.9


def _direction(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the direction of a gradient as a tangent of length 1."""
    found: np.ndarray[Any, Any] = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    largest = float(np.abs(found).max(initial=0.0))
    if largest == 0:
        return found
    found /= largest
    found /= np.linalg.norm(found)
    return found


def _ratio(one: float, other: float) -> float:
    if other == 0:
        return math.inf if one else 1.0
    return one / other if math.isfinite(other) else 0.0


def _log(value: float) -> float:
    return math.log(value) if 0 < value < math.inf else math.copysign(700.0, value - 1.0)


def largest(found: Iterable[AdjointGrowth]) -> Sequence[AdjointGrowth]:
    """Return the steady growths, largest first."""
    return sorted((item for item in found if item.is_sustained), key=lambda item: -abs(_log(item.total)))
