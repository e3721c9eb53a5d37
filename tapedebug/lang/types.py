"""The types of the kernel language: scalars, vectors, matrices, quaternions, transforms, array annotations.

Types are classes. A scalar type called outside a kernel gives the NumPy scalar of that type; a compound type
(vector, matrix, …) called outside a kernel gives a small fixed-size value.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug._float_types import is_bfloat16
from tapedebug.lang import _generic
from tapedebug.lang._arrays import MAX_DIMENSIONS as MAX_DIMENSIONS
from tapedebug.lang._arrays import ArrayType as ArrayType
from tapedebug.lang._arrays import HeldArrayType as HeldArrayType
from tapedebug.lang._arrays import IndexedArrayType as IndexedArrayType
from tapedebug.lang._arrays import subscript_arguments as subscript_arguments
from tapedebug.lang._generic import CALLABLE as CALLABLE
from tapedebug.lang._generic import Float as Float
from tapedebug.lang._generic import Generic as Generic
from tapedebug.lang._generic import Int as Int
from tapedebug.lang._generic import Number as Number
from tapedebug.lang._reference import Reference as Reference
from tapedebug.lang._reference import ref as ref
from tapedebug.lang._scalars import FLOATS as FLOATS
from tapedebug.lang._scalars import INTEGERS as INTEGERS
from tapedebug.lang._scalars import SCALARS as SCALARS
from tapedebug.lang._scalars import SIGNED as SIGNED
from tapedebug.lang._scalars import SUFFIXES as SUFFIXES
from tapedebug.lang._scalars import UNSIGNED as UNSIGNED
from tapedebug.lang._scalars import Scalar as Scalar
from tapedebug.lang._scalars import ScalarMeta
from tapedebug.lang._scalars import bfloat16 as bfloat16
from tapedebug.lang._scalars import bool as bool
from tapedebug.lang._scalars import compared_as as compared_as
from tapedebug.lang._scalars import float16 as float16
from tapedebug.lang._scalars import float32 as float32
from tapedebug.lang._scalars import float64 as float64
from tapedebug.lang._scalars import int8 as int8
from tapedebug.lang._scalars import int16 as int16
from tapedebug.lang._scalars import int32 as int32
from tapedebug.lang._scalars import int64 as int64
from tapedebug.lang._scalars import uint8 as uint8
from tapedebug.lang._scalars import uint16 as uint16
from tapedebug.lang._scalars import uint32 as uint32
from tapedebug.lang._scalars import uint64 as uint64
from tapedebug.lang.compound_types import Compound as Compound
from tapedebug.lang.compound_types import Matrix as Matrix
from tapedebug.lang.compound_types import Part as Part
from tapedebug.lang.compound_types import Quaternion as Quaternion
from tapedebug.lang.compound_types import Transformation as Transformation
from tapedebug.lang.compound_types import Vector as Vector
from tapedebug.lang.struct_types import Struct as Struct
from tapedebug.lang.struct_types import is_struct as is_struct


def vector(length: Any, dtype: Any) -> type[Vector]:
    """The vector type of `length` components of the scalar type `dtype` (`types.vector(3, float)`).

    In annotations, `Any` as the length and a family of types (`Any`, `Float`) as `dtype` take all that fit.

    Raises:
        TypeError: `dtype` is no scalar type, or `length` no integer from 0. Arrays cannot hold vectors of
            length 0.
    """
    family = _family(Vector, (length,), dtype)
    kind: type[Vector] = family or _compound(
        Vector, f"vec{length}", (length,), _component_type(dtype, "vector")
    )
    return kind


def matrix(shape: tuple[int, int], dtype: Any) -> type[Matrix]:
    """The matrix type of `shape` (rows, columns), of the scalar type `dtype` (`types.matrix((3, 3), float)`).

    In annotations, `Any` in the shape and a family of types as `dtype` take all that fit.

    Raises:
        TypeError: `dtype` is no scalar type, or `shape` not two positive integers.
    """
    dims = tuple(shape) if np.iterable(shape) else ()
    if len(dims) != 2:
        raise TypeError(f"a matrix's shape is (rows, columns); got {shape!r}")
    kind: type[Matrix] | None = _family(Matrix, dims, dtype)
    if kind is None:
        stem = f"mat{dims[0]}{'x' if max(dims) > 9 else ''}{dims[1]}"
        kind = _compound(Matrix, stem, dims, _component_type(dtype, "matrix"))
    return kind


def quaternion(dtype: Any = float32) -> type[Quaternion]:
    """The quaternion type of the float type `dtype` (`types.quaternion(float)`).

    Raises:
        TypeError: `dtype` is no float type.
    """
    kind: type[Quaternion] | None = _family(Quaternion, (4,), dtype)
    return kind or _compound(Quaternion, "quat", (4,), _float_type(dtype, "quaternion"))


def transformation(dtype: Any = float32) -> type[Transformation]:
    """The transform type of the float type `dtype`: a translation `p`, then a rotation `q`.

    Raises:
        TypeError: `dtype` is no float type.
    """
    kind: type[Transformation] | None = _family(Transformation, (7,), dtype)
    if kind is None:
        kind = _compound(Transformation, "transform", (7,), _float_type(dtype, "transform"))
    return kind


def _family(base: type[Compound], shape: tuple[Any, ...], dtype: Any) -> Any:
    return _generic.family(base, shape, pattern(dtype))


def _component_type(dtype: Any, what: str) -> Any:
    scalar = canonical(dtype)
    if not is_scalar(scalar):
        raise TypeError(f"a {what}'s components are scalars (float32, int32, …); got {type_name(scalar)}")
    return scalar


def _float_type(dtype: Any, what: str) -> Any:
    scalar = _component_type(dtype, what)
    if scalar not in FLOATS:
        known = ", ".join(f.__name__ for f in FLOATS)
        raise TypeError(f"a {what}'s components are floats ({known}); got {type_name(scalar)}")
    return scalar


@functools.cache
def _compound(base: Any, stem: str, shape: tuple[int, ...], scalar: Any) -> Any:
    """The one class of a compound type."""
    least = 0 if base is Vector else 1
    if any(n != int(n) or n < least for n in shape):
        word, size = (
            ("length is an integer from 0", shape[0])
            if len(shape) == 1
            else ("shape is two positive integers", shape)
        )
        raise TypeError(f"a {base.word}'s {word}; got {size!r}")
    content: dict[str, Any] = {"shape": shape, "length": int(np.prod(shape)), "scalar": scalar}
    if base is Vector:
        content["letters"] = "xyzw"[: shape[0]]
    if base is Transformation:
        content["named"] = {"p": Part(0, 3, vector(3, scalar)), "q": Part(3, 7, quaternion(scalar))}
    return type(stem + SUFFIXES[scalar], (base,), {**content, "__slots__": ()})


_PYTHON: dict[type, Any] = {builtins.float: float32, builtins.int: int32, builtins.bool: bool}


def canonical(dtype: Any) -> Any:
    """The type that `dtype` means: Python's `float`, `int` and `bool` are float32, int32 and bool.

    A class that a program derives from a type, to give it functions, means that type.

    Raises:
        TypeError: `dtype` is not a type of the kernel language.
    """
    if isinstance(dtype, type):
        if dtype in _PYTHON:
            return _PYTHON[dtype]
        if issubclass(dtype, Scalar | Compound):
            defined = "code" if issubclass(dtype, Scalar) else "scalar"
            for each in dtype.__mro__:
                if defined in each.__dict__:
                    return each
        if is_struct(dtype):
            return dtype
    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        scalar = from_numpy(np.dtype(dtype))
        if scalar is not None:
            return scalar
    supported = ", ".join(s.__name__ for s in SCALARS)
    raise TypeError(
        f"{dtype!r} is not a type of the kernel language "
        f"({supported}, vec2 … vec4, mat22 … mat44, quat, transform, …)"
    )


def scalar_type(value: Any) -> type[Scalar] | None:
    """The type that a captured number or a literal has in a kernel; None of anything else."""
    match value:
        case builtins.bool() | np.bool_():
            return bool
        case np.generic():
            return from_numpy(value.dtype)
        case int():
            return int32
        case float():
            return float32
    return None


def type_of_value(value: Any) -> Any:
    """The type that a Python value has as an argument of a kernel; None where it has none."""
    if isinstance(value, Compound):
        return canonical(type(value))
    return type(value) if isinstance(value, Struct) else scalar_type(value)


def pattern(annotation: Any) -> Any:
    """The type, or the family of types, that an annotation means.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(annotation, ScalarMeta):  # first, as most are, and every array that is made asks
        return canonical(annotation)
    if annotation is Any:
        return _generic.ANY
    if annotation is Callable or getattr(annotation, "__origin__", None) is Callable:
        return CALLABLE
    family = getattr(annotation, "as_parameter", None)  # the class of functions: one of them is passed
    if isinstance(family, Generic):
        return family
    return annotation if isinstance(annotation, Generic) else canonical(annotation)


