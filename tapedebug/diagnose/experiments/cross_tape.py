"""Computes the gradient over several tapes of one run, by passing adjoints from each tape to its predecessor.

One tape (a window) leaves a state, and another one begins with it. Usually that is the tape recorded next; if
checkpoints are recorded again from the last window to the first, it is the tape recorded before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import GRADIENT_WRONG, SEED_IS_ADJOINT
from tapedebug.contract import Replay as TapeReplay
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.experiments.replay import Replay
from tapedebug.diagnose.experiments.seeds import seeded
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis import gradient_history
from tapedebug.diagnose.trace_analysis.dependencies import differentiable
from tapedebug.trace import Event

STEPS = (1e-3, 5e-4)
"""Steps of the central differences, relative to the parameter."""


ROUND_BITS = 8
"""Significant bits up to which a number counts as round: two arrays may hold it by chance."""


@dataclass(frozen=True, slots=True)
class TapeLink:
    """An array that one window leaves behind and the next one begins with.

    Attributes:
        source: Its id on the tape that wrote it.
        target: Its id on the tape that begins with it.
        copied: Source and target are two arrays of equal content.
        handed: The reverse pass of the earlier window was seeded with the adjoint computed by the later one;
            None if that adjoint is zero.
    """

    source: int
    target: int
    copied: bool
    handed: bool | None = False


def carried(before: RuleContext, after: RuleContext) -> list[TapeLink]:
    """Return the arrays with a gradient whose content passes unchanged from one tape to another."""
    left = _left_behind(before)
    if not left:
        return []
    start, arrays = after.rerun._shadow(), after.rerun.arrays
    began = before.rerun._shadow()
    found = []
    for target in _taken_up(after):
        a = arrays[target]
        content = np.array(start.values(a))
        own = before.rerun.recorded.id_of(a)
        if own in left:
            constant = content.size > 0 and bool((content == content.reshape(-1)[0]).all())
            if np.array_equal(left[own], content) and not (constant and _written_between(before, after, own)):
                found.append(TapeLink(own, target, copied=False))
            continue
        if _is_trivial(content) or (own is not None and _equal(np.asarray(began.values(a)), content)):
            continue  # an input of both tapes
        twin = next((n for n, values in left.items() if _equal(values, content)), None)
        if twin is not None and not _equal(np.asarray(began.values(before.rerun.arrays[twin])), content):
            found.append(TapeLink(twin, target, copied=True))
    return found


def carries_loss(before: RuleContext, after: RuleContext) -> bool:
    """Return True if a tape accumulates into the loss of the tape before it, so that both share the loss."""
    for number in seeded(after.rerun):
        a = after.rerun.arrays[number]
        own = before.rerun.recorded.id_of(a)
        if own is None or own not in seeded(before.rerun):
            return False
        left = before.rerun._ready().values(a)
        if not left.any() or not np.array_equal(left, after.rerun._shadow().values(a)):
            return False
    return True


def with_handed(before: RuleContext, after: RuleContext, edges: Sequence[TapeLink]) -> list[TapeLink] | None:
    """Return the links with `handed` set.

    Returns:
        The links; None if a seed is neither that adjoint nor zero, as its meaning is then unknown.
    """
    first, second = last_pass(before), last_pass(after)
    possible = first is not None and second is not None and second.clock < first.clock
    given = seeded(before.rerun) if possible else {}
    shadow = after.rerun._ready()
    shadow.backward({after.rerun.arrays[n]: values for n, values in seeded(after.rerun).items()})
    found = []
    for edge in edges:
        wanted = np.asarray(shadow.gradient(after.rerun.arrays[edge.target]), np.float64)
        seed = given.get(edge.source)
        if not wanted.any():
            found.append(replace(edge, handed=None))
            continue
        handed = False
        if seed is not None and np.any(seed):
            apart = float(np.linalg.norm(seed.astype(np.float64) - wanted))
            if not apart <= SEED_IS_ADJOINT * np.linalg.norm(wanted):
                return None
            handed = True
        elif possible:
            touched = [event.kind for event in gradient_events(before, after, edge)]
            if "write" in touched:
                return None
            handed = not edge.copied and "zero" not in touched  # the adjoint is still in the gradient
        found.append(replace(edge, handed=handed))
    return found


def last_pass(case: RuleContext) -> Event | None:
    """Return the last reverse pass of a tape."""
    own = [e for e in case.trace.events if e.kind == "backward" and e.of == "tape"]
    return own[-1] if own else None


def gradient_events(before: RuleContext, after: RuleContext, edge: TapeLink) -> list[Event]:
    """Return the events of the gradient of a carried array between the reverse passes of two windows.

    The array is the one that the earlier window wrote.
    """
    first, second = last_pass(before), last_pass(after)
    if first is None or second is None:
        return []
    between = gradient_history.history_of(before.trace, edge.source).between(second.clock, first.clock)
    return [event for event in between if event.of == "gradient"]


def losses_of(case: RuleContext, edges: Sequence[TapeLink]) -> dict[int, Values]:
    """Return the seeds of a window except those that were handed on from the next one."""
    handed = {edge.source for edge in edges if edge.handed}
    return {number: seed for number, seed in seeded(case.rerun).items() if number not in handed}


def _left_behind(case: RuleContext) -> dict[int, Values]:
    """Return the final values of the arrays with a gradient that a tape wrote."""
    latest = {version.array: version for version in case.trace.versions}
    wanted = [
        number
        for number, version in latest.items()
        if version.written_by is not None and differentiable(case.trace.arrays[number])
    ]
    shadow = case.rerun._ready()
    return {number: shadow.values(case.rerun.arrays[number]) for number in wanted}


def _taken_up(case: RuleContext) -> list[int]:
    """Return the arrays with a gradient whose initial values a tape read."""
    return [
        version.array
        for version in case.trace.versions
        if version.version == 0 and version.reads and differentiable(case.trace.arrays[version.array])
    ]


def _written_between(before: RuleContext, after: RuleContext, array: int) -> bool:
    events: list[Event] = before.trace.events
    start, end = before.trace.tape.ended, after.trace.tape.began
    return any(e.kind == "write" and e.array == array and start < e.clock < end for e in events)


def _is_trivial(content: Values) -> bool:
    """Return True if equal content proves nothing, because all elements are the same round number."""
    first = content.reshape(-1)[:1]
    if content.size and not (content == first).all():
        return False
    return not content.size or bool(np.modf(np.frexp(float(first[0]))[0] * 2**ROUND_BITS)[0] == 0)


def _equal(one: Values, other: Values) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one, other)


@dataclass(slots=True)
class CrossTapeGradient:
    """The gradients measured over a sequence of tapes.

    Attributes:
        consumed: The sum of the gradients of the tapes' own passes, by position in the list of parameters.
        whole: The gradient over all tapes.
        difference: The slope of the summed losses along `whole`, by finite differences in float64; None if it
            was not measured.
        bar: The error bar of `difference`.
        along: The slopes of `consumed` and `whole` in that direction.
    """

    consumed: dict[int, Values]
    whole: dict[int, Values]
    difference: float | None = None
    bar: float = 0.0
    along: tuple[float, float] = (0.0, 0.0)


def measure(
    cases: Sequence[RuleContext], links: Sequence[Sequence[TapeLink]], params: Sequence[Any]
) -> CrossTapeGradient:
    """Return the gradients of parameters over a sequence of tapes.

    Args:
        cases: The tapes, in the order of the run.
        links: The arrays carried from each tape to the next.
        params: The parameters: arrays of all the tapes, or of some.
    """
    consumed = {place: np.zeros(a.current().shape) for place, a in enumerate(params)}
    whole = {place: np.zeros(a.current().shape) for place, a in enumerate(params)}
    adjoints: dict[int, Values] = {}
    handed: dict[int, Values] = {}
    for position in reversed(range(len(cases))):
        replay = cases[position].rerun
        shadow = replay._ready()
        edges = links[position] if position < len(links) else ()
        own = {**adjoints, **seeded(replay)}
        shadow.backward({replay.arrays[number]: values for number, values in own.items()})
        _add(consumed, replay, shadow, params)
        adjoints = {
            edge.source: shadow.gradient(replay.arrays[edge.target])
            for edge in (links[position - 1] if position else ())
            if edge.handed
        }
        more = losses_of(cases[position], edges)
        for number, values in handed.items():
            more[number] = more[number] + values if number in more else values
        shadow.backward({replay.arrays[number]: values for number, values in more.items()})
        _add(whole, replay, shadow, params)
        handed = {}
        for edge in links[position - 1] if position else ():
            adjoint = shadow.gradient(replay.arrays[edge.target])
            handed[edge.source] = handed.get(edge.source, 0) + adjoint
    return CrossTapeGradient(consumed, whole)


def _add(total: dict[int, Values], replay: Replay, shadow: TapeReplay, params: Sequence[Any]) -> None:
    for place, a in enumerate(params):
        if replay.recorded.id_of(a) is not None:
            total[place] = total[place] + shadow.gradient(a).astype(np.float64)


def confirm(
    horizon: CrossTapeGradient,
    cases: Sequence[RuleContext],
    links: Sequence[Sequence[TapeLink]],
    params: Sequence[Any],
) -> None:
    """Compare with finite differences of the summed losses in float64, along the gradient over all tapes."""
    size = np.sqrt(sum(float((values**2).sum()) for values in horizon.whole.values()))
    direction = {place: values / size for place, values in horizon.whole.items()}
    scale = max(float(np.abs(params[place].current()).max(initial=0.0)) or 1.0 for place in horizon.whole)
    shadows = [case.rerun._shadow(double=True) for case in cases]

    def total(step: float) -> float:
        moved = {params[place]: step * values for place, values in direction.items()}
        return _losses(cases, shadows, links, moved)

    slopes = []
    for relative in STEPS:
        step = relative * scale
        slopes.append((total(step) - total(-step)) / (2 * step))
    horizon.difference = (4 * slopes[1] - slopes[0]) / 3
    horizon.bar = abs(slopes[1] - slopes[0])
    horizon.along = (_inner(horizon.consumed, direction), _inner(horizon.whole, direction))


def is_confirmed(horizon: CrossTapeGradient) -> bool:
    """Return True if finite differences agree with the gradient over all tapes, and not with the sum."""
    if horizon.difference is None:
        return False
    consumed, whole = horizon.along
    allowed = GRADIENT_WRONG * abs(whole) + 10 * horizon.bar
    return abs(horizon.difference - whole) <= allowed < abs(horizon.difference - consumed)


def _losses(
    cases: Sequence[RuleContext],
    shadows: Sequence[TapeReplay],
    links: Sequence[Sequence[TapeLink]],
    moved: Mapping[Any, Values],
) -> float:
    """Return the sum of all losses, weighted by their seeds, with displaced parameters."""
    total = 0.0
    for position, (case, shadow) in enumerate(zip(cases, shadows, strict=True)):
        replay = case.rerun
        shadow.forward(stop=0)
        for a, values in moved.items():
            if replay.recorded.id_of(a) is None:
                continue
            shadow.set(a, replay._shadow().values(a).astype(np.float64) + values)
        if position:
            before, earlier = cases[position - 1].rerun, shadows[position - 1]
            for edge in links[position - 1]:
                shadow.set(replay.arrays[edge.target], earlier.values(before.arrays[edge.source]))
        shadow.forward()
        own = losses_of(case, links[position] if position < len(links) else ())
        for number, seed in own.items():
            total += float((shadow.values(replay.arrays[number]).astype(np.float64) * seed).sum())
    return total


def _inner(one: Mapping[int, Values], other: Mapping[int, Values]) -> float:
    return sum(float((one[place] * other[place]).sum()) for place in one)
