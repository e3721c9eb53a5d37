"""Finds the first launch of the reverse pass at which adjoints and finite differences diverge.

Two float64 replays whose inputs differ slightly in one direction run beside a third that runs backward. At
every point of the tape the inner product of adjoints and differences is the same number, the change of the
loss along that direction, as long as the adjoints of all later launches are right. So a bisection finds a
launch over which it changes; the adjoints of the launches after it are right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Values
from tapedebug.autograd.subjects.probes import entry_scales, random_directions
from tapedebug.autograd.subjects.shadow_program import Consume
from tapedebug.autograd.thresholds import TERMS_DISAGREE, TERMS_PRECISION
from tapedebug.contract import RecordedTape
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.tape import Tape

STEPS = ((1e-5, 5e-6), (3e-4, 1.5e-4), (1e-2, 5e-3))
"""Pairs of relative displacements; the difference of the results of a pair estimates their error."""


@dataclass(frozen=True, slots=True)
class Product:
    """The product ⟨adjoints, differences⟩ at a point of the tape, with the sum of its absolute terms."""

    value: float
    size: float
    error: float


@dataclass(frozen=True, slots=True)
class Divergence:
    """A launch whose adjoint disagrees with its finite differences.

    Attributes:
        launch: Its index.
        after: The product after the launch, where adjoints and differences agree.
        before: The product before it, where they do not.
        by_param: The adjoint and the difference along one direction, by parameter with a wrong part.
    """

    launch: int
    after: Product
    before: Product
    by_param: Mapping[int, tuple[float, float]]


def can_search(tape: RecordedTape) -> bool:
    """True if the reverse pass of a tape can run beside differences, launch by launch: this engine's can."""
    return isinstance(tape, Tape)


def find_first_divergence(
    make: Callable[[], Shadow], seeds: Mapping[Any, Values], leaves: Sequence[Any], consume: Consume
) -> Divergence | None:
    """Return the launch at which adjoints and differences diverge; None if they do not, or it is undecided.

    Args:
        make: Creates float64 replays of the tape, before its first record.
        seeds: The adjoints that the reverse pass starts from.
        leaves: The inputs that are displaced.
        consume: The values that the reverse pass reads.
    """
    with np.errstate(all="ignore"):
        return _Bisection(make, seeds, leaves, consume).run()


class _Bisection:
    def __init__(
        self,
        make: Callable[[], Shadow],
        seeds: Mapping[Any, Values],
        leaves: Sequence[Any],
        consume: Consume,
    ) -> None:
        self.seeds = seeds
        self.consume = consume
        self.leaves = leaves
        self.sides: tuple[Shadow, Shadow] = (make(), make())
        for side in self.sides:
            side.forward_only = True
        self.start = {a: self.sides[0].values(a) for a in self.leaves}
        self.back = make().forward()
        self.length = len(self.back.records)
        self.steps = STEPS[0]
        self.inner = functools.cache(self._inner)

    def run(self) -> Divergence | None:
        self.steps = min(STEPS, key=self._imprecision)
        end, start = self.inner(self.length), self.inner(0)
        if not end.error <= TERMS_PRECISION * end.size or not self._parted(start, end):
            return None
        low, high = 0, self.length
        while high - low > 1:
            middle = (low + high) // 2
            if self._parted(self.inner(middle), end):
                low = middle
            else:
                high = middle
        before, after = self.inner(low), self.inner(high)
        return Divergence(low, after, before, self._by_param(low))

    def _imprecision(self, steps: tuple[float, float]) -> float:
        """Return the relative error of differences of the loss with these steps: rounding, or curvature."""
        self.steps = steps
        found = self._inner(self.length)
        return found.error / found.size if found.size and np.isfinite(found.error) else np.inf

    def _parted(self, here: Product, end: Product) -> bool:
        allowed = TERMS_DISAGREE * (here.error + end.error) + 1e-7 * max(here.size, end.size)
        return not abs(here.value - end.value) <= allowed and bool(np.isfinite(here.error + end.error))

    def _inner(self, cut: int) -> Product:
        """Return the product before launch `cut`, with its error bar."""
        self.back.backward(self.seeds, consume=self.consume, stop=cut)
        adjoints = self._adjoints()
        found = []
        for step in self.steps:
            for side, shadow in zip((step, -step), self.sides, strict=True):
                self._begin(shadow, side)
                shadow.forward(stop=cut)
            found.append(_product(adjoints, *self.sides, step))
        (value, size), (finer, _) = found
        return Product(finer, size, abs(value - finer))

    def _begin(self, shadow: Shadow, side: float) -> None:
        """Reset a replay to the first launch, with displaced inputs."""
        shadow.forward(stop=0)
        for a, values in self.start.items():
            shadow.set(a, values + side * _direction(values))

    def _adjoints(self) -> dict[Any, Values]:
        """Return the adjoint memory of all buffers that have one."""
        buffers = self.back.space.buffers
        return {b: mine.adjoint.copy() for b, mine in buffers.items() if mine.adjoint is not None}

    def _by_param(self, launch: int) -> dict[int, tuple[float, float]]:
        """Return the adjoint of each argument, and the finite difference of this launch alone."""
        record = self.back.records[launch]
        self.back.backward(self.seeds, consume=self.consume, stop=launch + 1)
        incoming = self._adjoints()
        self.back.backward(None, consume=self.consume, start=launch + 1, stop=launch)
        found = {}
        for p in sorted(record.active & record.reads):
            a = record.args[p]
            results = []
            for step in self.steps:
                for side, shadow in zip((step, -step), self.sides, strict=True):
                    self._begin(shadow, 0.0)
                    shadow.forward(stop=launch)
                    values = shadow.values(a)
                    direction = _direction(values)
                    shadow.set(a, values + side * direction)
                    shadow.forward(start=launch, stop=launch + 1)
                results.append(_product(incoming, *self.sides, step))
            (value, size), (finer, _) = results
            adjoint = float(np.sum(self.back.gradient(a) * direction))
            if abs(adjoint - finer) > TERMS_DISAGREE * abs(value - finer) + 1e-7 * max(size, abs(adjoint)):
                found[p] = adjoint, finer
        return found


def _direction(values: Values) -> Values:
    """Return one fixed direction, of the size of the values."""
    flat = values.ravel().astype(np.float64)
    direction: Values = random_directions(flat.size, 1, entry_scales(flat))[0].reshape(values.shape)
    return direction


def _product(adjoints: Mapping[Any, Values], plus: Shadow, minus: Shadow, step: float) -> tuple[float, float]:
    """Return the product of adjoints and differences over all float64 memory, and its size."""
    value = size = 0.0
    for buffer, adjoint in adjoints.items():
        up, down = plus.space.buffers[buffer], minus.space.buffers[buffer]
        if not up.double:
            continue
        whole = adjoint.size // 8 * 8
        moved = up.data[:whole].view(np.uint64) != down.data[:whole].view(np.uint64)
        if not moved.any():
            continue
        difference = up.data[:whole].view(np.float64)[moved] - down.data[:whole].view(np.float64)[moved]
        terms = adjoint[:whole].view(np.float64)[moved] * difference / (2 * step)
        terms = terms[adjoint[:whole].view(np.float64)[moved] != 0]
        value += float(terms.sum())
        size += float(np.abs(terms).sum())
    return value, size