def fits(declared: Any, actual: Any) -> builtins.bool:
    """True if a value of the type `actual` can be passed for a parameter of type `declared`."""
    if isinstance(declared, Generic):
        return declared.takes(actual)
    if isinstance(declared, tuple):
        if not isinstance(actual, tuple):
            return False
        if declared[-1] is ...:  # any number of values of one type
            declared = declared[:1] * len(actual)
        return len(declared) == len(actual) and all(map(fits, declared, actual))
    if is_generic(declared) and type(declared) is type(actual):
        return declared.ndim in (Any, actual.ndim) and fits(declared.dtype, actual.dtype)
    return builtins.bool(declared == actual)


def is_generic(kind: Any) -> builtins.bool:
    """True if a declared type stands for several: a family, or an array of one or of any dimensions."""
    if isinstance(kind, ArrayType | IndexedArrayType):
        return kind.ndim is Any or isinstance(kind.dtype, Generic)
    return isinstance(kind, Generic)


def hint_for_type(
    annotation: Any, otherwise: str = "use float, int, bool, vec3, array(dtype=float), …"
) -> str:
    """Return a hint for an annotation that is not a type of the kernel language."""
    name = getattr(annotation, "__name__", "")
    if name.startswith(("array", "indexedarray")):
        return "write array(dtype=float), array2d(dtype=vec3), …: arrays need their element type"
    if isinstance(annotation, type) and inspect.get_annotations(annotation):
        return f"decorate the class `{name}` with @wp.struct"
    return otherwise


