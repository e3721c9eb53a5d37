"""Construct an array from data, from existing memory, or from a shape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.memory import convert
from tapedebug.runtime.memory.addresses import byte_bounds
from tapedebug.runtime.memory.array import Shape, Values, array, make, new
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.memory.held_arrays import keep_alive


def from_data(data: Any, dtype: Any, shape: Any, copy: bool) -> array:
    """Return an array of the values of `data`; without `copy`, in the memory of a matching NumPy array."""
    if dtype is None:
        kept = data.dtype if isinstance(data, array) else convert.infer_dtype(data)
    else:
        kept = convert.element_type(dtype)
    if isinstance(data, array):
        data = data._numpy_view()
    values = convert.to_values(data, kept, None if shape is None else convert.shape_tuple(shape, "array"))
    inner = len(types.value_shape(kept))
    outer = values.shape[: values.ndim - inner]
    convert.shape_tuple(outer, "array")
    if not copy and isinstance(data, np.ndarray) and np.may_share_memory(values, data):
        return _wrap(values, kept, outer)
    a = new(outer, kept)
    a._numpy_view()[...] = values
    if types.is_struct(kept):
        keep_alive(a)
    return a


def _wrap(values: Values, dtype: Any, outer: Shape) -> array:
    scalar = types.numpy_dtype(dtype)
    if not values.flags.writeable:
        raise ArrayError("array: copy=False needs a writable NumPy array", hint="pass copy=True")
    inner = types.value_shape(dtype)
    if values.strides[values.ndim - len(inner) :] != convert.contiguous_strides(inner, scalar.itemsize):
        raise ArrayError(
            f"array: copy=False needs the components of a {types.type_name(dtype)} side by side; "
            f"the NumPy array has strides {values.strides}",
            hint="pass copy=True, or a contiguous NumPy array",
        )
    if any(s % scalar.itemsize for s in values.strides):
        raise ArrayError(
            f"array: copy=False needs strides in whole elements; the NumPy array has {values.strides}",
            hint="pass copy=True",
        )
    buffer = Buffer.around(values)
    low, _ = byte_bounds(values)
    assert buffer.address <= low
    return make(buffer, values.__array_interface__["data"][0], dtype, outer, values.strides[: len(outer)])


def from_shape(shape: Any, dtype: Any) -> array:
    """Return an array of undefined content."""
    made = new(convert.shape_tuple(shape, "array"), convert.element_type(dtype))
    made.buffer.undefined = True
    return made


def from_pointer(
    ptr: Any,
    shape: Any,
    dtype: Any,
    strides: Any = None,
    capacity: int | None = None,
    deleter: Callable[[int, int], object] | None = None,
    owner: object = None,
) -> array:
    """Return an array over foreign memory at `ptr`.

    Args:
        ptr: Address of element (0, …).
        shape: Shape of the array.
        dtype: Element type.
        strides: Bytes between neighbours; by default those of a contiguous array.
        capacity: Bytes of the memory from `ptr` on; by default the bytes that the elements occupy.
        deleter: Called with the address and size of the memory when it is no longer used.
        owner: Object that is kept alive as long as the memory is used.

    Raises:
        ArrayError: The arguments do not fit together.
    """
    if shape is None:
        raise ArrayError("array: ptr= needs a shape", hint="pass shape=")
    kept, dims = convert.element_type(dtype), convert.shape_tuple(shape, "array")
    address = _address(ptr)
    item, steps = convert.item_bytes(kept), _steps(strides, dims, kept)
    extents = [(n - 1) * s for n, s in zip(dims, steps, strict=True)]
    low, high = sum(min(0, e) for e in extents), item + sum(max(0, e) for e in extents)
    if 0 in dims:
        low, high = 0, 0
    if capacity is not None and capacity < high:
        raise ArrayError(
            f"array: shape {dims} of {types.type_name(kept)} needs {high} bytes; capacity is {capacity}",
            hint="pass a smaller shape, or the size of the memory",
        )
    size = max(high, capacity or 0) - low
    return make(Buffer.at(address + low, size, owner, deleter), address, kept, dims, steps)


def _address(ptr: Any) -> int:
    try:
        address = operator.index(ptr)
    except TypeError:
        address = -1
    if address < 0:
        raise ArrayError(
            f"array: ptr is an address, an int; got {ptr!r}", hint="pass array.ptr or data_ptr()"
        )
    return address


def _steps(strides: Any, dims: Shape, dtype: Any) -> Shape:
    """Return checked byte strides."""
    item = convert.item_bytes(dtype)
    if strides is None:
        return convert.contiguous_strides(dims, item)
    try:
        steps = tuple(operator.index(s) for s in strides)
    except TypeError:
        steps = ()
    if len(steps) != len(dims):
        raise ArrayError(
            f"array: strides are one number of bytes for each dimension of shape {dims}; got {strides!r}",
            hint="leave strides out for contiguous memory",
        )
    scalar = types.numpy_dtype(dtype).itemsize
    if any(s % scalar for s in steps):
        raise ArrayError(
            f"array: strides of {types.type_name(dtype)} are multiples of {scalar} bytes; got {steps}",
            hint="strides count bytes, not elements",
        )
    return steps
