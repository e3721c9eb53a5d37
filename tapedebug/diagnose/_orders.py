"""What depends on the order of threads, and on memory that nothing wrote: the tape once more, changed so."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tapedebug.diagnose._replay import Replay
    from tapedebug.runtime.replay import Shadow

Values = np.ndarray[Any, Any]

PIECES = 2048
"""Into how many runs of threads a launch is cut at most; smaller launches are taken thread by thread."""
ALL_PIECES = 200_000
"""Into how many all launches together."""
DIRECTIONS = 2
"""Along how many random directions the slope of the loss is compared."""


@dataclass(slots=True, frozen=True)
class Effect:
    """How far a changed run differs from the plain one.

    Attributes:
        changed: How many elements of the arrays that the launches write have another value at the end.
        elements: Of how many.
        largest: By up to how much.
        loss: The relative change of the loss; None where none is known.
        gradient: That of the gradient, ‖difference‖ / ‖gradient‖; None where it was not measured.
    """

    changed: int
    elements: int
    largest: float
    loss: float | None = None
    gradient: float | None = None

    def worst(self, other: Effect) -> Effect:
        """The larger of each."""
        return Effect(
            max(self.changed, other.changed),
            max(self.elements, other.elements),
            max(self.largest, other.largest),
            _larger(self.loss, other.loss),
            _larger(self.gradient, other.gradient),
        )


def _larger(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)


Order = Callable[[int], list[tuple[int, int]]]
"""For a number of threads the runs of threads in the order in which they are taken."""


def reversed_order(apart: Sequence[int], most: int = PIECES) -> Order:
    """From the last thread to the first; the threads `apart` are runs of their own."""
    return lambda threads: list(reversed(list(_pieces(threads, apart, most))))


def shuffled_order(apart: Sequence[int], most: int = PIECES) -> Order:
    """In any order, the same each time."""

    def order(threads: int) -> list[tuple[int, int]]:
        pieces = list(_pieces(threads, apart, most))
        return [pieces[k] for k in np.random.default_rng(threads).permutation(len(pieces))]

    return order


def _pieces(threads: int, apart: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    cuts: Sequence[int] = range(threads + 1)
    if threads > most:
        own = {cut for thread in apart for cut in (thread, thread + 1) if cut <= threads}
        cuts = sorted(own | {k * threads // most for k in range(most + 1)})
    return itertools.pairwise(cuts)


class Orders:
    """Runs of a tape whose launches take their threads in other orders.

    Args:
        replay: The tape.
        launches: Whose order changes.
        seen: Those of them whose values are compared.
        apart: Threads that must not be taken together with others.
    """

    def __init__(
        self, replay: Replay, launches: Collection[int], seen: Collection[int], apart: Sequence[int]
    ) -> None:
        self.replay = replay
        self.launches = sorted(launches)
        self.seen = frozenset(seen)
        pieces = max(16, min(PIECES, ALL_PIECES // len(launches)))
        self.orders = (reversed_order(apart, pieces), shuffled_order(apart, pieces))
        self.directions = [] if replay.blocked else _directions(replay)

    def effect(self) -> Effect:
        """The largest effect of the orders that are tried."""
        plain = self._written(None)
        effects = [_compared(plain, self._written(order)) for order in self.orders]
        found = effects[0].worst(effects[1])
        if not found.changed or self.replay.blocked:
            return found
        loss, slopes = self._slopes(None)
        size = _size(self.replay)
        for order in self.orders:
            other, moved = self._slopes(order)
            gradient = None
            if size is not None and self.directions:
                gradient = float(np.sqrt(np.mean(np.square(moved - slopes)))) / size
            found = found.worst(Effect(0, 0, 0.0, _relative(loss, other), gradient))
        return found

    def _written(self, order: Order | None) -> list[list[Values]]:
        """What each of the launches leaves in the arrays that it writes."""
        shadow = self.replay._shadow()
        _reorder(shadow._forward[1], self.launches, order)
        found: list[list[Values]] = []

        def look(record: Any) -> None:
            if record.index in self.seen:
                found.append([shadow.values(record.args[p]) for p in record.plan.written])

        shadow.forward(stop=max(self.seen) + 1, on_launch=look)
        return found

    def _slopes(self, order: Order | None) -> tuple[float, Values]:
        """The loss, and its slopes along the directions."""
        shadow = self.replay._shadow(double=True)
        if not self.directions:
            _reorder(shadow._forward[1], self.launches, order)
            shadow.forward()
            return _loss(self.replay, shadow), np.zeros(0)
        slopes = []
        for direction in self.directions:
            shadow.push({}, stop=0)  # makes the table that is changed
            for _, calls in shadow._pushes.values():
                _reorder(calls, self.launches, order)
            shadow.push(direction)
            slopes.append(_slope(self.replay, shadow))
        return _loss(self.replay, shadow), np.array(slopes)


class _Reordered:
    """A runner whose threads are taken in another order."""

    def __init__(self, run: Any, order: Order) -> None:
        self.run = run
        self.order = order

    def __call__(self, lo: int, hi: int, where: int) -> None:
        for low, high in self.order(hi):
            self.run(low, high, where)


def _reorder(calls: list[Any], launches: Sequence[int], order: Order | None) -> None:
    for index in launches if order is not None else ():
        run, where = calls[index]
        if not isinstance(run, _Reordered):
            assert order is not None
            calls[index] = (_Reordered(run, order), where)


def _directions(replay: Replay) -> list[Mapping[Any, Values]]:
    rng = np.random.default_rng(11)
    shadow, arrays = replay._shadow(), [replay.arrays[leaf] for leaf in replay.leaves]

    def direction() -> Mapping[Any, Values]:
        return {a: np.asarray(rng.normal(size=shadow.values(a).shape)) for a in arrays}

    return [direction() for _ in range(DIRECTIONS)] if arrays else []


def _size(replay: Replay) -> float | None:
    """‖gradient‖; None where it is zero or not finite."""
    total = sum(float(np.sum(np.square(g.astype(np.float64)))) for g in replay.gradients().values())
    return float(np.sqrt(total)) if np.isfinite(total) and total > 0 else None


def _loss(replay: Replay, shadow: Shadow) -> float:
    return float(sum((shadow.values(a) * seed).sum() for a, seed in replay.seeds.items()))


def _slope(replay: Replay, shadow: Shadow) -> float:
    return float(sum((shadow.tangent(a) * seed).sum() for a, seed in replay.seeds.items()))


def _relative(before: float, after: float) -> float:
    if before == after or (before != before and after != after):
        return 0.0
    difference = abs(after - before)
    return difference / abs(before) if before and np.isfinite(difference) else float("inf")


def _compared(plain: Sequence[Sequence[Values]], other: Sequence[Sequence[Values]]) -> Effect:
    """The first launch that leaves other values."""
    effects = (_difference(*pair) for pair in zip(plain, other, strict=True))
    return next((effect for effect in effects if effect.changed), Effect(0, 0, 0.0))


def _difference(plain: Sequence[Values], other: Sequence[Values]) -> Effect:
    changed, elements, largest = 0, 0, 0.0
    for before, after in zip(plain, other, strict=True):
        differs = ~((before == after) | ((before != before) & (after != after)))
        changed, elements = changed + int(differs.sum()), elements + differs.size
        if differs.any():
            with np.errstate(all="ignore"):
                gap = np.abs(after.astype(np.float64) - before.astype(np.float64))
            largest = max(largest, float(np.max(gap[differs])))
    return Effect(changed, elements, largest)


def contents_matter(replay: Replay, arrays: Sequence[Any]) -> Effect:
    """How much the result depends on what memory held that nothing wrote.

    Args:
        replay: The tape.
        arrays: Of that memory.
    """
    plain = _with_contents(replay, arrays, 0)
    found = Effect(0, 0, 0.0)
    for number in (1, 2):
        loss, gradients = _with_contents(replay, arrays, number)
        gap = sum(float(np.sum(np.square(gradients[k] - plain[1][k]))) for k in gradients)
        size = sum(float(np.sum(np.square(g))) for g in plain[1].values())
        gradient = float(np.sqrt(gap / size)) if size > 0 else (float("inf") if gap else 0.0)
        if not np.isfinite(gap):
            gradient = float("inf")
        found = found.worst(Effect(0, 0, 0.0, _relative(plain[0], loss), gradient))
    return found


def _with_contents(replay: Replay, arrays: Sequence[Any], number: int) -> tuple[float, dict[int, Values]]:
    """The loss and the gradients with certain numbers in memory; the same ones for the same number."""
    shadow = replay._shadow(double=True)
    shadow.forward(stop=0)
    rng = np.random.default_rng(number)
    for a in arrays:
        values = shadow.values(a)
        # An index among them must stay small: 0 or 1.
        content: Any = rng.uniform(0.5, 1.5, values.shape) if values.dtype.kind == "f" else int(number > 0)
        shadow.set(a, np.broadcast_to(content, values.shape).astype(values.dtype))
    shadow.forward()
    loss = _loss(replay, shadow)
    shadow.backward(replay.seeds)
    return loss, {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}


def loss_without(replay: Replay, launch: int, threads: Collection[int]) -> float | None:
    """The relative change of the loss where these threads of a launch do nothing."""
    if replay.blocked:
        return None
    shadow = replay._shadow(double=True)
    shadow.forward()
    plain = _loss(replay, shadow)
    run, where = shadow._forward[1][launch]
    out = sorted(threads)

    def partly(lo: int, hi: int, at: int) -> None:
        for low, high in zip([lo, *(t + 1 for t in out)], [*out, hi], strict=True):
            if low < high:
                run(low, high, at)

    shadow._forward[1][launch] = (partly, where)
    shadow.forward()
    return _relative(plain, _loss(replay, shadow))
