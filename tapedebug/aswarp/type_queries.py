"""The functions of `warp.types` that tell the kinds of types and values apart, for types of this engine."""

from __future__ import annotations

import builtins
import ctypes
import typing
from typing import Any

import numpy as np

from tapedebug.lang import types as t
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.indexed import indexedarray

CTYPES: dict[Any, Any] = {
    t.bool: ctypes.c_bool,
    t.int8: ctypes.c_int8,
    t.uint8: ctypes.c_uint8,
    t.int16: ctypes.c_int16,
    t.uint16: ctypes.c_uint16,
    t.int32: ctypes.c_int32,
    t.uint32: ctypes.c_uint32,
    t.int64: ctypes.c_int64,
    t.uint64: ctypes.c_uint64,
    t.float16: ctypes.c_uint16,
    t.bfloat16: ctypes.c_uint16,
    t.float32: ctypes.c_float,
    t.float64: ctypes.c_double,
}
"""The C types of scalars; floats of 16 bits have none, and are two bytes."""


def canonical_or_same(dtype: Any) -> Any:
    """Return the type that Python's `float`, `int` and `bool` mean; any other object as it is."""
    try:
        return t.canonical(dtype) if isinstance(dtype, type) else dtype
    except TypeError:
        return dtype


def type_is_int(dtype: Any) -> builtins.bool:
    """True if a type is an integer type."""
    return dtype is not builtins.bool and canonical_or_same(dtype) in t.INTEGERS


def type_is_float(dtype: Any) -> builtins.bool:
    """True if a type is a floating-point scalar type."""
    return canonical_or_same(dtype) in t.FLOATS


def type_is_scalar(dtype: Any) -> builtins.bool:
    """True if a type is an integer or a floating-point scalar type."""
    return type_is_int(dtype) or type_is_float(dtype)


def type_is_vector(dtype: Any) -> builtins.bool:
    """True if a type is a vector type."""
    return t.is_vector(dtype)


def type_is_matrix(dtype: Any) -> builtins.bool:
    """True if a type is a matrix type."""
    return t.is_matrix(dtype)


def type_is_quaternion(dtype: Any) -> builtins.bool:
    """True if a type is a quaternion type."""
    return t.is_quaternion(dtype)


def type_is_transformation(dtype: Any) -> builtins.bool:
    """True if a type is a transform type."""
    return t.is_transformation(dtype)


def type_is_composite(dtype: Any) -> builtins.bool:
    """True if a type is a vector, matrix, quaternion or transform type."""
    return t.is_compound(dtype)


def type_is_value(dtype: Any) -> builtins.bool:
    """True if a type is a scalar type, `bool`, or a type of several components."""
    return t.is_scalar(canonical_or_same(dtype)) or t.is_compound(dtype)


def type_is_struct(dtype: Any) -> builtins.bool:
    """True if a type is a struct."""
    return t.is_struct(dtype)


def type_is_array(dtype: Any) -> builtins.bool:
    """True if a type is one of the array classes."""
    return isinstance(dtype, type) and issubclass(dtype, array | indexedarray)


def type_is_tile(dtype: Any) -> builtins.bool:
    """Return False: there are no tiles on this engine."""
    return False


def is_int(value: Any) -> builtins.bool:
    """True if a value has an integer type."""
    return not isinstance(value, builtins.bool) and type_is_int(type(value))


def is_float(value: Any) -> builtins.bool:
    """True if a value has a floating-point scalar type."""
    return type_is_float(type(value))


def is_scalar(value: Any) -> builtins.bool:
    """True if a value is an integer or a floating-point scalar."""
    return is_int(value) or is_float(value)


def is_vector(value: Any) -> builtins.bool:
    """True if a value is a vector."""
    return t.is_vector(type(value))


def is_matrix(value: Any) -> builtins.bool:
    """True if a value is a matrix."""
    return t.is_matrix(type(value))


def is_quaternion(value: Any) -> builtins.bool:
    """True if a value is a quaternion."""
    return t.is_quaternion(type(value))


def is_transformation(value: Any) -> builtins.bool:
    """True if a value is a transform."""
    return t.is_transformation(type(value))


def is_composite(value: Any) -> builtins.bool:
    """True if a value is a vector, matrix, quaternion or transform."""
    return t.is_compound(type(value))


