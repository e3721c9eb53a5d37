"""Memory of NVIDIA Warp's arrays: allocations by address, and arrays in them as the contract describes them.

Only this module reads the memory of arrays on the host. An allocation is found from an array by following
the references that views keep: a slice, a field of a struct, an indexed array and an array made of a tensor
lie in the allocation of what they were made of. Allocations are kept alive while an operation uses them.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import importlib
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug._float_types import MissingFloatTypeError, bfloat16_dtype, is_float
from tapedebug._interception import not_intercepted
from tapedebug.contract import Place, Values, view_of
from tapedebug.operations import Region
from tapedebug.operations.memory import Bytes
from tapedebug.watch.hooks import WarpObject, look_up

WarpArray = WarpObject
"""An object of class `warp.array`."""


class NotWatchable(TapedebugError):
    """Memory or an argument that cannot be watched; the message is a clause that gives the reason."""


class WatchedRegion(Region):
    """One allocation of the program.

    Args:
        start: The address of the first byte.
        nbytes: The size in bytes.
        owner: The object that owns the memory, which is kept alive.
    """

    __slots__ = ("_address", "_nbytes", "owner", "parts")

    def __init__(self, start: int, nbytes: int, owner: object) -> None:
        super().__init__(self._view(start, nbytes))
        self._address, self._nbytes = start, nbytes
        self.owner = owner
        self.parts: weakref.WeakValueDictionary[tuple[Any, ...], WatchedArray] = weakref.WeakValueDictionary()

    def _view(self, start: int, nbytes: int) -> Bytes:
        """Return the bytes of the memory, as far as this process may read it."""
        return bytes_at(start, nbytes)

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return self._address

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self._nbytes

    def __repr__(self) -> str:
        return f"<memory of {self.nbytes} bytes at {self.address:#x}>"


def is_on_host(device: WarpObject) -> bool:
    """True if this process can read the memory of a device."""
    return bool(device.is_cpu)


class DeviceRegion(WatchedRegion):
    """One allocation on a device, which is copied there, and to the host only where somebody looks.

    Args:
        start: The address of the first byte.
        nbytes: The size in bytes.
        owner: The object that owns the memory.
        device: The device.
    """

    __slots__ = ("device",)

    on_host = False

    def __init__(self, start: int, nbytes: int, owner: object, device: WarpObject) -> None:
        super().__init__(start, nbytes, owner)
        self.device = device

    def _view(self, start: int, nbytes: int) -> Bytes:
        """Return no bytes: they are on the device."""
        return np.empty(0, np.uint8)

    def copied(self, start: int, stop: int) -> BytesOnDevice:
        """Return a copy of a range on the device, made on its current stream."""
        array, byte = look_up("warp:array"), look_up("warp:uint8")
        with not_intercepted():
            source = array(ptr=self._address + start, dtype=byte, shape=(stop - start,), device=self.device)
            found = look_up("warp:empty")(shape=(stop - start,), dtype=byte, device=self.device)
            look_up("warp:copy")(found, source)
        return BytesOnDevice(found)


class BytesOnDevice:
    """A copy of a range of memory on a device.

    Args:
        content: The bytes, as an array of Warp.
    """

    __slots__ = ("_content",)

    def __init__(self, content: WarpArray) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """The number of bytes."""
        return int(self._content.size)

    def fetched(self) -> Bytes:
        """Return the bytes on the host."""
        with not_intercepted():
            found: Bytes = np.array(self._content.numpy(), np.uint8)
        return found


def bytes_at(start: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a view of memory of this process."""
    if not nbytes:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(start)).cast("B"), np.uint8)


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element of an array: the type of its scalars, its shape, its size, and its name for users."""

    scalar: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int
    name: str

    @property
    def is_float(self) -> bool:
        """True if elements have derivatives."""
        return is_float(self.scalar)


BYTE = ElementType(np.dtype(np.uint8), (), 1, "uint8")


class WatchedArray:
    """An array of the program, as `contract.Array` describes it.

    Args:
        region: The allocation.
        offset: The byte of the region at which the first element begins.
        shape: The number of elements along each axis.
        strides: The bytes from one element to the next, along each axis.
        element: The type of its elements.
        source: The array as the program has it, or a view of a part of it; None for a part without gradient.
        requires_grad: The program computes its gradient.

    Attributes:
        address: The address of the first element when it was first seen; None for a part, or if it is empty.
        gradient_address: The address of its gradient then; None if it had none.
    """

    __slots__ = (
        "__weakref__",
        "address",
        "element",
        "gradient_address",
        "is_contiguous",
        "offset",
        "region",
        "requires_grad",
        "shape",
        "source",
        "start",
        "stop",
        "strides",
    )

    def __init__(
        self,
        region: WatchedRegion,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        element: ElementType,
        source: WarpArray = None,
        requires_grad: bool = False,
    ) -> None:
        self.region = region
        self.offset = offset
        self.shape, self.strides, self.element = shape, strides, element
        self.source = source
        self.requires_grad = requires_grad
        self.address: int | None = None
        self.gradient_address: int | None = None
        first = last = offset
        expected, contiguous = element.nbytes, True
        for length, stride in zip(reversed(shape), reversed(strides), strict=True):
            contiguous &= stride == expected or length == 1
            expected *= length
            reach = (length - 1) * stride
            first, last = first + min(reach, 0), last + max(reach, 0)
        empty = 0 in shape
        self.is_contiguous = contiguous or empty
        self.start, self.stop = first, first if empty else last + element.nbytes

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def scalar_dtype(self) -> np.dtype[Any]:
        """The NumPy type of one scalar."""
        return self.element.scalar

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of one element."""
        return self.element.shape

    @property
    def is_float(self) -> bool:
        """True if the values have derivatives."""
        return self.element.is_float

    @property
    def dtype_name(self) -> str:
        """The data type as Warp's users write it."""
        return self.element.name

    def current(self) -> Values:
        """Return a copy of the values that the program's memory holds now."""
        if self.region.on_host:
            return view_of(self, self.region.values).copy()
        content = np.zeros(self.stop, np.uint8)
        content[self.start :] = self.region.fetched(self.start, self.stop)
        return view_of(self, content).copy()

    def current_gradient(self) -> Values | None:
        """Return a copy of the gradient that Warp holds now; None if there is none."""
        gradient = None if self.source is None else self.source.grad
        if gradient is None or not gradient.ptr:
            return None
        return host_copy(gradient, self.element)

    def __repr__(self) -> str:
        shape = self.shape if len(self.shape) != 1 else self.shape[0]
        return f"array(shape={shape}, dtype={self.dtype_name})"


