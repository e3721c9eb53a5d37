"""Zero memory lazily, when it is first read: mostly a launch overwrites all of it before.

The addresses of such a buffer and of its array are not there yet (their slots are empty): whatever asks for
one has the memory cleared first. Only a launch that covers the whole array, and finds it by no other name,
takes it as it is.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tapedebug.runtime.parallel import parallel_memcpy

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import LaunchPlan
    from tapedebug.runtime.memory.block_allocator import Bytes
    from tapedebug.runtime.memory.buffer import Buffer

LEAST = 96 * 1024
"""Bytes of memory that is worth it."""


class _Count:
    """How many blocks are not cleared: where there is none, launches need not look.

    Attributes:
        blocks: Their number, or a little more.
    """

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks = 0


waiting = _Count()
_lock = threading.RLock()


class DeferredZero:
    """Memory of a buffer that should hold zeros."""

    __slots__ = ("block", "count")

    def __init__(self, block: Bytes) -> None:
        self.block, self.count = block, waiting
        waiting.blocks += 1

    def __del__(self) -> None:
        self.count.blocks -= 1


def settle(buffer: Buffer, *, clear: bool = True) -> None:
    """Give a buffer its memory, with zeros in it unless it is overwritten at once."""
    with _lock:
        deferred_zero = buffer.deferred_zero
        if deferred_zero is None:
            return
        if clear:
            parallel_memcpy.clear(deferred_zero.block)
        buffer.place(deferred_zero.block)
        buffer.deferred_zero = None


def covered(plan: LaunchPlan, args: tuple[Any, ...], sizes: tuple[int, ...]) -> list[Buffer]:
    """Of the buffers that are not cleared, those that a launch overwrites wholly: they have memory now."""
    found = []
    for p in plan.covers:
        a = args[p]
        if (
            a.buffer.deferred_zero is not None
            and a.shape == sizes
            and sum([a is other for other in args]) == 1
        ):
            settle(a.buffer, clear=False)
            found.append(a.buffer)
    return found


class overwriting:
    """A launch that overwrites buffers wholly; where it does not come to that they hold zeros."""

    __slots__ = ("before",)

    def __init__(self, buffers: list[Buffer]) -> None:
        self.before = [(buffer, buffer.writes) for buffer in buffers]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            for buffer, writes in self.before:
                if buffer.writes == writes:  # else it has run, and was interrupted at its end
                    buffer.data.fill(0)
