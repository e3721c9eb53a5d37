"""Buffers: the memory behind arrays, with its versions, preserved values and gradients.

A buffer refers to the live tapes that rely on its content (`watch`, weak references), stores its content if
that is a known constant (`fill`), and counts the objects through which it can be written unnoticed
(`windows`): NumPy views, tensors that share its memory, buffers of foreign memory that overlap it.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import TapedebugWarning
from tapedebug.runtime.memory.addresses import byte_bounds
from tapedebug.runtime.memory.block_allocator import ALIGNMENT as ALIGNMENT
from tapedebug.runtime.memory.block_allocator import uncleared
from tapedebug.runtime.memory.lazy_zero import LEAST, DeferredZero, place_memory
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.tape.gradient_history import History, window_opened

if TYPE_CHECKING:
    from tapedebug.runtime.tape.buffer_versions import BufferVersions
    from tapedebug.runtime.tape.tracker import Tracker

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


ZERO = b"\0"
"""The `fill` of a buffer that is known to hold zeros only."""


_numbers = itertools.count()


class _Gradients:
    """A counter that invalidates cached gradient addresses.

    Attributes:
        taken: Number of times that a buffer was given gradient memory, for the first time or in exchange.
    """

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0


gradients = _Gradients()


class Buffer:
    """A block of memory of one device.

    Attributes:
        address: Address of the first byte.
        nbytes: Size in bytes.
        data: The bytes as a writable NumPy array; it keeps the memory alive.
        adjoint: The gradient memory, of the same size, or None before the gradient is first used.
        fill: The repeated byte pattern that is known to be the whole content, or None.
        watch: Trackers of the tapes that must be notified before a write.
        windows: Number of live objects through which the memory can be written unnoticed: views, and the
            owner of foreign memory.
        writes: Number of writes through this package so far.
        history: The events around tapes, for memory that has a gradient or is one; else None.
        held: Objects that must live as long as the buffer.
        number: An identifier that is unique among all buffers of the process, past ones included.
        views: Number of NumPy views opened so far.
        deferred_zero: Memory that should hold zeros but is not cleared yet; `data` and `address` clear it.
        undefined: True if the content was undefined at allocation and no window has been opened since.
        handed_over: True for memory of another library that the caller made the gradient of an array.
    """

    __slots__ = (
        "__weakref__",
        "address",
        "adjoint",
        "data",
        "deferred_zero",
        "fill",
        "handed_over",
        "held",
        "history",
        "nbytes",
        "number",
        "undefined",
        "views",
        "watch",
        "windows",
        "writes",
    )

    data: Bytes
    address: int

    def __init__(
        self,
        data: Bytes,
        fill: bytes | None = None,
        foreign: bool = False,
        known: bool = True,
        late: bool = False,
    ) -> None:
        self.deferred_zero: DeferredZero | None = None
        self.nbytes: int = data.nbytes
        self.adjoint: Buffer | None = None
        self.fill = fill
        self.watch: tuple[weakref.ref[Tracker], ...] = ()
        self.windows = 1 if foreign else 0
        self.writes = self.views = 0
        self.number = next(_numbers)
        self.history: History | None = None
        self.held: list[object] = []
        self.undefined = self.handed_over = False
        if late:
            self.deferred_zero = DeferredZero(data)
            self.__class__ = _LateBuffer
        else:
            self.place(data, known=known)

    def place(self, data: Bytes, *, known: bool = True) -> None:
        """Set the memory of this buffer and, if `known`, register it by its address."""
        if known and self.deferred_zero is not None:
            self.__class__ = Buffer
        self.data = data
        self.address = data.__array_interface__["data"][0] if data.size else 0
        if known:
            _REGISTRY[self.address, self.nbytes] = self

    @classmethod
    def allocate(cls, nbytes: int, *, zeroed: bool = False) -> Buffer:
        """Return a buffer of new memory, zeroed or undefined."""
        data, cleared = uncleared(nbytes, zeroed=zeroed)
        late = zeroed and not cleared and nbytes >= LEAST
        if zeroed and not cleared and not late:
            parallel_memcpy.clear(data)
        return cls(data, ZERO if zeroed else None, late=late)

    @classmethod
    def around(cls, values: np.ndarray[Any, Any]) -> Buffer:
        """Return the buffer of the memory that holds `values`, without a copy.

        Wrapping the same memory twice gives the same buffer, so that overwrites through either are detected.
        """
        owner = values
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if isinstance(owner.base, Window):
            return owner.base.buffer
        low, high = byte_bounds(owner)
        return cls.at(low, high - low, values)

    @classmethod
    def at(
        cls,
        address: int,
        nbytes: int,
        owner: object = None,
        deleter: Callable[[int, int], object] | None = None,
        private: bool = False,
    ) -> Buffer:
        """Return the buffer of a range of foreign memory given by its address.

        If the range lies within a known buffer, that buffer is returned. If two ranges overlap in part,
        writes through one are detected by the other like writes through NumPy.

        Args:
            address: Address of the first byte.
            nbytes: Number of bytes.
            owner: Object that is kept alive as long as the memory is used.
            deleter: Called with `address` and `nbytes` when the memory is no longer used.
            private: Return a separate buffer with a separate gradient, even if a known buffer has the memory.
        """
        met = _overlapping(address, nbytes)
        for known in met if not private else ():
            if known.address <= address and address + nbytes <= known.address + known.nbytes:
                known._keep(_Foreign(address, nbytes, owner, deleter))
                return known
        source = np.asarray(_Foreign(address, nbytes, owner, deleter))
        made = cls(source, foreign=True, known=not private)
        for known in met:
            low = max(address, known.address) - known.address
            high = min(address + nbytes, known.address + known.nbytes) - known.address
            made.held.append(Window(known, {}, low, high))
        if met and not private:
            _warn_of_overlap(met[0], made)
        return made

    def _keep(self, other: _Foreign) -> None:
        """Keep the owner of the memory alive if this buffer has none yet, and keep a deleter."""
        if other.deleter is not None:
            self.held.append(other)
        own = self.data.base
        if isinstance(own, _Foreign) and own.owner is None:
            own.owner = other.owner

    @property
    def unwritten(self) -> bool:
        """True if it is certain that this memory was never written."""
        return self.undefined and not self.writes

    def gradient(self) -> Buffer:
        """Return the adjoint memory; it is allocated with zeros on first use."""
        if self.adjoint is None:
            self.take_gradient(Buffer.allocate(self.nbytes, zeroed=True))
        assert self.adjoint is not None
        return self.adjoint

    def take_gradient(self, memory: Buffer) -> None:
        """Use `memory` as the adjoint memory from now on."""
        self.adjoint = memory
        gradients.taken += 1
        if self.history is None:
            self.history = History(writes=self.writes)
        if memory.history is None:
            memory.history = History(writes=memory.writes)
        memory.history.of_gradient = True

    @property
    def is_foreign(self) -> bool:
        """True if the memory belongs to another library."""
        return isinstance(self.data.base, _Foreign)

    def watchers(self) -> list[tuple[BufferVersions, Tracker]]:
        """Return the ledgers of the live tapes that use this buffer, with their trackers."""
        trackers = [tracker for ref in self.watch if (tracker := ref()) is not None]
        return [(tracker.ledgers[self], tracker) for tracker in trackers]

    def copy_range(self, start: int, stop: int) -> Bytes:
        """Return a private copy of the bytes `start … stop`."""
        return self.data[start:stop].copy()

    def zero_range(self, start: int, stop: int) -> None:
        """Set bytes to zero; set `fill` if they are the whole buffer and it has no windows.

        The caller announces the write (`before_write`).
        """
        parallel_memcpy.clear(self.data[start:stop])
        if start == 0 and stop == self.nbytes and not self.windows:
            self.fill = ZERO


class _LateBuffer(Buffer):
    """A buffer whose memory is cleared on first use of `data` or `address`; it then becomes a `Buffer`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name not in ("data", "address"):
            raise AttributeError(f"'Buffer' object has no attribute '{name}'", name=name, obj=self)
        place_memory(self)
        return getattr(self, name)


