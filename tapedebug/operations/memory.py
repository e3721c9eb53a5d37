"""Memory of the program and of replays: regions of bytes at addresses that never change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np

from tapedebug.contract import Array, Values, view_of

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

NARROW: Mapping[Hashable, np.dtype[Any]] = MappingProxyType({})
"""No region is wide: values have the types of the program."""
ALIGNMENT = 64
"""Alignment of the regions of replays, in bytes, as required by vector instructions."""


class DeviceCopy(Protocol):
    """A copy of a range of memory that is not on the host."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def fetched(self) -> Bytes:
        """Return the bytes on the host."""


Copied: TypeAlias = "Bytes | DeviceCopy"


def fetched(content: Copied) -> Bytes:
    """Return the bytes of a copy on the host."""
    return content if isinstance(content, np.ndarray) else content.fetched()


class Region:
    """One allocation of the program: the bytes of its values and, if there are any, of its gradients.

    Attributes:
        values: A view of the program's own memory.
        gradients: Memory of the same layout for the gradients, or None.
        last_snapshot: Returns the last copy that a tape made of all values; None if no tape keeps it.
    """

    __slots__ = ("__weakref__", "gradients", "last_snapshot", "values")

    on_host = True
    """False if `values` cannot be read, but only copied: memory of a device."""

    def __init__(self, values: np.ndarray[Any, Any], gradients: np.ndarray[Any, Any] | None = None) -> None:
        self.values: Bytes = bytes_of(values)
        self.gradients: Bytes | None = None if gradients is None else bytes_of(gradients)
        self.last_snapshot: Callable[[], Any] | None = None

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return int(self.values.ctypes.data)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self.values.nbytes)

    def copied(self, start: int, stop: int) -> Copied:
        """Return a copy of a range, where the memory is."""
        found: Bytes = self.values[start:stop].copy()
        return found

    def fetched(self, start: int, stop: int) -> Bytes:
        """Return a copy of a range on the host."""
        return fetched(self.copied(start, stop))


class Memory:
    """The bytes of each region, at addresses that never change: an engine may bind pointers to them once.

    Args:
        regions: The bytes of each region.
        wide: The regions that hold shorter floats as float64, with the dtype that they have in the program.

    Attributes:
        bytes: The bytes by region.
        block: The bytes of all regions in one piece, if `zeros` made them; else None.
        bound: Objects that engines create for this memory and that live as long as it.
    """

    def __init__(
        self, regions: Mapping[Hashable, Bytes], wide: Mapping[Hashable, np.dtype[Any]] = NARROW
    ) -> None:
        self.bytes = dict(regions)
        self.block: Bytes | None = None
        self.wide = wide
        self.bound: dict[Any, Any] = {}
        self._views: dict[Array, Values] = {}

    @classmethod
    def zeros(cls, sizes: Mapping[Any, int], wide: Mapping[Hashable, np.dtype[Any]] = NARROW) -> Memory:
        """Return new zeroed memory for regions of these sizes in bytes; wide ones are larger.

        The regions lie in one block, in the order of `sizes`.
        """
        starts, end = {}, 0
        for region, size in sizes.items():
            nbytes = size * (8 // wide[region].itemsize if region in wide else 1)
            starts[region] = end, end + nbytes
            end += -(-nbytes // ALIGNMENT) * ALIGNMENT
        block = _aligned(end)
        found = cls({region: block[start:stop] for region, (start, stop) in starts.items()}, wide)
        found.block = block
        return found

    def view(self, array: Array) -> Values:
        """Return an array in this memory, of its shape plus that of one element; float64 in a wide region."""
        found = self._views.get(array)
        if found is None:
            scale = self.scale(array.region)
            scalar = array.scalar_dtype if scale == 1 else np.dtype(np.float64)
            found = self._views[array] = view_of(array, self.bytes[array.region], scale, scalar)
        return found

    def scale(self, region: Hashable) -> int:
        """Return how many times larger a region is here than in the program: 1, 2, or 4."""
        dtype = self.wide.get(region)
        return 1 if dtype is None else 8 // dtype.itemsize

    def load(self, region: Hashable, content: Bytes, start: int = 0) -> None:
        """Write bytes of the program to a region, from its byte `start` there."""
        there = self.range(region, start, start + content.size)
        dtype = self.wide.get(region)
        there[:] = content if dtype is None else widened(content, dtype)

    def range(self, region: Hashable, start: int, stop: int) -> Bytes:
        """Return the bytes that correspond to `start … stop` of a region of the program."""
        scale = self.scale(region)
        return self.bytes[region][start * scale : stop * scale]


def bytes_of(values: np.ndarray[Any, Any]) -> Bytes:
    """Return the memory of a C-contiguous array as bytes, without a copy."""
    found: Bytes = values.reshape(-1).view(np.uint8)
    return found


def widened(content: Bytes, dtype: np.dtype[Any]) -> Bytes:
    """Return the bytes of floats of this dtype as bytes of float64 values."""
    with np.errstate(invalid="ignore"):  # memory that was never written may hold any bits
        found: Bytes = content.view(dtype).astype(np.float64).view(np.uint8)
    return found


def _aligned(nbytes: int) -> Bytes:
    block = np.zeros(nbytes + ALIGNMENT, np.uint8)
    lead = -block.ctypes.data % ALIGNMENT
    return block[lead : lead + nbytes]
