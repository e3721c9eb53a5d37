"""`@struct`: make a struct type of the kernel language from an annotated class."""

from __future__ import annotations

import inspect
import sys
import warnings
import weakref
from types import FrameType, FunctionType, MappingProxyType, SimpleNamespace
from typing import Any

from tapedebug._errors import KernelTypeError, TapedebugWarning
from tapedebug.lang import types as t
from tapedebug.lang.struct_types import Field, Struct

_KNOWN: weakref.WeakValueDictionary[Any, type[Struct]] = weakref.WeakValueDictionary()
"""Structs by what defines them: a notebook cell that runs again gives the same type."""

_OWN = ("__module__", "__qualname__", "__doc__", "__annotations__", "__dict__", "__weakref__")
_PYTHON = (
    "__firstlineno__",
    "__static_attributes__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
)


def struct(cls: type) -> Any:
    """Decorate a class whose annotations are the fields of a struct: numbers, vectors, arrays, structs.

    Args:
        cls: Such as `class Particle: pos: vec3; mass: float`. Fields begin as zeros, arrays as None; default
            values are not used, and a warning says so. The fields of base classes come first.

    Returns:
        The type: call it for an instance, annotate parameters with it, use it as `dtype` of arrays.

    Raises:
        KernelTypeError: It is no class, or a field is of a type that the kernel language does not have.
    """
    fields = _fields(cls, sys._getframe(1))
    methods = {
        name: value
        for base in reversed(cls.__mro__[:-1])
        if base is not Struct
        for name, value in vars(base).items()
        if name not in (*_OWN, *_PYTHON, "fields", "vars") and name not in fields
    }
    key = (cls.__module__, cls.__qualname__, tuple(fields.items()))
    known = None if methods else _KNOWN.get(key)
    if known is not None:
        return known
    content = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": inspect.get_annotations(cls),
        **methods,
        "fields": MappingProxyType(fields),
        "vars": MappingProxyType({name: Field(name, kind) for name, kind in fields.items()}),
    }
    made: type[Struct] = type(cls.__name__, (Struct,), content)
    if not methods:
        _KNOWN[key] = made
    return made


def _fields(cls: Any, frame: FrameType) -> dict[str, Any]:
    if not isinstance(cls, type):
        word = "a function" if isinstance(cls, FunctionType) else repr(cls)
        raise KernelTypeError(f"@struct decorates a class; got {word}", hint="write @struct above `class …:`")
    name = cls.__name__
    fields: dict[str, Any] = {}
    bases: tuple[Any, ...] = cls.__mro__[1:-1]
    for base in reversed(bases):
        if t.is_struct(base):
            fields |= base.fields
        elif base is not Struct:
            scope = SimpleNamespace(f_globals=vars(sys.modules[base.__module__]), f_locals=dict(vars(base)))
            fields |= _declared(base, name, scope)
    return fields | _declared(cls, name, frame)


def _declared(cls: type, name: str, frame: FrameType | SimpleNamespace) -> dict[str, Any]:
    """Return the fields that a class itself declares for the struct `name`."""
    fields = {}
    for label, annotation in inspect.get_annotations(cls).items():
        if label.startswith("__"):
            raise KernelTypeError(
                f"struct `{name}`: a field cannot be called `{label}`", hint="choose another name"
            )
        fields[label] = _type(name, label, _evaluated(name, label, annotation, frame))
        if label in vars(cls):
            _warn_of_default(name, label, vars(cls)[label])
    return fields


def _warn_of_default(name: str, label: str, value: Any) -> None:
    """Warn of a default value, which neither this engine nor NVIDIA Warp uses."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tapedebug"):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"struct `{name}`: the default value {value!r} of `{label}` is not used: fields begin as zeros, "
        f"as in NVIDIA Warp\n  = hint: write `{label}: …` only, and assign it to an instance",
        TapedebugWarning,
        stacklevel=level,
    )


def _evaluated(struct_name: str, label: str, annotation: Any, frame: FrameType | SimpleNamespace) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, frame.f_globals, frame.f_locals)
    except Exception as error:
        hint = "correct it, or use types that are known there"
        if annotation == struct_name:
            hint = "a struct cannot hold itself: keep the index of another element instead"
        raise KernelTypeError(
            f"struct `{struct_name}`: the type `{annotation}` of `{label}` cannot be read "
            f"({type(error).__name__}: {error})",
            hint=hint,
        ) from None


def _type(struct_name: str, label: str, annotation: Any) -> Any:
    if isinstance(annotation, t.ArrayType | t.IndexedArrayType):
        if annotation.ndim is Any:
            raise KernelTypeError(
                f"struct `{struct_name}`: the array `{label}` can have any number of dimensions",
                hint="state the number: array[float, Literal[2]]",
            )
        return annotation
    try:
        return t.canonical(annotation)
    except TypeError:
        shown = getattr(annotation, "__name__", repr(annotation))
        raise KernelTypeError(
            f"struct `{struct_name}`: the type `{shown}` of `{label}` is not a type of the kernel language",
            hint=t.hint_for_type(annotation),
        ) from None