class Window:
    """The `base` of a NumPy view of a buffer; it is counted as long as any view derived from it lives.

    NumPy collapses chains of bases, but stops at an object that is not an array, such as this one.

    Args:
        buffer: The buffer.
        interface: The `__array_interface__` from which NumPy makes a view.
        start: The first byte that can be written through the view.
        stop: The byte after the last.
    """

    __slots__ = ("__array_interface__", "buffer", "owner")

    def __init__(self, buffer: Buffer, interface: dict[str, Any], start: int, stop: int) -> None:
        self.buffer = buffer
        if not buffer.nbytes:  # NumPy before 2.4 treats address 0 as a missing interface
            interface["data"] = (buffer.data.ctypes.data, False)
        self.__array_interface__ = interface
        buffer.windows += 1
        buffer.views += 1
        # From now on the memory can be written unnoticed, so its content is no longer a known constant.
        buffer.fill = None
        window_opened(buffer)
        buffer.undefined = False
        for ledger, tracker in buffer.watchers():
            tracker.window_opened(ledger, start, stop)

    def __del__(self) -> None:
        self.buffer.windows -= 1
        if not self.buffer.windows:
            for ledger, tracker in self.buffer.watchers():
                tracker.window_closed(ledger)


class _Foreign:
    """The `base` of a byte view of foreign memory; it keeps the owner of the memory alive."""

    __slots__ = ("__array_interface__", "deleter", "owner")

    def __init__(
        self, address: int, nbytes: int, owner: object, deleter: Callable[[int, int], object] | None
    ) -> None:
        self.owner = owner
        self.deleter = deleter
        self.__array_interface__: dict[str, Any] = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if self.deleter is not None:
            self.deleter(self.__array_interface__["data"][0], self.__array_interface__["shape"][0])


_REGISTRY: weakref.WeakValueDictionary[tuple[int, int], Buffer] = weakref.WeakValueDictionary()


def buffers_at(addresses: Iterable[int]) -> list[Buffer | None]:
    """Return the buffer that contains each of some addresses, or None."""
    known = sorted(_REGISTRY.values(), key=lambda buffer: buffer.address)
    begins = [buffer.address for buffer in known]
    found: list[Buffer | None] = []
    for address in addresses:
        place = bisect_right(begins, address)
        inside = (
            b for b in map(known.__getitem__, range(place - 1, -1, -1)) if address < b.address + b.nbytes
        )
        found.append(next(inside, None))
    return found


def _overlapping(address: int, nbytes: int) -> list[Buffer]:
    """Return the buffers that share bytes with a range of memory."""
    same = _REGISTRY.get((address, nbytes))
    if same is not None:
        return [same]
    stop = address + nbytes
    return [b for b in list(_REGISTRY.values()) if b.address < stop and address < b.address + b.nbytes]


def _warn_of_overlap(known: Buffer, made: Buffer) -> None:
    from tapedebug.runtime.messages import user_stacklevel

    warnings.warn(
        f"the memory of this array ({made.nbytes} bytes at {made.address:#x}) overlaps that of another array "
        f"({known.nbytes} bytes at {known.address:#x}) in part: tapes see what is written through the other, "
        "but gradients do not pass from one to the other; make the array of the whole memory first",
        TapedebugWarning,
        stacklevel=user_stacklevel(),
    )
