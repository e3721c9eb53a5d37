"""Reverse a replay in parts, so that the values which adjoints need are kept for one part at a time.

A float64 replay of a simulation in place keeps two copies of its state for each launch: twice what the tape
itself keeps. In parts, the replay runs forward once without keeping them, and then, from the last part to the
first, again with them: at most three forward runs in total. Values and gradients are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass
from tapedebug.runtime.memory.buffer import Bytes
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.replay.shadow_memory import ShadowBuffer, copied
from tapedebug.runtime.reverse.argument_table import ArgumentTable, Reversal
from tapedebug.runtime.reverse.recompute import balanced_cuts
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.runtime.replay.shadow import Shadow

LEAST_SAVED = 4 << 20
"""Bytes of saved values up to which a replay is reversed as a whole."""
LEAST_EACH = 1 << 15
"""Bytes that a launch saves on average, below which packing its arguments again costs more than memory."""
MOST_CHECKPOINTS = 32
"""The largest number of blocks, each but the first with a checkpoint."""
MOST_RUNS = 3.0
"""The largest number of forward runs that reversing a tape may take."""

Checkpoint = list[tuple[ShadowBuffer, Bytes, "Bytes | None"]]
"""The content of all memory that changes."""


@dataclass(frozen=True, slots=True)
class PartialReversal:
    """The division of a replay into blocks, with a checkpoint before each, and of these into parts.

    Attributes:
        blocks: For each block the records at which its parts begin, and the one at which it ends.
    """

    blocks: list[list[int]]

    @classmethod
    def of(cls, shadow: Shadow) -> PartialReversal | None:
        """Return the division of a replay; None if it is reversed as a whole."""
        records = shadow.records
        costs = [_saved_by(shadow, record) for record in records]
        if sum(costs) <= max(LEAST_SAVED, LEAST_EACH * len(records)) or not all(map(_repeats, records)):
            return None
        found = cls(_blocks(costs, sum(buffer.data.nbytes for buffer in _changing(shadow))))
        return found if sum(map(len, found.blocks)) > 2 else None

    def run(self, shadow: Shadow, seeds: Mapping[Any, Any]) -> None:
        """Run a replay forward from its inputs, and backward from the seeds; it ends within the tape."""
        space = shadow.space
        own = space.copies, space.inplace_values
        shadow._tables.clear()
        try:
            checkpoints: list[Checkpoint] = []
            for before, block in pairwise(self.blocks):
                _forward(shadow, before[0], block[0])
                checkpoints.append([(b, copied(b.data), b._plain) for b in _changing(shadow)])
            shadow._seed(seeds)
            for block in reversed(self.blocks):
                content = checkpoints.pop() if checkpoints else None
                for start, stop in reversed(list(pairwise(block))):
                    space.copies, space.inplace_values = {}, {}
                    if content is not None and shadow.position != block[0]:
                        _restore(shadow, content, block[0])
                    _forward(shadow, block[0], start)  # from the first record: with the tape's inputs
                    _forward(shadow, start, stop, saving=True)
                    _backward(shadow, start, stop)
        finally:
            space.copies, space.inplace_values = own


def _forward(shadow: Shadow, start: int, stop: int, *, saving: bool = False) -> None:
    if start == stop:
        return
    shadow.forward_only = not saving
    try:
        shadow._run(shadow._forward[1], start, stop, None)
    finally:
        shadow.forward_only = False


def _backward(shadow: Shadow, start: int, stop: int) -> None:
    records = shadow.records[start:stop]
    for record in records:
        for p in record.plan.active:
            shadow._buffer(record.args[p]).gradient()
    shadow.space.current, shadow.space.position = False, stop
    table = ArgumentTable(records, shadow.space)
    Reversal(table, table.steps(records)).run(stop, start, shadow.pulse)


def _restore(shadow: Shadow, checkpoint: Checkpoint, position: int) -> None:
    for buffer, content, plain in checkpoint:
        parallel_memcpy.copy(buffer.data, content)
        buffer._plain = plain
    shadow.position = position


def _changing(shadow: Shadow) -> list[ShadowBuffer]:
    """Return the memory that the records of a replay write, or something outside the tape between them."""
    return [buffer for buffer in shadow.space.buffers.values() if buffer.restarts]


def _repeats(record: Record) -> bool:
    """Return True if a record computes the same when it runs again."""
    if record.kind == "kernel":
        assert record.kernel is not None
        return not record.kernel.analysis.native
    return record.kind in {"copy", "fill"}


def _saved_by(shadow: Shadow, record: Record) -> int:
    """Return the bytes that a replay saves before a record."""
    kept = [(buffer, need.start, need.stop) for need, buffer in shadow._saves.at(record.index)]
    buffers = shadow.space.buffers
    kept += [(buffers[record.args[s.params[0]].buffer], s.start, s.stop) for s in record.inplace_saves]
    return sum((stop - start) * buffer.scale for buffer, start, stop in dict.fromkeys(kept))


def _blocks(costs: Sequence[int], state: int) -> list[list[int]]:
    """Return blocks of records, so that checkpoints and the values saved for a part take little memory.

    Args:
        costs: The bytes that each record saves.
        state: The bytes of a checkpoint.
    """
    sums = [0, *accumulate(costs)]
    total, count = sums[-1], len(costs)

    def least(most_parts: int) -> tuple[float, int, int]:
        """Return the memory of the best division, its number of blocks, and of parts of a block."""
        return min(
            ((blocks - 1) * state + total / (blocks * parts), blocks, parts)
            for parts in range(1, most_parts + 1)
            for blocks in range(1, max(1, min(MOST_CHECKPOINTS, count // parts)) + 1)
            if (blocks - 1) / blocks + (parts + 1) / 2 <= MOST_RUNS
        )

    memory, blocks, parts = least(1)
    if memory > total / 3:  # few launches on large arrays: running a block again takes less than checkpoints
        memory, blocks, parts = least(5)
    ends = balanced_cuts(sums, 0, count, blocks)
    return [balanced_cuts(sums, low, high, parts) for low, high in pairwise(ends)]
