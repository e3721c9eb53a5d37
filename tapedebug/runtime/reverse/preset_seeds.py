"""Seeds that a program writes into gradients itself: `y.grad.fill_(1.0)`, then `tape.backward()`.

A reverse pass begins from the present content of the gradients of the arrays that the tape writes, whatever
wrote it: a fill, `assign`, `y.grad = …`, a kernel, a NumPy view, a tensor that shares the memory, or the pass
of another tape. These are seeds like those of `backward(grads=…)`, in addition to a loss if one is given, and
a tape remembers them as such: see `BackwardCall.seeds`.

Two kinds of gradients are no seeds: those of inputs, which passes only add to, and those that the last pass
of the same tape left and that belong to the values before the tape.
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
"""By gradient memory, the arrays with a gradient there that a tape writes."""


def written_arrays(groups: Iterable[Group]) -> list[array]:
    """Return the arrays with a gradient that a tape writes, once each."""
    found: dict[array, None] = {}
    for plan, _, columns in groups:
        for p in plan.written:
            if p in plan.active:
                found.update(dict.fromkeys(columns[p]))
    return list(found)


def outputs_of(written: Iterable[array]) -> dict[Buffer, list[array]]:
    """Return the arrays that a tape writes, by the memory of their gradients."""
    found: dict[Buffer, list[array]] = {}
    for a in written:
        found.setdefault(a.buffer.gradient(), []).append(a)
    return found


class PresetSeeds:
    """The content that a reverse pass finds in the gradients of the arrays that its tape writes.

    Args:
        outputs: These arrays, by gradient memory.
        uncertain: The gradient memory that is not known to hold zeros.
        given: Arrays whose gradients the pass replaces by given seeds.
        leftovers: The gradients that the last pass left.
        tracker: The tracker of the tape.

    Attributes:
        seeds: Copies of the seeds.
        stale: The arrays among them whose seeds an earlier pass, of another tape, had left.
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
        """Use leftovers in the gradients of arrays that the tape computes as seeds, for want of others.

        That is mostly the 1 of a loss that a kernel adds to. The gradients of inputs stay apart.
        """
        computed = [each for each in self._apart if is_computed(tracker, each[0])]
        self._apart = [each for each in self._apart if not is_computed(tracker, each[0])]
        for _, view, values in computed:
            view += values
        for memory in {a.buffer.gradient(): None for a, _, _ in computed}:
            self.seeds |= _found_in(outputs[memory], ())

    def give_back(self) -> None:
        """Restore the seeds in memory of other libraries after the pass, also after one that failed."""
        for memory, content in self._handed_over:
            memory.data[:] = content

    def add_back(self) -> None:
        """Add the gradients that were set apart to those that the pass has left."""
        for _, view, values in self._apart:
            view += values

    def left(self, written: Iterable[array]) -> dict[array, int]:
        """Return the arrays in whose gradients the pass left something, with the count of writes."""
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
    """No preset seeds, as in most passes, which begin from a loss alone."""

    __slots__ = ()

    def __init__(self) -> None:
        self._apart, self._handed_over, self.seeds, self.stale, self.touched = [], [], {}, [], False


NOTHING: PresetSeeds = NoPresetSeeds()


def is_nothing(
    outputs: Outputs, uncertain: Iterable[Buffer], given: Collection[array], leftovers: Iterable[array]
) -> bool:
    """Return True if it is certain, without reading memory, that a pass finds nothing in gradients."""
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
    """Return copies of the seeds that gradients hold.

    Where arrays share elements, one of them has their seed; the others have 0 there, and come before it.
    """
    found: dict[array, Values] = {}
    for memory, arrays in outputs.items():
        if memory.fill != ZERO:
            found |= _found_in(arrays, given)
    return found


def stale_among(preset: Iterable[array]) -> list[array]:
    """Return the arrays whose seeds an earlier pass left, in gradients not written since."""
    return [a for a in preset if (memory := a.buffer.adjoint) is not None and _is_as_left(memory)]


def pending_seeds(tracker: Tracker) -> dict[array, Values]:
    """Return the seeds that gradients hold for the first pass of a tape."""
    written = written_arrays(grouped(tracker.records))
    found = preset_seeds(outputs_of(a for a in written if a.buffer.adjoint is not None), ())
    stale = stale_among(found)
    return {a: seed for a, seed in found.items() if a not in stale}


def _found_in(arrays: list[array], given: Collection[array]) -> dict[array, Values]:
    """Return the seeds in one gradient memory."""
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
    """Return True if gradient memory of another library gets its seeds back after a pass.

    `y.grad = from_torch(t)`: a pass consumes the gradient of `y`, but the tensor belongs to the caller. This
    does not apply if the array retains its gradient, or is an input as well: then the caller wants to find a
    gradient there.
    """
    return is_computed(tracker, arrays[0]) and not any(a.retain_grad for a in arrays)


def is_computed(tracker: Tracker, a: array) -> bool:
    """Return True if an array held constants, or undefined values, before the tape wrote it."""
    found = tracker.ledgers[a.buffer].found(len(tracker.records))
    return all(live.fill is not None for live in found)


def _is_as_left(memory: Buffer) -> bool:
    """Return True if gradient memory is as the last pass of a tape that wrote its array left it."""
    history = memory.history
    if history is None or history.left != memory.writes:
        return False
    return history.digest is None or history.digest == digest_of(memory.data)


Apart = list[tuple[array, Values, Values]]
"""Arrays, views of their gradients, and the values to add there after a pass."""


def set_apart(leftovers: Mapping[array, int], given: Collection[array]) -> tuple[set[array], Apart]:
    """Set the leftovers of the last pass aside, unless they were written since, or a seed replaces them.

    They belong to the values before the tape, not to those after it, and are therefore no seeds.

    Returns:
        The arrays whose gradients can hold no seed, and the values to add to gradients after the pass.
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
    """Return the gradient as a NumPy view that is not counted as a window."""
    gradient = a.grad
    assert gradient is not None
    return gradient._numpy_view()