def element_type(dtype: Any) -> Any:
    """The type of array elements that `dtype` means.

    Raises:
        TypeError: As for `canonical`; or it is a struct that holds indexed arrays, or that has no fields or
            contains such a struct.
    """
    found = pattern(dtype)
    if is_struct(found):
        found.numpy_dtype()
        empty = found.empty_struct()
        if empty is not None:
            raise TypeError(f"{empty.__name__} has no fields, and cannot be in elements of arrays")
    if is_compound(found) and not found.length:
        raise TypeError(f"{found.__name__} has no components, and cannot be in elements of arrays")
    return found


def from_numpy(dtype: np.dtype[Any]) -> type[Scalar] | None:
    """The scalar type with this NumPy dtype, or None."""
    if is_bfloat16(dtype):
        return bfloat16
    return next((s for s in SCALARS if s is not bfloat16 and s.numpy == dtype), None)


def bits_of(scalar: type[Scalar]) -> int:
    """Return the size of a scalar type in bits."""
    return 16 if scalar is bfloat16 else 8 * scalar.numpy.itemsize


def is_scalar(t: Any) -> builtins.bool:
    """True if `t` is a scalar type."""
    return isinstance(t, type) and issubclass(t, Scalar)


def is_compound(t: Any) -> builtins.bool:
    """True if values of type `t` have several components: vectors, matrices, quaternions."""
    return isinstance(t, type) and issubclass(t, Compound)


def is_vector(t: Any) -> builtins.bool:
    """True if `t` is a vector type."""
    return isinstance(t, type) and issubclass(t, Vector)


def is_matrix(t: Any) -> builtins.bool:
    """True if `t` is a matrix type."""
    return isinstance(t, type) and issubclass(t, Matrix)


def is_quaternion(t: Any) -> builtins.bool:
    """True if `t` is a quaternion type."""
    return isinstance(t, type) and issubclass(t, Quaternion)


def is_transformation(t: Any) -> builtins.bool:
    """True if `t` is a transform type."""
    return isinstance(t, type) and issubclass(t, Transformation)


@functools.cache
def scalar_of(t: Any) -> type[Scalar]:
    """The scalar type of a scalar, compound or array type; structs have several."""
    t = t.dtype if isinstance(t, ArrayType) else canonical(t)
    assert not is_struct(t)
    scalar: type[Scalar] = t.scalar if is_compound(t) else t
    return scalar


@functools.cache
def components(t: Any) -> int:
    """Return the number of scalars in one value (or array element) of type `t`; a struct counts as one."""
    t = t.dtype if isinstance(t, ArrayType) else canonical(t)
    return t.length if is_compound(t) else 1


@functools.cache
def value_shape(t: Any) -> tuple[int, ...]:
    """The shape of one value: `()` of a scalar, `(3,)` of a vec3, `(3, 3)` of a mat33."""
    t = canonical(t)
    return t.shape if is_compound(t) else ()


