"""Floating-point dtypes of NumPy arrays, with bfloat16, which NumPy takes from the package ml_dtypes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapedebug._errors import TapedebugError

Values = np.ndarray[Any, np.dtype[Any]]


class FloatInfo(NamedTuple):
    """Numbers that describe a floating-point type.

    Attributes:
        bits: The size in bits.
        eps: The distance from 1 to the next larger number.
        max: The largest finite number.
        tiny: The smallest positive normal number.
    """

    bits: int
    eps: float
    max: float
    tiny: float


BLOCK = 1 << 14
"""Elements that are compared at once: they fit in the cache."""
UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
"""The types of the bits of elements, by their size in bytes."""
BFLOAT16 = FloatInfo(16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126)


class MissingFloatTypeError(TapedebugError, ImportError):
    """The package with the NumPy dtype of bfloat16 is not installed."""


def bfloat16_dtype() -> np.dtype[Any]:
    """Return the NumPy dtype of bfloat16.

    Raises:
        MissingFloatTypeError: The package `ml_dtypes` is not installed.
    """
    try:
        import ml_dtypes
    except ImportError:
        raise MissingFloatTypeError(
            "NumPy has no bfloat16 of its own, and the package `ml_dtypes`, which has it, is not installed",
            hint="pip install ml_dtypes; or use float16 or float32",
        ) from None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """True if a dtype is that of bfloat16."""
    return dtype.kind == "V" and dtype.type.__name__ == "bfloat16"


def is_float(dtype: np.dtype[Any]) -> bool:
    """True if a dtype is floating-point."""
    return dtype.kind == "f" or is_bfloat16(dtype)


def is_short_float(dtype: np.dtype[Any]) -> bool:
    """True if a dtype is floating-point and shorter than float64."""
    return is_float(dtype) and dtype.itemsize < 8


def float_info(dtype: np.dtype[Any]) -> FloatInfo:
    """Return the numbers that describe a floating-point dtype."""
    if is_bfloat16(dtype):
        return BFLOAT16
    found = np.finfo(dtype)
    return FloatInfo(found.bits, float(found.eps), float(found.max), float(found.tiny))


def are_equal(one: Values, other: Values, *, equal_nan: bool = True) -> bool:
    """True if all elements of two arrays of one shape are equal; see `numpy.array_equal`.

    In blocks: with `equal_nan` NumPy copies both arrays without their NaNs, which takes twice their memory,
    and many times as long as a comparison of their bits, which nearly always are the same.
    """
    first, second = one.reshape(-1), other.reshape(-1)
    bits = UNSIGNED.get(first.dtype.itemsize) if equal_nan and first.dtype == second.dtype else None

    def differ(at: slice) -> bool:
        a, b = first[at], second[at]
        if bits is not None and np.array_equal(a.view(bits), b.view(bits)):
            return False
        return not np.array_equal(a, b, equal_nan=equal_nan)

    return not any(differ(slice(at, at + BLOCK)) for at in range(0, first.size, BLOCK))
