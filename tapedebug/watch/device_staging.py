"""Copies on a device of the memory of a replay: launches there read and write these.

A replay holds its values on the host. Before a launch on a device, the ranges that it uses are copied there,
and those that it has written are copied back.
"""

from __future__ import annotations

from typing import Any

from tapedebug.operations import Memory
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.memory import WarpArray, WatchedArray

KEY = "device"
"""The key of `Memory.bound` under which the copies of a memory are kept."""


class Staging:
    """The copies of the regions of one memory.

    Args:
        memory: The memory.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pairs: dict[tuple[Any, str], tuple[WarpArray, WarpArray]] = {}

    @classmethod
    def of(cls, memory: Memory) -> Staging:
        """Return the copies of a memory, which are made once."""
        found = memory.bound.get(KEY)
        if found is None:
            found = memory.bound[KEY] = cls(memory)
        assert isinstance(found, Staging)
        return found

    def address(self, array: WatchedArray, device: WarpObject) -> int:
        """Return the address of an array's region on a device."""
        return int(self._pair(array, device)[1].ptr)

    def upload(self, array: WatchedArray, device: WarpObject) -> None:
        """Copy the range of an array to a device."""
        host, there = self._pair(array, device)
        self._copy(there, host, array)

    def download(self, array: WatchedArray, device: WarpObject) -> None:
        """Copy the range of an array back."""
        host, there = self._pair(array, device)
        self._copy(host, there, array)

    def _copy(self, dest: WarpArray, src: WarpArray, array: WatchedArray) -> None:
        look_up("warp:copy")(dest, src, array.start, array.start, array.stop - array.start)

    def _pair(self, array: WatchedArray, device: WarpObject) -> tuple[WarpArray, WarpArray]:
        """Return the bytes of a region on the host and on a device, as arrays of Warp."""
        key = array.region, str(device)
        found = self._pairs.get(key)
        if found is None:
            content = self._memory.bytes[array.region]
            byte = look_up("warp:uint8")
            host = look_up("warp:array")(
                ptr=int(content.ctypes.data), dtype=byte, shape=(content.size,), device="cpu"
            )
            there = look_up("warp:empty")(shape=(content.size,), dtype=byte, device=device)
            found = self._pairs[key] = host, there
        return found
