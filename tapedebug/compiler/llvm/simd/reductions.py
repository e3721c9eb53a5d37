"""Sums over vector lanes: at one element, and of neighbouring threads at neighbouring elements."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import field
from itertools import combinations

from tapedebug._dataclass import dataclass
from tapedebug.compiler.llvm.expressions import Operand
from tapedebug.compiler.llvm.simd.loop_names import LoopNames
from tapedebug.compiler.llvm.simd.vector_values import LinearValue, VectorValues
from tapedebug.lang.lowering import FLOATS, alignment, llvm_type, shuffle

NOWHERE = str(-(2**63))
"""The place of a sum to which nothing has been added. Places of elements may be negative, where an axis is
reversed, but not that much."""

Group = tuple[str, str | None]
"""An array's pointer and the name of a place."""


@dataclass
class PendingStore:
    """Stores or additions to components of one element, which are made together."""

    adds: bool
    index: Operand
    kind: str
    values: dict[int, Operand] = field(default_factory=dict)
    nodes: dict[int, ast.AST] = field(default_factory=dict)


@dataclass(frozen=True)
class Sum:
    """A sum that lanes add to one element at the end: the partial sums, the element, its array."""

    kind: str
    total: str
    place: str
    pointer: str


@dataclass(frozen=True)
class Carry:
    """Contributions of a block of threads to elements of the next block.

    Attributes:
        kind: The type of the elements.
        values: For each addition but those to the first element: the distance from there, and where what the
            block's lanes add is kept.
        place: Where the next block's first element is kept; `NOWHERE` where nothing is.
        pointer: The array.
    """

    kind: str
    values: list[tuple[int, str]]
    place: str
    pointer: str


