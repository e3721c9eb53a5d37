"""Bytes around arrays and around private copies of memory that nothing may change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

import tapedebug as wp
from tapedebug.runtime.parallel import partition

PATTERN = 0xA5
"""The value of guard bytes: as float32 or float64 a small negative number, which any addition changes."""
MARGIN = 512
"""Bytes on each side."""


class Guarded:
    """A view into a block of guard bytes: those around it, and those between its elements.

    Args:
        shape: Of what `view` is taken of, with the dimensions of vectors or matrices.
        view: Gives the view.
        dtype: Of the numbers.
    """

    def __init__(
        self, shape: tuple[int, ...], view: Callable[[Any], Any] | None = None, dtype: Any = np.float32
    ) -> None:
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.block = np.full(nbytes + 2 * MARGIN, PATTERN, np.uint8)
        whole = self.block[MARGIN : MARGIN + nbytes].view(dtype).reshape(shape)
        self.values: Any = whole if view is None else view(whole)
        self.shape: tuple[int, ...] = self.values.shape
        inside = np.zeros(nbytes // np.dtype(dtype).itemsize, bool).reshape(shape)
        (inside if view is None else view(inside))[...] = True
        self.guards = np.ones(len(self.block), bool)
        self.guards[MARGIN : MARGIN + nbytes] = np.repeat(~inside.reshape(-1), np.dtype(dtype).itemsize)

    def array(self, dtype: Any = float, **options: Any) -> Any:
        """An array of the view's own memory."""
        return wp.array(self.values, dtype=dtype, copy=False, **options)

    def check(self) -> None:
        """Raise AssertionError if a guard byte has changed."""
        changed = np.flatnonzero(self.guards & (self.block != PATTERN))
        assert not changed.size, f"{changed.size} bytes beside an array were written, first {changed[0]}"


class Blocks:
    """Memory between guard bytes: while it is entered, private copies that chunks add to are such memory.

    Raises:
        AssertionError: On the way out, a guard byte has changed.
    """

    def __init__(self) -> None:
        self.blocks: list[tuple[Any, int, int, str]] = []
        self._patches = ExitStack()

    def memory(self, nbytes: int, what: str = "an array") -> Any:
        """A block that begins at a multiple of 64, as those of the package do."""
        block = np.full(nbytes + 2 * MARGIN + 64, PATTERN, np.uint8)
        lead = MARGIN + -block.ctypes.data % 64
        self.blocks.append((block, lead, nbytes, what))
        return block[lead : lead + nbytes]

    def uncleared(self, nbytes: int, *, zeroed: bool) -> tuple[Any, bool]:
        """Return what `runtime.memory.block_allocator.uncleared` gives."""
        made = self.memory(nbytes)
        if zeroed:
            made[...] = 0
        return made, zeroed

    def check(self) -> None:
        """Raise AssertionError if a guard byte has changed."""
        for block, lead, nbytes, what in self.blocks:
            beside = np.concatenate([block[:lead], block[lead + nbytes :]])
            assert (beside == PATTERN).all(), f"bytes beside {what} of {nbytes} bytes were written"

    def __enter__(self) -> Blocks:
        self._patches.enter_context(
            patch.object(partition, "memory_of", lambda nbytes: self.memory(nbytes, "a private block"))
        )
        self._patches.enter_context(patch.object(partition, "KEPT", -1))  # each launch has blocks of its own
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._patches.close()
        if kind is None:
            self.check()