@functools.cache
def numpy_dtype(t: Any) -> np.dtype[Any]:
    """The NumPy dtype of the scalars of `t`; of a struct, its structured dtype."""
    t = t.dtype if isinstance(t, ArrayType) else canonical(t)
    return t.numpy_dtype() if is_struct(t) else scalar_of(t).numpy


@functools.cache
def is_float(t: Any) -> builtins.bool:
    """True if values of type `t` have derivatives; a struct has them if a field has."""
    t = t.dtype if isinstance(t, ArrayType) else canonical(t)
    if is_struct(t):
        return any(is_float(leaf.type) for leaf in t.leaves())
    return scalar_of(t) in FLOATS


def conversion(t: Any) -> str:
    """Return the text of a conversion to the scalar type `t`, with `tapedebug` imported as `wp`."""
    plain = {float32: "float", int32: "int", bool: "bool"}
    return f"{plain.get(t) or 'wp.' + type_name(t)}(…)"


def type_name(t: Any) -> str:
    """The name of a type in messages: `float32`, `vec3`, `mat23`, `array(dtype=vec3, ndim=2)`."""
    if isinstance(t, tuple):
        return f"tuple[{', '.join('...' if part is ... else type_name(part) for part in t)}]"
    if isinstance(t, ArrayType | IndexedArrayType):
        dims = "" if t.ndim == 1 else ", ndim=Any" if t.ndim is Any else f", ndim={t.ndim}"
        word = "array" if isinstance(t, ArrayType) else "indexedarray"
        return f"{word}(dtype={type_name(t.dtype)}{dims})"
    return getattr(t, "__name__", None) or str(t)


def expression(t: Any, package: str = "wp") -> str:
    """Return the text of a type in a program: `wp.vec3`, `wp.types.matrix((2, 3), wp.float32)`."""
    name = type_name(t)
    if name in NAMED or not is_compound(t):
        return f"{package}.{name}"
    scalar = f"{package}.{t.scalar.__name__}"
    if is_vector(t):
        return f"{package}.types.vector({t.length}, {scalar})"
    if is_matrix(t):
        return f"{package}.types.matrix({t.shape}, {scalar})"
    return f"{package}.types.{'quaternion' if is_quaternion(t) else 'transformation'}({scalar})"


vec2 = vec2f = vector(2, float32)
vec3 = vec3f = vector(3, float32)
vec4 = vec4f = vector(4, float32)
vec2d, vec3d, vec4d = vector(2, float64), vector(3, float64), vector(4, float64)
vec2i, vec3i, vec4i = vector(2, int32), vector(3, int32), vector(4, int32)
mat22 = mat22f = matrix((2, 2), float32)
mat33 = mat33f = matrix((3, 3), float32)
mat44 = mat44f = matrix((4, 4), float32)
mat22d, mat33d, mat44d = matrix((2, 2), float64), matrix((3, 3), float64), matrix((4, 4), float64)
quat = quatf = quaternion(float32)
quatd = quaternion(float64)
transform = transformf = transformation(float32)
transformd = transformation(float64)
spatial_vector = spatial_vectorf = vector(6, float32)
spatial_vectord = vector(6, float64)
spatial_matrix = spatial_matrixf = matrix((6, 6), float32)
spatial_matrixd = matrix((6, 6), float64)

_FLOAT_SUFFIXES = [(float32, "f"), (float16, "h"), (float32, ""), (float64, "d")]
_FLOAT_TYPES: dict[str, Callable[[Any], type]] = {
    "mat22": functools.partial(matrix, (2, 2)),
    "mat33": functools.partial(matrix, (3, 3)),
    "mat44": functools.partial(matrix, (4, 4)),
    "quat": quaternion,
    "transform": transformation,
    "spatial_vector": functools.partial(vector, 6),
    "spatial_matrix": functools.partial(matrix, (6, 6)),
}
NAMED: dict[str, type] = {
    **{scalar.__name__: scalar for scalar in SCALARS},
    **{
        f"vec{length}{suffix}": vector(length, scalar)
        for length in (2, 3, 4)
        for scalar, suffix in [*SUFFIXES.items(), (float32, "f")]
        if scalar not in (bool, bfloat16)
    },
    **{
        f"{name}{suffix}": make(scalar)
        for name, make in _FLOAT_TYPES.items()
        for scalar, suffix in _FLOAT_SUFFIXES
    },
}
"""The types that programs call by name."""
