"""Types of array parameters: annotations such as `array(dtype=float, ndim=2)`."""

from __future__ import annotations

from typing import Any, Literal, Union, get_args, get_origin

MAX_DIMENSIONS = 4
"""Axes that an array or a launch can have."""


class ArrayAnnotation:
    """Base of the types of array parameters: annotations, also in unions such as `array[float] | None`."""

    __slots__ = ()

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007  (an instance: `|` would call this)

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007


def subscript_arguments(chosen: Any, ndim: int) -> tuple[Any, Any]:
    """Return element type and number of dimensions of `array[float]` or `array[float, Literal[2]]`.

    Args:
        chosen: What stands in the brackets.
        ndim: The number of dimensions if none is given; `array[float, Any]` takes every number.

    Raises:
        TypeError: It is not an element type, or one with the number of dimensions.
    """
    if not isinstance(chosen, tuple):
        return chosen, ndim
    match chosen:
        case dtype, size if size is Any or type(size) is int:
            return dtype, size
        case dtype, size if _is_literal(size) and len(get_args(size)) == 1:
            return dtype, get_args(size)[0]
    raise TypeError(
        "an array's brackets hold the element type, and the number of dimensions as Literal[2] or Any; "
        f"got {chosen!r}"
    )


def _is_literal(size: Any) -> bool:
    origin: Any = get_origin(size)
    return origin is Literal


class ArrayType(ArrayAnnotation):
    """The type of an array parameter: element type and number of dimensions (1 to 4, or `Any`)."""

    __slots__ = ("dtype", "ndim")

    def __init__(self, dtype: Any, ndim: Any = 1) -> None:
        from tapedebug.lang.types import pattern

        self.dtype = pattern(dtype)
        if ndim is not Any and ndim not in range(1, MAX_DIMENSIONS + 1):
            raise TypeError(f"an array has 1 to 4 dimensions; got ndim={ndim!r}")
        self.ndim: Any = ndim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayType) and (self.dtype, self.ndim) == (other.dtype, other.ndim)

    def __hash__(self) -> int:
        return hash((self.dtype, self.ndim))

    def __repr__(self) -> str:
        from tapedebug.lang.types import type_name

        return type_name(self)


class HeldArrayType:
    """The arrays that a field of the elements of an array of structs holds, one in each element.

    Args:
        array: The type of the field.
        ndim: The number of dimensions of the array of structs.
    """

    __slots__ = ("array", "ndim")

    def __init__(self, array: ArrayType, ndim: int) -> None:
        self.array, self.ndim = array, ndim

    @property
    def parts(self) -> list[tuple[str, ArrayType]]:
        """The flat parameters: the memory of all the arrays as one, and where in it each of them is.

        An entry of the second is the place of the first element (-1: none), then the length of each axis,
        then the stride of each in elements.
        """
        from tapedebug.lang.types import int64, vector

        entry = vector(1 + 2 * self.array.ndim, int64)
        return [("", ArrayType(self.array.dtype, 1)), (".places", ArrayType(entry, self.ndim))]


class IndexedArrayType(ArrayAnnotation):
    """The type of an indexed array parameter: element type and number of dimensions (1 to 4, or `Any`)."""

    __slots__ = ("array",)

    def __init__(self, dtype: Any, ndim: Any = 1) -> None:
        self.array = ArrayType(dtype, ndim)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.array.dtype

    @property
    def ndim(self) -> Any:
        """The number of dimensions; `Any` for every number."""
        return self.array.ndim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexedArrayType) and self.array == other.array

    def __hash__(self) -> int:
        return hash(("indexed", self.array))

    def __repr__(self) -> str:
        from tapedebug.lang.types import type_name

        return type_name(self)
