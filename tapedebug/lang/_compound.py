"""Values of several scalars: vectors, matrices, quaternions; what programs hold of them outside kernels.

In kernels and in arrays a compound value is its components, one after the other (a matrix row by row).
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tapedebug.lang._scalars import Scalar


class Compound:
    """A fixed number of components of one scalar type.

    Instances exist outside kernels only, as values to fill arrays and to pass to launches.

    Attributes:
        shape: The shape of one value: `(3,)` of a vec3, `(3, 3)` of a mat33.
        length: How many components one value has.
        scalar: Their type.
        letters: Names of the components; empty where they have none.
        word: What messages call a type of this kind.
    """

    shape: ClassVar[tuple[int, ...]]
    length: ClassVar[int]
    scalar: ClassVar[type[Scalar]]
    letters: ClassVar[str] = ""
    word: ClassVar[str] = "compound value"
    __slots__ = ("_values",)

    def __init__(self, *values: Any) -> None:
        if len(values) == 1 and not np.isscalar(values[0]):
            values = tuple(np.asarray(values[0]).reshape(-1))
        elif len(values) == 1:
            values = values * self.length
        elif not values:
            values = (0,) * self.length
        elif len(values) == self.shape[0] and np.shape(values) == self.shape:
            values = tuple(np.asarray(values).reshape(-1))
        if len(values) != self.length:
            raise TypeError(
                f"{type(self).__name__} takes {self.length} components, one value for all of them, "
                f"or none (zeros); got {len(values)}"
            )
        self._values = np.array(values, dtype=self.scalar.numpy).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._values, dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[index] = value

    def __getattr__(self, name: str) -> Any:
        if len(name) == 1 and name in self.letters:
            return self._values[self.letters.index(name)]
        raise AttributeError(f"{type(self).__name__} has no component {name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(str(v) for v in self._values.reshape(-1))})"

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, Compound) and builtins.bool(np.array_equal(self._values, other._values))

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._values.reshape(-1).tolist())))

    def _combined(self, values: np.ndarray[Any, Any]) -> Any:
        return type(self)(*values.astype(self.scalar.numpy).reshape(-1))

    def __add__(self, other: Any) -> Any:
        return self._combined(self._values + np.asarray(other))

    def __sub__(self, other: Any) -> Any:
        return self._combined(self._values - np.asarray(other))

    def __mul__(self, other: Any) -> Any:
        return self._combined(self._values * np.asarray(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._combined(self._values / np.asarray(other))

    def __neg__(self) -> Any:
        return self._combined(-self._values)


class Vector(Compound):
    """Base of the vector types."""

    word = "vector"
    __slots__ = ()


class Matrix(Compound):
    """Base of the matrix types: rows and columns, row by row in memory."""

    word = "matrix"
    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        """A number times the matrix; of matrices, or a matrix and a vector, their product (as `@`)."""
        return self @ other if isinstance(other, Compound) else super().__mul__(other)

    def __matmul__(self, other: Any) -> Any:
        """The product with a matrix or a vector."""
        from tapedebug.lang import types

        product = self._values @ np.asarray(other)
        make = types.vector(len(product), self.scalar) if product.ndim == 1 else None
        kind = make or types.matrix(product.shape, self.scalar)
        return kind(*product.reshape(-1))


class Quaternion(Compound):
    """Base of the quaternion types: x, y, z, w, with w the real part."""

    letters = "xyzw"
    word = "quaternion"
    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        """A number times the quaternion, or the product of two."""
        if not isinstance(other, Quaternion):
            return super().__mul__(other)
        (ax, ay, az, aw), (bx, by, bz, bw) = self._values, other._values
        return type(self)(
            aw * bx + bw * ax + ay * bz - by * az,
            aw * by + bw * ay + az * bx - bz * ax,
            aw * bz + bw * az + ax * by - bx * ay,
            aw * bw - ax * bx - ay * by - az * bz,
        )
