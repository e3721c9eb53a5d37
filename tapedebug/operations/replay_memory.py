"""The memory of replays, with what is bound to it; later replays of the same tape can use it again."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from tapedebug.contract import Array, Irreplayable
from tapedebug.operations.adjoint_values import may_need_after
from tapedebug.operations.memory import NARROW, Bytes, Memory
from tapedebug.operations.narrowed import NarrowedStep, NarrowMemory
from tapedebug.operations.operation import ExactAdjoint, ExecutableOperation, RunsInFloat64, Step

if TYPE_CHECKING:
    from tapedebug.operations.tape import OperationTape

IDLE = 2
"""Number of memories of each precision that wait for another replay."""

Range = tuple[Hashable, int, int]
"""A region, the first byte in it, and the byte after the last."""


class Plan:
    """The facts of an operation in the form in which a replay uses them.

    Args:
        operation: The operation.

    Attributes:
        writes: The ranges that it writes.
        before: The ranges whose values before the operation its adjoint may read.
        after: Those whose values after it.
        is_measured: Measurement decides which of the two its adjoint gets.
    """

    __slots__ = ("after", "before", "is_measured", "writes")

    def __init__(self, operation: ExecutableOperation) -> None:
        both = may_need_after(operation)
        accesses = operation.retained
        self.writes = [_range(x.array) for x in accesses if x.writes]
        self.before = [_range(x.array) for x in accesses if x.needs_before or (both and x.needs_after)]
        self.after = [_range(x.array) for x in accesses if x.needs_after or (both and x.needs_before)]
        self.is_measured = both and operation.capability(ExactAdjoint) is None


def _range(array: Array) -> Range:
    return array.region, array.start, array.stop


class ReplayMemory:
    """The memory of one replay, and its operations in the form in which they run there.

    Args:
        tape: The tape.
        float64: Hold float32 and float16 values as float64.

    Attributes:
        values, adjoint: The memory that operations run on, and that of the adjoints.
        before, after: The values before and after the operation that is being reversed.
        steps: The step of each operation; None if it cannot be run again.
        plans: The plan of each operation, if it has run.
        is_changed: It is not fit for another replay.
    """

    def __init__(self, tape: OperationTape, float64: bool) -> None:
        self.float64 = float64
        self.count = len(tape.operations)
        self.wide = tape.wide_regions() if float64 else NARROW
        self.sizes: dict[Hashable, int] = {region: region.nbytes for region in tape.regions}
        self.values, self.adjoint = (Memory.zeros(self.sizes, self.wide) for _ in range(2))
        self.before, self.after = (Memory.zeros(self.sizes, self.wide) for _ in range(2))
        self._ended: Memory | None = None
        self._found: Bytes | None = None
        narrow = NarrowMemory(self.sizes)
        self.steps = [_step(operation, float64, narrow) for operation in tape.operations]
        self.plans: list[Plan | None] = [None] * self.count
        self.is_changed = False

    def restart(self, tape: OperationTape) -> None:
        """Fill the memory with the values that the tape found."""
        assert self.values.block is not None
        if self._found is not None:
            self.values.block[:] = self._found
            return
        for region in self.sizes:
            self.values.load(region, tape.live_in(region))
        self._found = self.values.block.copy()

    def clear_adjoint(self) -> None:
        """Set all adjoints to zero."""
        assert self.adjoint.block is not None
        self.adjoint.block[:] = 0

    def memory_at_end(self) -> Memory:
        """Return a copy of the memory, for the writes after the last operation."""
        if self._ended is None:
            self._ended = Memory.zeros(self.sizes, self.wide)
        assert self._ended.block is not None
        assert self.values.block is not None
        self._ended.block[:] = self.values.block
        return self._ended


def _step(operation: ExecutableOperation, float64: bool, narrow: NarrowMemory) -> Step | None:
    """Return the step that runs an operation in a replay; None if it cannot be run again."""
    if operation.capability(Irreplayable) is not None:
        return None
    if not float64:
        return operation
    return operation.capability(RunsInFloat64) or NarrowedStep(operation, narrow)


class IdleReplays:
    """The memories of replays that are no longer used, which later replays of a tape take over.

    It is the capability `contract.ReplayReuse` of a tape: binding an operation to memory takes longer than
    running it, and a diagnosis makes many replays.

    Args:
        kept: Keep memories also outside of `reused`.
    """

    def __init__(self, *, kept: bool = False) -> None:
        self._idle: list[ReplayMemory] = []
        self._depth = int(kept)

    @contextlib.contextmanager
    def reused(self) -> Iterator[None]:
        """Context in which memories are kept."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._idle.clear()

    def take(self, tape: OperationTape, float64: bool) -> ReplayMemory:
        """Return memory for a replay of the operations that a tape has now."""
        for place, found in enumerate(self._idle):
            if found.float64 == float64:
                del self._idle[place]
                if found.count == len(tape.operations):
                    found.clear_adjoint()
                    return found
        return ReplayMemory(tape, float64)

    def give(self, memory: ReplayMemory) -> None:
        """Keep the memory of a replay that has ended."""
        alike = sum(other.float64 == memory.float64 for other in self._idle)
        if self._depth and not memory.is_changed and alike < IDLE:
            self._idle.append(memory)
