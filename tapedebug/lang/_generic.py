"""Families of types, for kernels and functions that take several: `Any`, `Float`, `vector(length=Any, …)`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tapedebug.lang._scalars import FLOATS, INTEGERS, Scalar
from tapedebug.lang.compound_types import Compound


class Generic:
    """A family of types.

    Attributes:
        name: What messages call it.
    """

    name: str

    def takes(self, kind: Any) -> builtins.bool:
        """True if a type belongs to the family."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


class _Everything(Generic):
    name = "Any"

    def takes(self, kind: Any) -> builtins.bool:
        return True


class _Scalars(Generic):
    def __init__(self, name: str, members: Sequence[type[Scalar]]) -> None:
        self.name, self.members = name, members

    def takes(self, kind: Any) -> builtins.bool:
        return kind in self.members


class _Compounds(Generic):
    """The types of one base whose shape and scalar fit; None in `shape` fits any length."""

    def __init__(self, base: type[Compound], shape: tuple[int | None, ...], dtype: Any, name: str) -> None:
        self.base, self.shape, self.dtype, self.name = base, shape, dtype, name

    def takes(self, kind: Any) -> builtins.bool:
        if not (isinstance(kind, type) and issubclass(kind, self.base)):
            return False
        sizes = zip(self.shape, kind.shape, strict=True)
        is_family = isinstance(self.dtype, Generic)
        scalar = self.dtype.takes(kind.scalar) if is_family else self.dtype is kind.scalar
        return scalar and all(want in (None, size) for want, size in sizes)

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, _Compounds) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.base, self.shape, self.dtype


class _Callables(Generic):
    name = "Callable"

    def takes(self, kind: Any) -> builtins.bool:
        return kind is self


ANY = _Everything()
CALLABLE = _Callables()
Float = _Scalars("Float", FLOATS)
Int = _Scalars("Int", INTEGERS)
Number = _Scalars("Scalar", (*INTEGERS, *FLOATS))


def family(base: type[Compound], shape: Sequence[Any], dtype: Any) -> Any:
    """The compound types of these sizes and this scalar type, where one of them is a family; else None."""
    if not any(size is Any for size in shape) and not isinstance(dtype, Generic):
        return None
    sizes = tuple(None if size is Any else size for size in shape)
    shown = ["Any" if size is None else str(size) for size in sizes]
    scalar = repr(dtype) if isinstance(dtype, Generic) else dtype.__name__
    size = f"length={shown[0]}" if len(shown) == 1 else f"shape=({', '.join(shown)})"
    size = f"{size}, " if base.word in ("vector", "matrix") else ""
    return _Compounds(base, sizes, dtype, f"{base.word}({size}dtype={scalar})")
