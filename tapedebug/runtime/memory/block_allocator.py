"""Reuse the memory of freed arrays for new ones of the same size.

A simulation that is recorded repeatedly allocates the same arrays each time. Memory that is new to a process
costs more than the arithmetic on it: the system clears it page by page on the first access, at 0.25 to 1.5 µs
for 4 KB. Freed blocks are cached, but do not raise the peak memory of the process: a block that has to be
allocated anew evicts as many cached bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from tapedebug._memory_retention import retention

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

ALIGNMENT = 64
"""Alignment of blocks in bytes: a cache line, so that a kernel's vector loads do not straddle two lines."""
STAGGER = 1536
"""Bytes by which a block begins later in its page than the block that was allocated before it.

A load waits for an earlier store whose address has the same last 12 bits, as processors compare only these at
first. The C library puts blocks of whole pages 16 bytes further into their page each, so that a quarter of
all arrays begin 64 bytes after another, and loads of the one closely follow stores to the other: `y = 2 x`
takes 1.5 times as long in the second-level cache, `sin(x) x + a` 1.28 and a stencil 1.8 times. From 512 bytes
on it makes no difference. Any two multiples of this are in the same place of a page, or that far apart.
"""
MARGIN = 4096
"""Unused bytes on both sides of the private memory of replays.

A replayed index that is a little outside its array accesses these, and not memory of other objects.
"""
PAGE = 4096
"""Bytes of a page; the size of a cached block is a multiple of it."""
LEAST = 32 * 1024
"""Size of the smallest cached block in bytes; the C library caches smaller ones itself."""
MOST = 32 << 20
"""Size of the largest cached block in bytes, except while a diagnosis or check runs.

The system clears larger ones in larger pages, which takes 0.14 ms/MB: worth avoiding only where replays
follow each other.
"""
KEPT = 256 << 20
"""Maximum number of cached bytes, except while a diagnosis or check runs."""


class BlockAllocator:
    """A cache of freed blocks by size, in order of the first use of each size.

    Args:
        most: Maximum number of cached bytes, except while a diagnosis or check runs.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.blocks: dict[int, list[Bytes]] = {}
        self.nbytes = 0

    def take(self, size: int) -> Bytes | None:
        """Return a cached block of this size with undefined content; None if a new one must be allocated."""
        try:
            block = self.blocks[size].pop()
        except (KeyError, IndexError):
            self._shrink(size)
            return None
        self.nbytes -= size
        return block

    def give(self, block: Bytes, size: int) -> None:
        """Cache a block that is no longer used."""
        if retention.contexts or (size <= MOST and self.nbytes + size <= self.most):
            self.nbytes += size
            self.blocks.setdefault(size, []).append(block)

    def trim(self) -> None:
        """Free what exceeds the maximum, and blocks too large to be cached, as after a diagnosis."""
        large = [size for size in list(self.blocks) if size > MOST]
        self.nbytes -= sum(size * len(self.blocks.pop(size, [])) for size in large)
        if self.nbytes > self.most:
            self._shrink(self.nbytes - self.most)

    def clear(self) -> None:
        """Free all cached blocks."""
        self._shrink(self.nbytes)

    def _shrink(self, size: int) -> None:
        """Free as many bytes as a new block takes, and recount: concurrent threads may have miscounted."""
        for other in list(self.blocks):
            blocks = self.blocks.get(other, [])
            while blocks and size > 0:
                blocks.pop()
                size -= other
            if size > 0:
                self.blocks.pop(other, None)
        self.nbytes = sum(length * len(blocks) for length, blocks in list(self.blocks.items()))


kept = BlockAllocator(KEPT)
"""The cache of this process."""
retention.on_end.append(kept.trim)
retention.on_release.append(kept.clear)


class _Block:
    """The NumPy `base` of a large array's memory; caches the block when the last view of it is gone."""

    __slots__ = ("__array_interface__", "block", "give", "size")

    def __init__(self, block: Bytes, size: int, nbytes: int) -> None:
        self.block, self.size = block, size
        self.give: Callable[[Bytes, int], None] = kept.give
        address: int = block.__array_interface__["data"][0]
        self.__array_interface__ = {
            "data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3
        }  # fmt: skip

    def __del__(self) -> None:
        self.give(self.block, self.size)


def memory(nbytes: int, *, zeroed: bool = False, least: int = LEAST) -> Bytes:
    """Return new memory, zeroed or undefined; from `least` bytes on a cached block is used again."""
    made, cleared = uncleared(nbytes, zeroed=zeroed, least=least)
    if zeroed and not cleared:
        made.fill(0)
    return made


def uncleared(nbytes: int, *, zeroed: bool, least: int = LEAST) -> tuple[Bytes, bool]:
    """Return memory; with `zeroed`, also True if it already holds zeros, False if it must be cleared."""
    make = np.zeros if zeroed else np.empty
    if nbytes < least:
        block: Bytes = make(nbytes + ALIGNMENT, dtype=np.uint8)
        lead = -block.__array_interface__["data"][0] % ALIGNMENT
        return block[lead : lead + nbytes], zeroed
    if nbytes > MOST and not retention.contexts:
        return _staggered(make, nbytes), zeroed
    size = -(-nbytes // PAGE) * PAGE
    found = kept.take(size)
    new = found is None
    return np.asarray(_Block(_staggered(make, size) if found is None else found, size, nbytes)), new


_allocated = count()
"""Numbers of new blocks."""


def _staggered(make: Callable[..., Bytes], nbytes: int) -> Bytes:
    """Allocate a block that begins `STAGGER` bytes later in its page than the one before."""
    whole = make(nbytes + PAGE, dtype=np.uint8)
    lead = (next(_allocated) * STAGGER - whole.__array_interface__["data"][0]) % PAGE
    return whole[lead : lead + nbytes]
