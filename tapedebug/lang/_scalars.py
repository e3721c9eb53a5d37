"""The scalar types of the kernel language."""

from __future__ import annotations

import builtins
from typing import Any, ClassVar

import numpy as np

from tapedebug._float_types import bfloat16_dtype, is_bfloat16


class ScalarMeta(type):
    """The class of scalar types: NumPy scalars are instances of the type that makes them."""

    def __instancecheck__(cls, value: object) -> builtins.bool:
        own = cls.__dict__.get("numpy")
        if own is None and cls.__dict__.get("code") == "bf16":
            return isinstance(value, np.generic) and is_bfloat16(value.dtype)
        return super().__instancecheck__(value) or (own is not None and type(value) is own.type)

    def __getattr__(cls, name: str) -> Any:
        """The NumPy dtype of bfloat16, for which a package is imported."""
        if name not in ("numpy", "__numpy_dtype__") or cls.__dict__.get("code") != "bf16":
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        dtype = bfloat16_dtype()
        setattr(cls, name, dtype)
        return dtype


class Scalar(metaclass=ScalarMeta):
    """Base of the scalar types; `code` names the type in generated source."""

    code: ClassVar[str]
    numpy: ClassVar[np.dtype[Any]]
    __numpy_dtype__: ClassVar[np.dtype[Any]]

    def __init_subclass__(cls) -> None:
        """Let `np.dtype(wp.float32)` be the NumPy dtype of the type (NumPy 2.4 and later)."""
        if "numpy" in cls.__dict__:
            cls.__numpy_dtype__ = cls.numpy

    def __new__(cls, value: Any = 0) -> Any:
        """The NumPy scalar of this type; integers beyond its range wrap around, as in C."""
        kind = cls.numpy.kind
        if kind in "iu" and type(value) is int:
            bits = 8 * cls.numpy.itemsize
            value &= (1 << bits) - 1
            if kind == "i" and value >> (bits - 1):
                value -= 1 << bits
        return cls.numpy.type(value)


class float16(Scalar):
    """IEEE half precision: every operation is rounded to 11 significant bits."""

    code = "f16"
    numpy = np.dtype(np.float16)


class bfloat16(Scalar):
    """Float32 without its last 16 bits: every operation is rounded to 8 significant bits.

    NumPy takes the type from the package `ml_dtypes`.
    """

    code = "bf16"


class float32(Scalar):
    """IEEE single precision; what Python's `float` means in a kernel."""

    code = "f32"
    numpy = np.dtype(np.float32)


class float64(Scalar):
    """IEEE double precision."""

    code = "f64"
    numpy = np.dtype(np.float64)


class int8(Scalar):
    """Signed 8-bit integer."""

    code = "i8"
    numpy = np.dtype(np.int8)


class uint8(Scalar):
    """Unsigned 8-bit integer."""

    code = "u8"
    numpy = np.dtype(np.uint8)


class int16(Scalar):
    """Signed 16-bit integer."""

    code = "i16"
    numpy = np.dtype(np.int16)


class uint16(Scalar):
    """Unsigned 16-bit integer."""

    code = "u16"
    numpy = np.dtype(np.uint16)


class int32(Scalar):
    """Signed 32-bit integer; what Python's `int` means in a kernel."""

    code = "i32"
    numpy = np.dtype(np.int32)


class uint32(Scalar):
    """Unsigned 32-bit integer."""

    code = "u32"
    numpy = np.dtype(np.uint32)


class int64(Scalar):
    """Signed 64-bit integer."""

    code = "i64"
    numpy = np.dtype(np.int64)


class uint64(Scalar):
    """Unsigned 64-bit integer."""

    code = "u64"
    numpy = np.dtype(np.uint64)


class bool(Scalar):
    """Truth value, one byte in arrays."""

    code = "b1"
    numpy = np.dtype(np.bool_)


SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
INTEGERS: tuple[type[Scalar], ...] = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
FLOATS: tuple[type[Scalar], ...] = (float16, bfloat16, float32, float64)
SCALARS: tuple[type[Scalar], ...] = (bool, *INTEGERS, *FLOATS)
"""From narrow to wide."""


def compared_as(one: type[Scalar], two: type[Scalar]) -> type[Scalar]:
    """The type to which C converts two numbers of different types before it compares them.

    It is the float if one of them is a float, else the wider type. Integers of fewer than 32 bits and truth
    values become int32 first. Of integers of one width the unsigned type is taken.
    """
    floats = [kind for kind in (one, two) if kind in FLOATS]
    if floats:
        return max(floats, key=FLOATS.index)
    small = (bool, int8, uint8, int16, uint16)
    kinds = [int32 if kind in small else kind for kind in (one, two)]
    return max(kinds, key=INTEGERS.index)


SUFFIXES: dict[type[Scalar], str] = {
    float32: "",
    float16: "h",
    bfloat16: "bf",
    float64: "d",
    int8: "b",
    uint8: "ub",
    int16: "s",
    uint16: "us",
    int32: "i",
    uint32: "ui",
    int64: "l",
    uint64: "ul",
    bool: "bool",
}
"""The suffix in names of vectors, matrices and quaternions, by the type of their components."""
