"""Arrays of structs: views of single fields, and the flat views that launches, copies and tapes use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError, TapeError
from tapedebug.lang import types
from tapedebug.lang.struct_types import near_field
from tapedebug.runtime.memory.array import array, make

Leaves = tuple[array, ...]


def field(a: array, name: str) -> array:
    """Return the view of one field of all elements; it shares memory and gradient with `a`.

    Raises:
        ArrayError: The struct has no such field.
    """
    kind = a.dtype
    if name not in kind.fields:
        raise ArrayError(
            f"array{a._facts()}: {kind.__name__} has no field {name!r}", hint=near_field(kind, name)
        )
    part = f"{a.part}.{name}"
    if not types.is_struct(kind.fields[name]):
        return next(view for view in leaves(a) if view.part == part)
    offset = types.numpy_dtype(kind).fields[name][1]  # type: ignore[index]
    found = make(a.buffer, a.ptr + offset, kind.fields[name], a.shape, a.strides, like=a)
    found.part = part
    found._fields = tuple(view for view in leaves(a) if view.part.startswith(part + "."))
    return found


def leaves(a: array) -> Leaves:
    """Return the views of all scalar and compound fields, at any depth; the same objects on each call.

    For an array of numbers or compound values, the result is that array.
    """
    found = a._fields
    if found is None:
        if not types.is_struct(a.dtype):
            return (a,)
        found = a._fields = tuple(_leaf(a, leaf) for leaf in a.dtype.leaves())
    if a.retain_grad:
        for view in found:
            view.retain_grad = True
    return found


def _leaf(a: array, leaf: Any) -> array:
    view = make(a.buffer, a.ptr + leaf.offset, leaf.type, a.shape, a.strides, like=a)
    view.part = a.part + "".join(f".{name}" for name in leaf.path)
    return view


def by_field(given: Mapping[Any, Any], what: str) -> Iterator[tuple[Any, Any]]:
    """Yield seeds or tangents by array; for arrays of structs, by float field.

    Raises:
        TapeError: The value given for an array of structs is not an array of that struct.
    """
    for a, content in given.items():
        if not isinstance(a, array) or not types.is_struct(a.dtype):
            yield a, content
            continue
        values = content._numpy_view() if isinstance(content, array) else np.asarray(content)
        if values.dtype.names != types.numpy_dtype(a.dtype).names or values.shape != a.shape:
            raise TapeError(
                f"{what} of the array{a._facts()} has shape {values.shape}, dtype {values.dtype}",
                hint=f"pass an array of {a.dtype.__name__} of shape {a.shape}, or values for one field of it",
            )
        for leaf, view in zip(a.dtype.leaves(), leaves(a), strict=True):
            inner = values
            for name in leaf.path:
                inner = inner[name]
            if types.is_float(leaf.type):
                yield view, inner


def element_values(data: Any, kind: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert struct instances, tuples of fields or a structured NumPy array to structured values.

    Raises:
        ArrayError: The data has another form or other fields.
    """
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        if data.dtype.names != dtype.names:
            raise ArrayError(
                f"array: data with the fields {', '.join(data.dtype.names)} cannot be {kind.__name__}, "
                f"whose fields are {', '.join(kind.fields)}",
                hint=f"use {kind.__name__}.numpy_dtype() for the NumPy array",
            )
        return data.astype(dtype)
    try:
        return np.array(_tuples(data, kind), dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ArrayError(
            f"array: the data cannot become an array of {kind.__name__}: {error}",
            hint=f"pass a list of {kind.__name__}(…), or a structured array of {kind.__name__}.numpy_dtype()",
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
