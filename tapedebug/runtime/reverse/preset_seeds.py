"""Seeds that a program writes into gradients itself: `y.grad.fill_(1.0)`, then `tape.backward()`.

A reverse pass begins from whatever the gradients of the arrays that the tape writes hold at that moment,
however it got there: a fill, `assign`, `y.grad = …`, a kernel, a NumPy view, a tensor that shares the
memory, or the pass of another tape. These are seeds like those of `backward(grads=…)`, in addition to a loss
where one is given, and a tape remembers them as such: see `BackwardCall.seeds`.

Two kinds of gradients are no seeds: those of inputs, which passes only add to, and what the last pass of the
same tape left where it belongs to the values before the tape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from tapedebug.runtime.memory.array import array, range_key
from tapedebug.runtime.memory.buffer import ZERO, Buffer
from tapedebug.runtime.reverse.argument_table import Group, grouped
from tapedebug.runtime.tape.buffer_versions import elements_of
from tapedebug.runtime.tape.gradient_history import digest_of
from tapedebug.runtime.tape.tracker import Tracker

Values = np.ndarray[Any, Any]
Outputs = Mapping[Buffer, list[array]]
"""Gradient memory, and the arrays with a gradient there that a tape writes."""


def written_arrays(groups: Iterable[Group]) -> list[array]:
    """The arrays with a gradient that a tape writes, once each."""
    found: dict[array, None] = {}
    for plan, _, columns in groups:
        for p in plan.written:
            if p in plan.active:
                found.update(dict.fromkeys(columns[p]))
    return list(found)


def outputs_of(written: Iterable[array]) -> dict[Buffer, list[array]]:
    """The arrays that a tape writes, by the memory of their gradients."""
    found: dict[Buffer, list[array]] = {}
    for a in written:
        found.setdefault(a.buffer.gradient(), []).append(a)
    return found


class PresetSeeds:
    """What a reverse pass finds in the gradients of the arrays that its tape writes.

    Args:
        outputs: These arrays, by gradient memory.
        uncertain: The gradient memory that is not known to hold zeros.
        given: Arrays whose gradients the pass replaces by seeds that it is given.
        leftovers: What the last pass left.
        tracker: Of the tape.

    Attributes:
        seeds: Copies of the seeds.
        stale: Those of their arrays in whose gradients an earlier pass, of another tape, had left them.
        touched: Something may have written these gradients, perhaps zeros.
    """

    __slots__ = ("_apart", "_handed_over", "seeds", "stale", "touched")

    def __init__(
        self,
        outputs: Outputs,
        uncertain: Iterable[Buffer],
        given: Collection[array],
        leftovers: Mapping[array, int],
        tracker: Tracker,
    ) -> None:
        near = [memory for memory in uncertain if memory in outputs]
        self.touched = bool(near)
        self._handed_over = [
            (memory, memory.data.copy())
            for memory in near
            if memory.handed_over and _gives_back(outputs[memory], tracker)
        ]
        known, self._apart = set_apart(leftovers, given)
        self.seeds: dict[array, Values] = {}
        for memory in near:
            if not known.issuperset(outputs[memory]):
                self.seeds |= _found_in(outputs[memory], given)
        if self._apart and not (given or self.seeds):
            self._begin_from_leftovers(outputs, tracker)
        self.stale = stale_among(self.seeds) if self.seeds else []

    @property
    def nbytes(self) -> int:
        """Memory of the copies."""
        kept = [content for _, content in self._handed_over] + [values for _, _, values in self._apart]
        return sum([each.nbytes for each in [*self.seeds.values(), *kept]])

    def _begin_from_leftovers(self, outputs: Outputs, tracker: Tracker) -> None:
        """Without another seed, begin from what the last pass left in gradients of what the tape computes.

        That is mostly the 1 of a loss that a kernel adds to. The gradients of inputs stay apart.
        """
        computed = [each for each in self._apart if is_computed(tracker, each[0])]
        self._apart = [each for each in self._apart if not is_computed(tracker, each[0])]
        for _, view, values in computed:
            view += values
        for memory in {a.buffer.gradient(): None for a, _, _ in computed}:
            self.seeds |= _found_in(outputs[memory], ())

    def give_back(self) -> None:
        """After the pass, also one that failed: memory of other libraries holds its seeds again."""
        for memory, content in self._handed_over:
            memory.data[:] = content

    def add_back(self) -> None:
        """After the pass: what was set apart is added to what it has left."""
        for _, view, values in self._apart:
            view += values

    def left(self, written: Iterable[array]) -> dict[array, int]:
        """Return what the pass has left in the gradients of arrays, as the count of writes to each."""
        found: dict[array, int] = {}
        kept = {memory for memory, _ in self._handed_over} if self._handed_over else ()
        for a in written:
            memory = a.buffer.gradient()
            if memory not in kept:
                found[a] = memory.writes
                history = memory.history
                assert history is not None
                history.left = memory.writes
                if memory.windows or history.digest is not None:
                    history.digest = digest_of(memory.data) if memory.windows else None
        return found


class NoPresetSeeds(PresetSeeds):
    """What most passes find, which begin from a loss alone."""

    __slots__ = ()

    def __init__(self) -> None:
        self._apart, self._handed_over, self.seeds, self.stale, self.touched = [], [], {}, [], False


NOTHING: PresetSeeds = NoPresetSeeds()


def is_nothing(
    outputs: Outputs, uncertain: Iterable[Buffer], given: Collection[array], leftovers: Iterable[array]
) -> bool:
    """Return whether it is certain, without a look at memory, that a pass finds nothing in gradients."""
    for a in leftovers:
        if a not in given:
            return False
    for memory in uncertain:
        if memory in outputs:
            if memory.handed_over:
                return False
            for a in outputs[memory]:
                if a not in given:
                    return False
    return True


def preset_seeds(outputs: Outputs, given: Collection[array]) -> dict[array, Values]:
    """Copies of the seeds that gradients hold.

    Of arrays that share elements one has the seed of these; the others have 0 there, and come before it.
    """
    found: dict[array, Values] = {}
    for memory, arrays in outputs.items():
        if memory.fill != ZERO:
            found |= _found_in(arrays, given)
    return found


def stale_among(preset: Iterable[array]) -> list[array]:
    """The arrays whose seeds an earlier pass left in their gradients, and nobody has touched since."""
    return [a for a in preset if (memory := a.buffer.adjoint) is not None and _is_as_left(memory)]


def pending_seeds(tracker: Tracker) -> dict[array, Values]:
    """The seeds that gradients hold for the first pass of a tape."""
    written = written_arrays(grouped(tracker.records))
    found = preset_seeds(outputs_of(a for a in written if a.buffer.adjoint is not None), ())
    stale = stale_among(found)
    return {a: seed for a, seed in found.items() if a not in stale}


def _found_in(arrays: list[array], given: Collection[array]) -> dict[array, Values]:
    """The seeds in one gradient memory."""
    given = [a for a in given if a.buffer is arrays[0].buffer]
    if len(arrays) == 1 and not given:
        gradient = _gradient(arrays[0])
        return {arrays[0]: gradient.copy()} if gradient.any() else {}
    seeds = {a: _gradient(a) for a in arrays if a not in given}
    seeds = {a: values.copy() for a, values in seeds.items() if values.any()}
    if not seeds or len(seeds) + len(given) == 1:
        return seeds
    taken = np.zeros(arrays[0].buffer.nbytes, np.uint8)
    for a in given:
        elements_of(taken, a)[...] = 1
    found: dict[array, Values] = {}
    for a in sorted(seeds, key=lambda a: -a.size):
        mine = elements_of(taken, a)
        values = seeds[a].reshape(a.size, -1)
        values[mine.any(axis=-1).reshape(-1)] = 0
        mine[...] = 1
        if values.any():
            found[a] = seeds[a]
    return dict(reversed(found.items()))


def _gives_back(arrays: list[array], tracker: Tracker) -> bool:
    """Return whether gradient memory of another library holds its seeds again after a pass.

    `y.grad = from_torch(t)`: a pass uses up the gradient of `y`, and the tensor is the caller's. Not where
    the array retains its gradient, or is an input as well: then the caller wants to find a gradient there.
    """
    return is_computed(tracker, arrays[0]) and not any(a.retain_grad for a in arrays)


def is_computed(tracker: Tracker, a: array) -> bool:
    """Return whether an array held constants, or nothing of interest, before the tape wrote it."""
    found = tracker.ledgers[a.buffer].found(len(tracker.records))
    return all(live.fill is not None for live in found)


def _is_as_left(memory: Buffer) -> bool:
    """Return whether gradient memory of what a tape wrote is as the last pass of such a tape has left it."""
    history = memory.history
    if history is None or history.left != memory.writes:
        return False
    return history.digest is None or history.digest == digest_of(memory.data)


Apart = list[tuple[array, Values, Values]]
"""Arrays, views of their gradients, and what is to be added there after a pass."""


def set_apart(leftovers: Mapping[array, int], given: Collection[array]) -> tuple[set[array], Apart]:
    """Move what the last pass left out of the way, unless somebody wrote it since, or a seed replaces it.

    It belongs to the values before the tape, not to those after it, so that it is no seed.

    Returns:
        The arrays in whose gradients no seed can be, and what is to be added to gradients after the pass.
    """
    known: set[array] = set(given)
    apart: Apart = []
    others = [a for a in leftovers if a not in known]
    seeded = {range_key(a) for a in given} if others else set()
    for a in others:
        memory = a.buffer.adjoint
        if memory is None or not a.requires_grad or range_key(a) in seeded:
            continue
        if memory.writes == leftovers[a] and _is_as_left(memory):
            view = _gradient(a)
            known.add(a)
            if view.any():
                apart.append((a, view, view.copy()))
                view.fill(0)
    return known, apart


def _gradient(a: array) -> Values:
    """The gradient as a NumPy view that nobody else sees."""
    gradient = a.grad
    assert gradient is not None
    return gradient._look()
