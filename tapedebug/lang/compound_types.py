"""Compound types (vectors, matrices, quaternions, transforms), and their values outside kernels.

In kernels and in arrays a compound value is its components, one after the other (a matrix row by row).
"""

from __future__ import annotations

import builtins
import ctypes
import operator as python_operators
import typing
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn

import numpy as np

from tapedebug._errors import ComponentError, ComponentKeyError
from tapedebug.lang._scalars import Scalar, float32, int32
from tapedebug.lang._scalars import bool as truth

PLAIN = (float32, int32, truth)
"""Scalar types whose numbers are Python numbers outside kernels; those of the others keep their type."""


class Returned:
    """The types of numbers that functions return outside kernels.

    Attributes:
        python: Numbers of every scalar type are Python numbers, as in Warp before 1.13.
    """

    python = False


def is_plain(scalar: type[Scalar]) -> builtins.bool:
    """True if numbers of a scalar type are Python numbers outside kernels."""
    return scalar in PLAIN or Returned.python


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
            raise ComponentError(
                f"{type(self).__name__} takes {self.length} components, one value for all of them, "
                f"or none (zeros); got {len(given)}",
                hint=f"pass {self.length} numbers",
            )
        object.__setattr__(self, "_values", self._numbers(given).reshape(self.shape))

    @classmethod
    def from_ptr(cls, ptr: int) -> Any:
        """Return a value with the components that are stored at an address.

        Raises:
            RuntimeError: The address is 0.
        """
        if not ptr:
            raise RuntimeError(f"{cls.__name__}.from_ptr: the address is 0")
        made = cls()
        ctypes.memmove(made._values.ctypes.data, ptr, made._values.nbytes)
        return made

    @classmethod
    def _numbers(cls, given: Any) -> np.ndarray[Any, Any]:
        """Return numbers as an array of the scalar type; integers beyond its range wrap around, as in C."""
        if cls.scalar.numpy.kind in "iu":
            flat = [cls.scalar(n) if type(n) is int else n for n in _flat(given)]
            given = flat[0] if np.isscalar(given) else flat
        try:
            if any(isinstance(n, str | bytes) for n in _flat(given)):
                raise TypeError
            return np.array(given, dtype=cls.scalar.numpy)
        except (TypeError, ValueError, OverflowError):
            raise ComponentError(
                f"components of {cls.__name__} are numbers ({cls.scalar.__name__}); got {given!r}",
                hint="pass numbers, or a sequence of them",
            ) from None

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

    def __bytes__(self) -> bytes:
        return bytes(self._values.tobytes())

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Yield the components as `v[i]` gives them; of a matrix, its rows."""
        if self._values.ndim == 1 and is_plain(self.scalar):
            return iter(self._values.tolist())
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """Return a component, or a row or slice, which is a value that shares its numbers with this one.

        A component of float32, int32 or bool is a Python number; others have their NumPy type.

        Raises:
            ComponentKeyError: There is no such component.
        """
        try:
            if not _is_index(index):
                raise IndexError
            found = self._values[index]
        except (IndexError, TypeError):
            self._no_component(index)
        if not isinstance(found, np.ndarray):
            return found.item() if is_plain(self.scalar) else found
        if not found.size or found.ndim > 2:
            return found
        from tapedebug.lang import types

        scalar = self.scalar
        kind = types.vector(len(found), scalar) if found.ndim == 1 else types.matrix(found.shape, scalar)
        part = object.__new__(kind)
        object.__setattr__(part, "_values", found)
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace a component, a row or a slice.

        Raises:
            ComponentKeyError: There is no such component.
            ComponentError: The value is no number, or not as many numbers as are replaced.
        """
        try:
            if not _is_index(index):
                raise IndexError
            place = self._values[index]
        except (IndexError, TypeError):
            self._no_component(index)
        numbers = self._numbers(value)
        if numbers.size not in (1, place.size) or (numbers.size == 1 and numbers.ndim > place.ndim):
            raise ComponentError(
                f"{type(self).__name__}[{index!r}] holds {place.size} of the components; got {value!r}",
                hint="assign as many numbers",
            )
        self._values[index] = numbers.reshape(place.shape) if numbers.size == place.size else numbers

    def _no_component(self, index: Any) -> NoReturn:
        wanted = "an int or a slice" if len(self.shape) == 1 else "an int, a slice or a pair of them"
        raise ComponentKeyError(
            f"{type(self).__name__} has no component [{index!r}]",
            hint=f"index it with {wanted}; its shape is {self.shape}",
        )

    def __getattr__(self, name: str) -> Any:
        if len(name) == 1 and name in self.letters:
            return self[self.letters.index(name)]
        if name in self.named:
            start, stop, kind = self.named[name]
            return kind(*self._values[start:stop])
        raise AttributeError(f"{type(self).__name__} has no component {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if len(name) == 1 and name in self.letters:
            self[self.letters.index(name)] = value
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


def _is_index(index: Any) -> builtins.bool:
    """True for an int, a slice, or a tuple of them."""
    if isinstance(index, tuple):
        return all(map(_is_index, index))
    return isinstance(index, int | np.integer | slice)


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
    if isinstance(value, list | tuple):  # NumPy would make floats of large integers
        return [number for each in value for number in _flat(each)]
    return [value] if np.isscalar(value) else np.asarray(value).reshape(-1).tolist()


_PYTHON_OPERATORS = {"div": "truediv"}


def _evaluated(operation: str, *operands: Any) -> Any:
    """Evaluate an operator of kernels outside of them, with the same meaning.

    With an array of NumPy, or after a number of NumPy of another type, it is NumPy's operator on arrays.
    """
    first, last = operands[0], operands[-1]
    mixed = isinstance(first, np.generic) and type(first) is not last.scalar.numpy.type
    if mixed or any(isinstance(operand, np.ndarray) for operand in operands):
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

    def get_row(self, index: int) -> Any:
        """Return a row, which shares its numbers with the matrix."""
        return self[index]

    def get_col(self, index: int) -> Any:
        """Return a column, which shares its numbers with the matrix."""
        return self[:, index]

    def set_row(self, index: int, values: Any) -> None:
        """Replace a row."""
        self[index] = values

    def set_col(self, index: int, values: Any) -> None:
        """Replace a column."""
        self[:, index] = values


class Quaternion(Compound):
    """Base of the quaternion types: x, y, z, w, with w the real part."""

    letters = "xyzw"
    word = "quaternion"
    __slots__ = ()


class Transformation(Compound):
    """Base of the transform types: a translation `p` (x, y, z), then a rotation `q` (x, y, z, w)."""

    word = "transform"
    __slots__ = ()

    def __init__(self, *values: Any, p: Any = None, q: Any = None) -> None:
        """Seven numbers, or a translation and a rotation; without values the identity.

        Args:
            values: Seven numbers, one for all of them, another transform, or `p` and `q` in this order.
            p: The translation, three numbers; without it none.
            q: The rotation, four numbers; without it none.

        Raises:
            ComponentError: There are not as many numbers, or a part is given twice.
        """
        parts = len(values) <= 2 and all(np.iterable(value) for value in values)
        if parts and not (len(values) == 1 and len(values[0]) == 7):
            given = {"p": p, "q": q}
            for name, value in zip("pq", values, strict=False):
                if given[name] is not None:
                    raise ComponentError(f"{type(self).__name__}: {name} is given twice")
                given[name] = value
            p, q = ((0, 0, 0) if given["p"] is None else given["p"]), given["q"]
            q = (0, 0, 0, 1) if q is None else q
            for name, value, count in (("p", p, 3), ("q", q, 4)):
                if not np.iterable(value) or len(tuple(value)) != count:
                    raise ComponentError(
                        f"{type(self).__name__}: {name} is {count} numbers; got {value!r}",
                        hint=f"write {type(self).__name__}(p=(x, y, z), q=(x, y, z, w))",
                    )
            values = (*p, *q)
        elif p is not None or q is not None:
            raise ComponentError(
                f"{type(self).__name__} takes its numbers, or p and q; got both",
                hint=f"write {type(self).__name__}(p=(x, y, z), q=(x, y, z, w))",
            )
        super().__init__(*values)
