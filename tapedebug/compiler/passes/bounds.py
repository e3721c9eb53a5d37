"""Prove that indices are inside their arrays, by ranges before a launch or by a probe that runs first.

To test every index where it is used costs 25 to 50 times as much as a small kernel: threads do not run in
lanes or in chunks, and what a launch overwrites is copied. Most indices follow from the thread's number, from
arguments, loops and shapes, and from the conditions under which they are used: for these, the ends of a range
are compared with the shape once for each launch. The others are tested by a probe: the same function without
anything but what leads to an index. It writes nothing, so that it can run in lanes and chunks, and stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tapedebug.compiler.bounds import ALL, UNKNOWN, Reach, Reaches
from tapedebug.compiler.ir import (
    DIAGNOSTICS,
    FREE,
    MEMORY,
    NATIVE,
    Block,
    For,
    Function,
    If,
    Node,
    Op,
    Value,
    While,
    results_of,
    walk,
)
from tapedebug.compiler.parallel_info import Bound
from tapedebug.compiler.passes.dce import remove_dead_code
from tapedebug.compiler.passes.memory_regions import side_of
from tapedebug.compiler.passes.ranges import DEPTH, Range, Ranges, combined
from tapedebug.compiler.passes.rewriting import Rewriter
from tapedebug.lang import types as t

ORDERED = frozenset({"log_push", "log_load", "trace"})
"""Operations that tie threads to each other, so that there is no probe."""
COUNTING = (t.int32, t.int64)
"""Integers that do not wrap within `sharing.LIMIT`."""
EXACT = frozenset(
    {"add", "sub", "mul", "div", "neg", "abs", "sign", "sign0", "min", "max", "floor", "ceil", "trunc"}
    | {"where", "stop_gradient", "lt", "le", "gt", "ge", "eq", "ne", "isnan", "isfinite", "isinf", "sqrt"}
)
"""Functions of floats that give the same number however they are compiled; vector functions may not."""
BRANCHES = 3
"""The number of results of an `if` that may depend on each other; each is found once for each branch."""
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

Index = tuple[Value, Value]
"""An index and the length that it must be less than."""


def reaches(function: Function) -> Reaches:
    """The facts about the indices of a function."""
    finder = _Finder(function)
    written = {
        (side_of(op), op.data[0]): None
        for op in function.ops()
        if op.kind in MEMORY and not op.kind.startswith("load")
    }
    for op in function.ops():
        if op.kind in NATIVE:
            written |= {("value", param): None for param in op.data[0].writes}
    probed = {}
    for kind in (UNKNOWN, ALL):
        found = _probe(function, finder.unknown if kind == UNKNOWN else None)
        if found is not None and not {("value", param) for param in found[1]} & written.keys():
            probed[kind] = found[1]
    return Reaches(tuple(finder.known), bool(finder.unknown), probed, tuple(written))


def probe(function: Function, kind: str) -> Function:
    """The function that tests its indices and does nothing else; there must be one (`reaches`)."""
    found = _probe(function, _Finder(function).unknown if kind == UNKNOWN else None)
    assert found is not None
    return found[0]


# Ranges -----------------------------------------------------------------------------------------------------


class _Limited(Ranges):
    """Ranges of values over all threads, within the conditions that hold where they are used."""

    def __init__(self, function: Function) -> None:
        super().__init__(function, axis=-1)
        self.nodes = {
            result: (node, place)
            for block in function.blocks
            for node in walk(block)
            if isinstance(node, If)
            for place, result in enumerate(results_of(node))
        }
        self.limits: dict[Any, list[tuple[str, Bound]]] = {}
        self.branches = 0  # within how many the value is whose range is being found

    @contextmanager
    def where(self, condition: Value, *, holds: bool) -> Iterator[None]:
        """The conditions that hold in a branch."""
        before = self.found, self.limits
        self.limits = {key: list(limits) for key, limits in self.limits.items()}
        self._learn(condition, holds, DEPTH)
        self.found = {}
        yield
        self.found, self.limits = before

    def _learn(self, condition: Value, holds: bool, depth: int) -> None:
        if not depth:
            return
        if condition in self.nodes:
            node, place = self.nodes[condition]
            parts = node.condition, node.then.yields[place], node.orelse.yields[place]
        elif condition.op is not None and condition.op.kind == "where":
            parts = condition.op.args  # type: ignore[assignment]
        else:
            self._learn_of(condition.op, holds, depth - 1)
            return
        test, then, orelse = parts
        if holds and _is(orelse, False):
            self._learn(test, True, depth - 1)
            self._learn(then, True, depth - 1)
        elif not holds and _is(then, True):
            self._learn(test, False, depth - 1)
            self._learn(orelse, False, depth - 1)

    def _learn_of(self, op: Op | None, holds: bool, depth: int) -> None:
        if op is None:
            return
        if op.kind == "not":
            self._learn(op.args[0], not holds, depth)
        elif op.kind == ("and" if holds else "or"):
            for part in op.args:
                self._learn(part, holds, depth)
        kind = op.kind if holds else NEGATED.get(op.kind, "")
        if kind not in MIRRORED or op.args[0].type not in COUNTING:
            return
        one, other = op.args
        ends = [(one, kind, self.of(other)), (other, MIRRORED[kind], self.of(one))]
        for value, how, range in ends:
            if range is None:
                continue
            limits = self.limits.setdefault(_key(self._base(value)), [])
            if how in ("lt", "le", "eq"):
                limits.append(("high", combined("sub", range.high, int(how == "lt"))))
            if how in ("gt", "ge", "eq"):
                limits.append(("low", combined("add", range.low, int(how == "gt"))))

    def _base(self, value: Value) -> Value:
        """A value before it was converted: conditions and indices may not hold it in the same type."""
        while value.op is not None and value.op.kind in ("to_i64", "to_i32"):
            (inner,) = value.op.args
            if inner.type not in COUNTING or (value.op.kind == "to_i32" and self.of(inner) is None):
                break  # it may be another number, of 64 bits
            value = inner
        return value

    def _of(self, value: Value, depth: int) -> Range | None:
        if value.type not in COUNTING:
            return None
        if value in self.nodes:
            found = self._of_branches(value, depth)
        elif value.op is not None and value.op.kind == "mod":
            found = self._remainder(value.op, depth)
        else:
            found = super()._of(value, depth)
        limits = self.limits.get(_key(value), ())
        low = [bound for end, bound in limits if end == "low"]
        high = [bound for end, bound in limits if end == "high"]
        if found is None:
            if not low or not high:
                return None
            found = Range(0, low.pop(), high.pop())
        for bound in low:
            found = Range(0, combined("max", found.low, bound), found.high)
        for bound in high:
            found = Range(0, found.low, combined("min", found.high, bound))
        return found

    def _of_branches(self, value: Value, depth: int) -> Range | None:
        """The range of a result of an `if`: in each branch what the condition leaves of its value."""
        if self.branches == BRANCHES:
            return None
        node, place = self.nodes[value]
        ends = []
        self.branches += 1
        for inner, holds in ((node.then, True), (node.orelse, False)):
            with self.where(node.condition, holds=holds):
                ends.append(self.of(inner.yields[place], depth - 1))
        self.branches -= 1
        one, other = ends
        if one is None or other is None:
            return None
        return Range(0, combined("min", one.low, other.low), combined("max", one.high, other.high))

    def _remainder(self, op: Op, depth: int) -> Range | None:
        """The range of a remainder, which has the sign of the dividend: `n` modulo 5 is in -4 … 4."""
        divisor = self.of(op.args[1], depth - 1)
        if divisor is None or not isinstance(divisor.low, int) or divisor.low != divisor.high:
            return None
        most = abs(divisor.low) - 1
        if most < 0:
            return None
        dividend = self.of(op.args[0], depth - 1)
        if dividend is None or not isinstance(dividend.low, int) or dividend.low < 0:
            return Range(0, -most, most)
        return Range(0, 0, combined("min", most, dividend.high))  # of a dividend that wraps, an overflow


def _is(value: Value, truth: bool) -> bool:
    return value.op is not None and value.op.kind == "const" and bool(value.op.data[0]) == truth


def _key(value: Value) -> Any:
    op = value.op
    return (op.kind, op.data) if op is not None and op.kind in FREE else value


class _Finder:
    """Walks a function, under its conditions.

    Attributes:
        known: Ranges of indices.
        unknown: The operations (by `id`) of which an index has none.
    """

    def __init__(self, function: Function) -> None:
        self.ranges = _Limited(function)
        self.known: dict[Reach, None] = {}
        self.unknown: set[int] = set()
        for block in function.blocks:
            self._block(block)

    def _block(self, block: Block) -> None:
        for node in block.ops:
            match node:
                case Op(kind="offset" | "bounds_check"):
                    self._op(node)
                case If():
                    for inner, holds in ((node.then, True), (node.orelse, False)):
                        with self.ranges.where(node.condition, holds=holds):
                            self._block(inner)
                case For():
                    self._block(node.body)
                case While():
                    self._block(node.test)
                    with self.ranges.where(node.test.yields[0], holds=True):
                        self._block(node.body)

    def _op(self, op: Op) -> None:
        found = [self._reach(op, axis, index) for axis, index in enumerate(_indices(op))]
        if None in found:
            self.unknown.add(id(op))
        self.known |= {reach: None for reach in found if reach is not None}

    def _reach(self, op: Op, axis: int, index: Value) -> Reach | None:
        length: Bound
        if op.kind == "offset":
            length = ("extent", op.data[0], axis)
        else:
            shortest = self.ranges.of(op.args[1])
            if shortest is None:
                return None
            length = shortest.low
        made, wraps = index.op, False
        if made is not None and made.kind == "from_end":
            whole = made.args[1].op
            if op.kind == "offset" and (whole is None or (whole.kind, *whole.data) != length):
                return None
            if op.kind == "bounds_check" and made.args[1] is not op.args[1]:
                return None
            index, wraps = made.args[0], True
        found = self.ranges.of(index)
        return None if found is None else Reach(found.low, found.high, length, wraps)


def _indices(op: Op) -> tuple[Value, ...]:
    return op.args if op.kind == "offset" else op.args[:1]


# Probes -----------------------------------------------------------------------------------------------------


def _probe(function: Function, tested: Iterable[int] | None) -> tuple[Function, tuple[int, ...]] | None:
    """The probe of these operations (of all), and the parameters that it reads; None where there is none."""
    if function.prelude is not None or any(op.kind in ORDERED for op in function.ops()):
        return None
    body = _Prober(None if tested is None else set(tested)).block(function.body)
    found = remove_dead_code(replace(function, body=body, backwards=False))
    read: set[int] = set()
    for op in found.ops():
        if op.kind in ("load", "load_after"):
            read.add(op.data[0])
        elif op.kind in MEMORY or op.kind in NATIVE or not _is_exact(op):
            return None  # an index that follows from what only the function itself finds
    return found, tuple(sorted(read))


def _is_exact(op: Op) -> bool:
    floats = any(value.type in t.FLOATS for value in (*op.args, op.result) if value is not None)
    return not floats or op.kind in EXACT or op.kind.startswith("to_") or op.kind in ("save", "restore")


class _Prober(Rewriter):
    """Tests indices in place of what is done with them."""

    def __init__(self, tested: set[int] | None) -> None:
        self.tested = tested
        self.extents: dict[tuple[int, int], Value] = {}
        self.seen: set[tuple[Any, Any]] = set()

    def block(self, block: Block) -> Block:
        before = set(self.seen)
        made = super().block(block)
        self.seen = before
        return made

    def instead(self, op: Op) -> list[Node]:
        if op.kind in ("offset", "bounds_check"):
            tests = self._tests(op) if self.tested is None or id(op) in self.tested else []
            return [*tests, op] if op.kind == "offset" else tests
        if op.kind in DIAGNOSTICS:
            return []
        if op.kind == "native":
            return [replace(op, kind="native_value")]
        if op.kind == "atomic_add" and op.result is not None:
            return [
                replace(op, kind="load", args=op.args[:1])
            ]  # of memory that is written: there is no probe
        if op.kind in MEMORY and not op.kind.startswith("load"):
            return []
        return [op]

    def _tests(self, op: Op) -> list[Node]:
        tests: list[Node] = []
        for axis, index in enumerate(_indices(op)):
            length = self._extent(op.data[0], axis) if op.kind == "offset" else op.args[1]
            if (key := (_key(index), _key(length))) not in self.seen:
                self.seen.add(key)
                tests.append(Op("inside", (index, length), None, op.span))
        return tests

    def _extent(self, param: int, axis: int) -> Value:
        if (param, axis) not in self.extents:
            value = self.extents[param, axis] = Value(t.int64)
            value.op = Op("extent", (), value, None, (param, axis))
        return self.extents[param, axis]
