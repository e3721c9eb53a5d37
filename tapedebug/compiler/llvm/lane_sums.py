"""Sums in lanes: of all lanes at one element, and of neighbouring threads at neighbouring elements."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from tapedebug.compiler.llvm.expressions import Operand
from tapedebug.compiler.llvm.lane_calls import shuffle
from tapedebug.compiler.llvm.lane_shapes import Shapes
from tapedebug.compiler.llvm.lane_values import LaneValues, Line
from tapedebug.compiler.llvm.library import FLOATS, llvm_type

Group = tuple[str, str | None]
"""An array's pointer and the name of a place."""


@dataclass
class Waiting:
    """Stores or additions to components of one element, which are made together."""

    adds: bool
    index: Operand
    kind: str
    values: dict[int, Operand] = field(default_factory=dict)
    nodes: dict[int, ast.AST] = field(default_factory=dict)


@dataclass(frozen=True)
class Sum:
    """What lanes add to one element until the end: where the sums are, the element, and its array."""

    kind: str
    total: str
    place: str
    pointer: str


@dataclass(frozen=True)
class Carry:
    """What a block of threads adds to elements of the next one: the values, the first element, its array."""

    kind: str
    values: str
    place: str
    pointer: str
    count: int


class LaneSums(LaneValues):
    """Writes additions to elements where lanes meet."""

    def __init__(self, symbol: str, shapes: Shapes, bits: int, *, math: bool) -> None:
        super().__init__(symbol, shapes, bits, math=math)
        self.sums: dict[int, Sum] = {}
        self.carries: dict[tuple[int, ...], Carry] = {}

    # Elements

    def _at(self, pointer: str, kind: str, index: str) -> str:
        return self._value("", f"getelementptr {llvm_type(kind)}, ptr {pointer}, i64 {index}")[1]

    def _moved(self, index: str, by: int) -> str:
        return self._value("i64", f"add i64 {index}, {by}")[1] if by else index

    def _moved_all(self, index: Operand, by: int) -> str:
        """An index so much further on."""
        return self._operator(ast.Pass(), ast.Add(), index, ("i64", str(by)))[1] if by else index[1]

    def _adding(self, kind: str) -> str:
        return "fadd" if kind in FLOATS else "add"

    def _nothing(self, kind: str) -> str:
        """What changes no sum."""
        return self._literal("~" + kind, "-0.0") if kind in FLOATS else "zeroinitializer"

    def _add(self, place: str, kind: str, value: str) -> None:
        of = llvm_type(kind)
        old = self._value(kind, f"load {of}, ptr {place}")[1]
        total = self._value(kind, f"{self._adding(kind)} {of} {old}, {value}")[1]
        self._write(f"store {of} {total}, ptr {place}")

    def _counted(self, kind: str, value: str) -> str:
        """The values of the lanes that run, and in the others what changes no sum."""
        if self.mask is None:
            return value
        of = self._type("~" + kind)
        lanes = f"{self._all_lanes()} {self.mask}"
        return self._value("", f"select {lanes}, {of} {value}, {of} {self._nothing(kind)}")[1]

    # One element

    def _keep_sum(self, node: ast.AugAssign, kind: str, index: str, value: str) -> None:
        """Add to a sum of each lane, which is added to the element at the end."""
        of = self._type("~" + kind)
        if id(node) not in self.sums:
            total = self._kept_in_frame(of, self._nothing(kind))
            assert isinstance(node.target, ast.Subscript) and isinstance(node.target.value, ast.Name)
            pointer = self.values[node.target.value.id][1]
            self.sums[id(node)] = Sum(kind, total, self._kept_in_frame("i64", "-1"), pointer)
        found = self.sums[id(node)]
        old = self._value("", f"load {of}, ptr {found.total}")[1]
        new = self._value("", f"{self._adding(kind)} {of} {old}, {self._counted(kind, value)}")[1]
        self._write(f"store {of} {new}, ptr {found.total}")
        self._write(f"store i64 {index}, ptr {found.place}")

    def _kept_in_frame(self, of: str, first: str) -> str:
        """A place of the function's own, and what is there at first."""
        slot = f"{self._fresh()}.kept"
        self.head.append(f"  {slot} = alloca {of}")
        self.head.append(f"  store {of} {first}, ptr {slot}")
        return slot

    def _end(self) -> None:
        """Add what was kept to the elements that it belongs to."""
        for found in self.sums.values():
            index = self._value("i64", f"load i64, ptr {found.place}")[1]
            some = self._value("b1", f"icmp sge i64 {index}, 0")[1]

            def add(found: Sum = found, index: str = index) -> None:
                values = self._value("", f"load {self._type('~' + found.kind)}, ptr {found.total}")[1]
                total = self._total(found.kind, values)
                self._add(self._at(found.pointer, found.kind, index), found.kind, total)

            self._either(some, add, lambda: None)
        for carry in self.carries.values():
            self._put_down(carry)

    # Neighbours

    def _clusters(self, waiting: dict[Group, Waiting]) -> Iterator[tuple[str, list[Waiting]]]:
        """What waits: additions to elements that are few apart together."""
        near: dict[tuple[str, Hashable], list[Waiting]] = {}
        for (pointer, _), one in waiting.items():
            line = self.lines_of.get(one.index[1])
            shiftable = one.adds and self.mask is None and line is not None and line.stride == 1
            if line is None or not shiftable or set(one.values) != {0}:
                yield pointer, [one]
            else:
                near.setdefault((pointer, line.root), []).append(one)
        for (pointer, _), ones in near.items():
            ones.sort(key=self._offset)
            while ones:
                last = self._offset(ones[0]) + self.width
                close = [one for one in ones if self._offset(one) <= last]
                yield pointer, close
                ones = ones[len(close) :]

    def _offset(self, one: Waiting) -> int:
        return self._line(one).offset

    def _line(self, one: Waiting) -> Line:
        return self.lines_of[one.index[1]]

    def _make(self, pointer: str, one: Waiting) -> None:
        """What was waiting."""
        raise NotImplementedError

    def _add_neighbours(self, pointer: str, ones: list[Waiting]) -> None:
        """Additions of each thread to elements a few apart, as one addition to a stretch of memory.

        Each alone would read what the one before has just written, a few bytes apart, which processors wait
        for. What falls beyond the block's own elements is kept for the next block.
        """

        def alone() -> None:
            for one in ones:
                self._make(pointer, one)

        exceptions = [line.unless for line in map(self._line, ones) if line.unless is not None]
        if not exceptions:
            self._add_stretch(pointer, ones)
            return
        unless = exceptions[0]
        for other in exceptions[1:]:
            unless = self._value("~b1", f"or {self._all_lanes()} {unless}, {other}")[1]
        self._either(self._any(unless), alone, lambda: self._add_stretch(pointer, ones))

    def _add_stretch(self, pointer: str, ones: list[Waiting]) -> None:
        kind = ones[0].kind
        of, word, nothing = self._type("~" + kind), self._adding(kind), self._nothing(kind)
        width, first = self.width, self._offset(ones[0])
        low, high = nothing, nothing
        for one in ones:
            value, by = self._wide(one.values[0]), self._offset(one) - first
            here = [lane - by if lane >= by else width for lane in range(width)]
            there = [lane + width - by if lane < by else width for lane in range(width)]
            moved = self._value("", shuffle(of, value, nothing, here))[1] if by else value
            low = self._value("", f"{word} {of} {low}, {moved}")[1]
            if by:
                over = self._value("", shuffle(of, value, nothing, there))[1]
                high = self._value("", f"{word} {of} {high}, {over}")[1]
        site = tuple(id(node) for one in ones for node in one.nodes.values())
        carry = self.carries.get(site)
        if carry is None:
            count = self._offset(ones[-1]) - first
            slots = self._kept_in_frame(of, nothing), self._kept_in_frame("i64", "-1")
            carry = self.carries[site] = Carry(kind, *slots, pointer, count)
        start = self._line(ones[0]).base
        place = self._value("i64", f"load i64, ptr {carry.place}")[1]
        follows = self._value("b1", f"icmp eq i64 {place}, {start}")[1]
        self._either(follows, lambda: None, lambda: self._put_down(carry))
        carried = self._value("", f"load {of}, ptr {carry.values}")[1]
        low = self._value("", f"{word} {of} {low}, {carried}")[1]
        target = self._at(pointer, kind, start)
        old = self._value("", f"load {of}, ptr {target}, align {self._align(kind)}")[1]
        total = self._value("", f"{word} {of} {old}, {low}")[1]
        self._write(f"store {of} {total}, ptr {target}, align {self._align(kind)}")
        self._write(f"store {of} {high}, ptr {carry.values}")
        self._write(f"store i64 {self._moved(start, width)}, ptr {carry.place}")

    def _put_down(self, carry: Carry) -> None:
        """Add what was kept for the next block to its elements."""
        kind, align = carry.kind, self._align(carry.kind)
        of, nothing = self._type("~" + kind), self._nothing(kind)
        place = self._value("i64", f"load i64, ptr {carry.place}")[1]
        some = self._value("b1", f"icmp sge i64 {place}, 0")[1]
        lanes = ", ".join(f"i1 {'true' if lane < carry.count else 'false'}" for lane in range(self.width))
        mask = f"{self._all_lanes()} <{lanes}>"

        def add() -> None:
            target = f"ptr align {align} {self._at(carry.pointer, kind, place)}"
            load = f"@llvm.masked.load.{self._suffix(kind)}.p0"
            old = self._value("", f"call {of} {load}({target}, {mask}, {of} zeroinitializer)")[1]
            values = self._value("", f"load {of}, ptr {carry.values}")[1]
            total = self._value("", f"{self._adding(kind)} {of} {old}, {values}")[1]
            store = f"@llvm.masked.store.{self._suffix(kind)}.p0"
            self._write(f"call void {store}({of} {total}, {target}, {mask})")
            self._write(f"store {of} {nothing}, ptr {carry.values}")
            self._write(f"store i64 -1, ptr {carry.place}")

        self._either(some, add, lambda: None)