def is_value(value: Any) -> builtins.bool:
    """True if a value is a scalar, a `bool`, or has several components."""
    return isinstance(value, builtins.bool | int | float | np.generic) or is_composite(value)


def is_struct(value: Any) -> builtins.bool:
    """True if a value is an instance of a struct."""
    return isinstance(value, t.Struct)


def is_array(value: Any) -> builtins.bool:
    """True if a value is an array or the annotation of one."""
    return isinstance(value, array | indexedarray | t.ArrayType | t.IndexedArrayType)


def is_tile(value: Any) -> builtins.bool:
    """Return False: there are no tiles on this engine."""
    return False


def type_scalar_type(dtype: Any) -> Any:
    """Return the scalar type of a type of several components; any other type as it is."""
    return dtype.scalar if t.is_compound(dtype) else dtype


def type_size(dtype: Any) -> int:
    """Return the number of scalars in a value: 1 of a scalar or a struct, 3 of a vec3.

    Raises:
        AttributeError: `dtype` is not a type of the kernel language.
    """
    try:
        return t.components(dtype)
    except TypeError as error:
        raise AttributeError(str(error)) from None


def type_size_in_bytes(dtype: Any) -> int:
    """Return the size of a value in bytes, as an element of an array.

    Raises:
        TypeError: `dtype` is not a type of the kernel language.
    """
    return t.components(dtype) * t.numpy_dtype(dtype).itemsize


def type_ctype(dtype: Any) -> Any:
    """Return the C type of a scalar type, or an array type of C's for several components."""
    kind = t.canonical(dtype)
    scalar = CTYPES[t.scalar_of(kind)]
    return scalar * t.components(kind) if t.is_compound(kind) else scalar


def strides_from_shape(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    """Return the strides in bytes of a contiguous array of this shape."""
    strides = [type_size_in_bytes(dtype)]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def types_equal(first: Any, second: Any) -> builtins.bool:
    """True if two types or annotations mean the same type."""
    first, second = _described(first), _described(second)
    return builtins.bool(first == second)


def _described(kind: Any) -> Any:
    """Return a type in a form that compares equal for equal types."""
    if isinstance(kind, array | indexedarray | t.ArrayType | t.IndexedArrayType):
        is_plain = isinstance(kind, array | t.ArrayType)
        return ("array" if is_plain else "indexedarray", canonical_or_same(kind.dtype), kind.ndim)
    if isinstance(kind, list | tuple):
        return [_described(each) for each in kind]
    if typing.get_origin(kind) is tuple:
        return [_described(each) for each in typing.get_args(kind)]
    return canonical_or_same(kind)


def type_repr(kind: Any) -> str:
    """Return a type in words: `vector(length=3, dtype=float32)`, `array(ndim=1, dtype=float32)`."""
    if kind is Any:
        return "Any"
    if isinstance(kind, array | indexedarray):
        return f"{type(kind).__name__}(shape={kind.shape}, dtype={type_repr(kind.dtype)})"
    if isinstance(kind, t.ArrayType | t.IndexedArrayType):
        word = "array" if isinstance(kind, t.ArrayType) else "indexedarray"
        return f"{word}(ndim={kind.ndim}, dtype={type_repr(kind.dtype)})"
    if typing.get_origin(kind) is tuple:
        return f"tuple({', '.join(type_repr(each) for each in typing.get_args(kind))})"
    if t.is_vector(kind):
        return f"vector(length={kind.length}, dtype={type_repr(kind.scalar)})"
    if t.is_matrix(kind):
        return f"matrix(shape={kind.shape}, dtype={type_repr(kind.scalar)})"
    if t.is_quaternion(kind) or t.is_transformation(kind):
        word = "quaternion" if t.is_quaternion(kind) else "transformation"
        return f"{word}(dtype={type_repr(kind.scalar)})"
    if t.is_struct(kind):
        return str(kind.__name__)
    return str(getattr(kind, "__name__", kind))


NAMES: dict[str, Any] = {
    name: value
    for name, value in list(globals().items())
    if name.startswith(("is_", "type_", "types_", "strides_")) and callable(value)
}
"""The names of `warp.types` that this module has."""
