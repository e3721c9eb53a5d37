"""The program's arrays, as capabilities of a tape of Warp."""

from __future__ import annotations

from collections.abc import Collection

from tapedebug.operations import Region
from tapedebug.watch.hooks import look_up
from tapedebug.watch.memory import MemoryMap, WarpArray, WatchedArray
from tapedebug.watch.shared_history import WatchedHistory


class WarpArrays:
    """The capabilities `ProgramArrays`, `ArrayMemory` and `ArrayOrigins`."""

    def __init__(self, memory: MemoryMap, history: WatchedHistory, given: Collection[Region]) -> None:
        self._memory, self._history, self._given = memory, history, given
        self.kind: type = look_up("warp:array")

    def array_of(self, found: WarpArray, /) -> WatchedArray:
        """Return the array of the contract for an array of Warp."""
        return self._memory.find(found)

    def address(self, array: WatchedArray, /) -> int:
        """Return the address of the first element."""
        return array.region.address + array.offset

    def gradient_reads(self, array: WatchedArray, /) -> None:
        """Return None: reads through memory that Warp shares with PyTorch are not seen."""

    def given(self, array: WatchedArray, /) -> bool:
        """True if an array was made with values that differ, and first used by this tape."""
        return array.region in self._given

    def used_elsewhere(self, array: WatchedArray, /) -> bool:
        """True if another tape that still exists uses an array."""
        return self._history.others_use(array)

    def retains_gradient(self, array: WatchedArray, /) -> bool:
        """True if the program set `retain_grad`."""
        return bool(getattr(array.source, "retain_grad", False))
