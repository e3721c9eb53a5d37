"""Ranges of indices, from the thread index and from values known at launch."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.compiler.ir import For, Function, Op, Value, walk
from tapedebug.compiler.parallel_info import OPERATORS, Bound
from tapedebug.lang import types as t

DEPTH = 24
"""The depth to which operands are followed."""


@dataclass(frozen=True, slots=True)
class Range:
    """`own` times the thread's index on the axis that is cut, plus something from `low` to `high`."""

    own: int
    low: Bound
    high: Bound


def combined(kind: str, a: Bound, b: Bound) -> Bound:
    """An operator over two bounds; of numbers, the number."""
    if isinstance(a, int) and isinstance(b, int):
        return OPERATORS[kind](a, b)
    if kind in ("add", "sub") and b == 0:
        return a
    return (kind, a, b)


class Ranges:
    """The ranges of a function's integers.

    Args:
        function: The function.
        axis: The thread axis that is cut: threads have one index on those before.
    """

    def __init__(self, function: Function, axis: int = 0) -> None:
        self.axis = axis
        nodes = (node for block in function.blocks for node in walk(block))
        self.loops = {node.index: node for node in nodes if isinstance(node, For)}
        self.found: dict[Value, Range | None] = {}

    def of(self, value: Value, depth: int = DEPTH) -> Range | None:
        """Return the range of a value; None if it is not known before the thread runs."""
        if value not in self.found:
            self.found[value] = self._of(value, depth) if depth else None
        return self.found[value]

    def _of(self, value: Value, depth: int) -> Range | None:
        if value in self.loops:
            count = self.of(self.loops[value].count, depth - 1)
            return None if count is None or count.own else Range(0, 0, combined("sub", count.high, 1))
        op = value.op
        if op is None or value.type not in t.INTEGERS:
            return None
        if op.kind == "where":
            return self._chosen(op, depth - 1)
        if op.kind in ("const", "thread", "argument", "extent"):
            return _free(op, self.axis)
        found = [self.of(a, depth - 1) for a in op.args]
        known = [range for range in found if range is not None]
        return _made(op.kind, *known) if len(known) == len(found) else None

    def _chosen(self, op: Op, depth: int) -> Range | None:
        """One of two: the smaller or the larger, where that is what the condition says."""
        condition, a, b = op.args
        one, other = self.of(a, depth), self.of(b, depth)
        if one is None or other is None:
            return None
        test = condition.op
        kind = None
        if test is not None and test.kind in ("lt", "le", "gt", "ge") and set(test.args) == {a, b}:
            smaller = test.kind in ("lt", "le")
            kind = "min" if smaller == (test.args[0] is a) else "max"
        if one.own == other.own:
            if kind is not None:
                return Range(
                    one.own, combined(kind, one.low, other.low), combined(kind, one.high, other.high)
                )
            return Range(one.own, combined("min", one.low, other.low), combined("max", one.high, other.high))
        near, fixed = (one, other) if one.own else (other, one)
        if kind is None or near.own != 1 or fixed.own != 0:
            return None
        # Of threads 0 … size-1, relative to each.
        if kind == "max":
            return Range(1, near.low, combined("max", near.high, fixed.high))
        last = combined("sub", ("size", self.axis), 1)
        return Range(1, combined("min", near.low, combined("sub", fixed.low, last)), near.high)


def _free(op: Op, cut: int) -> Range:
    if op.kind == "const":
        return Range(0, int(op.data[0]), int(op.data[0]))
    if op.kind == "thread":
        axis = op.data[0]
        return Range(1, 0, 0) if axis == cut else Range(0, 0, combined("sub", ("size", axis), 1))
    bound = (op.kind, *op.data)
    return Range(0, bound, bound)


def _made(kind: str, *of: Range) -> Range | None:
    """Return the range of an operation's result."""
    match kind, of:
        case (("to_i64" | "to_i32"), (a,)):
            return a
        case "neg", (a,):
            return Range(-a.own, combined("sub", 0, a.high), combined("sub", 0, a.low))
        case "add", (a, b):
            return Range(a.own + b.own, combined("add", a.low, b.low), combined("add", a.high, b.high))
        case "sub", (a, b):
            return Range(a.own - b.own, combined("sub", a.low, b.high), combined("sub", a.high, b.low))
        case "mul", (a, b):
            return _product(a, b) if a.low == a.high and not a.own else _product(b, a)
        case "trip_count", (start, stop, step):
            return _count(start, stop, step)
    return None


def _product(factor: Range, other: Range) -> Range | None:
    """A range times one number."""
    number = factor.low
    if factor.own or factor.high != number:
        return None
    if number == 1:
        return other
    if other.own:
        return None
    ends = [combined("mul", number, other.low), combined("mul", number, other.high)]
    return Range(0, combined("min", *ends), combined("max", *ends))


def _count(start: Range, stop: Range, step: Range) -> Range | None:
    """Return the range of the iterations of a loop from `start` to `stop`."""
    if start.own or stop.own or not isinstance(step.low, int) or step.low != step.high or step.low == 0:
        return None
    way = combined("sub", stop.high, start.low) if step.low > 0 else combined("sub", start.high, stop.low)
    return Range(0, 0, combined("max", 0, combined("ceildiv", way, abs(step.low))))
