"""Reuse the memory of freed arrays for new ones of the same size.

A simulation that is recorded again and again makes the same arrays each time. Memory that is new to a process
costs more than the arithmetic on it: the system clears it page by page when it is first touched, at 0.25 to
1.5 µs for 4 KB. What is given back is kept as long as the process would have that much anyway: a block that
has to be new takes the place of others that are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

ALIGNMENT = 64
"""Blocks start on a cache line, so that vector loads of a kernel do not straddle two."""
PAGE = 4096
"""Blocks are whole pages long: what begins in none of them is not touched."""
LEAST = 32 * 1024
"""Bytes of a block that is kept: the C library keeps smaller ones itself."""
MOST = 32 << 20
"""Bytes of the largest one: the system clears larger ones in larger pages."""
KEPT = 256 << 20
"""Bytes that are kept at most."""


class BlockAllocator:
    """Blocks by their size, the sizes that came first at first.

    Args:
        most: How many bytes are kept at most.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.blocks: dict[int, list[Bytes]] = {}
        self.nbytes = 0

    def take(self, size: int) -> Bytes | None:
        """A block of this size, whose content is anything; None where a new one has to be made."""
        try:
            block = self.blocks[size].pop()
        except (KeyError, IndexError):
            self._shrink(size)
            return None
        self.nbytes -= size
        return block

    def give(self, block: Bytes, size: int) -> None:
        """Keep a block that nobody uses any more."""
        if self.nbytes + size <= self.most:
            self.nbytes += size
            self.blocks.setdefault(size, []).append(block)

    def _shrink(self, size: int) -> None:
        """Let go of as much as a new block takes, and count what is left: several threads may miscount."""
        for other in list(self.blocks):
            blocks = self.blocks.get(other, [])
            while blocks and size > 0:
                blocks.pop()
                size -= other
            if size > 0:
                self.blocks.pop(other, None)
        self.nbytes = sum(length * len(blocks) for length, blocks in list(self.blocks.items()))


kept = BlockAllocator(KEPT)
"""Those of this process."""


class _Block:
    """What the memory of a large array has as its `base`: gives it back when the last view of it is gone."""

    __slots__ = ("__array_interface__", "block", "give", "size")

    def __init__(self, block: Bytes, size: int, nbytes: int) -> None:
        self.block, self.size = block, size
        self.give: Callable[[Bytes, int], None] = kept.give
        address: int = block.__array_interface__["data"][0]
        lead = -address % ALIGNMENT
        self.__array_interface__ = {
            "data": (address + lead, False), "shape": (nbytes,), "typestr": "|u1", "version": 3
        }  # fmt: skip

    def __del__(self) -> None:
        self.give(self.block, self.size)


def memory(nbytes: int, *, zeroed: bool = False) -> Bytes:
    """New memory, zeros or undefined."""
    made, cleared = uncleared(nbytes, zeroed=zeroed)
    if zeroed and not cleared:
        made.fill(0)
    return made


def uncleared(nbytes: int, *, zeroed: bool) -> tuple[Bytes, bool]:
    """New memory; and, where it should hold zeros, whether it does."""
    make = np.zeros if zeroed else np.empty
    if not LEAST <= nbytes <= MOST:
        block: Bytes = make(nbytes + ALIGNMENT, dtype=np.uint8)
        lead = -block.__array_interface__["data"][0] % ALIGNMENT
        return block[lead : lead + nbytes], zeroed
    size = -(-(nbytes + ALIGNMENT) // PAGE) * PAGE
    found = kept.take(size)
    new = found is None
    return np.asarray(_Block(make(size, dtype=np.uint8) if found is None else found, size, nbytes)), new
