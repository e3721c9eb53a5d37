"""The number of values that an adjoint keeps of its loops, for given launch arguments."""

from __future__ import annotations

from collections.abc import Callable

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.ir import Block, For, Function, Op, Value, blocks_of

WORD = 8
"""Bytes of a value that is kept, whatever its type."""


@dataclass(frozen=True, slots=True)
class LoopStorage:
    """Values stored of one loop, for one thread.

    Attributes:
        span: The loop.
        iterations: How often it runs.
        values: How many of the variables that it carries are kept in each iteration.
    """

    span: Span
    iterations: int
    values: int

    @property
    def bytes(self) -> int:
        """The memory that is needed."""
        return WORD * self.iterations * self.values


def loop_storage_of(adjoint: Function, number: Callable[[Value], int | None]) -> list[LoopStorage]:
    """The loops of which something is kept at one time: where it takes most; only those of known length.

    Args:
        adjoint: An adjoint in IR. Its threads run one after the other and use the same memory.
        number: What a value is, where that is known before the launch.
    """
    widths: dict[int, set[int]] = {}
    for op in adjoint.ops():
        if op.kind == "save":
            tag, slot = op.data
            widths.setdefault(tag, set()).add(slot)
    return _peak_storage(adjoint.body, {tag: len(slots) for tag, slots in widths.items()}, number)


def _peak_storage(
    block: Block, widths: dict[int, int], number: Callable[[Value], int | None]
) -> list[LoopStorage]:
    """Loops of one block are kept beside each other; of those inside them one at a time."""
    here: list[LoopStorage] = []
    most: list[LoopStorage] = []
    for node in block.ops:
        if isinstance(node, Op):
            if node.kind == "reserve" and node.args and widths.get(node.data[0]) and node.span is not None:
                count = number(node.args[0])
                if count is not None and count > 0:
                    here.append(LoopStorage(node.span, count, widths[node.data[0]]))
            continue
        if isinstance(node, For) and number(node.count) == 0:
            continue
        for inner in blocks_of(node):
            found = _peak_storage(inner, widths, number)
            if sum(item.bytes for item in found) > sum(item.bytes for item in most):
                most = found
    return here + most
