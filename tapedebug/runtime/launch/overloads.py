"""Launches of generic kernels: select the instance of the kernel by its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug.lang import types
from tapedebug.runtime.launch import argument_checks
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.interop import dtype_from_torch


def concrete(kernel: Any, args: tuple[Any, ...]) -> Any:
    """Return the kernel, or the instance of a generic one for the types of these arguments.

    Numbers have the type that they have in kernels: a Python float is float32, `np.float64(…)` float64.

    Raises:
        LaunchError: The number of arguments is wrong, or the type of one does not fit its parameter.
    """
    if not kernel.is_generic:
        return kernel
    argument_checks.check_number(kernel, args)
    kinds = []
    for param, value in zip(kernel.signature, args, strict=True):
        kind = _type_of(value, param.type) if types.is_generic(param.type) else param.type
        if not types.fits(param.type, kind):
            raise argument_checks.misfit(
                kernel, param, f"got {_describe(value, kind)}", _hint(param.type, kind)
            )
        kinds.append(kind)
    return kernel.instance(tuple(kinds))


def _type_of(value: Any, declared: Any) -> Any:
    """Return the type of an argument; None if it has none."""
    if isinstance(value, array):
        made = type(declared) if isinstance(declared, types.IndexedArrayType) else types.ArrayType
        return made(value.dtype, value.ndim)
    if isinstance(getattr(value, "kernel_type", None), types.IndexedArrayType):
        return value.kernel_type
    if argument_checks.is_tensor(value):
        return types.ArrayType(dtype_from_torch(value.dtype), value.ndim)
    if isinstance(getattr(value, "__array_interface__", None), dict) and not isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.ndim:
        scalar = types.from_numpy(value.dtype)
        return None if scalar is None else types.ArrayType(scalar, value.ndim)
    return types.type_of_value(value)


def _describe(value: Any, kind: Any) -> str:
    if isinstance(value, array | np.ndarray) and kind is not None:
        return f"{types.type_name(kind)} with shape {value.shape}"
    return argument_checks.value_and_type(value)


def _hint(declared: Any, kind: Any) -> str:
    if kind is None:
        return "pass an array, a number or a vector, whose type is known"
    return f"pass a value of another type, or annotate it as {types.type_name(kind)}"
