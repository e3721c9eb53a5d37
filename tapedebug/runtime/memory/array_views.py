"""Views of arrays: indexing, reshaping, transposing, and other element types of the same memory."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.memory import convert, struct_fields
from tapedebug.runtime.memory.array import Shape, array, make
from tapedebug.runtime.memory.held_arrays import array_at
from tapedebug.runtime.tape.gradient_history import note_read


def item(a: array, key: Any) -> Any:
    """Return `a[key]`: a view, or with one int for each dimension the value of that element."""
    if isinstance(key, str) and types.is_struct(a.dtype):
        return struct_fields.field(a, key)
    if any(_is_index(part) for part in (key if isinstance(key, tuple) else (key,))):
        return _indexed(a, key)
    ptr, shape, strides = a.ptr, [], []
    for axis, part in enumerate(_expand(key, a.shape)):
        n, step = a.shape[axis], a.strides[axis]
        if isinstance(part, slice):
            first, stop, stride = part.indices(n)
            count = len(range(first, stop, stride))
            ptr += first * step if count else 0
            shape.append(count)
            strides.append(step * stride)
        else:
            ptr += _number(part, axis, a.shape) * step
    if shape:
        return make(a.buffer, ptr, a.dtype, tuple(shape), tuple(strides), like=a)
    note_read(a, "item")
    one = make(a.buffer, ptr, a.dtype, (1,), (a.item_size,))._numpy_view()[0]
    if types.is_struct(a.dtype):
        return a.dtype.from_numpy(one, array_at)
    return a.dtype(*one.reshape(-1)) if types.value_shape(a.dtype) else one


def set_item(a: array, key: Any, value: Any) -> None:
    """Execute `a[key] = value`: a fill for one value, a copy for data."""
    if isinstance(key, str) and types.is_struct(a.dtype):
        _set(struct_fields.field(a, key), value)
        return
    if any(_is_index(part) for part in (key if isinstance(key, tuple) else (key,))):
        _set(_indexed(a, key), value)
        return
    parts = _expand(key, a.shape)
    if not any(isinstance(part, slice) for part in parts):
        last = _number(parts[-1], a.ndim - 1, a.shape)
        parts[-1] = slice(last, last + 1)
    _set(item(a, tuple(parts)), value)


def _is_index(part: Any) -> bool:
    from tapedebug.runtime.memory.indexed import is_index

    return not isinstance(part, int | slice) and is_index(part)


def _indexed(a: array, key: Any) -> Any:
    """Return `a[…]` with arrays of indices on some axes; slices and ints first select the indexed view."""
    from tapedebug.runtime.memory.indexed import indexedarray

    parts = _expand(key, a.shape)
    data = item(a, tuple(slice(None) if _is_index(part) else part for part in parts))
    return indexedarray(
        data, [p if _is_index(p) else None for p in parts if _is_index(p) or isinstance(p, slice)]
    )


def _set(target: Any, value: Any) -> None:
    if hasattr(value, "tables"):  # an indexed array
        if not _is_same_selection(target, value):  # which `a[rows] += …` has written already
            target.assign(value)
        return
    sequence = isinstance(value, list | tuple) and not _is_element(value, target.dtype)
    if sequence or isinstance(value, array | np.ndarray):
        target.assign(value)
    else:
        target.fill_(value)


def _is_same_selection(one: Any, two: Any) -> bool:
    """True if two arrays are indexed arrays of the same elements, by the same arrays of indices."""
    if not hasattr(one, "tables"):
        return False
    memory = (one.data.ptr, one.data.shape, one.data.strides) == (
        two.data.ptr,
        two.data.shape,
        two.data.strides,
    )
    return memory and all(a is b for a, b in zip(one.indices, two.indices, strict=True))


def reshaped(a: array, shape: Any) -> array:
    """Return `a.reshape(shape)`."""
    dims = [operator.index(n) for n in (shape if hasattr(shape, "__len__") else (shape,))]
    if dims.count(-1) == 1:
        rest = int(np.prod([n for n in dims if n != -1], dtype=np.int64))
        dims[dims.index(-1)] = a.size // rest if rest else 0
    wanted = convert.shape_tuple(tuple(dims), "reshape")
    if int(np.prod(wanted, dtype=np.int64)) != a.size:
        raise ArrayError(
            f"reshape: an array of shape {a.shape} ({a.size} elements) has no shape {tuple(dims)}",
            hint="keep the number of elements",
        )
    if not a.is_contiguous:
        raise ArrayError(
            f"reshape: the array of shape {a.shape} with strides {a.strides} is not contiguous",
            hint="call contiguous() first (it copies)",
        )
    strides = convert.contiguous_strides(wanted, a.item_size)
    return make(a.buffer, a.ptr, a.dtype, wanted, strides, like=a)


def transposed(a: array, axes: Any) -> array:
    """Return `a.transpose(axes)`."""
    order = tuple(range(a.ndim))[::-1] if axes is None else tuple(operator.index(axis) for axis in axes)
    if sorted(order) != list(range(a.ndim)):
        raise ArrayError(
            f"transpose: axes {order} are not an order of the dimensions of shape {a.shape}",
            hint="name every dimension once",
        )
    shape = tuple(a.shape[axis] for axis in order)
    return make(a.buffer, a.ptr, a.dtype, shape, tuple(a.strides[axis] for axis in order), like=a)


def viewed(a: array, dtype: Any) -> array:
    """Return `a.view(dtype)`."""
    other = convert.element_type(dtype, "view")
    same = convert.item_bytes(other) == a.item_size
    found = (a.shape, a.strides) if same else _regrouped(a, other)
    if found is None:
        raise ArrayError(
            f"view: {types.type_name(other)} has {convert.item_bytes(other)} bytes, "
            f"{types.type_name(a.dtype)} has {a.item_size} (shape {a.shape}, strides {a.strides})",
            hint="view as a type of the same size, vectors as scalars, or scalars side by side in a last "
            "dimension of a vector's length as vectors",
        )
    return make(a.buffer, a.ptr, other, *found, like=a)


def _regrouped(a: array, other: Any) -> tuple[Shape, Shape] | None:
    """Return shape and strides of vectors viewed as scalars, or vice versa; None if that is impossible."""
    inner, wanted = types.value_shape(a.dtype), types.value_shape(other)
    scalar, rank = types.numpy_dtype(other).itemsize, len(wanted)
    if types.numpy_dtype(a.dtype).itemsize != scalar:
        return None
    if not wanted and a.ndim + len(inner) <= types.MAX_DIMENSIONS:
        return a.shape + inner, a.strides + convert.contiguous_strides(inner, scalar)
    steps = convert.contiguous_strides(wanted, scalar)
    if inner or not wanted or (a.shape[-rank:], a.strides[-rank:]) != (wanted, steps):
        return None
    return a.shape[:-rank] or (1,), a.strides[:-rank] or (convert.item_bytes(other),)


def _expand(key: Any, shape: Shape) -> list[Any]:
    """Expand a key to one int or slice for each dimension.

    Raises:
        IndexError: The key has more indices than the shape has dimensions.
    """
    ndim = len(shape)
    parts = list(key) if isinstance(key, tuple) else [key]
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if at is not None:
        parts[at : at + 1] = [slice(None)] * (ndim - len(parts) + 1)
    if len(parts) > ndim:
        raise IndexError(f"{len(parts)} indices for an array of {ndim} dimensions (shape {shape})")
    return parts + [slice(None)] * (ndim - len(parts))


def _number(part: Any, axis: int, shape: Shape) -> int:
    """Return an index of dimension `axis`, counted from its start.

    Raises:
        IndexError: The index is out of range.
        TypeError: The index is not an int.
    """
    n = shape[axis]
    try:
        i = operator.index(part)
    except TypeError:
        raise TypeError(f"an array is indexed by ints and slices; got {part!r}") from None
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for dimension {axis} of an array of shape {shape}")
    return i + n if i < 0 else i


def _is_element(value: Any, dtype: Any) -> bool:
    """True if a sequence is one compound value of `dtype`."""
    return bool(types.value_shape(dtype)) and np.shape(value) == types.value_shape(dtype)