def host_copy(array: WarpArray, element: ElementType) -> Values:
    """Return a copy of the values of an array of Warp."""
    shape = (*array.shape, *element.shape)
    if not is_on_host(array.device):
        with not_intercepted():
            return np.array(array.numpy()).reshape(shape)
    if 0 in shape:
        return np.zeros(shape, element.scalar)
    part = WatchedArray(WatchedRegion(array.ptr, 0, None), 0, array.shape, array.strides, element)
    content = bytes_at(array.ptr + part.start, part.stop - part.start)
    part.offset -= part.start
    return view_of(part, content).copy()


REMEMBERED = 10_000
"""Number of arrays in the tables of known arrays beyond which those that are gone are removed."""
MOST_GIVEN = 1000
"""Largest number of arrays that were given another array as their gradient whose places are stored."""
NOWHERE = WatchedRegion(0, 0, None)
"""The memory of arrays that no operation uses."""


class MemoryMap:
    """The allocations of the program that operations use, found by address."""

    def __init__(self) -> None:
        self._regions: weakref.WeakValueDictionary[int, WatchedRegion] = weakref.WeakValueDictionary()
        self._starts: list[int] = []  # in order; those of regions that are gone are removed when met
        self._gradients: weakref.WeakValueDictionary[tuple[int, int], WatchedArray] = (
            weakref.WeakValueDictionary()
        )
        self._elements: dict[Any, ElementType] = {}
        self._by_id: dict[int, weakref.ref[WatchedArray]] = {}
        self._by_place: dict[tuple[Any, ...], weakref.ref[WatchedArray]] = {}
        self._most = REMEMBERED
        self._given: dict[int, tuple[weakref.ref[WarpArray], Place]] = {}

    def array_of(self, source: WarpArray) -> WatchedArray:
        """Return the array of the contract for an array of Warp.

        Raises:
            NotWatchable: Its memory is not in this process, or overlaps memory that is known otherwise.
        """
        gradient = source.grad
        at = None if gradient is None else gradient.ptr
        known = self._by_id.get(id(source))
        if known is not None:
            found = known()
            if (
                found is not None
                and found.source is source
                and found.address == source.ptr
                and found.gradient_address == at
                and found.shape is source.shape
                and found.strides is source.strides
            ):
                return found
        if not source.ptr:
            found = self._array_in(self.region_of(source), source, gradient)
            self._by_id[id(source)] = weakref.ref(found)
            return found
        key = source.ptr, source.shape, source.strides, source.dtype, at
        known = self._by_place.get(key)
        found = None if known is None else known()
        if found is None:
            found = self._array_in(self.region_of(source), source, gradient)
            if len(self._by_id) + len(self._by_place) >= self._most:
                self._forget()
            self._by_id[id(source)] = self._by_place[key] = weakref.ref(found)
            if at:
                self._gradients[at, source.size] = found
        return found

    def _forget(self) -> None:
        """Remove arrays that are gone."""
        self._by_id = {key: known for key, known in self._by_id.items() if known() is not None}
        self._by_place = {key: known for key, known in self._by_place.items() if known() is not None}
        self._most = max(REMEMBERED, 2 * (len(self._by_id) + len(self._by_place)))

    def _array_in(self, region: WatchedRegion, source: WarpArray, gradient: WarpArray | None) -> WatchedArray:
        offset = source.ptr - region.address if source.ptr else 0
        element = self.element_type(source.dtype)
        found = WatchedArray(
            region, offset, source.shape, source.strides, element, source, gradient is not None
        )
        found.address, found.gradient_address = source.ptr, None if gradient is None else gradient.ptr
        return found

    def find(self, source: WarpArray) -> WatchedArray:
        """Return the array of the contract; an array of no memory if no operation uses that of `source`.

        So it is for an array that lies only in part in memory that operations use.
        """
        if source.device is None:  # the type of a parameter
            return WatchedArray(NOWHERE, 0, (), (), BYTE)
        if self.is_known(source):
            with contextlib.suppress(NotWatchable):
                return self.array_of(source)
        return WatchedArray(NOWHERE, 0, source.shape, source.strides, self.element_type(source.dtype), source)

    def with_gradient_at(self, gradient: WarpArray | None) -> WatchedArray | None:
        """Return the array whose gradient is another array; None if no operation uses such a one."""
        return None if gradient is None else self._gradients.get((gradient.ptr or 0, gradient.size))

    def part_of(self, array: WatchedArray, first: int, count: int) -> WatchedArray:
        """Return `count` elements of an array from element `first` on; the array itself if these are all."""
        if first == 0 and count == array.size:
            return array
        step = array.element.nbytes if array.is_contiguous else array.strides[0]
        key = array.offset, first, count, step, array.element, array.gradient_address
        found = array.region.parts.get(key)
        if found is None:
            source = None
            if array.source is not None and array.source.grad is not None:
                with not_intercepted():
                    flat = array.source.flatten() if array.is_contiguous else array.source
                    source = flat[first : first + count]
            found = array.region.parts[key] = WatchedArray(
                array.region,
                array.offset + first * step,
                (count,),
                (step,),
                array.element,
                source,
                requires_grad=array.requires_grad,
            )
            if source is not None:
                found.address, found.gradient_address = source.ptr, source.grad.ptr
        return found

    def note_gradient_given(self, source: WarpArray, place: Place) -> None:
        """Note the place in the program that gave an array another array as its gradient."""
        if len(self._given) >= MOST_GIVEN:
            self._given = {key: found for key, found in self._given.items() if found[0]() is not None}
        if len(self._given) < MOST_GIVEN:
            self._given[id(source)] = weakref.ref(source), place

    def gradient_given(self, source: WarpArray) -> Place | None:
        """Return the place in the program that gave an array its gradient, if it is known."""
        found = self._given.get(id(source))
        return found[1] if found is not None and found[0]() is source else None

    def is_known(self, source: WarpArray) -> bool:
        """True if an operation uses the memory of an array of Warp."""
        return bool(source.ptr) and self._around(source.ptr, source.ptr + 1) is not None

    def region_of(self, source: WarpArray) -> WatchedRegion:
        """Return the allocation that an array of Warp lies in; see `array_of`."""
        known = self._regions.get(source.ptr or 0)
        if known is not None and known.owner is source:
            return known
        if not source.ptr:
            return WatchedRegion(0, 0, source)
        start, stop, owner = allocation_of(source)
        found = self._around(start, stop)
        if found is None:
            if is_on_host(source.device):
                found = WatchedRegion(start, stop - start, owner)
            else:
                found = DeviceRegion(start, stop - start, owner, source.device)
            self._regions[start] = found
            bisect.insort(self._starts, start)
        elif not (found.address <= start and stop <= found.address + found.nbytes):
            raise NotWatchable(
                f"an array of {stop - start} bytes overlaps another of {found.nbytes} bytes, which is not "
                "part of it"
            )
        return found

    def _around(self, start: int, stop: int) -> WatchedRegion | None:
        """Return a known allocation that shares bytes with a range of addresses."""
        found = self._regions.get(start)
        if found is not None:
            return found
        position = bisect.bisect_left(self._starts, stop)
        while position:
            position -= 1
            region = self._regions.get(self._starts[position])
            if region is None:
                del self._starts[position]
            else:  # regions do not overlap: if the nearest one does not reach this far, none does
                return region if start < region.address + region.nbytes else None
        return None

    def values_of(self, source: WarpArray) -> Values:
        """Return a copy of the values of an array of Warp, which no operation need use."""
        return host_copy(source, self.element_type(source.dtype))

    def element_type(self, dtype: WarpObject) -> ElementType:
        """Return the type of the elements of an array of Warp."""
        found = self._elements.get(dtype)
        if found is None:
            found = self._elements[dtype] = _element_type(dtype)
        return found


