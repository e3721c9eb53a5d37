"""Indices of arrays: what a key means for a shape."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tapedebug.lang import types

Shape = tuple[int, ...]


def expand(key: Any, shape: Shape) -> list[Any]:
    """A key as one int or slice for each dimension.

    Raises:
        IndexError: It has more indices than the shape has dimensions.
    """
    ndim = len(shape)
    parts = list(key) if isinstance(key, tuple) else [key]
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if at is not None:
        parts[at : at + 1] = [slice(None)] * (ndim - len(parts) + 1)
    if len(parts) > ndim:
        raise IndexError(f"{len(parts)} indices for an array of {ndim} dimensions (shape {shape})")
    return parts + [slice(None)] * (ndim - len(parts))


def number(part: Any, axis: int, shape: Shape) -> int:
    """An index of dimension `axis`, counted from its start.

    Raises:
        IndexError: It is out of range.
        TypeError: It is not an int.
    """
    n = shape[axis]
    try:
        i = operator.index(part)
    except TypeError:
        raise TypeError(f"an array is indexed by ints and slices; got {part!r}") from None
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for dimension {axis} of an array of shape {shape}")
    return i + n if i < 0 else i


def is_element(value: Any, dtype: Any) -> bool:
    """Whether a sequence is one vector of `dtype`."""
    return bool(types.value_shape(dtype)) and np.shape(value) == types.value_shape(dtype)
