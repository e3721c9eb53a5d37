"""Lazy zeroing: memory is cleared on first use, because a launch usually overwrites all of it before that.

The addresses of such a buffer and of its array are not set yet (their slots are empty): the first access to
one clears the memory. Only a launch that overwrites the whole array, and has it as one argument only, uses
the memory without clearing it.
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
"""Size in bytes from which lazy zeroing pays off."""


class _Count:
    """The number of blocks that are not cleared yet; launches skip the check for them if it is 0.

    Attributes:
        blocks: The number, or an upper bound close to it.
    """

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks = 0


waiting = _Count()
_lock = threading.RLock()


class DeferredZero:
    """Memory of a buffer that should hold zeros but is not cleared yet."""

    __slots__ = ("block", "count")

    def __init__(self, block: Bytes) -> None:
        self.block, self.count = block, waiting
        waiting.blocks += 1

    def __del__(self) -> None:
        self.count.blocks -= 1


def place_memory(buffer: Buffer, *, clear: bool = True) -> None:
    """Place a buffer's deferred memory, cleared unless it is about to be overwritten."""
    with _lock:
        deferred_zero = buffer.deferred_zero
        if deferred_zero is None:
            return
        if clear:
            parallel_memcpy.clear(deferred_zero.block)
        buffer.place(deferred_zero.block)
        buffer.deferred_zero = None


def covered(plan: LaunchPlan, args: tuple[Any, ...], sizes: tuple[int, ...]) -> list[Buffer]:
    """Place the uncleared buffers that a launch overwrites completely, and return them."""
    found = []
    for p in plan.covers:
        a = args[p]
        if (
            a.buffer.deferred_zero is not None
            and a.shape == sizes
            and sum([a is other for other in args]) == 1
        ):
            place_memory(a.buffer, clear=False)
            found.append(a.buffer)
    return found


class overwriting:
    """The context of a launch that overwrites uncleared buffers; clears them if the launch does not run."""

    __slots__ = ("before",)

    def __init__(self, buffers: list[Buffer]) -> None:
        self.before = [(buffer, buffer.writes) for buffer in buffers]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            for buffer, writes in self.before:
                if buffer.writes == writes:  # else the launch ran, and was interrupted at its end
                    buffer.data.fill(0)