def tensor_of(array: object) -> Any:
    """Return the tensor of PyTorch that an array was made of; None if it was not made of one."""
    source = array.source if isinstance(array, WatchedArray) else None
    base = None if source is None else base_of(source)
    tensor = getattr(base, "_tensor", None)
    return tensor if hasattr(tensor, "is_leaf") else None


def base_of(source: WarpArray) -> WarpArray:
    """Return the array of which another one is a view."""
    base = source
    while isinstance(parent := getattr(base, "_ref", None), type(base)) and parent.ptr:
        base = parent
    return base


def allocation_of(source: WarpArray) -> tuple[int, int, object]:
    """Return the first address of an array's allocation, that after its last byte, and its owner."""
    base = base_of(source)
    outer = getattr(base, "_tensor", None)
    if outer is None:
        outer = getattr(base, "_ref", None)
    for start, stop, memory in _outer_ranges(outer):
        if start <= base.ptr and base.ptr + base.capacity <= stop:
            return start, stop, (base, outer, memory)
    first, nbytes = base.ptr, base.capacity
    for length, stride in zip(base.shape, base.strides, strict=True):
        first += min((length - 1) * stride, 0)
    stored = getattr(base, "_storage_base_ptr", None)
    if stored is not None:
        return stored, stored + base._storage_nbytes, base
    return first, first + max(nbytes, 1), base


