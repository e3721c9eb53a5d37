"""Columns of numbers as bytes, each as narrow as possible; none for columns that follow a formula."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

Integers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

T = TypeVar("T")

_WIDTHS = ("u1", "i1", "u2", "i2", "u4", "i4")
_WIDEST = "f8"
_FLOAT32 = np.finfo(np.float32)


MOST = (1 << 53) - 1
"""The largest integer that JavaScript represents exactly."""


class ColumnWriter:
    """Writer that collects columns.

    A column is described by a dict: ``length``, and

    - ``value`` alone: all entries are this number;
    - ``first`` and ``value``: the entries are `first`, `first + value`, `first + 2 * value`, …;
    - ``dtype``: the entries are in the bytes of that name, little-endian;
    - ``dtype`` and ``first``: the bytes are the differences from each entry to the next.

    Attributes:
        specs: The description of each column, JSON-compatible.
        data: The bytes of the columns that are not given by a formula.
    """

    def __init__(self) -> None:
        self.specs: dict[str, dict[str, Any]] = {}
        self.data: dict[str, bytes] = {}

    def integers(self, name: str, values: Sequence[int] | Integers) -> None:
        """Add a column of whole numbers."""
        try:
            column = np.asarray(values, np.int64)
        except OverflowError:  # only a forged file has numbers this large
            column = np.asarray([max(-MOST, min(MOST, value)) for value in values], np.int64)
        spec: dict[str, Any] = {"length": len(column)}
        self.specs[name] = spec
        steps = np.diff(column)
        if len(column) == 0 or not steps.any():
            spec["value"] = int(column[0]) if len(column) else 0
        elif (steps == steps[0]).all():
            spec |= {"first": int(column[0]), "value": int(steps[0])}
        else:
            plain, stepped = _width(column), _width(steps)
            if plain != _WIDEST and int(stepped[1]) < int(plain[1]):
                spec["first"] = int(column[0])
                column, plain = steps, stepped
            self._store(name, column, plain)

    def floats(self, name: str, values: Sequence[float] | Floats, *, exact: bool) -> None:
        """Add a column of floats: of 8 bytes if `exact`, else of 4 if their range permits it."""
        column = np.asarray(values, np.float64)
        missing = np.isnan(column)
        self.specs[name] = {"length": len(column)}
        if missing.all():
            self.specs[name]["value"] = "nan"
            return
        size = np.abs(column[np.isfinite(column) & (column != 0)])
        wide = len(size) > 0 and (size.max() > _FLOAT32.max or size.min() < _FLOAT32.tiny)
        self._store(name, column, "f8" if exact or wide else "f4")

    def _store(self, name: str, column: np.ndarray[Any, Any], dtype: str) -> None:
        self.specs[name]["dtype"] = dtype
        self.data[name] = column.astype(f"<{dtype}").tobytes()


def _width(column: Integers) -> str:
    """Return the narrowest type that holds all values of a column."""
    low, high = int(column.min()), int(column.max())
    for width in _WIDTHS:
        limits = np.iinfo(width)
        if limits.min <= low and high <= limits.max:
            return width
    return _WIDEST


class Table(Generic[T]):
    """Distinct items, and the position of each."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._known: dict[Hashable, int] = {}

    def add(self, key: Hashable, item: T) -> int:
        """Return the position of the item with this key; add `item` if it is new."""
        position = self._known.get(key)
        if position is None:
            position = self._known[key] = len(self.items)
            self.items.append(item)
        return position


def or_none(values: Iterable[int | None]) -> list[int]:
    """Return `values` with -1 for None."""
    return [-1 if value is None else value for value in values]


def or_nan(values: Iterable[float | None]) -> list[float]:
    """Return `values` with NaN for None."""
    return [math.nan if value is None else value for value in values]


def offsets_of(lengths: Sequence[int]) -> Integers:
    """Return the start of each of several consecutive lists, and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
