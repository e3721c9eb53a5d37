"""The memory of replays, with what is bound to it; later replays of the same tape can use it again."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from tapedebug.contract import Array, Irreplayable
from tapedebug.operations.adjoint_values import may_need_after
from tapedebug.operations.memory import ALIGNMENT, NARROW, Bytes, Memory, widened
from tapedebug.operations.narrowed import NarrowedStep, NarrowMemory
from tapedebug.operations.operation import ExactAdjoint, ExecutableOperation, RunsInFloat64, Step

if TYPE_CHECKING:
    from tapedebug.operations.tape import OperationTape

IDLE = 2
"""Number of memories of each precision that wait for another replay."""

Range = tuple[Hashable, int, int]
"""A region, the first byte in it, and the byte after the last."""


class OperationRanges:
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


class FoundValues:
    """The values that a tape found, in the form in which replays of one precision hold them.

    Most memory of a simulation is zero at first: of regions without another value nothing is stored.

    Args:
        tape: The tape.
        layout: Memory like that of the replays.
    """

    def __init__(self, tape: OperationTape, layout: Memory) -> None:
        self._contents: list[tuple[Hashable, Bytes]] = []
        self._zero: list[tuple[int, int]] = []
        start = 0
        for region, there in layout.bytes.items():
            content = tape.live_in(region)
            stop = start + -(-there.nbytes // ALIGNMENT) * ALIGNMENT
            if content.any():
                dtype = layout.wide.get(region)
                self._contents.append((region, content if dtype is None else widened(content, dtype)))
            elif self._zero and self._zero[-1][1] == start:
                self._zero[-1] = self._zero[-1][0], stop
            else:
                self._zero.append((start, stop))
            start = stop

    def load(self, memory: Memory, *, new: bool = False) -> None:
        """Write the values to memory that `Memory.zeros` made; if it is `new`, it is zero."""
        assert memory.block is not None
        for start, stop in () if new else self._zero:
            memory.block[start:stop] = 0
        for region, content in self._contents:
            memory.bytes[region][:] = content


class ReplayMemory:
    """The memory of one replay, and its operations in the form in which they run there.

    Args:
        tape: The tape.
        float64: Hold float32 and float16 values as float64.
        found: The values that the tape found; by default they are asked of the tape.
        narrow: Memory for steps without a float64 form; by default new memory.

    Attributes:
        found: The values that the tape found.
        values, adjoint: The memory that operations run on, and that of the adjoints.
        before, after: The values before and after the operation that is being reversed.
        steps: The step of each operation; None if it cannot be run again.
        ranges: The ranges of each operation, if it has run.
        is_changed: It is not fit for another replay.
        has_adjoints: Adjoints may have been written. Clearing memory that was never used takes longer than a
            run of the tape: the operating system has to find pages for it.
        has_earlier_adjoints: They are those of an earlier replay. Most replays run forward only: they are
            cleared when someone looks at them.
    """

    def __init__(
        self,
        tape: OperationTape,
        float64: bool,
        found: FoundValues | None = None,
        narrow: NarrowMemory | None = None,
    ) -> None:
        self.float64 = float64
        self.count = len(tape.operations)
        self.wide = tape.wide_regions() if float64 else NARROW
        self.sizes: dict[Hashable, int] = {region: region.nbytes for region in tape.regions}
        self.values, self.adjoint = (Memory.zeros(self.sizes, self.wide) for _ in range(2))
        self.before, self.after = (Memory.zeros(self.sizes, self.wide) for _ in range(2))
        self._ended: Memory | None = None
        self.found = FoundValues(tape, self.values) if found is None else found
        narrow = NarrowMemory(self.sizes) if narrow is None else narrow
        self.steps = [_step(operation, float64, narrow) for operation in tape.operations]
        self.ranges: list[OperationRanges | None] = [None] * self.count
        self.is_changed = self.has_adjoints = self.has_earlier_adjoints = False
        self._is_new = True

    def restart(self) -> None:
        """Fill the memory with the values that the tape found."""
        self.found.load(self.values, new=self._is_new)
        self._is_new = False

    def clear_adjoint(self) -> None:
        """Set all adjoints to zero."""
        assert self.adjoint.block is not None
        if self.has_adjoints:
            self.adjoint.block[:] = 0
        self.has_adjoints = self.has_earlier_adjoints = False

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
    own = operation.capability(RunsInFloat64)
    if own is not None:
        return own
    return NarrowedStep(operation, narrow, reads_after=operation.capability(ExactAdjoint) is not None)


class IdleReplays:
    """The memories of replays that are no longer used, which later replays of a tape take over.

    It is the capability `contract.ReplayReuse` of a tape: binding an operation to memory takes longer than
    running it, and a diagnosis makes many replays.

    Args:
        kept: Keep memories also outside of `reused`.
    """

    def __init__(self, *, kept: bool = False) -> None:
        self._idle: list[ReplayMemory] = []
        self._found: dict[tuple[bool, int, int], FoundValues] = {}
        self._narrow: dict[tuple[bool, int, int], NarrowMemory] = {}
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
                self._found.clear()
                self._narrow.clear()

    def take(self, tape: OperationTape, float64: bool) -> ReplayMemory:
        """Return memory for a replay of the operations that a tape has now."""
        for found in [each for each in self._idle if each.float64 == float64]:
            self._idle.remove(found)
            if found.count == len(tape.operations):
                found.has_earlier_adjoints = found.has_adjoints
                return found
        key = float64, len(tape.operations), len(tape.regions)
        if not self._depth:
            return ReplayMemory(tape, float64)
        if float64 and key not in self._narrow:
            self._narrow[key] = self._new_narrow(tape)
        made = ReplayMemory(tape, float64, self._found.get(key), self._narrow.get(key))
        self._found[key] = made.found
        return made

    def _new_narrow(self, tape: OperationTape) -> NarrowMemory:
        """Return memory for steps without a float64 form: that of an idle replay in float32, if there is one.

        The operating system has found pages for it, and launches are bound to it.
        """
        sizes: dict[Hashable, int] = {region: region.nbytes for region in tape.regions}
        for idle in [each for each in self._idle if not each.float64 and each.sizes == sizes]:
            if idle.count == len(tape.operations) and tape.float64_obstacle():
                self._idle.remove(idle)
                return NarrowMemory(sizes, idle.values, idle.adjoint)
        return NarrowMemory(sizes)

    def give(self, memory: ReplayMemory) -> None:
        """Keep the memory of a replay that has ended."""
        alike = sum(other.float64 == memory.float64 for other in self._idle)
        if self._depth and not memory.is_changed and alike < IDLE:
            self._idle.append(memory)
