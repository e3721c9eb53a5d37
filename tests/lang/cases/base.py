"""A case of the checker: an operation's spelling, its value in NumPy, and its domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Domain = tuple[float, float]
WIDE: Domain = (-2.0, 2.0)
POSITIVE: Domain = (0.2, 3.0)
UNIT: Domain = (-0.9, 0.9)
AWAY: Domain = (0.5, 1.5)
"""Away from 0, for divisors."""
BEYOND: Domain = (1.2, 3.0)

KINDS: dict[str, tuple[str, Callable[[int], tuple[int, ...]]]] = {
    "s": ("scalar", lambda n: ()),
    "v": ("wp.types.vector({n}, scalar)", lambda n: (n,)),
    "w": ("wp.types.vector({n} + 1, scalar)", lambda n: (n + 1,)),
    "m": ("wp.types.matrix(({n}, {n}), scalar)", lambda n: (n, n)),
    "r": ("wp.types.matrix(({n}, {n} + 1), scalar)", lambda n: (n, n + 1)),
    "t": ("wp.types.matrix(({n} + 1, {n}), scalar)", lambda n: (n + 1, n)),
    "q": ("wp.types.quaternion(scalar)", lambda n: (4,)),
    "x": ("wp.types.transformation(scalar)", lambda n: (7,)),
    "h": ("wp.types.matrix((4, 4), scalar)", lambda n: (4, 4)),
    "u": ("wp.types.vector(6, scalar)", lambda n: (6,)),
    "k": ("wp.types.matrix((6, 6), scalar)", lambda n: (6, 6)),
}
"""Meanings of the letters of `Case.kinds`, with vectors of length n: the type, and a value's shape."""
FAMILY = {
    "s": "s",
    "v": "v",
    "w": "v",
    "u": "v",
    "m": "m",
    "r": "m",
    "t": "m",
    "h": "m",
    "k": "m",
    "q": "q",
    "x": "x",
}
"""The kind of value that each letter is: number, vector, matrix, quaternion, transform."""


@dataclass(frozen=True)
class Case:
    """One operation on scalars (`s`), vectors (`v`) and other kinds of values (`KINDS`).

    Attributes:
        name: The entry of the table.
        spelling: The call in a kernel, with `{0}`, `{1}`, … for the operands.
        value: The same in NumPy, float64; the axes of a value are the last ones.
        domains: Where each operand is sampled.
        kinds: One letter an operand, and after the arrow the result's.
        lengths: The lengths of vectors for which it is defined.
    """

    name: str
    spelling: str
    value: Callable[..., Any]
    domains: tuple[Domain, ...]
    kinds: str = ""
    lengths: tuple[int, ...] = (2, 3, 4)

    @property
    def operands(self) -> str:
        return self.kinds.partition(">")[0] or "s" * len(self.domains)

    @property
    def families(self) -> str:
        """The kinds of the operands, whatever their sizes."""
        return "".join(FAMILY[kind] for kind in self.operands)

    @property
    def result(self) -> str:
        return self.kinds.partition(">")[2] or "s"


def call(name: str, count: int) -> str:
    """Return the text of a call of a function."""
    return f"wp.{name}({', '.join(f'{{{i}}}' for i in range(count))})"


def each(
    name: str, spelling: str, value: Callable[..., Any], domains: tuple[Domain, ...], *kinds: str
) -> list[Case]:
    """The same operation on several kinds of values."""
    return [Case(name, spelling, value, domains, k) for k in kinds]


def wide(name: str, value: Callable[..., Any], kinds: str, lengths: tuple[int, ...] = (2, 3, 4)) -> Case:
    """A function that is defined everywhere."""
    count = len(kinds.partition(">")[0])
    return Case(name, call(name, count), value, (WIDE,) * count, kinds, lengths)


def dot(a: Any, b: Any) -> Any:
    """Sums over the last axis."""
    return (a * b).sum(-1)


def length(a: Any) -> Any:
    """Return the norm of vectors on the last axis."""
    return np.sqrt(dot(a, a))


def over(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of compound values and numbers, with the numbers spread over the components."""
    return lambda a, b: f(*np.broadcast_arrays(spread(a, b), spread(b, a)))


def spread(a: Any, other: Any) -> Any:
    """Numbers (one axis) with the axes of `other`."""
    return a.reshape(a.shape + (1,) * max(0, np.ndim(other) - np.ndim(a)))
