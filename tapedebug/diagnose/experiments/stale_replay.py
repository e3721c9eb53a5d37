"""Reverse passes in which some adjoints read the current content of memory, on tapes of any engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tapedebug.contract import (
    A,
    Array,
    Consume,
    OnReplay,
    Operation,
    RecordedTape,
    Replay,
    Values,
    share_bytes,
)

Pairs = Collection[tuple[int, int]]
"""(operation, parameter)."""


class StaleReplays:
    """The capability `contract.StaleReads`, implemented with the interface that every tape has."""

    def __init__(self, tape: RecordedTape) -> None:
        self._tape = tape

    def new_replay(self) -> StaleReplay:
        """Return a new replay that `see` accepts."""
        return StaleReplay(self._tape.operations, self._tape.new_replay())

    def see(self, replay: Replay, now: Pairs, left: Pairs, /) -> None:
        """Set the values that the next reverse passes read; see `contract.StaleReads.see`."""
        assert isinstance(replay, StaleReplay)
        replay.now, replay.left = frozenset(now), frozenset(left)


class StaleReplay:
    """A replay that runs selected adjoints one at a time, with stale values for some of their parameters.

    Such an adjoint runs on the current content of memory, after the arrays of its other parameters have been
    restored to their values at the operation. Elements that these share with a selected one stay stale: an
    operation may get one array twice.

    Attributes:
        now: The (operation, parameter) pairs that read the content of memory at the end.
        left: The pairs that read the values that the operation itself left.
    """

    def __init__(self, operations: Iterable[Operation], replay: Replay) -> None:
        self.now: frozenset[tuple[int, int]] = frozenset()
        self.left: frozenset[tuple[int, int]] = frozenset()
        self._operations = list(operations)
        self._replay = replay
        self._kept: dict[tuple[int, int, bool], Values] = {}
        self._inputs: dict[Array, Values] = {}
        self._late: dict[Array, Values] = {}  # set after the first operation

    @property
    def position(self) -> int:
        """The index of the operation that runs next."""
        return self._replay.position

    @property
    def is_float64(self) -> bool:
        """True if it computes in float64."""
        return self._replay.is_float64

    @property
    def pulse(self) -> Callable[[], None] | None:
        """The function called before each operation that runs; it may raise to cancel."""
        return self._replay.pulse

    @pulse.setter
    def pulse(self, pulse: Callable[[], None] | None) -> None:
        self._replay.pulse = pulse

    @property
    def forward_only(self) -> bool:
        """True if the replay will never run in reverse."""
        return self._replay.forward_only

    @forward_only.setter
    def forward_only(self, forward_only: bool) -> None:
        self._replay.forward_only = forward_only

    @property
    def on_outside(self) -> Callable[[Any], Any] | None:
        """The function called with each operation that follows a write from outside the tape."""
        return self._replay.on_outside

    @on_outside.setter
    def on_outside(self, call: Callable[[Any], Any] | None) -> None:
        self._replay.on_outside = call

    @property
    def after_operation(self) -> OnReplay | None:
        """The function called after each operation that ran forward."""
        return self._replay.after_operation

    @after_operation.setter
    def after_operation(self, call: OnReplay | None) -> None:
        self._replay.after_operation = call

    @property
    def after_adjoint(self) -> OnReplay | None:
        """The function called after the adjoint of each operation."""
        return self._replay.after_adjoint

    @after_adjoint.setter
    def after_adjoint(self, call: OnReplay | None) -> None:
        self._replay.after_adjoint = call

    def reset(self, discard: bool = False) -> StaleReplay:
        """Return to the start of the tape; see `contract.Replay.reset`."""
        self._replay.reset(discard)
        self._inputs.clear()
        self._late.clear()
        return self

    def set(self, array: Array, values: Values, /) -> None:
        """Replace the values of an array before the operation that runs next."""
        self._replay.set(array, values)
        replaced = self._late if self.position else self._inputs
        replaced.pop(array, None)  # of overlapping arrays the last one wins
        replaced[array] = values

    def forward(
        self,
        start: int = 0,
        stop: int | None = None,
        on_operation: Callable[[Any], Any] | None = None,
        skip: Collection[int] = (),
    ) -> StaleReplay:
        """Run operations; see `contract.Replay.forward`."""
        self._kept.clear()
        self._late.clear()
        self._replay.forward(start, stop, on_operation, skip)
        return self

    def inject(self) -> None:
        """Apply writes from outside the tape just before the operation that runs next."""
        self._replay.inject()

    def values(self, array: Array, /) -> Values:
        """Return a copy of the current values of an array."""
        return self._replay.values(array)

    def gradient(self, array: Array, /) -> Values:
        """Return a copy of the current adjoint of an array."""
        return self._replay.gradient(array)

    def set_gradient(self, array: Array, values: Values, /) -> None:
        """Replace the adjoint of an array."""
        self._replay.set_gradient(array, values)

    def matches_live(self) -> bool:
        """Return True if the values computed here equal those of the program's arrays."""
        return self._replay.matches_live()

    def backward(
        self,
        seeds: Mapping[A, Values] | None,
        consume: Consume = "versions",
        start: int | None = None,
        stop: int = 0,
        on_operation: Callable[[Any], Any] | None = None,
        skip: Collection[int] = (),
    ) -> StaleReplay:
        """Run adjoints; see `contract.Replay.backward`."""
        replay, first = self._replay, self.position if start is None else start
        stale = sorted({index for index, _ in self.now | self.left if stop <= index < first}, reverse=True)
        if consume != "versions" or not stale:
            replay.backward(seeds, consume, first, stop, on_operation, skip)
            return self
        self._keep(stale)
        replay.backward(seeds, consume, first, first)
        for index in stale:
            replay.backward(None, consume, first, index + 1, on_operation, skip)
            self._one(index, on_operation, skip)
            first = index
        replay.backward(None, consume, first, stop, on_operation, skip)
        return self

    def _one(self, index: int, on_operation: Callable[[Any], Any] | None, skip: Collection[int]) -> None:
        """Run the adjoint of one operation with stale values for its selected parameters."""
        saved: list[tuple[Array, Values]] = []
        replay = self._replay
        needed = self._needed(index)
        now = [access for access in needed if (index, access.param) in self.now]
        restored = [access for access in needed if (index, access.param) not in self.now]
        shared = {
            a.array: self.values(a.array) for a in now if any(share_bytes(a.array, b.array) for b in restored)
        }
        for access in sorted(restored, key=lambda a: (index, a.param) in self.left):
            key = (index, access.param)
            late = key in self.left or not access.needs_before
            saved.append((access.array, self.values(access.array)))
            replay.set(access.array, self._kept[(*key, late)])
        for array, values in shared.items():
            replay.set(array, values)
        try:
            replay.backward(None, "current", index + 1, index, on_operation, skip)
        finally:
            for array, values in reversed(saved):
                replay.set(array, values)

    def _keep(self, stale: Collection[int]) -> None:
        """Run forward again, and store needed values of some operations, from before and after each."""
        if all((index, a.param, True) in self._kept for index in stale for a in self._needed(index)):
            return
        replay, end, position = self._replay, self.position, 0
        replay.reset(discard=True)
        for array, values in self._inputs.items():
            replay.set(array, values)
        for index in sorted(stale):
            replay.forward(position, index)
            replay.inject()
            self._note(replay, index, late=False)
            replay.forward(index, index + 1)
            self._note(replay, index, late=True)
            position = index + 1
        replay.forward(replay.position, end)
        for array, values in self._late.items():
            replay.set(array, values)

    def _needed(self, index: int) -> list[Any]:
        return [a for a in self._operations[index].accesses if a.needs_before or a.needs_after]

    def _note(self, replay: Replay, index: int, *, late: bool) -> None:
        for access in self._needed(index):
            self._kept[index, access.param, late] = replay.values(access.array)
