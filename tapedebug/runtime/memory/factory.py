"""Create arrays: zeros, ones, full, empty, their `_like` forms, and from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.device import get_device
from tapedebug.runtime.memory import convert
from tapedebug.runtime.memory.array import array, new
from tapedebug.runtime.memory.construct import from_pointer
from tapedebug.runtime.memory.indexed import indexedarray
from tapedebug.runtime.memory.transfer import fill_bytes
from tapedebug.runtime.tape.imported_arrays import arrived


def _made(
    shape: Any, dtype: Any, device: Any, requires_grad: bool, retain_grad: bool, zeroed: bool, what: str
) -> array:
    get_device(device)
    kind = convert.element_type(dtype, what)
    made = new(convert.shape_tuple(shape, what), kind, zeroed=zeroed, requires_grad=bool(requires_grad))
    if requires_grad and not types.is_float(kind):
        from tapedebug.runtime.messages import warn_of_no_slope

        warn_of_no_slope(made)
    if retain_grad and not requires_grad:
        raise ArrayError(
            f"{what}: retain_grad=True needs requires_grad=True", hint="pass requires_grad=True too"
        )
    made.retain_grad = retain_grad
    return made


def _shape(shape: Any, n: int | None) -> Any:
    """Return the shape, given as `shape` or as `n`."""
    if n is None:
        return shape
    if shape is not None:
        raise ArrayError(f"the shape is given twice: shape={shape!r}, n={n!r}", hint="pass the shape only")
    return n


def zeros(
    shape: Any = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
) -> array:
    """Return an array of zeros.

    Args:
        shape: An int, or a sequence of up to four.
        dtype: Element type.
        device: Only `"cpu"` exists.
        requires_grad: True if the array takes part in differentiation.
        pinned: Accepted and ignored on the CPU.
        retain_grad: Keep its `.grad` after `Tape.backward`.
        n: The shape, under its name in older programs.

    Raises:
        ArrayError: `shape` or `dtype` is invalid.
    """
    return _made(_shape(shape, n), dtype, device, requires_grad, retain_grad, True, "zeros")


def empty(
    shape: Any = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
) -> array:
    """Return an array of undefined content; arguments as for `zeros`."""
    found = _made(_shape(shape, n), dtype, device, requires_grad, retain_grad, False, "empty")
    found.buffer.undefined = True
    return found


def ones(
    shape: Any = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
) -> array:
    """Return an array of ones; arguments as for `zeros`."""
    made = _made(_shape(shape, n), dtype, device, requires_grad, retain_grad, False, "ones")
    fill_bytes(made, convert.element_bytes(1, made.dtype, lambda: "ones"))
    return made


def full(
    shape: Any = None,
    value: Any = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
) -> array:
    """Return an array whose elements all equal `value`; other arguments as for `zeros`.

    Without `dtype` the elements are float32 for a float, int32 for an int, bool for a bool, and vectors or
    matrices for a vector, a list, or an array of NumPy.
    """
    made = _made(
        _shape(shape, n),
        _type_of(value) if dtype is None else dtype,
        device,
        requires_grad,
        retain_grad,
        False,
        "full",
    )
    fill_bytes(made, convert.element_bytes(value, made.dtype, lambda: "full"))
    arrived(made, "full")
    return made


def _type_of(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, np.ndarray) and value.ndim in (1, 2):
        return (
            types.vector(len(value), value.dtype)
            if value.ndim == 1
            else types.matrix(value.shape, value.dtype)
        )
    if isinstance(value, list | tuple) and value and all(isinstance(row, list | tuple) for row in value):
        return _type_of(
            np.array(value, np.float32 if _type_of(value[0]).scalar is types.float32 else np.int32)
        )
    if isinstance(value, list | tuple):
        return types.vector(len(value), float if any(isinstance(v, float) for v in value) else int)
    return type(value)


def zeros_like(
    src: array | indexedarray,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return zeros with the shape and dtype of `src`, and its `requires_grad` unless given."""
    return zeros(*_like(src, "zeros_like"), device, _grad(src, requires_grad), retain_grad=retain_grad)


def empty_like(
    src: array | indexedarray,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return undefined content with the shape and dtype of `src`, and its `requires_grad` unless given."""
    return empty(*_like(src, "empty_like"), device, _grad(src, requires_grad), retain_grad=retain_grad)


def ones_like(
    src: array | indexedarray,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return ones with the shape and dtype of `src`, and its `requires_grad` unless given."""
    return ones(*_like(src, "ones_like"), device, _grad(src, requires_grad), retain_grad=retain_grad)


def full_like(
    src: array | indexedarray,
    value: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return `value` repeated in the shape and dtype of `src`, with its `requires_grad` unless given."""
    shape, dtype = _like(src, "full_like")
    return full(shape, value, dtype, device, _grad(src, requires_grad), retain_grad=retain_grad)


def _like(src: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(src, array | indexedarray):
        raise ArrayError(f"{what}: {src!r} is not an array", hint="pass an array, or use zeros(shape, dtype)")
    return src.shape, src.dtype


def _grad(src: array | indexedarray, requires_grad: bool | None) -> bool:
    return src.requires_grad if requires_grad is None else requires_grad


def from_numpy(
    arr: np.ndarray[Any, Any],
    dtype: Any = None,
    shape: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
) -> array:
    """Return an array with a copy of the values of a NumPy array.

    Args:
        arr: The values.
        dtype: Element type. Without it (and without `shape`), the rows of a two-dimensional array become
            vectors, and the slices of a three-dimensional one become matrices, of the same scalar type.
        shape: Shape of the array, without the dimensions of vectors and matrices.
        device: Only `"cpu"` exists.
        requires_grad: True if the array takes part in differentiation.
        retain_grad: Keep its `.grad` after `Tape.backward`.

    Raises:
        ArrayError: Data, dtype and shape do not fit together.
    """
    if dtype is None and shape is None and np.ndim(arr) in (2, 3):
        scalar = convert.infer_dtype(arr)
        inner = np.shape(arr)[1:]
        if 0 not in inner:
            dtype = types.vector(inner[0], scalar) if len(inner) == 1 else types.matrix(inner, scalar)
    made: array = array(
        arr, dtype=dtype, shape=shape, device=device, requires_grad=requires_grad, retain_grad=retain_grad
    )
    return made


def from_ptr(ptr: int, length: int, dtype: Any = None, shape: Any = None, device: Any = None) -> array:
    """Return an array over `length` elements at the address `ptr`; the caller keeps the memory alive."""
    get_device(device)
    return from_pointer(ptr, length if shape is None else shape, float if dtype is None else dtype)
