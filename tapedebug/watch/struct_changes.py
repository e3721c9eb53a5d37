"""Structs that a program changed between a launch and the reverse pass, which reads them again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tapedebug.contract import A, Access, Replay, Values, memory_key
from tapedebug.operations import Memory, OperationReplay, RunsInFloat64, SnapshotBudget, Step
from tapedebug.watch.arguments import Arguments, Leaf, frozen, thawed
from tapedebug.watch.foreign_memory import ForeignMemory
from tapedebug.watch.launch import PresentStructs, WarpLaunch
from tapedebug.watch.memory import NotWatchable


def present_structs(
    launch: WarpLaunch, arguments: Arguments, regions: Collection[object], budget: SnapshotBudget
) -> PresentStructs | None:
    """Return a launch with what its structs hold now; None if nothing in them has changed.

    Args:
        launch: The launch of the program.
        arguments: Splits its arguments into leaves.
        regions: The regions of its tape.
        budget: The budget for copies of memory that the tape does not use.
    """
    values = [thawed(frozen(value)) for value in launch.given]
    try:
        leaves = arguments.leaves(launch.kernel, values)
    except NotWatchable:
        return None
    if [leaf.place for leaf in leaves] != [leaf.place for leaf in launch.leaves]:
        return None
    changed = [n for n, pair in enumerate(zip(launch.leaves, leaves, strict=True)) if not _same(*pair)]
    if not changed:
        return None
    present = launch.with_arguments(values, leaves)
    return PresentStructs(present, changed, ForeignMemory(present.accesses, regions, budget))


def _same(one: Leaf, other: Leaf) -> bool:
    if one.array is not None and other.array is not None:
        both_empty = one.array.size == other.array.size == 0
        return both_empty or memory_key(one.array) == memory_key(other.array)
    if one.array is not None or other.array is not None:
        return False
    if isinstance(one.value, int | float) and isinstance(other.value, int | float):
        return one.value == other.value
    return one.value is other.value or bool(np.array_equal(np.asarray(one.value), np.asarray(other.value)))


class WarpStructChanges:
    """The capability `contract.StructChanges` of a watched tape.

    Args:
        launches: Its launches, by index.
        found: Those with what their structs held when the reverse pass began, if that had changed.
    """

    def __init__(self, launches: Mapping[int, WarpLaunch], found: Mapping[int, PresentStructs]) -> None:
        self._launches, self._found = launches, found

    def changed(self) -> Mapping[int, Sequence[int]]:
        """Return, by operation, the parameters that had changed when the reverse pass began."""
        return {index: present.changed for index, present in self._found.items()}

    def backward(self, replay: Replay, seeds: Mapping[A, Values], operations: Collection[int], /) -> bool:
        """Run a new replay, and reverse some operations with what their structs held by then."""
        assert isinstance(replay, OperationReplay)
        for index in operations:
            launch = self._launches[index]
            present = self._found[index]
            changed = present.launch
            step = changed.capability(RunsInFloat64) if replay.is_float64 else changed
            if step is None or not present.foreign.is_complete or changed.obstacle:
                return False
            replay.use(index, _ChangedStructs(replay, launch, present, step))
        replay.forward()
        replay.backward(seeds)
        return True


class _ChangedStructs:
    """A launch whose adjoint runs with other structs than its forward.

    Args:
        replay: The replay.
        launch: The launch.
        present: The launch with the other structs.
        step: The same, in the precision of the replay.
    """

    def __init__(
        self, replay: OperationReplay, launch: WarpLaunch, present: PresentStructs, step: Step
    ) -> None:
        self._replay, self._launch, self._step = replay, launch, step
        self._changed, self._foreign = present.launch, present.foreign
        forward = launch.capability(RunsInFloat64) if replay.is_float64 else launch
        assert forward is not None
        self._forward: Step = forward

    def forward(self, values: Memory) -> None:
        """Run the launch as the program did."""
        self._forward.forward(values)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run the adjoint: arrays that were not the launch's hold what they held at the end."""
        given, left = (self._as_reverse_found_it(memory) for memory in (before, after))
        self._step.vjp(given, left, self._foreign.adjoints_beside(adjoint))

    def _as_reverse_found_it(self, memory: Memory) -> Memory:
        found = Memory.zeros(self._replay.sizes, self._replay.wide)
        for accesses, source in (
            (self._changed.retained, self._replay.memory),
            (self._launch.retained, memory),
        ):
            for access in accesses:
                if access.array.region in source.bytes:
                    _copy(access, source, found)
        return self._foreign.beside(found)


def _copy(access: Access, source: Memory, target: Memory) -> None:
    place = access.array.region, access.array.start, access.array.stop
    target.range(*place)[:] = source.range(*place)
