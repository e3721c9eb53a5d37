"""Operations on integers: spelling, and value in Python's integers before it wraps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapedebug.lang import types as t

INTEGER_ROWS: dict[str, Callable[[int, int], int]] = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "-x": lambda x, y: -x,
    "x / y": lambda x, y: 0 if y == 0 else abs(x) // abs(y) * (-1 if x * y < 0 else 1),
    "x // y": lambda x, y: 0 if y == 0 else x // y,
    "x % y": lambda x, y: 0 if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1),
    "wp.abs(x)": lambda x, y: abs(x),
    "wp.sign(x)": lambda x, y: -1 if x < 0 else 1,
    "wp.min(x, y)": lambda x, y: min(x, y),
    "wp.max(x, y)": lambda x, y: max(x, y),
    "wp.clamp(x, y, y + one)": lambda x, y: min(max(x, y), y + 1),
    "wp.where(x < y, x, y)": lambda x, y: min(x, y),
    "integer(x == y)": lambda x, y: int(x == y),
    "integer(wp.bool(x))": lambda x, y: int(x != 0),
    "x & y": lambda x, y: x & y,
    "x | y": lambda x, y: x | y,
    "x ^ y": lambda x, y: x ^ y,
    "~x": lambda x, y: ~x,
    "x << (y & integer(3))": lambda x, y: x << (y & 3),
    "x >> (y & integer(3))": lambda x, y: x >> (y & 3),
    "integer((x > y) & (y > one) | (x > one) ^ (y < one))": lambda x, y: int(
        (x > y) & (y > 1) | (x > 1) ^ (y < 1)
    ),
    "count(x, y)": lambda x, y: len(range(x, y, 3)),
    "x << y": lambda x, y: x << y if y >= 0 else 0,
    "x >> y": lambda x, y: x >> y if y >= 0 else min(x, 0) >> 64,
    "wp.step(x)": lambda x, y: int(x < 0),
    "wp.nonzero(x)": lambda x, y: int(x != 0),
}
"""Spellings with operands `x` and `y` of a type `integer`, of which `one` is 1."""
INTEGER_HEADER = """
integer = wp.{scalar}
one = integer(1)

@wp.func
def count(x: integer, y: integer):
    n = integer(0)
    for k in range(x, y, integer(3)):
        n += one
    return n
"""
"""The names that the spellings use, for one type."""


def wrapped(number: int, scalar: type[t.Scalar]) -> int:
    """A number in the two's complement of a type's width."""
    limits = np.iinfo(scalar.numpy)
    return (number - int(limits.min)) % 2**limits.bits + int(limits.min)
