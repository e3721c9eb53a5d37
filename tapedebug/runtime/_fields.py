"""Arrays of structs: views of one field, and the flat views that launches, copies and tapes work with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.lang._struct import near_field
from tapedebug.runtime.array import array, make

Leaves = tuple[array, ...]


def field(a: array, name: str) -> array:
    """The view of one field of all elements; it shares memory and gradient with `a`.

    Raises:
        ArrayError: The elements have no such field.
    """
    kind = a.dtype
    if name not in kind.fields:
        raise ArrayError(
            f"array{a._facts()}: {kind.__name__} has no field {name!r}", mend=near_field(kind, name)
        )
    offset = types.numpy_dtype(kind).fields[name][1]  # type: ignore[index]
    return make(a.buffer, a.ptr + offset, kind.fields[name], a.shape, a.strides, like=a)


def leaves(a: array) -> Leaves:
    """The views of the numbers and compound values of all elements, at any depth; the same ones each time.

    Of an array of numbers or compound values it is that array.
    """
    if not types.is_struct(a.dtype):
        return (a,)
    found = a._fields
    if found is None:
        found = a._fields = tuple(_leaf(a, leaf) for leaf in a.dtype.leaves())
    for view in found:
        view.retain_grad = a.retain_grad
    return found


def _leaf(a: array, leaf: Any) -> array:
    view = make(a.buffer, a.ptr + leaf.offset, leaf.type, a.shape, a.strides, like=a)
    view.part = "".join(f".{name}" for name in leaf.path)
    return view


def element_values(data: Any, kind: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Data as structured values: instances, tuples of fields, or a structured NumPy array with the fields.

    Raises:
        ArrayError: It is something else.
    """
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        if data.dtype.names != dtype.names:
            raise ArrayError(
                f"array: data with the fields {', '.join(data.dtype.names)} cannot be {kind.__name__}, "
                f"whose fields are {', '.join(kind.fields)}",
                mend=f"use {kind.__name__}.numpy_dtype() for the NumPy array",
            )
        return data.astype(dtype)
    try:
        return np.array(_tuples(data, kind), dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ArrayError(
            f"array: the data cannot become an array of {kind.__name__}: {error}",
            mend=f"pass a list of {kind.__name__}(…), or a structured array of {kind.__name__}.numpy_dtype()",
        ) from None


def _tuples(data: Any, kind: Any) -> Any:
    if isinstance(data, types.Struct):
        if type(data) is not kind:
            raise TypeError(f"got {data!r}")
        return types.Struct.numpy_value(data)
    if isinstance(data, list):
        return [_tuples(one, kind) for one in data]
    if isinstance(data, tuple):
        return data
    raise TypeError(f"got {data!r}")
