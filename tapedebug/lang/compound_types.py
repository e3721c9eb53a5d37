"""Compound types (vectors, matrices, quaternions, transforms), and their values outside kernels.

In kernels and in arrays a compound value is its components, one after the other (a matrix row by row).
"""

from __future__ import annotations

import builtins
import operator as python_operators
import typing
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from tapedebug.lang._scalars import Scalar


class Part(NamedTuple):
    """Components of a compound value that have a name together, such as the rotation of a transform."""

    start: int
    stop: int
    type: Any


class Compound:
    """A fixed number of components of one scalar type.

    Instances exist outside kernels only, as values to fill arrays and to pass to launches.

    Attributes:
        shape: The shape of one value: `(3,)` of a vec3, `(3, 3)` of a mat33.
        length: How many components one value has.
        scalar: Their type.
        letters: Names of the components; empty where they have none.
        named: The parts of several components that have names.
        word: What messages call a type of this kind.
    """

    shape: ClassVar[tuple[int, ...]]
    length: ClassVar[int]
    scalar: ClassVar[type[Scalar]]
    letters: ClassVar[str] = ""
    named: ClassVar[dict[str, Part]] = {}
    word: ClassVar[str] = "compound value"
    __slots__ = ("_values",)
    __array_priority__ = 1.0
    """Above NumPy's, whose numbers leave operators to the value: `np.float32(2) * v` is a vector."""

    def __init__(self, *values: Any) -> None:
        given = [n for value in values for n in _flat(value)]
        if not given:
            given = [0] * self.length
        elif len(given) == 1:
            given *= self.length
        if len(given) != self.length:
            raise TypeError(
                f"{type(self).__name__} takes {self.length} components, one value for all of them, "
                f"or none (zeros); got {len(given)}"
            )
        given = [self._wrapped(number) for number in given]
        object.__setattr__(self, "_values", np.array(given, dtype=self.scalar.numpy).reshape(self.shape))

    @classmethod
    def _wrapped(cls, value: Any) -> Any:
        """Return what is assigned to components; integers beyond their type wrap around, as in C."""
        if cls.scalar.numpy.kind not in "iu":
            return value
        if isinstance(value, tuple | list):
            return [cls._wrapped(each) for each in value]
        return cls.scalar(value) if type(value) is int else value

    def __class_getitem__(cls, chosen: Any) -> Any:
        """Return a type, as annotations write it: `Vector[float32, Literal[3]]`, `Quaternion[float32]`.

        Raises:
            TypeError: The numbers of components do not fit the kind of type.
        """
        from tapedebug.lang import types

        dtype, *sizes = chosen if isinstance(chosen, tuple) else (chosen,)
        sizes = [typing.get_args(size)[0] if _is_literal(size) else size for size in sizes]
        match cls.word, sizes:
            case "vector", [length]:
                return types.vector(length, dtype)
            case "matrix", [rows, columns]:
                return types.matrix((rows, columns), dtype)
            case "quaternion", []:
                return types.quaternion(dtype)
            case "transform", []:
                return types.transformation(dtype)
        raise TypeError(
            f"{cls.__name__}[…] takes a scalar type, and for vectors the length, for matrices rows and "
            f"columns; got {chosen!r}"
        )

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._values, dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.tolist())

    def __getitem__(self, index: Any) -> Any:
        """A component, or a row or slice, which is a value that shares its numbers with this one."""
        found = self._values[index]
        if not isinstance(found, np.ndarray) or not found.size or found.ndim > 2:
            return found
        from tapedebug.lang import types

        scalar = self.scalar
        kind = types.vector(len(found), scalar) if found.ndim == 1 else types.matrix(found.shape, scalar)
        part = object.__new__(kind)
        object.__setattr__(part, "_values", found)
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[index] = self._wrapped(value)

    def __getattr__(self, name: str) -> Any:
        if len(name) == 1 and name in self.letters:
            return self._values[self.letters.index(name)]
        if name in self.named:
            start, stop, kind = self.named[name]
            return kind(*self._values[start:stop])
        raise AttributeError(f"{type(self).__name__} has no component {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if len(name) == 1 and name in self.letters:
            self._values[self.letters.index(name)] = self._wrapped(value)
        elif name in self.named:
            start, stop, kind = self.named[name]
            self._values[start:stop] = np.asarray(kind(value))
        else:
            raise AttributeError(f"{type(self).__name__} has no component {name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(str(v) for v in self._values.reshape(-1))})"

    def __str__(self) -> str:
        """The components in brackets; of a matrix, a row a line."""
        rows = [f"[{', '.join(str(v) for v in row)}]" for row in np.atleast_2d(self._values)]
        return rows[0] if len(self.shape) == 1 else "[" + ",\n ".join(rows) + "]"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its type in words and its numbers: most types have no name to be found by."""
        return _unpickled, (in_words(type(self)), self._values)

    def __eq__(self, other: object) -> builtins.bool:
        if isinstance(other, tuple | list):
            return builtins.bool(np.array_equal(self._values, other))
        return isinstance(other, Compound) and builtins.bool(np.array_equal(self._values, other._values))

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._values.reshape(-1).tolist())))

    def __add__(self, other: Any) -> Any:
        return _evaluated("add", self, other)

    def __sub__(self, other: Any) -> Any:
        return _evaluated("sub", self, other)

    def __mul__(self, other: Any) -> Any:
        """A number times the value; of matrices and vectors, quaternions, or transforms, their product."""
        return _evaluated("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _evaluated("mul", other, self)

    def __matmul__(self, other: Any) -> Any:
        return _evaluated("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _evaluated("matmul", other, self)

    def __radd__(self, other: Any) -> Any:
        return _evaluated("add", other, self)

    def __rsub__(self, other: Any) -> Any:
        return _evaluated("sub", other, self)

    def __mod__(self, other: Any) -> Any:
        """The remainder of each component, with the sign of this value's."""
        return _evaluated("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _evaluated("mod", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _evaluated("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _evaluated("div", other, self)

    def __neg__(self) -> Any:
        return _evaluated("neg", self)

    def __pos__(self) -> Any:
        return self


def _is_literal(size: Any) -> builtins.bool:
    """True if a number of components is written `Literal[3]`."""
    origin: Any = typing.get_origin(size)
    return origin is Literal


def in_words(kind: Any) -> tuple[str, tuple[int, ...], str]:
    """A scalar or compound type in words that another process can make it from again."""
    if issubclass(kind, Scalar):
        return "scalar", (), kind.__name__
    return kind.word, kind.shape, kind.scalar.__name__


def from_words(word: str, shape: tuple[int, ...], scalar: str) -> Any:
    """Return the type that `in_words` described."""
    from tapedebug.lang import types

    kind = next(s for s in types.SCALARS if s.__name__ == scalar)
    if word == "vector":
        return types.vector(shape[0], kind)
    if word == "matrix":
        return types.matrix((shape[0], shape[1]), kind)
    if word == "scalar":
        return kind
    return types.quaternion(kind) if word == "quaternion" else types.transformation(kind)


def _unpickled(words: tuple[str, tuple[int, ...], str], values: np.ndarray[Any, Any]) -> Any:
    return from_words(*words)(*values.reshape(-1))


def _flat(value: Any) -> list[Any]:
    """The numbers of a component, of a vector, or of nested sequences of them."""
    return [value] if np.isscalar(value) else np.asarray(value).reshape(-1).tolist()


_PYTHON_OPERATORS = {"div": "truediv"}


def _evaluated(operation: str, *operands: Any) -> Any:
    """Evaluate an operator of kernels outside of them, with the same meaning; with NumPy's arrays, theirs."""
    if any(isinstance(operand, np.ndarray) for operand in operands):
        return getattr(python_operators, _PYTHON_OPERATORS.get(operation, operation))(
            *map(np.asarray, operands)
        )
    if not all(isinstance(o, Compound | float | int | np.generic) for o in operands):
        return NotImplemented
    from tapedebug.lang.numpy_eval import evaluate

    signs = {"add": "+", "sub": "-", "mul": "*", "matmul": "@", "div": "/", "mod": "%", "neg": "-"}
    sign = signs[operation]
    return evaluate(operation, f"`{sign}`", operands)


class Vector(Compound):
    """Base of the vector types."""

    word = "vector"
    __slots__ = ()


class Matrix(Compound):
    """Base of the matrix types: rows and columns, row by row in memory."""

    word = "matrix"
    __slots__ = ()


class Quaternion(Compound):
    """Base of the quaternion types: x, y, z, w, with w the real part."""

    letters = "xyzw"
    word = "quaternion"
    __slots__ = ()


class Transformation(Compound):
    """Base of the transform types: a translation `p` (x, y, z), then a rotation `q` (x, y, z, w)."""

    word = "transform"
    __slots__ = ()

    def __init__(self, *values: Any) -> None:
        """Seven numbers, or a translation and a rotation; without values the identity."""
        identity = (0, 0, 0, 0, 0, 0, 1)
        super().__init__(*(values if values else identity))
