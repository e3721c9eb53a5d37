"""Numbers that remember how they came about, memory of such numbers, and kernels over it in plain Python.

Nothing here is shared with the package: a program of launches is evaluated thread by thread in float64, and
its gradient is accumulated over the operations in reverse. Memory is an object array of NumPy, so that views
alias as NumPy's do, and an overwritten element is another number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


class Unsure(Exception):
    """Two numbers that are compared are nearly the same: a rounding error decides."""


class Operations:
    """The operations of a run, in order: for each number what it was made of, with partial derivatives.

    Args:
        close: Numbers that are compared and differ by less may compare otherwise when they are rounded.
    """

    def __init__(self, close: float) -> None:
        self.close = close
        self.parents: list[tuple[tuple[int, float], ...]] = []

    def number(self, value: float, *parents: tuple[int, float]) -> Number:
        """A new number."""
        self.parents.append(parents)
        return Number(self, len(self.parents) - 1, value)

    def compared(self, a: Any, b: Any) -> float:
        """The difference of two numbers, whose order is beyond doubt.

        Raises:
            Unsure: It is not.
        """
        difference = plain(a) - plain(b)
        same = isinstance(a, Number) and isinstance(b, Number) and a.index == b.index
        if abs(difference) < self.close * max(1.0, abs(plain(a))) and not same:
            raise Unsure
        return difference

    def gradient(self, seeds: dict[int, float]) -> list[float]:
        """The derivative of the weighted sum by every number."""
        found = [0.0] * len(self.parents)
        for index, seed in seeds.items():
            found[index] += seed
        for index in range(len(found) - 1, -1, -1):
            if found[index]:
                for parent, partial in self.parents[index]:
                    found[parent] += partial * found[index]
        return found


class Number:
    """A float64 with a place in the list of operations."""

    __slots__ = ("index", "of", "value")

    def __init__(self, of: Operations, index: int, value: float) -> None:
        self.of, self.index, self.value = of, index, value

    def made(self, value: float, partial: float) -> Number:
        """The result of a function of this number alone."""
        return self.of.number(value, (self.index, partial))

    def with_other(self, other: Any, value: float, own: float, others: float) -> Number:
        """The result of a function of two numbers; a plain one is constant."""
        if isinstance(other, Number):
            return self.of.number(value, (self.index, own), (other.index, others))
        return self.made(value, own)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return NotImplemented
        return self.with_other(other, self.value + plain(other), 1.0, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Number:
        return self.with_other(other, self.value - plain(other), 1.0, -1.0)

    def __rsub__(self, other: float) -> Number:
        return self.made(other - self.value, -1.0)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return NotImplemented
        return self.with_other(other, self.value * plain(other), plain(other), self.value)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Number:
        by = plain(other)
        return self.with_other(other, self.value / by, 1.0 / by, -self.value / by / by)

    def __rtruediv__(self, other: float) -> Number:
        return self.made(other / self.value, -other / self.value**2)

    def __neg__(self) -> Number:
        return self.made(-self.value, -1.0)

    def __lt__(self, other: Any) -> bool:
        return self.of.compared(self, other) < 0

    def __gt__(self, other: Any) -> bool:
        return self.of.compared(self, other) > 0


def plain(x: Any) -> float:
    """The value."""
    return x.value if isinstance(x, Number) else float(x)


class Vector:
    """Three numbers: in a variable, or three elements of memory."""

    def __init__(self, *values: Any) -> None:
        self.cells: Any = values[0] if len(values) == 1 else _row(values)

    def __getitem__(self, k: int) -> Any:
        return self.cells[k]

    def __setitem__(self, k: int, value: Any) -> None:
        self.cells[k] = value

    def __add__(self, other: Vector) -> Vector:
        return Vector(*(a + b for a, b in zip(self.cells, other.cells, strict=True)))

    def __sub__(self, other: Vector) -> Vector:
        return Vector(*(a - b for a, b in zip(self.cells, other.cells, strict=True)))

    def __mul__(self, by: Any) -> Vector:
        return Vector(*(a * by for a in self.cells))

    __rmul__ = __mul__

    def __neg__(self) -> Vector:
        return Vector(*(-a for a in self.cells))


def _row(values: Any) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


class Array:
    """Memory as a kernel sees it: numbers, integers, or vectors of the numbers on the last axis."""

    def __init__(self, cells: Any, vectors: bool = False) -> None:
        self.cells, self.vectors = cells, vectors
        self.shape = cells.shape[:-1] if vectors else cells.shape

    def __getitem__(self, at: Any) -> Any:
        found = self.cells[at]
        return Vector(found) if self.vectors else found

    def __setitem__(self, at: Any, value: Any) -> None:
        self.cells[at] = value.cells.copy() if self.vectors else value


class Structs:
    """An array of structs: the memory of each field."""

    def __init__(self, fields: dict[str, Array]) -> None:
        self.fields = fields
        self.shape = next(iter(fields.values())).shape

    def __getitem__(self, at: Any) -> Any:
        return Struct(self, at)


class Struct:
    """One element of an array of structs."""

    def __init__(self, array: Structs, at: Any) -> None:
        self.__dict__["array"], self.__dict__["at"] = array, at

    def __getattr__(self, name: str) -> Any:
        if name not in self.array.fields:
            raise AttributeError(name)
        return self.array.fields[name][self.at]

    def __setattr__(self, name: str, value: Any) -> None:
        self.array.fields[name][self.at] = value


@dataclass(frozen=True)
class Row:
    """A struct that holds an array."""

    data: Array
    gain: float


class Rows(list[Row]):
    """An array of such structs."""

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)


def _function(f: Callable[[float], float], slope: Callable[[float, float], float]) -> Any:
    """A function of one number, by its value and its derivative, which gets argument and result."""

    def apply(x: Any) -> Any:
        value = f(plain(x))
        return x.made(value, slope(plain(x), value)) if isinstance(x, Number) else value

    return staticmethod(apply)


class Library:
    """The namespace that kernels call as `wp`."""

    def __init__(self) -> None:
        self.thread: tuple[int, ...] = ()

    def tid(self) -> Any:
        return self.thread[0] if len(self.thread) == 1 else self.thread

    sin = _function(math.sin, lambda x, r: math.cos(x))
    cos = _function(math.cos, lambda x, r: -math.sin(x))
    tanh = _function(math.tanh, lambda x, r: 1.0 - r * r)
    sqrt = _function(math.sqrt, lambda x, r: 0.5 / r)
    exp = _function(math.exp, lambda x, r: r)

    @staticmethod
    def min(a: Any, b: Any) -> Any:
        return a if a < b else b

    @staticmethod
    def max(a: Any, b: Any) -> Any:
        return a if a > b else b

    @staticmethod
    def where(condition: bool, a: Any, b: Any) -> Any:
        return a if condition else b

    @staticmethod
    def dot(a: Vector, b: Vector) -> Any:
        return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]

    @staticmethod
    def cross(a: Vector, b: Vector) -> Vector:
        return Vector(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])

    @staticmethod
    def atomic_add(array: Array, *rest: Any) -> None:
        *at, value = rest
        array[_place(at)] = array[_place(at)] + value

    @staticmethod
    def atomic_sub(array: Array, *rest: Any) -> None:
        *at, value = rest
        array[_place(at)] = array[_place(at)] - value

    @staticmethod
    def atomic_max(array: Array, at: int, value: Any) -> None:
        array[at] = Library.max(value, array[at])

    @staticmethod
    def atomic_min(array: Array, at: int, value: Any) -> None:
        array[at] = Library.min(value, array[at])


def _place(at: list[int]) -> Any:
    return at[0] if len(at) == 1 else tuple(at)
