"""Making an array from data, from existing memory, or from a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime import _convert
from tapedebug.runtime.array import Shape, Values, array, make, new
from tapedebug.runtime.buffer import Buffer, byte_bounds


def from_data(data: Any, dtype: Any, shape: Any, copy: bool) -> array:
    """An array of the values of `data`; without `copy`, in the memory of a NumPy array of the right dtype."""
    if dtype is None:
        kept = data.dtype if isinstance(data, array) else _convert.infer_dtype(data)
    else:
        kept = _convert.element_type(dtype)
    if isinstance(data, array):
        data = data._look()
    values = _convert.to_values(data, kept, None if shape is None else _convert.shape_tuple(shape, "array"))
    inner = len(types.value_shape(kept))
    outer = values.shape[: values.ndim - inner]
    _convert.shape_tuple(outer, "array")
    if not copy and isinstance(data, np.ndarray) and np.may_share_memory(values, data):
        return _wrap(values, kept, outer)
    a = new(outer, kept)
    a._look()[...] = values
    return a


def _wrap(values: Values, dtype: Any, outer: Shape) -> array:
    scalar = types.numpy_dtype(dtype)
    if not values.flags.writeable:
        raise ArrayError("array: copy=False needs a writable NumPy array", mend="pass copy=True")
    inner = types.value_shape(dtype)
    if values.strides[values.ndim - len(inner) :] != _convert.contiguous_strides(inner, scalar.itemsize):
        raise ArrayError(
            f"array: copy=False needs the components of a {types.type_name(dtype)} side by side; "
            f"the NumPy array has strides {values.strides}",
            mend="pass copy=True, or a contiguous NumPy array",
        )
    if any(s % scalar.itemsize for s in values.strides):
        raise ArrayError(
            f"array: copy=False needs strides in whole elements; the NumPy array has {values.strides}",
            mend="pass copy=True",
        )
    buffer = Buffer.around(values)
    low, _ = byte_bounds(values)
    assert buffer.address <= low
    return make(buffer, values.__array_interface__["data"][0], dtype, outer, values.strides[: len(outer)])


def from_shape(shape: Any, dtype: Any, strides: Any, ptr: int | None) -> array:
    """An array of undefined content, or over the memory at `ptr`."""
    kept = _convert.element_type(dtype)
    if shape is None:
        raise ArrayError("array: ptr= needs a shape", mend="pass shape=")
    dims = _convert.shape_tuple(shape, "array")
    if ptr is None:
        return new(dims, kept)
    item = _convert.item_bytes(kept)
    steps = tuple(int(s) for s in strides) if strides is not None else _convert.contiguous_strides(dims, item)
    low = sum(min(0, (n - 1) * s) for n, s in zip(dims, steps, strict=True))
    high = item + sum(max(0, (n - 1) * s) for n, s in zip(dims, steps, strict=True))
    return make(Buffer.at(ptr + low, high - low), ptr, kept, dims, steps)
