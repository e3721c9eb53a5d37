"""The parameters of a kernel as users declare them, and the flat ones that they are compiled to.

A struct parameter `s` becomes one parameter a field (`s.q`, `s.inner.x`); an array of structs one array a
field, which all are strided views of one buffer; an array field of their elements the memory of all those
arrays as one and the place of each in it (`s.q`, `s.q.places`); an indexed array its data and one array of
indices an axis (`a.data`, `a.indices[0]`). Everything after that knows numbers, compound values and arrays of
them only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tapedebug.compiler.params import Param
from tapedebug.lang import types as t


def parts_of(kind: Any) -> list[tuple[str, Any]] | None:
    """Return suffix and type of each part that a type is flattened to; None if it is not flattened."""
    if t.is_struct(kind):
        return [(f".{name}", field) for name, field in kind.fields.items()]
    if isinstance(kind, t.IndexedArrayType):
        tables = [(f".indices[{axis}]", t.ArrayType(t.int32)) for axis in range(kind.ndim)]
        return [(".data", kind.array), *tables]
    if isinstance(kind, t.HeldArrayType):
        return list(kind.parts)
    if isinstance(kind, t.ArrayType) and t.is_struct(kind.dtype):
        return [
            (
                f".{name}",
                (t.HeldArrayType if isinstance(field, t.ArrayType) else t.ArrayType)(field, kind.ndim),
            )
            for name, field in kind.dtype.fields.items()
        ]
    return None


def is_flat(signature: tuple[Param, ...]) -> bool:
    """True if parameters are compiled as they are declared."""
    return all(parts_of(param.type) is None for param in signature)


def flattened(signature: tuple[Param, ...]) -> tuple[Param, ...]:
    """The flat parameters."""
    found: list[Param] = []
    for owner in signature:
        for name, kind, _ in _leaves(owner.name, owner.type):
            found.append(Param(name, kind, len(found), owner.index))
    return tuple(found)


def held_params(signature: tuple[Param, ...]) -> frozenset[int]:
    """The flat parameters that arrays in elements are passed as: their memory, and their places."""
    leaves = (leaf for owner in signature for leaf in _leaves(owner.name, owner.type))
    return frozenset(number for number, (_, _, held) in enumerate(leaves) if held)


def _leaves(name: str, kind: Any, held: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Yield name and type of each flat parameter, and whether it is a part of arrays in elements."""
    parts = parts_of(kind)
    if parts is None:
        yield name, kind, held
        return
    held = held or isinstance(kind, t.HeldArrayType)
    for ending, inner in parts:
        yield from _leaves(name + ending, inner, held)
