"""The types of the kernel language: scalars, vectors and array annotations, and what they are in NumPy.

Types are classes. A scalar type called outside a kernel gives the NumPy scalar of that type; a vector type
called outside a kernel gives a small fixed-length value.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np


class Scalar:
    """Base of the scalar types; `code` names the type in generated source."""

    code: ClassVar[str]
    numpy: ClassVar[np.dtype[Any]]

    def __new__(cls, value: Any = 0) -> Any:
        """The NumPy scalar of this type."""
        return cls.numpy.type(value)


class float32(Scalar):
    """IEEE single precision; what Python's `float` means in a kernel."""

    code = "f32"
    numpy = np.dtype(np.float32)


class float64(Scalar):
    """IEEE double precision."""

    code = "f64"
    numpy = np.dtype(np.float64)


class int32(Scalar):
    """Signed 32-bit integer; what Python's `int` means in a kernel."""

    code = "i32"
    numpy = np.dtype(np.int32)


class int64(Scalar):
    """Signed 64-bit integer."""

    code = "i64"
    numpy = np.dtype(np.int64)


class bool(Scalar):
    """Truth value, one byte in arrays."""

    code = "b1"
    numpy = np.dtype(np.bool_)


MAX_DIMENSIONS = 4
"""Axes that an array or a launch can have."""

SCALARS: tuple[type[Scalar], ...] = (bool, int32, int64, float32, float64)
FLOATS = (float32, float64)
INTEGERS = (int32, int64)


