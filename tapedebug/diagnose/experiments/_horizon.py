"""The gradient over several tapes: what one tape leaves and the next one reads, adjoints handed back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.diagnose._case import Case
from tapedebug.diagnose.experiments._experiment import Values
from tapedebug.diagnose.experiments._seeded import seeded
from tapedebug.diagnose.reading._graph import differentiable
from tapedebug.trace import Event

if TYPE_CHECKING:
    from tapedebug.runtime.replay import Shadow

STEPS = (1e-3, 5e-4)
"""Steps of the central differences, relative to the parameter."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An array that one tape wrote last and the next tape found: its ids on both."""

    source: int
    target: int
    copied: bool


def carried(before: Case, after: Case) -> list[Edge]:
    """Return the arrays with a gradient whose content goes from one tape to the next, unchanged."""
    left = _left_behind(before)
    if not left:
        return []
    start = after.rerun._shadow()
    arrays = after.rerun.arrays
    found = []
    for target in _taken_up(after):
        a = arrays[target]
        content = np.array(start.values(a))
        own = before.rerun.recorded.id_of(a)
        if own in left:
            constant = content.size > 0 and bool((content == content.reshape(-1)[0]).all())
            if np.array_equal(left[own], content) and not (constant and _written_between(before, after, own)):
                found.append(Edge(own, target, copied=False))
            continue
        if own is not None or _is_trivial(content):
            continue  # an input of both
        twin = next((n for n, values in left.items() if _equal(values, content)), None)
        if twin is not None:
            found.append(Edge(twin, target, copied=True))
    return found


def carries_loss(before: Case, after: Case) -> bool:
    """Whether a tape adds to the loss that the tape before it left: it is that of both."""
    for number in seeded(after.rerun):
        a = after.rerun.arrays[number]
        own = before.rerun.recorded.id_of(a)
        if own is None or own not in seeded(before.rerun):
            return False
        left = before.rerun._ready().values(a)
        if not left.any() or not np.array_equal(left, after.rerun._shadow().values(a)):
            return False
    return True


def _left_behind(case: Case) -> dict[int, Values]:
    """What a tape wrote and left, of arrays with a gradient."""
    latest = {version.array: version for version in case.trace.versions}
    wanted = [
        number
        for number, version in latest.items()
        if version.written_by is not None and differentiable(case.trace.arrays[number])
    ]
    shadow = case.rerun._ready()
    return {number: shadow.values(case.rerun.arrays[number]) for number in wanted}


def _taken_up(case: Case) -> list[int]:
    """The arrays with a gradient whose values a tape found and read."""
    return [
        version.array
        for version in case.trace.versions
        if version.version == 0 and version.reads and differentiable(case.trace.arrays[version.array])
    ]


def _written_between(before: Case, after: Case, array: int) -> bool:
    events: list[Event] = before.trace.events
    start, end = before.trace.tape.ended, after.trace.tape.began
    return any(e.kind == "write" and e.array == array and start < e.clock < end for e in events)


def _is_trivial(content: Values) -> bool:
    """Whether equal content says nothing: it is constant."""
    return content.size < 2 or bool((content == content.reshape(-1)[0]).all())


def _equal(one: Values, other: Values) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one, other)


@dataclass(slots=True)
class Horizon:
    """What was measured over a row of tapes.

    Attributes:
        consumed: What the passes of the tapes add up to for each parameter, by its id on the last tape.
        whole: The gradient over all of them.
        difference: The slope of the losses along `whole`, by differences in float64, if it was taken.
        bar: How far that may be off.
        along: The slopes of `consumed` and `whole` in that direction.
    """

    consumed: dict[int, Values]
    whole: dict[int, Values]
    difference: float | None = None
    bar: float = 0.0
    along: tuple[float, float] = (0.0, 0.0)


def measure(cases: Sequence[Case], links: Sequence[Sequence[Edge]], params: Sequence[int]) -> Horizon:
    """Return the gradients of parameters, given by their ids on the last tape, over a row of tapes.

    Args:
        cases: The tapes, in order.
        links: What is carried from each to the next.
        params: The parameters.
    """
    last = cases[-1].rerun
    shared = {number: last.arrays[number] for number in params}
    consumed = {number: np.zeros(a._look().shape) for number, a in shared.items()}
    whole = {number: np.zeros(a._look().shape) for number, a in shared.items()}
    handed: dict[int, Values] = {}
    for position in reversed(range(len(cases))):
        replay = cases[position].rerun
        shadow = replay._ready()
        own = seeded(replay)
        shadow.backward({replay.arrays[number]: values for number, values in own.items()})
        _add(consumed, shadow, shared)
        if handed:
            more = dict(own)
            for number, values in handed.items():
                more[number] = more[number] + values if number in more else values
            shadow.backward({replay.arrays[number]: values for number, values in more.items()})
        _add(whole, shadow, shared)
        if position:
            edges = links[position - 1]
            handed = {edge.source: shadow.gradient(replay.arrays[edge.target]) for edge in edges}
    return Horizon(consumed, whole)


def _add(total: dict[int, Values], shadow: Shadow, arrays: Mapping[int, Any]) -> None:
    for number, a in arrays.items():
        total[number] = total[number] + shadow.gradient(a).astype(np.float64)


def confirm(horizon: Horizon, cases: Sequence[Case], links: Sequence[Sequence[Edge]]) -> None:
    """Compare with differences of all losses together, in float64, along the gradient over all tapes."""
    last = cases[-1].rerun
    size = np.sqrt(sum(float((values**2).sum()) for values in horizon.whole.values()))
    direction = {number: values / size for number, values in horizon.whole.items()}
    scale = max(
        float(np.abs(last.arrays[number]._look()).max(initial=0.0)) or 1.0 for number in horizon.whole
    )
    shadows = [case.rerun._shadow(double=True) for case in cases]

    def total(step: float) -> float:
        moved = {last.arrays[number]: step * values for number, values in direction.items()}
        return _losses(cases, shadows, links, moved)

    slopes = []
    for relative in STEPS:
        step = relative * scale
        slopes.append((total(step) - total(-step)) / (2 * step))
    horizon.difference = (4 * slopes[1] - slopes[0]) / 3
    horizon.bar = abs(slopes[1] - slopes[0])
    horizon.along = (_inner(horizon.consumed, direction), _inner(horizon.whole, direction))


def _losses(
    cases: Sequence[Case],
    shadows: Sequence[Shadow],
    links: Sequence[Sequence[Edge]],
    moved: Mapping[Any, Values],
) -> float:
    """The sum of all losses, weighted by their seeds, with parameters moved."""
    total = 0.0
    for position, (case, shadow) in enumerate(zip(cases, shadows, strict=True)):
        replay = case.rerun
        shadow.forward(stop=0)
        for a, values in moved.items():
            shadow.set(a, replay._shadow().values(a).astype(np.float64) + values)
        if position:
            before, earlier = cases[position - 1].rerun, shadows[position - 1]
            for edge in links[position - 1]:
                shadow.set(replay.arrays[edge.target], earlier.values(before.arrays[edge.source]))
        shadow.forward()
        for a, seed in replay.seeds.items():
            total += float((shadow.values(a).astype(np.float64) * seed).sum())
    return total


def _inner(one: Mapping[int, Values], other: Mapping[int, Values]) -> float:
    return sum(float((one[number] * other[number]).sum()) for number in one)