class Reductions(VectorValues):
    """Writes additions to elements where lanes meet."""

    def __init__(self, symbol: str, names: LoopNames, bits: int, *, math: bool) -> None:
        super().__init__(symbol, names, bits, math=math)
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

    def _identity(self, kind: str) -> str:
        """Return the neutral element of addition."""
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
        return self._value("", f"select {lanes}, {of} {value}, {of} {self._identity(kind)}")[1]

    # One element

    def _accumulate(self, node: ast.AugAssign, kind: str, index: str, value: str) -> None:
        """Add to a sum of each lane, which is added to the element at the end."""
        of = self._type("~" + kind)
        if id(node) not in self.sums:
            total = self._frame_slot(of, self._identity(kind))
            assert isinstance(node.target, ast.Subscript) and isinstance(node.target.value, ast.Name)
            pointer = self.values[node.target.value.id][1]
            self.sums[id(node)] = Sum(kind, total, self._frame_slot("i64", NOWHERE), pointer)
        found = self.sums[id(node)]
        old = self._value("", f"load {of}, ptr {found.total}")[1]
        new = self._value("", f"{self._adding(kind)} {of} {old}, {self._counted(kind, value)}")[1]
        self._write(f"store {of} {new}, ptr {found.total}")
        self._write(f"store i64 {index}, ptr {found.place}")

    def _frame_slot(self, of: str, first: str) -> str:
        """A place of the function's own, and what is there at first."""
        slot = f"{self._fresh()}.kept"
        self.head.append(f"  {slot} = alloca {of}")
        self.head.append(f"  store {of} {first}, ptr {slot}")
        return slot

    def _end(self) -> None:
        """Add what was kept to the elements that it belongs to."""
        for found in self.sums.values():
            index = self._value("i64", f"load i64, ptr {found.place}")[1]
            some = self._value("b1", f"icmp ne i64 {index}, {NOWHERE}")[1]

            def add(found: Sum = found, index: str = index) -> None:
                values = self._value("", f"load {self._type('~' + found.kind)}, ptr {found.total}")[1]
                total = self._total(found.kind, values)
                self._add(self._at(found.pointer, found.kind, index), found.kind, total)

            self._either(some, add, lambda: None)
        for carry in self.carries.values():
            self._flush_carry(carry)

    # Neighbours

    def _clusters(self, waiting: dict[Group, PendingStore]) -> Iterator[tuple[str, list[PendingStore]]]:
        """Group pending additions to elements that are a few places apart."""
        near: dict[tuple[str, Hashable], list[PendingStore]] = {}
        for (pointer, _), one in waiting.items():
            line = self.linear_values.get(one.index[1])
            shiftable = one.adds and line is not None and line.stride == 1
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

    def _offset(self, one: PendingStore) -> int:
        return self._line(one).offset

    def _line(self, one: PendingStore) -> LinearValue:
        return self.linear_values[one.index[1]]

    def _is_stretch(self, ones: list[PendingStore]) -> bool:
        """True if pending additions of a cluster are to neighbouring elements, from lane to lane."""
        lines = [self.linear_values.get(one.index[1]) if set(one.values) == {0} else None for one in ones]
        return all(one.adds for one in ones) and all(line and line.stride == 1 for line in lines)

    def _make(self, pointer: str, one: PendingStore) -> None:
        """Write a pending addition."""
        raise NotImplementedError

    def _add_cluster(self, pointer: str, ones: list[PendingStore]) -> None:
        """Write the pending additions of a cluster."""
        raise NotImplementedError

    def _is_leading(self, ones: list[PendingStore]) -> bool:
        """True if no other access reaches the elements of some of these before them."""
        raise NotImplementedError

    def _fetch(self, place: str, kind: str, count: int) -> None:
        """Fetch what the next blocks of threads access, if that is worth it."""
        raise NotImplementedError

    def _add_neighbours(self, pointer: str, ones: list[PendingStore]) -> None:
        """Additions of each thread to elements a few apart, as one addition to a stretch of memory.

        Each alone would read what the one before has just written, a few bytes apart, which processors wait
        for. What falls beyond the block's own elements is kept for the next block.
        """

        def alone() -> None:
            for one in ones:
                self._make(pointer, one)

        exceptions = list(dict.fromkeys(line.unless for one in ones if (line := self._line(one)).unless))
        if not exceptions:
            self._add_stretch(pointer, ones)
            return
        self._either(
            lambda: self._none_in(exceptions),
            lambda: self._add_stretch(pointer, ones),
            alone,
            self._known_none_in(exceptions),
        )

    def _add_rows(self, pointer: str, clusters: list[list[PendingStore]]) -> None:
        """Additions to several stretches of an array, such as the rows of a stencil: all loads come first.

        A load waits for earlier stores whose addresses end with the same 12 bits, as processors compare only
        these at first. Elements above each other in rows of a power of two have such addresses: if rows were
        added to one after the other, each load would wait for the store before it. Stretches that have
        elements in common are added to one after the other nevertheless.
        """

        def alone() -> None:
            for ones in clusters:
                self._add_cluster(pointer, ones)

        kind = clusters[0][0].kind
        places = [self._at(pointer, kind, self._line(ones[0]).base) for ones in clusters]
        distinct = ""
        for one, other in combinations([self._line(ones[0]) for ones in clusters], 2):
            shifted = self._moved(self._distance(one, other), self.width - 1)
            apart = self._value("b1", f"icmp ugt i64 {shifted}, {2 * (self.width - 1)}")[1]
            distinct = self._value("b1", f"and i1 {distinct}, {apart}")[1] if distinct else apart
        lines = [self._line(one) for ones in clusters for one in ones]
        exceptions = list(dict.fromkeys(line.unless for line in lines if line.unless))
        sure = self._known_none_in(exceptions) if exceptions else None

        def straight() -> str:
            return self._value("b1", f"and i1 {distinct}, {self._none_in(exceptions)}")[1]

        self._either(
            straight if exceptions else distinct,
            lambda: self._add_together(pointer, clusters, places),
            alone,
            sure and self._value("b1", f"and i1 {distinct}, {sure}")[1],
        )

    def _distance(self, one: LinearValue, other: LinearValue) -> str:
        """Return how far one index is from another, from what does not change along a row if possible."""
        match one.root, other.root:
            case ("Add", str(row), along), ("Add", str(above), beside) if along == beside:
                if row.startswith("%") and above.startswith("%"):
                    between = self._value("i64", f"sub i64 {row}, {above}")[1]
                    return self._moved(between, one.offset - other.offset)
        return self._value("i64", f"sub i64 {one.base}, {other.base}")[1]

    def _add_together(self, pointer: str, clusters: list[list[PendingStore]], places: list[str]) -> None:
        """Additions to stretches of memory that have no element in common, for all lanes."""
        stretches = []
        for ones, place in zip(clusters, places, strict=True):
            kind, start, values = self._of_stretch(ones)
            added = [value for _, value in values]
            if values[-1][0]:
                added = self._with_carried(self._carry(pointer, ones, values), start, values)
            self.leads = self._is_leading(ones)
            self._fetch(place, kind, self.width)
            stretches.append((place, kind, added))
        self._add_all(stretches)

    def _of_stretch(self, ones: list[PendingStore]) -> tuple[str, str, list[tuple[int, str]]]:
        """Return the type and the first element of a stretch, and what is added how far from there."""
        first, kind = ones[0], ones[0].kind
        values = [
            (self._offset(one) - self._offset(first), self._counted(kind, self._broadcast(one.values[0])))
            for one in ones
        ]
        return kind, self._line(first).base, values

    def _add_stretch(self, pointer: str, ones: list[PendingStore]) -> None:
        """Additions to elements that are a few apart, from lane to lane and among each other."""
        kind, start, values = self._of_stretch(ones)
        beyond = values[-1][0]
        if self.mask is None and beyond:
            self._add_carried(self._carry(pointer, ones, values), start, values)
            return
        # The elements of inactive lanes may belong to other threads, or lie outside the array.
        lanes = [(by, self._lanes()) for by, _ in values]
        low = self._sum(kind, [self._here(kind, by, self._identity(kind), value) for by, value in values])
        here = self._sum("b1", [self._here("b1", by, "zeroinitializer", mask) for by, mask in lanes], "or")
        self._add_some(self._at(pointer, kind, start), kind, low, here)
        if beyond:
            high = self._sum(kind, [self._over(kind, by, value) for by, value in values if by])
            over = self._sum("b1", [self._over("b1", by, mask) for by, mask in lanes if by], "or")
            self._add_some(self._at(pointer, kind, self._moved(start, self.width)), kind, high, over)

    def _here(self, kind: str, by: int, before: str, value: str) -> str:
        """The values of a block's lanes, moved to later ones, behind the last ones of the block before."""
        lanes = range(self.width - by, 2 * self.width - by)
        return self._value("", shuffle(self._type("~" + kind), before, value, lanes))[1] if by else value

    def _over(self, kind: str, by: int, value: str) -> str:
        """The values that are moved beyond a block's lanes."""
        nothing = "zeroinitializer" if kind == "b1" else self._identity(kind)
        lanes = [lane + self.width - by if lane < by else self.width for lane in range(self.width)]
        return self._value("", shuffle(self._type("~" + kind), value, nothing, lanes))[1]

    def _sum(self, kind: str, values: list[str], word: str = "") -> str:
        total, of = values[0], self._type("~" + kind)
        for value in values[1:]:
            total = self._value("", f"{word or self._adding(kind)} {of} {total}, {value}")[1]
        return total

    def _carry(self, pointer: str, ones: list[PendingStore], values: list[tuple[int, str]]) -> Carry:
        """Return the carry of the additions at a place in the text."""
        site = tuple(id(node) for one in ones for node in one.nodes.values())
        if site not in self.carries:
            kind = ones[0].kind
            of, nothing = self._type("~" + kind), self._identity(kind)
            kept = [(by, self._frame_slot(of, nothing)) for by, _ in values if by]
            self.carries[site] = Carry(kind, kept, self._frame_slot("i64", NOWHERE), pointer)
        return self.carries[site]

    def _add_carried(self, carry: Carry, start: str, values: list[tuple[int, str]]) -> None:
        """Add what a block adds to its elements, with what the one before kept for it."""
        moved = self._with_carried(carry, start, values)
        target = self._at(carry.pointer, carry.kind, start)
        self._fetch(target, carry.kind, self.width)
        self._add_all([(target, carry.kind, moved)])

    def _with_carried(self, carry: Carry, start: str, values: list[tuple[int, str]]) -> list[str]:
        """Return what a block adds to its elements, with what the one before kept; keep it for the next."""
        of = self._type("~" + carry.kind)
        place = self._value("i64", f"load i64, ptr {carry.place}")[1]
        follows = self._value("b1", f"icmp eq i64 {place}, {start}")[1]
        self._either(follows, lambda: None, lambda: self._flush_carry(carry))
        slots = iter(carry.values)
        moved = []
        for by, value in values:
            if by:
                _, slot = next(slots)
                before = self._value("", f"load {of}, ptr {slot}")[1]
                moved.append(self._here(carry.kind, by, before, value))
                self._write(f"store {of} {value}, ptr {slot}")
            else:
                moved.append(value)
        self._write(f"store i64 {self._moved(start, self.width)}, ptr {carry.place}")
        return moved

    def _add_all(self, stretches: list[tuple[str, str, list[str]]]) -> None:
        """Add to stretches of memory that have no element in common: first all loads, then all stores.

        Args:
            stretches: For each its place, the type of its elements, and what is added to them.
        """
        olds = []
        for place, kind, _ in stretches:
            load = f"load {self._type('~' + kind)}, ptr {place}, align {alignment(kind)}"
            olds.append(self._value("", load)[1])
        totals = [
            self._sum(kind, [old, self._sum(kind, values)])
            for old, (_, kind, values) in zip(olds, stretches, strict=True)
        ]
        for total, (place, kind, _) in zip(totals, stretches, strict=True):
            self._write(f"store {self._type('~' + kind)} {total}, ptr {place}, align {alignment(kind)}")

    def _add_some(self, place: str, kind: str, values: str, lanes: str) -> None:
        """Add to some of a block's elements."""
        access = self._masked(kind)
        old = self._value("", access.load(place, lanes))[1]
        total = self._value("", f"{self._adding(kind)} {access.type} {old}, {values}")[1]
        self._write(access.store(total, place, lanes))

    def _flush_carry(self, carry: Carry) -> None:
        """Add what was kept for the next block to its elements."""
        kind = carry.kind
        of, most = self._type("~" + kind), carry.values[-1][0]
        place = self._value("i64", f"load i64, ptr {carry.place}")[1]
        some = self._value("b1", f"icmp ne i64 {place}, {NOWHERE}")[1]
        lanes = ", ".join(f"i1 {'true' if lane < most else 'false'}" for lane in range(self.width))

        def add() -> None:
            over = []
            for by, slot in carry.values:
                value = self._value("", f"load {of}, ptr {slot}")[1]
                over.append(self._over(kind, by, value))
                self._write(f"store {of} {self._identity(kind)}, ptr {slot}")
            self._add_some(self._at(carry.pointer, kind, place), kind, self._sum(kind, over), f"<{lanes}>")
            self._write(f"store i64 {NOWHERE}, ptr {carry.place}")

        self._either(some, add, lambda: None)