class Vector:
    """Base of the vector types: a fixed number of components of one scalar type.

    Instances exist outside kernels only, as values to fill arrays and to pass to launches.
    """

    length: ClassVar[int]
    scalar: ClassVar[type[Scalar]]
    __slots__ = ("_values",)

    def __init__(self, *values: Any) -> None:
        if len(values) == 1 and not np.isscalar(values[0]):
            values = tuple(values[0])
        elif len(values) == 1:
            values = values * self.length
        elif not values:
            values = (0,) * self.length
        if len(values) != self.length:
            raise TypeError(
                f"{type_name(type(self))} takes {self.length} components, one value for all of them, "
                f"or none (zeros); got {len(values)}"
            )
        self._values = np.array(values, dtype=self.scalar.numpy)

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._values, dtype=dtype)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[index] = value

    def __getattr__(self, name: str) -> Any:
        if len(name) == 1 and name in "xyzw"[: self.length]:
            return self._values["xyzw".index(name)]
        raise AttributeError(f"{type_name(type(self))} has no component {name!r}")

    def __repr__(self) -> str:
        return f"{type_name(type(self))}({', '.join(str(v) for v in self._values.tolist())})"

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, Vector) and builtins.bool(np.array_equal(self._values, other._values))

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._values.tolist())))

    def _combined(self, values: np.ndarray[Any, Any]) -> Vector:
        return type(self)(*values.astype(self.scalar.numpy))

    def __add__(self, other: Any) -> Vector:
        return self._combined(self._values + np.asarray(other))

    def __sub__(self, other: Any) -> Vector:
        return self._combined(self._values - np.asarray(other))

    def __mul__(self, other: Any) -> Vector:
        return self._combined(self._values * np.asarray(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Vector:
        return self._combined(self._values / np.asarray(other))

    def __neg__(self) -> Vector:
        return self._combined(-self._values)


@functools.cache
def vector(length: int, dtype: Any) -> type[Vector]:
    """The vector type of `length` components of the scalar type `dtype` (`types.vector(3, float)`)."""
    scalar = canonical(dtype)
    if not is_scalar(scalar):
        raise TypeError(f"a vector's components are scalars (float32, int32, …); got {dtype!r}")
    if length != int(length) or length < 1:
        raise TypeError(f"a vector's length is a positive integer; got {length!r}")
    suffix = {float32: "", float64: "d", int32: "i", int64: "l", bool: "b"}[scalar]
    name = f"vec{length}{suffix}"
    return type(name, (Vector,), {"length": length, "scalar": scalar, "__slots__": ()})


class ArrayType:
    """The type of an array parameter: element type and number of dimensions (1 to 4)."""

    __slots__ = ("dtype", "ndim")

    def __init__(self, dtype: Any, ndim: int = 1) -> None:
        self.dtype = canonical(dtype)
        if ndim not in range(1, MAX_DIMENSIONS + 1):
            raise TypeError(f"an array has 1 to 4 dimensions; got ndim={ndim!r}")
        self.ndim = ndim

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, ArrayType) and (self.dtype, self.ndim) == (other.dtype, other.ndim)

    def __hash__(self) -> int:
        return hash((self.dtype, self.ndim))

    def __repr__(self) -> str:
        return type_name(self)


_PYTHON: dict[type, Any] = {builtins.float: float32, builtins.int: int32, builtins.bool: bool}


def canonical(dtype: Any) -> Any:
    """The type that `dtype` means: Python's `float`, `int` and `bool` are float32, int32 and bool.

    Raises:
        TypeError: `dtype` is not a type of the kernel language.
    """
    if isinstance(dtype, type):
        if dtype in _PYTHON:
            return _PYTHON[dtype]
        if issubclass(dtype, Scalar | Vector) and dtype not in (Scalar, Vector):
            return dtype
    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        scalar = from_numpy(np.dtype(dtype))
        if scalar is not None:
            return scalar
    supported = ", ".join(s.__name__ for s in SCALARS)
    raise TypeError(f"{dtype!r} is not a type of the kernel language ({supported}, vec2 … vec4, …)")


def from_numpy(dtype: np.dtype[Any]) -> type[Scalar] | None:
    """The scalar type with this NumPy dtype, or None."""
    return next((s for s in SCALARS if s.numpy == dtype), None)


def is_scalar(t: Any) -> builtins.bool:
    """Whether `t` is a scalar type."""
    return isinstance(t, type) and issubclass(t, Scalar)


def is_vector(t: Any) -> builtins.bool:
    """Whether `t` is a vector type."""
    return isinstance(t, type) and issubclass(t, Vector)


@functools.cache
def scalar_of(t: Any) -> type[Scalar]:
    """The scalar type of a scalar, vector or array type."""
    t = t.dtype if isinstance(t, ArrayType) else canonical(t)
    scalar: type[Scalar] = t.scalar if is_vector(t) else t
    return scalar


@functools.cache
def components(t: Any) -> int:
    """How many scalars one value (or one array element) of type `t` has."""
    t = t.dtype if isinstance(t, ArrayType) else canonical(t)
    return t.length if is_vector(t) else 1


@functools.cache
def value_shape(t: Any) -> tuple[int, ...]:
    """The shape of one value: `()` of a scalar, `(3,)` of a vec3."""
    t = canonical(t)
    return (t.length,) if is_vector(t) else ()


@functools.cache
def numpy_dtype(t: Any) -> np.dtype[Any]:
    """The NumPy dtype of the scalars of `t`."""
    return scalar_of(t).numpy


@functools.cache
def is_float(t: Any) -> builtins.bool:
    """Whether values of type `t` have derivatives."""
    return scalar_of(t) in FLOATS


def conversion(t: Any) -> str:
    """How a program converts a number to the scalar type `t`, with `tapedebug` imported as `wp`."""
    plain = {float32: "float", int32: "int", bool: "bool"}
    return f"{plain.get(t) or 'wp.' + type_name(t)}(…)"


def type_name(t: Any) -> str:
    """The name of a type as users write it: `float32`, `vec3`, `array(dtype=vec3, ndim=2)`."""
    if isinstance(t, ArrayType):
        dims = f", ndim={t.ndim}" if t.ndim != 1 else ""
        return f"array(dtype={type_name(t.dtype)}{dims})"
    return getattr(t, "__name__", None) or str(t)


vec2 = vec2f = vector(2, float32)
vec3 = vec3f = vector(3, float32)
vec4 = vec4f = vector(4, float32)
vec2d, vec3d, vec4d = vector(2, float64), vector(3, float64), vector(4, float64)
vec2i, vec3i, vec4i = vector(2, int32), vector(3, int32), vector(4, int32)
