"""Memory. Arrays are views of buffers; versions, preserved values and gradients belong to buffers.

A buffer knows which live tapes have an interest in its content (`watch`, weak references), whether its
content is a known constant (`fill`), and how many NumPy windows can change it behind our back (`windows`).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tapedebug.runtime.ledger import Ledger
    from tapedebug.runtime.versions import Tracker

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def byte_bounds(values: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The addresses of the first byte of an array's elements and the one after the last."""
    address: int = values.__array_interface__["data"][0]
    if values.size == 0:
        return address, address
    spans = [(n - 1) * s for n, s in zip(values.shape, values.strides, strict=True)]
    low = address + sum(min(0, s) for s in spans)
    return low, address + sum(max(0, s) for s in spans) + values.itemsize


ALIGNMENT = 64
"""Buffers start on a cache line, so that vector loads of a kernel do not straddle two."""

ZERO = b"\0"
"""The `fill` of a buffer that is known to hold zeros only."""


class Buffer:
    """A block of memory of one device.

    Attributes:
        address: Of the first byte.
        nbytes: Size in bytes.
        data: The bytes as a writable NumPy array; it keeps the memory alive.
        adjoint: The gradient memory, of the same size, or None while nobody asked for a gradient.
        fill: The repeated byte pattern that is known to be the whole content, or None.
        watch: Ledgers of the tapes that must hear of a write before it happens.
        windows: NumPy views that are alive and can write without telling us.
        writes: How many writes through this package have happened.
    """

    __slots__ = ("__weakref__", "address", "adjoint", "data", "fill", "nbytes", "watch", "windows", "writes")

    def __init__(self, data: Bytes, fill: bytes | None = None, foreign: bool = False) -> None:
        self.data = data
        self.address: int = data.ctypes.data if data.size else 0
        self.nbytes: int = data.nbytes
        self.adjoint: Buffer | None = None
        self.fill = fill
        self.watch: tuple[weakref.ref[Ledger], ...] = ()
        self.windows = 1 if foreign else 0
        self.writes = 0
        _REGISTRY[self.address] = self

    @classmethod
    def allocate(cls, nbytes: int, *, zeroed: bool = False) -> Buffer:
        """New memory, zeros or undefined."""
        make = np.zeros if zeroed else np.empty
        block: Bytes = make(nbytes + ALIGNMENT, dtype=np.uint8)
        lead = -block.ctypes.data % ALIGNMENT
        return cls(block[lead : lead + nbytes], ZERO if zeroed else None)

    @classmethod
    def around(cls, values: np.ndarray[Any, Any]) -> Buffer:
        """The buffer of the memory that `values` lies in, without a copy.

        Two wraps of the same memory give the same buffer, so that overwrites are seen through both.
        """
        owner = values
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if isinstance(owner.base, Window):
            return owner.base.buffer
        low, high = byte_bounds(owner)
        known = _REGISTRY.get(low)
        if known is not None and known.nbytes >= high - low:
            return known
        return cls(_window(low, high - low, values), foreign=True)

    @classmethod
    def at(cls, address: int, nbytes: int, owner: object = None) -> Buffer:
        """The buffer that contains a range of foreign memory given by its address."""
        for known in list(_REGISTRY.values()):
            if known.address <= address and address + nbytes <= known.address + known.nbytes:
                return known
        return cls(_window(address, nbytes, owner), foreign=True)

    def gradient(self) -> Buffer:
        """The adjoint memory; made of zeros when it is first asked for."""
        if self.adjoint is None:
            self.adjoint = Buffer.allocate(self.nbytes, zeroed=True)
        return self.adjoint

    def watchers(self) -> list[tuple[Ledger, Tracker]]:
        """The ledgers of live tapes that use this buffer, with their trackers."""
        ledgers = [ledger for ref in self.watch if (ledger := ref()) is not None]
        return [(ledger, tracker) for ledger in ledgers if (tracker := ledger.tracker()) is not None]

    def copy_range(self, start: int, stop: int) -> Bytes:
        """A private copy of the bytes `start … stop`."""
        return self.data[start:stop].copy()

    def zero_range(self, start: int, stop: int) -> None:
        """Set bytes to zero, and remember it where that is the whole buffer."""
        self.data[start:stop] = 0
        self.writes += 1
        if start == 0 and stop == self.nbytes and not self.windows:
            self.fill = ZERO


class Window:
    """What a NumPy view of a buffer has as its `base`: counts as long as any view derived from it lives.

    NumPy collapses chains of bases, but only up to an object that is not an array: this one.

    Args:
        buffer: The buffer.
        interface: The `__array_interface__` that NumPy makes a view of.
        start: The first byte that can be written through the view.
        stop: The byte after the last.
    """

    __slots__ = ("__array_interface__", "buffer", "owner")

    def __init__(self, buffer: Buffer, interface: dict[str, Any], start: int, stop: int) -> None:
        self.buffer = buffer
        self.__array_interface__ = interface
        buffer.windows += 1
        # From now on somebody can write without telling; a known constant is known no more.
        buffer.fill = None
        for ledger, tracker in buffer.watchers():
            tracker.window_opened(ledger, start, stop)

    def __del__(self) -> None:
        self.buffer.windows -= 1
        if not self.buffer.windows:
            for ledger, tracker in self.buffer.watchers():
                tracker.window_closed(ledger)


class _Foreign:
    """Keeps the owner of foreign memory alive behind a byte view of it."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def _window(address: int, nbytes: int, owner: object) -> Bytes:
    return np.asarray(_Foreign(address, nbytes, owner))


_REGISTRY: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()
