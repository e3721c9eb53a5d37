"""Types of array parameters: annotations such as `array(dtype=float, ndim=2)`."""

from __future__ import annotations

from typing import Any

MAX_DIMENSIONS = 4
"""Axes that an array or a launch can have."""


class ArrayType:
    """The type of an array parameter: element type and number of dimensions (1 to 4)."""

    __slots__ = ("dtype", "ndim")

    def __init__(self, dtype: Any, ndim: int = 1) -> None:
        from tapedebug.lang.types import pattern

        self.dtype = pattern(dtype)
        if ndim not in range(1, MAX_DIMENSIONS + 1):
            raise TypeError(f"an array has 1 to 4 dimensions; got ndim={ndim!r}")
        self.ndim = ndim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayType) and (self.dtype, self.ndim) == (other.dtype, other.ndim)

    def __hash__(self) -> int:
        return hash((self.dtype, self.ndim))

    def __repr__(self) -> str:
        from tapedebug.lang.types import type_name

        return type_name(self)


class IndexedArrayType:
    """The type of an indexed array parameter: element type and number of dimensions (1 to 4)."""

    __slots__ = ("array",)

    def __init__(self, dtype: Any, ndim: int = 1) -> None:
        self.array = ArrayType(dtype, ndim)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexedArrayType) and self.array == other.array

    def __hash__(self) -> int:
        return hash(("indexed", self.array))

    def __repr__(self) -> str:
        from tapedebug.lang.types import type_name

        return type_name(self)
