"""Convert lists, vectors and NumPy arrays to NumPy arrays of the right dtype and shape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug._float_types import is_bfloat16
from tapedebug.lang import types

Values = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def element_type(dtype: Any, what: str = "array") -> Any:
    """Return the canonical element type.

    Raises:
        ArrayError: `dtype` is not an element type; the message lists the supported ones.
    """
    try:
        return types.element_type(dtype)
    except TypeError as error:
        hint = "use a type of the kernel language as dtype"
        if "holds an indexed array" in str(error):
            hint = "let the struct hold the array, and the array of indices, as two fields"
        known = getattr(types, dtype, None) if isinstance(dtype, str) else None
        if dtype in ("float", "int", "bool"):
            hint = f"write the type itself: dtype={dtype}"
        elif isinstance(known, type):
            hint = f"write the type itself: dtype=wp.{dtype}"
        elif isinstance(dtype, int):
            hint = f"write the sizes of a shape in brackets: {what}((…, {dtype}), dtype=float)"
        raise ArrayError(f"{what}: {error}", hint=hint) from None


def shape_tuple(shape: Any, what: str) -> Shape:
    """Return a checked shape, given as an int or a sequence of ints."""
    try:
        dims: Shape = (operator.index(shape),)
    except TypeError:
        try:
            dims = tuple(operator.index(n) for n in shape)
        except TypeError:
            raise ArrayError(
                f"{what}: a shape is an int or a tuple of ints; got {shape!r}", hint="pass integers"
            ) from None
    if not 1 <= len(dims) <= 4:
        raise ArrayError(
            f"{what}: arrays have 1 to 4 dimensions; shape {dims} has {len(dims)}",
            hint="flatten some dimensions, or use a vector dtype for the last one",
        )
    if min(dims) < 0:
        raise ArrayError(
            f"{what}: sizes cannot be negative; got shape {dims}", hint="pass sizes of 0 or more"
        )
    return dims


def contiguous_strides(shape: Shape, itemsize: int) -> Shape:
    """Return the byte strides of a C-contiguous array."""
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def item_bytes(dtype: Any) -> int:
    """Return the bytes of one element (12 for a vec3)."""
    return int(types.numpy_dtype(dtype).itemsize * types.components(dtype))


def infer_dtype(data: Any) -> Any:
    """Return the element type of `data` if none was given: that of its NumPy form, as in Warp."""
    if isinstance(data, type):
        raise ArrayError(
            f"array: the data is the type {data.__name__}",
            hint=f"in the annotation of a parameter, write array(dtype={data.__name__})",
        )
    first = data
    while isinstance(first, list) and first:
        first = first[0]
    if isinstance(first, types.Struct):
        return type(first)
    if isinstance(first, np.ndarray) and first.dtype.kind == "c":
        return types.vec2f if first.dtype == np.complex64 else types.vec2d
    values = _as_numpy(data, None)
    scalar = types.from_numpy(values.dtype)
    if scalar is None:
        raise ArrayError(
            f"array: data of NumPy dtype {values.dtype} has no type in the kernel language "
            f"({', '.join(t.__name__ for t in types.SCALARS)})",
            hint="pass dtype=, or convert the data first",
        )
    return scalar


def to_values(data: Any, dtype: Any, shape: Shape | None) -> Values:
    """Return the values of `data` in the array's shape followed by the element's (`(n, 3)` for n vec3).

    Raises:
        ArrayError: `data` is a scalar or ragged, or does not fit `dtype` or `shape`.
    """
    if types.is_struct(dtype):
        return _structured(data, dtype, shape)
    if not hasattr(data, "__len__") or isinstance(data, str | bytes):
        raise ArrayError(
            f"array: data must be a sequence or an array; got {data!r}",
            hint=f"write [{data!r}] for an array of one element"
            if np.isscalar(data)
            else "pass a list or an ndarray",
        )
    if isinstance(data, np.ndarray) and data.dtype == np.uint16 and types.scalar_of(dtype) is types.bfloat16:
        data = data.view(types.numpy_dtype(dtype))  # its bits, as other libraries pass them
    values = _as_numpy(_in_parts(data, dtype), types.numpy_dtype(dtype))
    inner = types.value_shape(dtype)
    if shape is not None:
        wanted = shape + inner
        if values.size != int(np.prod(wanted, dtype=np.int64)):
            raise ArrayError(
                f"array: {values.size} values of shape {values.shape} do not fill shape {shape} "
                f"of {types.type_name(dtype)}",
                hint="pass a shape with as many elements as the data",
            )
        return values.reshape(wanted)
    if not inner:
        return values if values.ndim else values.reshape(1)
    return _with_inner(values, dtype, inner)


def _in_parts(data: Any, dtype: Any) -> Any:
    """Convert complex NumPy numbers to pairs (real, imaginary), for elements of vec2.

    Raises:
        ArrayError: The numbers are complex and the elements of another type: NumPy would drop the imaginary
            part.
    """
    if not isinstance(data, np.ndarray) or data.dtype.kind != "c":
        return data
    if types.value_shape(dtype) != (2,) or not types.is_float(dtype):
        raise ArrayError(
            f"array: complex numbers ({data.dtype}) are no elements of {types.type_name(dtype)}",
            hint="use dtype=vec2 (vec2d) for pairs of real and imaginary part, or pass data.real",
        )
    return np.ascontiguousarray(data).view(data.real.dtype).reshape(*data.shape, 2)


def _structured(data: Any, kind: Any, shape: Shape | None) -> Values:
    from tapedebug.runtime.memory.struct_fields import element_values

    values = element_values(data, kind, types.numpy_dtype(kind))
    if shape is not None and values.size == int(np.prod(shape, dtype=np.int64)):
        return values.reshape(shape)
    if shape is not None:
        raise ArrayError(
            f"array: {values.size} elements of {kind.__name__} do not fill shape {shape}",
            hint="pass a shape with as many elements as the data",
        )
    return values if values.ndim else values.reshape(1)


def _with_inner(values: Values, dtype: Any, inner: Shape) -> Values:
    """Group the innermost numbers of `values` into vectors, matrices or quaternions of shape `inner`."""
    count = types.components(dtype)
    if values.shape[-len(inner) :] == inner:
        return values if values.ndim > len(inner) else values.reshape(1, *inner)
    if values.size == 0:
        return values.reshape(0, *inner)
    if values.shape[-2:] == (*inner, 1):  # columns of one number in each row
        return values[..., 0] if values.ndim > 2 else values.reshape(1, *inner)
    last = values.shape[-1]
    if last == count:
        return values.reshape(*(values.shape[:-1] or (1,)), *inner)
    if last % count == 0:
        return values.reshape(*values.shape[:-1], last // count, *inner)
    raise ArrayError(
        f"array: data of shape {values.shape} cannot be elements of {types.type_name(dtype)}: "
        f"its last dimension, {last}, is not a multiple of {count}",
        hint=f"pass data of shape (…, {', '.join(map(str, inner))})",
    )


def _as_numpy(data: Any, dtype: np.dtype[Any] | None) -> Values:
    try:
        return np.asarray(data, dtype=dtype)
    except (ValueError, TypeError, OverflowError) as error:
        goal = f" of {dtype}" if dtype is not None else ""
        raise ArrayError(
            f"array: the data cannot become an array{goal}: {error}",
            hint="pass rows of equal length and numbers in the range of the dtype",
        ) from None


def element_bytes(value: Any, dtype: Any, what: Callable[[], str]) -> bytes:
    """Return the bytes of one element: of a number, or of a vector or a sequence of its length.

    Args:
        value: The number or vector; 0 is valid for any type.
        dtype: Type of the element.
        what: Returns the name of the operation, for the error message.

    Raises:
        ArrayError: `value` is not a value of `dtype`.
    """
    scalar = types.numpy_dtype(dtype)
    if type(value) is int and value == 0:
        return bytes(scalar.itemsize * types.components(dtype))
    inner = types.value_shape(dtype)
    if types.is_struct(dtype):
        if type(value) is not dtype and not (np.isscalar(value) and value == 0):
            raise ArrayError(
                f"{what()}: {value!r} is not a value of {dtype.__name__}", hint=f"pass {dtype.__name__}(…)"
            )
        one = dtype() if type(value) is not dtype else value
        return np.array(types.Struct.numpy_value(one), scalar).tobytes()
    try:
        found = np.asarray(value)
        if found.dtype.kind not in "biuf" and not is_bfloat16(found.dtype):
            raise ValueError("not a number")
        values = found.astype(scalar)
        if scalar.kind in "iu" and not np.array_equal(values, found):
            raise ValueError("not a whole number in the range of the type")
        if inner and values.ndim == 0:
            values = np.full(inner, values)
        elif values.shape == (types.components(dtype),):
            values = values.reshape(inner)
        if values.shape != inner:
            raise ValueError(f"shape {values.shape}")
    except (ValueError, TypeError, OverflowError):
        kind = "whole numbers in its range" if scalar.kind in "iu" else "numbers"
        need = f"{types.components(dtype)} {kind}" if inner else f"a {kind.replace('numbers', 'number')}"
        raise ArrayError(
            f"{what()}: {value!r} is not a value of {types.type_name(dtype)}", hint=f"pass {need}"
        ) from None
    return values.tobytes()