def _outer_ranges(outer: object) -> Iterator[tuple[int, int, object]]:
    """Yield the addresses of the memory that an array of Warp was made of, and the object that owns it.

    A tensor of torch may get other memory (`tensor.data = …`), and then no longer owns what it was made of.
    """
    while isinstance(outer, np.ndarray) and isinstance(outer.base, np.ndarray):
        outer = outer.base
    if isinstance(outer, np.ndarray):
        yield *np.lib.array_utils.byte_bounds(outer), outer
    elif hasattr(outer, "untyped_storage"):
        storage = outer.untyped_storage()
        yield storage.data_ptr(), storage.data_ptr() + storage.nbytes(), storage


def _element_type(dtype: WarpObject) -> ElementType:
    nbytes = int(look_up("warp._src.types:type_size_in_bytes")(dtype))
    scalars: dict[Any, Any] = look_up("warp._src.types:warp_type_to_np_dtype")
    shape: tuple[int, ...] = ()
    scalar = dtype
    if hasattr(dtype, "_wp_scalar_type_"):
        scalar, shape = dtype._wp_scalar_type_, tuple(dtype._shape_)
    kind = None if isinstance(dtype, look_up("warp._src.codegen:Struct")) else scalars.get(scalar)
    if getattr(scalar, "__name__", "") == "bfloat16":
        with contextlib.suppress(MissingFloatTypeError):
            return ElementType(bfloat16_dtype(), shape, nbytes, _name_of(dtype))
        kind = None
    if kind is None:  # a struct, or what NumPy lacks: bytes
        return ElementType(np.dtype(np.uint8), (nbytes,), nbytes, _name_of(dtype))
    return ElementType(np.dtype(kind), shape, nbytes, _name_of(dtype))


def _name_of(dtype: WarpObject) -> str:
    """Return the shortest name that the module `warp` has for a type; else the name of its class."""
    if hasattr(dtype, "key"):
        return str(dtype.key)
    warp = importlib.import_module("warp")
    names = [name for name, found in vars(warp).items() if found is dtype and not name.startswith("_")]
    named = sorted(names, key=len)
    return named[0] if named else str(getattr(dtype, "__name__", dtype))
