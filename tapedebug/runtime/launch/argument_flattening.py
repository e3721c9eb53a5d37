"""Flatten launch arguments to match compiled kernels: structs and indexed arrays are split into parts."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from tapedebug._errors import LaunchError
from tapedebug.compiler.flatten import parts_of
from tapedebug.lang import types
from tapedebug.runtime.launch import argument_checks, held_arguments
from tapedebug.runtime.memory import held_arrays, struct_fields
from tapedebug.runtime.memory.array import array, new

Taker = Callable[[Any, Any, list[Any]], None]
"""A function (kernel, value, list) that appends the flat arguments of a value to a list."""

_TAKERS: weakref.WeakKeyDictionary[Any, tuple[Taker, ...]] = weakref.WeakKeyDictionary()
"""Cached functions that flatten the arguments of each kernel."""


def flattened(kernel: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one value for each flat parameter.

    Raises:
        LaunchError: An argument does not fit its parameter, or an array that the kernel uses is None.
    """
    takers = _TAKERS.get(kernel)
    if takers is None:
        takers = _TAKERS[kernel] = tuple(_taker(p, p.name, p.type) for p in kernel.signature)
    found: list[Any] = []
    for take, value in zip(takers, args, strict=True):
        take(kernel, value, found)
    if any(held_arrays.may_hold(param.type) for param in kernel.signature):
        held_arguments.refuse_overlaps(kernel, found)
    return tuple(found)


def _taker(param: Any, name: str, kind: Any) -> Taker:
    """Return the function that flattens a value of a type; its errors name `param`."""
    if types.is_struct(kind):
        return _struct_taker(param, name, kind)
    flat = parts_of(kind) is None
    may_be_none = isinstance(kind, types.ArrayType | types.IndexedArrayType)
    chosen = isinstance(kind, types.IndexedArrayType)
    dtype, ndim = (kind.dtype, kind.ndim) if may_be_none else (None, 0)
    held = held_arrays.may_hold(kind)

    def take(kernel: Any, value: Any, found: list[Any]) -> None:
        if value is None and may_be_none:
            _nothing(kernel, param, name, kind, found)
        elif flat:
            found.append(value)
        elif isinstance(value, array) and not chosen and value.dtype is dtype and value.ndim == ndim:
            found += (
                held_arguments.parts(kernel, value, name, len(found)) if held else struct_fields.leaves(value)
            )
        elif chosen and getattr(value, "kernel_type", None) == kind:
            data = value.data
            found += (
                held_arguments.parts(kernel, data, name, len(found)) if held else struct_fields.leaves(data)
            )
            found += value.tables
        else:
            raise _misfit(kernel, param, name, kind, value)

    return take


def _struct_taker(param: Any, name: str, kind: Any) -> Taker:
    fields = [(label, _taker(param, f"{name}.{label}", inner)) for label, inner in kind.fields.items()]

    def take(kernel: Any, value: Any, found: list[Any]) -> None:
        if value.__class__ is not kind:
            raise _misfit(kernel, param, name, kind, value)
        values = value.__dict__
        for label, inner in fields:
            inner(kernel, values[label], found)

    return take


def _nothing(kernel: Any, param: Any, name: str, kind: Any, found: list[Any]) -> None:
    """Append empty arrays in place of an array that is None, which the kernel must not use."""
    for part in kernel.params[len(found) :]:
        if part.owner != param.index or not (part.name + ".").startswith((f"{name}.", f"{name}[")):
            break
        if not kernel.analysis.absent(part.index):
            raise LaunchError(
                f"launch of {kernel.key}: `{name}` is None, and the kernel uses it",
                span=argument_checks.argument_site(param.index),
                notes=[argument_checks.declared(kernel, param)],
                hint=f"assign an array to it ({types.type_name(kind)}), or ask before: `if {name}:`",
            )
        found.append(new((0,) * part.type.ndim, part.type.dtype))


def _misfit(kernel: Any, param: Any, name: str, kind: Any, value: Any, what: str = "argument") -> LaunchError:
    got = _describe(value)
    wanted = types.type_name(kind)
    hint = f"pass {'an instance of ' if types.is_struct(kind) else ''}{wanted}"
    if types.is_struct(kind) and isinstance(value, type):
        hint = f"pass an instance: {wanted}()"
    elif types.is_struct(kind) and types.is_struct(type(value)) and type(value).__name__ == kind.__name__:
        got += ", of another struct of this name"
        hint = "define the kernel again after its struct"
    elif isinstance(kind, types.IndexedArrayType) and isinstance(value, array):
        hint = (
            f"pass indexedarray(data, [indices{', None' * (kind.ndim - 1)}]), or annotate `{name}` as array"
        )
    place = "" if name == param.name else f" (in argument {param.name!r})"
    return LaunchError(
        f"launch of {kernel.key}: {what} {name!r}{place} (number {param.index + 1}) "
        f"must be {wanted}; got {got}",
        span=None if what != "argument" else argument_checks.argument_site(param.index),
        notes=[argument_checks.declared(kernel, param)],
        hint=hint,
    )


def _describe(value: Any) -> str:
    kind = getattr(value, "kernel_type", None)
    if kind is not None:
        return f"{types.type_name(kind)} of shape {value.shape}"
    shown = repr(value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"


def check_and_flatten(kernel: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a kernel, one for each flat parameter.

    Raises:
        LaunchError: There are too many or too few arguments, or one does not fit.
    """
    argument_checks.check_number(kernel, args)
    return flattened(kernel, args)


def adjoints(kernel: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one adjoint for each flat parameter, from those of the declared arguments (None: its own)."""
    if kernel.flat:
        return given
    found: list[Any] = []
    for param, value in zip(kernel.signature, given, strict=False):
        names = [p.name for p in kernel.params if p.owner == param.index]
        parts = dict(named_parts(param.name, value))
        if value is not None and not set(parts) & set(names):
            raise _misfit(kernel, param, param.name, param.type, value, "the adjoint of argument")
        found += [parts.get(name) for name in names]
    return tuple(found)


def named_parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return a value with its name, or the arrays and numbers in it if it consists of structs."""
    if isinstance(value, types.Struct):
        fields = ((f"{name}.{label}", inner) for label, inner in value.__dict__.items())
        return [part for label, inner in fields for part in named_parts(label, inner)]
    if isinstance(getattr(value, "kernel_type", None), types.IndexedArrayType):
        tables = [(f"{name}.indices[{axis}]", table) for axis, table in enumerate(value.tables)]
        return [*named_parts(f"{name}.data", value.data), *tables]
    if isinstance(value, array) and types.is_struct(value.dtype):
        return [(name + leaf.part.removeprefix(value.part), leaf) for leaf in struct_fields.leaves(value)]
    return [(name, value)]


__all__ = ["adjoints", "check_and_flatten", "flattened", "named_parts"]
