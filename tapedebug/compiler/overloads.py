"""Kernels for several types: `overload` compiles a version for given ones before a launch does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapedebug._errors import KernelTypeError
from tapedebug.compiler.function import declared_types, origin_of, read_annotations
from tapedebug.compiler.kernel import Kernel
from tapedebug.lang import types as t


def overload(kernel: Any, arg_types: Mapping[str, Any] | Sequence[Any] | None = None) -> Kernel:
    """The version of a generic kernel for certain types.

    `overload(scale, [array(dtype=float), float])` gives the types of all parameters in order,
    `overload(scale, {"x": array(dtype=float)})` those of its generic parameters by name. As a decorator of a
    function with the kernel's name, and with annotations in place of types, it makes the version and leaves
    the kernel under its name. Launches make the versions that they need themselves.

    Args:
        kernel: A kernel with parameters of several types (`typing.Any`, `Float`, …); or what it decorates.
        arg_types: The types.

    Returns:
        The version, a kernel of its own; as a decorator, the generic kernel.

    Raises:
        KernelTypeError: The kernel is not generic, or the types do not fit its parameters.
    """
    if arg_types is None and not isinstance(kernel, Kernel):
        return _decorated(kernel, sys._getframe(1))
    _require_generic(kernel)
    declared = {param.name: param.type for param in kernel.signature}
    if arg_types is None:
        arg_types = {}
    if not isinstance(arg_types, Mapping):
        if len(arg_types) != len(declared):
            raise KernelTypeError(
                f"kernel `{kernel.__name__}`: overload() takes {len(declared)} types, one for each parameter;"
                f" got {len(arg_types)}",
                hint=f"write overload({kernel.__name__}, [{', '.join(declared)}]) with their types",
            )
        arg_types = dict(zip(declared, arg_types, strict=True))
    unknown = next((name for name in arg_types if name not in declared), None)
    missing = [name for name, kind in declared.items() if t.is_generic(kind) and name not in arg_types]
    if unknown is not None or missing:
        what = f"there is no parameter `{unknown}`" if unknown is not None else f"no type for `{missing[0]}`"
        raise KernelTypeError(
            f"kernel `{kernel.__name__}`: overload() was given {what}",
            hint=f"its parameters are {', '.join(declared)}",
        )
    types = [_type(kernel, name, arg_types.get(name, kind)) for name, kind in declared.items()]
    version: Kernel = kernel.instance(tuple(types))
    return version


def _require_generic(kernel: Any) -> None:
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(
            f"overload() takes a kernel; got {getattr(kernel, '__name__', kernel)!r}",
            hint="decorate it with @wp.kernel",
        )
    if not kernel.is_generic:
        raise KernelTypeError(
            f"kernel `{kernel.__name__}` takes one type for each parameter, so that it has no other versions",
            hint="annotate a parameter with a family of types, such as typing.Any or array(dtype=wp.Float)",
        )


def _type(kernel: Kernel, name: str, annotation: Any) -> Any:
    annotation = getattr(annotation, "kernel_type", annotation)  # an array stands for its type
    try:
        return (
            annotation if isinstance(annotation, t.ArrayType | t.IndexedArrayType) else t.pattern(annotation)
        )
    except TypeError:
        raise KernelTypeError(
            f"kernel `{kernel.__name__}`: {annotation!r} is not a type that `{name}` can have",
            hint="use float, wp.vec3, wp.array(dtype=float), …",
        ) from None


def _decorated(python: Callable[..., Any], frame: Any) -> Kernel:
    name = getattr(python, "__name__", repr(python))
    kernel = frame.f_locals.get(name, frame.f_globals.get(name))
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(
            f"overload() decorates a function with the name of a generic kernel; there is no kernel `{name}`",
            hint="define the kernel before, or write overload(kernel, types)",
        )
    read_annotations(python, frame)
    types = declared_types(python, origin_of(python, "overload"), "overload")
    overload(kernel, {key: kind for key, kind in types.items() if key != "return"})
    return kernel
