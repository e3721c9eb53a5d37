"""Types of NVIDIA Warp, and the types of this engine that have the same structure.

Objects of Warp are recognised by their class and attributes: this module does not import Warp.
"""

from __future__ import annotations

import builtins
import enum
import types as python_types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tapedebug._float_types import MissingFloatTypeError, bfloat16_dtype
from tapedebug.lang import types as t
from tapedebug.lang.structs import struct
from tapedebug.watch.mirror.errors import MirrorError
from tapedebug.watch.mirror.warp_objects import WarpStruct

SCALARS = {scalar.__name__: scalar for scalar in t.SCALARS}
"""The scalar types by name, which both engines share."""
FAMILIES = {"Float": t.Float, "Int": t.Int, "Scalar": t.Number}
"""The families of scalar types by the names that Warp gives them."""
MAKERS: Mapping[str, Callable[[tuple[Any, ...], Any], Any]] = {
    "vec_t": lambda shape, scalar: t.vector(shape[0], scalar),
    "mat_t": lambda shape, scalar: t.matrix((shape[0], shape[1]), scalar),
    "quat_t": lambda shape, scalar: t.quaternion(scalar),
    "transform_t": lambda shape, scalar: t.transformation(scalar),
}
"""Functions of a shape and a scalar type that make compound types, by Warp's names of their kinds."""


def is_of_warp(value: object, *names: str) -> builtins.bool:
    """True if the class of a value is one of these of Warp, or derived from one."""
    return any(c.__name__ in names and c.__module__.partition(".")[0] == "warp" for c in type(value).__mro__)


def is_warp_class(value: object) -> builtins.bool:
    """True for a class that Warp defines, or that is derived from a compound type of Warp."""
    if not isinstance(value, type):
        return False
    return value.__module__.partition(".")[0] == "warp" or is_compound(value)


def is_compound(value: type) -> builtins.bool:
    """True for a vector, matrix, quaternion or transform type of Warp, and for a class derived from one."""
    return hasattr(value, "_wp_generic_type_str_")


def is_array_type(value: object) -> builtins.bool:
    """True for a type of array parameters: `wp.array(dtype=float)`, `wp.array2d[float]`."""
    return is_of_warp(value, "array", "indexedarray", "_ArrayAnnotationBase") and hasattr(value, "dtype")


def is_struct(value: object) -> builtins.bool:
    """True for a type that `wp.struct` made."""
    return is_of_warp(value, "Struct") and hasattr(value, "vars")


def type_of(kind: object) -> Any:
    """Return the type of this engine that has the structure of a type of Warp.

    Types that both engines share (`float`, `typing.Any`) are returned unchanged.

    Raises:
        MirrorError: There is none.
    """
    wanted: Any = kind
    if is_of_warp(kind, "Reference"):
        return t.Reference(type_of(wanted.dtype))
    if is_array_type(kind):
        return _array_type(wanted)
    if is_struct(kind):
        return struct_of(wanted)
    if isinstance(kind, TypeVar):
        return FAMILIES.get(kind.__name__, kind)
    if typing.get_origin(wanted) is tuple:
        return tuple[tuple(part if part is ... else type_of(part) for part in typing.get_args(wanted))]  # type: ignore[misc]
    if isinstance(kind, tuple):
        return tuple(type_of(part) for part in kind)
    if not is_warp_class(kind):
        return kind
    stem = str(getattr(kind, "_wp_generic_type_str_", ""))
    if stem in MAKERS:
        return _compound(stem, wanted)
    if wanted.__name__ == "bfloat16":
        try:
            bfloat16_dtype()
        except MissingFloatTypeError as error:
            raise MirrorError(f"the type `bfloat16` of Warp: {error.args[0]}") from None
    if wanted.__name__ in SCALARS:
        return SCALARS[wanted.__name__]
    raise MirrorError(f"the type `{name_of(kind)}` of Warp has no counterpart")


def name_of(kind: object) -> str:
    """Return the name of a type of Warp, as users write it."""
    return str(getattr(kind, "key", None) or getattr(kind, "__name__", None) or repr(kind))


def _compound(stem: str, kind: type) -> Any:
    of_warp: Any = kind
    *shape, scalar = of_warp._wp_type_params_
    return MAKERS[stem](tuple(shape), scalar if scalar is Any else type_of(scalar))


def _array_type(kind: object) -> Any:
    of_warp: Any = kind
    dtype, ndim = of_warp.dtype, of_warp.ndim
    made = t.IndexedArrayType if is_indexed(kind) else t.ArrayType
    if is_of_warp(kind, "fixedarray", "fabricarray", "indexedfabricarray", "_FabricArrayAnnotation"):
        raise MirrorError(f"a parameter is a {type(kind).__name__}, which this engine does not have")
    try:
        element: Any = dtype if dtype is Any else type_of(dtype)
        if t.is_struct(element) and element.holds_arrays():
            raise MirrorError(
                f"a parameter is an array of `{name_of(dtype)}`, whose elements hold arrays: a replay has "
                "copies of their memory, which the addresses in the elements do not lead to"
            )
        return made(element, ndim)
    except TypeError as error:
        raise MirrorError(f"an array parameter cannot be translated: {error}") from None


def is_indexed(value: object) -> builtins.bool:
    """True for an indexed array, or the type of one."""
    return is_of_warp(value, "indexedarray", "_IndexedArrayAnnotation")


def struct_of(kind: WarpStruct) -> Any:
    """Return the struct of this engine with the fields of one of Warp's, in the same layout.

    Raises:
        MirrorError: A field has a type without a counterpart, or the layout differs.
    """
    name = kind.cls.__name__
    fields = {label: type_of(var.type) for label, var in kind.vars.items()}
    plain = python_types.new_class(name)
    plain.__module__, plain.__qualname__ = kind.cls.__module__, kind.cls.__qualname__
    plain.__doc__, plain.__annotations__ = kind.cls.__doc__, fields
    try:
        found = struct(plain)
    except TypeError as error:
        raise MirrorError(f"the struct `{name}` cannot be translated: {error}") from None
    _require_layout(name, kind, found)
    return found


def _require_layout(name: str, kind: WarpStruct, found: type[t.Struct]) -> None:
    """Require that elements of arrays of a struct have the same layout in both engines.

    Raises:
        MirrorError: They do not.
    """
    try:
        ours: Any = found.numpy_dtype()
    except TypeError:  # it holds arrays, and is no element of one
        return
    theirs = {label: getattr(kind.ctype, label) for label in kind.vars}
    same = all(
        theirs[label].offset == ours.fields[label][1] and theirs[label].size == ours.fields[label][0].itemsize
        for label in kind.vars
    )
    if not same:
        raise MirrorError(f"elements of the struct `{name}` have another layout in this engine")


def value_of(value: object) -> Any:
    """Return a number or compound value of Warp as one of this engine; anything else unchanged."""
    given: Any = value
    if isinstance(value, enum.Enum) or not is_warp_class(type(value)):
        return value
    stem = getattr(type(value), "_wp_generic_type_str_", None)
    if stem in MAKERS:
        return type_of(type(value))(*_components(given))
    if type(value).__name__ in SCALARS and hasattr(value, "value"):
        return SCALARS[type(value).__name__](given.value)
    return value


def _components(value: object) -> list[Any]:
    """Return the components of a compound value in order, a matrix by rows."""
    of_warp: Any = value
    shape = of_warp._shape_
    if len(shape) == 2:
        return [of_warp[row, column] for row in range(shape[0]) for column in range(shape[1])]
    return [of_warp[index] for index in range(shape[0])]
