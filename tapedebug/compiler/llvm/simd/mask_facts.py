"""Facts about masks that need no computation: comparisons of integers that count from lane to lane.

Whether all 16 lanes of `i > 0` hold follows from the first and the last one. Most blocks of threads are that
simple; where one is, a few operations on single numbers spare those on vectors.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from tapedebug._dataclass import dataclass

if TYPE_CHECKING:
    from tapedebug.compiler.llvm.simd.vector_values import LinearValue

MOST = 1 << 16
"""The largest step from lane to lane with which integers count up without passing their limit unseen."""


@dataclass(frozen=True)
class Known:
    """A mask that is the same for all lanes: a register, or `true` or `false`."""

    value: str


@dataclass(frozen=True)
class Compared:
    """Integers that count upward, each compared with the same number."""

    sign: type[ast.cmpop]
    kind: str
    line: LinearValue
    number: str


@dataclass(frozen=True)
class Chosen:
    """`select`, of masks: also how `and` and `or` are written."""

    condition: Fact
    yes: Fact
    no: Fact


Fact = Known | Compared | Chosen | None
"""The comparison or choice that a mask is the result of; None if unknown."""

MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq
}  # fmt: skip

Tests = dict[type[ast.cmpop], tuple[tuple[str, str], ...]]
"""For each comparison: how LLVM compares the first or last lane's integer with the number."""

ALL: Tests = {
    ast.Lt: (("slt", "last"),),
    ast.LtE: (("sle", "last"),),
    ast.Gt: (("sgt", "first"),),
    ast.GtE: (("sge", "first"),),
    ast.NotEq: (("sgt", "first"), ("slt", "last")),
}
"""Tests of which one suffices for a comparison to hold in all lanes."""

NONE: Tests = {
    ast.Lt: (("sge", "first"),),
    ast.LtE: (("sgt", "first"),),
    ast.Gt: (("sle", "last"),),
    ast.GtE: (("slt", "last"),),
    ast.Eq: (("sgt", "first"), ("slt", "last")),
}
"""Tests of which one suffices for it to hold in no lane."""


class MaskFacts:
    """Conditions that follow from masks without testing every lane, and the instructions that test them.

    Args:
        value: Writes an instruction that gives a value of a kind; gives its register.
        width: How many lanes there are.
    """

    def __init__(self, value: Callable[[str, str], str], width: int) -> None:
        self._value, self._width = value, width
        self.of: dict[str, Fact] = {}

    def compared(
        self, sign: ast.cmpop, kind: str, left: LinearValue | None, right: LinearValue | None
    ) -> Fact:
        """Return the fact that a comparison of integers establishes."""
        of: type[ast.cmpop] = type(sign)
        if left is not None and not left.stride:
            left, right, of = right, left, MIRRORED.get(of, of)
        if left is None or right is None or right.stride or left.unless is not None:
            return None
        return Compared(of, kind, left, right.base) if 0 < left.stride <= MOST else None

    def sure(self, fact: Fact, *, holds: bool) -> str | None:
        """A register that is true only where a mask surely holds in all lanes, or in none; None without one.

        Args:
            fact: How the mask came about.
            holds: In all of them; else in none.
        """
        return self._sure(fact, holds, {})

    def _sure(self, fact: Fact, holds: bool, found: dict[tuple[int, bool], str | None]) -> str | None:
        key = id(fact), holds
        if key not in found:
            match fact:
                case Known(value):
                    found[key] = value if holds else self._value("b1", f"xor i1 {value}, true")
                case Compared():
                    found[key] = self._tested(fact, (ALL if holds else NONE).get(fact.sign, ()))
                case Chosen(condition, yes, no):
                    ways = (
                        (self._sure(condition, True, found), self._sure(yes, holds, found)),
                        (self._sure(condition, False, found), self._sure(no, holds, found)),
                        (self._sure(yes, holds, found), self._sure(no, holds, found)),
                    )
                    found[key] = self._any(
                        [self._value("b1", f"and i1 {a}, {b}") for a, b in ways if a and b]
                    )
                case None:
                    found[key] = None
        return found[key]

    def _tested(self, fact: Compared, tests: tuple[tuple[str, str], ...]) -> str | None:
        kind, line = fact.kind, fact.line
        last = self._value(kind, f"add {kind} {line.base}, {line.stride * (self._width - 1)}")
        lanes = {"first": line.base, "last": last}
        found = self._any(
            [self._value("b1", f"icmp {how} {kind} {lanes[at]}, {fact.number}") for how, at in tests]
        )
        if found is None or line.rises:
            return found
        # Integers that pass their limit between two lanes do not count upward.
        counts = self._value("b1", f"icmp sle {kind} {line.base}, {last}")
        return self._value("b1", f"and i1 {counts}, {found}")

    def _any(self, found: list[str]) -> str | None:
        total = found[0] if found else None
        for other in found[1:]:
            total = self._value("b1", f"or i1 {total}, {other}")
        return total
