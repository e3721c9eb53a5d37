"""Loads and stores of array elements for all vector lanes at once.

An index that is the same for all lanes is one element. One that counts up from lane to lane is a stretch of
memory; where it counts in steps of a vector's components, all components of all lanes are one stretch, which
is read (or written) at once and sorted into lanes. Any other index is gathered and scattered. What is added
where lanes may meet is added for one lane after the other, in the order of the threads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from itertools import product

from tapedebug._dataclass import dataclass
from tapedebug.compiler.llvm.expressions import Operand, TranslationError
from tapedebug.compiler.llvm.library import in_memory, scalar
from tapedebug.compiler.llvm.simd.gathered_indices import GatheredIndices, NotWorthIt
from tapedebug.compiler.llvm.simd.loop_names import LoopNames
from tapedebug.compiler.llvm.simd.reductions import PendingStore
from tapedebug.compiler.llvm.simd.vector_values import WIDEST, LinearValue
from tapedebug.lang.lowering import alignment, llvm_type, shuffle

AHEAD = {3072: 3, 12288: 2}
"""By how many bytes memory is fetched ahead of an access, where that is worth it, and into which cache.

LLVM counts caches from 3, the fastest. Memory of a loaded machine answers later than blocks of threads go
through 3 KB; 12 KB of each array would crowd the fastest cache, and wait in the second one. What is 4 KB
ahead would displace what is accessed now: a cache has the same places for both.
"""
LINE = 64
"""Bytes that are fetched at once."""
FETCHED = " ; ahead"
"""Ends the lines that fetch ahead."""
TOGETHER = 4
"""Stretches of memory that are added to at once: first all loads, then all stores."""
GROUPED = (2, 3, 4)
"""Numbers of components that are read and written together: of vectors and quaternions."""

STREAM = """define internal void @{name}({of} %value, ptr %place) alwaysinline nounwind {{
  %address = ptrtoint ptr %place to i64
  %rest = and i64 %address, {rest}
  %aligned = icmp eq i64 %rest, 0
  br i1 %aligned, label %past, label %through
past:
  store {of} %value, ptr %place, align {size}, !nontemporal !0
  ret void
through:
  store {of} %value, ptr %place, align {align}
  ret void
}}"""
"""Stores a vector past the caches. Other threads see it when this one has changed a word with a locked
instruction, as it does at the end of a chunk: that empties the buffers in which such stores wait."""


@dataclass
class Element:
    """An element of an array in generated code: `pointer[base + component]`."""

    pointer: str
    base: str | None
    component: int
    node: ast.Subscript

    @property
    def group(self) -> tuple[str, str | None]:
        """The key that all components of one element share."""
        return self.pointer, self.base


class VectorMemory(GatheredIndices):
    """Writes loads, stores and additions."""

    def __init__(self, symbol: str, names: LoopNames, bits: int, *, math: bool, leaves: bool = False) -> None:
        super().__init__(symbol, names, bits, math=math, leaves=leaves)
        self.read: dict[tuple[str, str | None], dict[int, Operand]] = {}
        self.pending: dict[tuple[str, str | None], PendingStore] = {}
        self.scattered = 0
        self.leads = True
        """True if no other access has reached the memory of this one before."""

    # Elements

    def _element(self, node: ast.expr) -> Element:
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            raise TranslationError("no element of an array", node)
        match node.slice:
            case ast.Name(id=base):
                return Element(node.value.id, base, 0, node)
            case ast.BinOp(left=ast.Name(id=base), op=ast.Add(), right=ast.Constant(value=int(number))):
                return Element(node.value.id, base, number, node)
        return Element(node.value.id, None, 0, node)

    def _pointer(self, element: Element) -> tuple[str, str]:
        """The array's pointer, and the type of its elements."""
        kind, pointer = self._named(element.node.value)  # type: ignore[arg-type]
        if kind[0] != "*":
            raise TranslationError(f"{kind} is indexed", element.node)
        return pointer, kind[1:]

    def _size(self, element: Element, index: Operand) -> int | None:
        """The number of components that are a stretch of memory with those of the other lanes, or None."""
        line = self.linear_values.get(index[1])
        size = self.names.sizes.get(element.base or "")
        fits = line is not None and line.stride == size and size in GROUPED
        return size if fits and self.mask is None else None

    def _flush_and_forget(self) -> None:
        """Make what waits happen, and forget what was read: other code follows."""
        self._flush()
        self.read.clear()

    def _flush(self) -> None:
        waiting, self.pending = self.pending, {}
        clusters = [(self.values[pointer][1], ones) for pointer, ones in self._clusters(waiting)]
        together = self.mask is None and all(self._is_stretch(ones) for _, ones in clusters)
        size = TOGETHER if together else 1
        for some in (clusters[first : first + size] for first in range(0, len(clusters), size)):
            if len(some) > 1:  # several groups wait only if they are additions to one array
                self._add_rows(some[0][0], [ones for _, ones in some])
            else:
                self._add_cluster(*some[0])

    def _add_cluster(self, pointer: str, ones: list[PendingStore]) -> None:
        if len(ones) == 1:
            self._make(pointer, ones[0])
        else:
            self.leads = self._is_leading(ones)
            self._add_neighbours(pointer, ones)

    def _is_leading(self, ones: list[PendingStore]) -> bool:
        targets = (
            node.targets[0] if isinstance(node, ast.Assign) else node.target
            for one in ones
            for node in one.nodes.values()
            if isinstance(node, ast.Assign | ast.AugAssign)
        )
        return any(id(target) not in self.names.trailing for target in targets)

    def _unless(self, line: LinearValue, straight: Callable[[], None], apart: Callable[[], None]) -> None:
        """Branch on whether integers count from lane to lane in this block."""
        masks = [line.unless or ""]
        self._either(lambda: self._none_in(masks), straight, apart, self._known_none_in(masks))

    def _fetch(self, place: str, kind: str, count: int) -> None:
        """Fetch what the blocks of threads after this one access, of a stretch of numbers at a place.

        Processors look some hundred instructions ahead: not beyond the end of a long block.
        """
        if self.mask is not None or self.loops or not self.leads:
            return
        lines = range(0, count * alignment(kind), LINE)
        for (distance, cache), start in product(AHEAD.items(), lines):
            self.count += 1
            ahead = f"%ahead{self.count}"
            self._write(f"{ahead} = getelementptr i8, ptr {place}, i64 {distance + start}{FETCHED}")
            self._write(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 {cache}, i32 1){FETCHED}")

    # Loads

    def _load_element(self, node: ast.Subscript) -> Operand:
        element = self._element(node)
        found = self.read.get(element.group, {}).get(element.component)
        if found is not None:
            return found
        self._flush()
        pointer, kind = self._pointer(element)
        self.crowded = self.crowded or kind == "f64"
        index = self._expression(node.slice)
        self.leads = id(node) not in self.names.trailing
        if scalar(index[0]) != "i64":
            raise TranslationError(f"an array is indexed with {index[0]}", node)
        if index[0] == "i64":
            return self._value(kind, f"load {llvm_type(kind)}, ptr {self._at(pointer, kind, index[1])}")
        size = self._size(element, index)
        if size is not None:
            parts = self._load_group(pointer, kind, index, -element.component, size)
            self.read[element.group] = dict(enumerate(parts))
            return parts[element.component]
        return self._counting_read(node, self._load_lanes(pointer, kind, index))

    def _load_group(self, pointer: str, kind: str, index: Operand, by: int, size: int) -> list[Operand]:
        """All components of all lanes, where the first one of each is `by` further on than an index."""
        line = self.linear_values[index[1]]
        found: list[tuple[list[Operand], str]] = []

        def apart() -> None:
            indices = [(index[0], self._moved_all(index, by + component)) for component in range(size)]
            found.append(([self._gather(pointer, kind, one) for one in indices], self.label))

        def straight() -> None:
            place = self._at(pointer, kind, self._moved(line.base, by))
            found.append((self._load_all(place, kind, size), self.label))

        if line.unless is None:
            straight()
            return found[0][0]
        self._unless(line, straight, apart)
        joined = []
        for component in range(size):
            values = ", ".join(f"[ {parts[component][1]}, %{label} ]" for parts, label in found)
            joined.append(self._value("~" + kind, f"phi {self._type('~' + kind)} {values}"))
        return joined

    def _load_all(self, place: str, kind: str, size: int) -> list[Operand]:
        """All components of all lanes, sorted."""
        of, width = llvm_type(kind), self.width
        many = f"<{size * width} x {of}>"
        self._fetch(place, kind, size * width)
        read = self._value("", f"load {many}, ptr {place}, align {alignment(kind)}")[1]
        parts = []
        for component in range(size):
            sort = shuffle(many, read, "poison", range(component, size * width, size))
            parts.append(self._value("~" + kind, sort))
        return parts

    def _load_lanes(self, pointer: str, kind: str, index: Operand) -> Operand:
        line = self.linear_values.get(index[1])
        if line is None or line.stride != 1:
            return self._gather(pointer, kind, index)
        if line.unless is None:
            return self._load_contiguous(pointer, kind, line)
        found: list[tuple[str, str]] = []

        def apart() -> None:
            found.append((self._gather(pointer, kind, index)[1], self.label))

        def straight() -> None:
            found.append((self._load_contiguous(pointer, kind, line)[1], self.label))

        self._unless(line, straight, apart)
        joined = ", ".join(f"[ {value}, %{label} ]" for value, label in found)
        return self._value("~" + kind, f"phi {self._type('~' + kind)} {joined}")

    def _load_contiguous(self, pointer: str, kind: str, line: LinearValue) -> Operand:
        of, place = self._type("~" + kind), self._at(pointer, kind, line.base)
        align = alignment(kind)
        if self.mask is None:
            self._fetch(place, kind, self.width)
            return self._value("~" + kind, f"load {of}, ptr {place}, align {align}")
        return self._value("~" + kind, self._masked(kind).load(place, self.mask))

    def _gather(self, pointer: str, kind: str, index: Operand) -> Operand:
        self.crowded = self.crowded or self.loops > 0  # rows that often begin at the same place in a page
        places = self._places(pointer, kind, index)
        return self._value("~" + kind, self._masked(kind).gather(places, self._lanes()))

    def _places(self, pointer: str, kind: str, index: Operand) -> str:
        """The addresses of all lanes' elements."""
        indices = f"<{self.width} x i64> {self._broadcast(index)}"
        return self._value("", f"getelementptr {llvm_type(kind)}, ptr {pointer}, {indices}")[1]

    # Stores and additions

    def _store_element(self, node: ast.AST, target: ast.Subscript, value: Operand, *, adds: bool) -> None:
        self.changed = True
        element = self._element(target)
        _, kind = self._pointer(element)
        if scalar(value[0]) == "b1" and in_memory("b1") == kind:
            value = self._cast(value, kind)
        if scalar(value[0]) != kind:
            raise TranslationError(f"{value[0]} is stored where {kind} is", node)
        index = self._expression(target.slice)
        one = self.pending.get(element.group)
        if not self._joins(element, one, adds=adds):
            self._flush()
            one = None
        for group in [group for group in self.read if group != element.group or adds]:
            del self.read[group]
        if element.group in self.read:
            self.read[element.group][element.component] = value[0], value[1]
        if one is None:
            base = index[0], self._moved_all(index, -element.component)
            one = self.pending[element.group] = PendingStore(adds, base, kind)
        one.values[element.component] = value
        one.nodes[element.component] = node
        if element.base is None:
            self._flush()

    def _joins(self, element: Element, one: PendingStore | None, *, adds: bool) -> bool:
        """True if a store can be delayed together with the pending ones: another component, or a sum."""
        if one is not None:
            return one.adds == adds and element.component not in one.values
        return adds and all(group[0] == element.pointer and w.adds for group, w in self.pending.items())

    def _make(self, pointer: str, one: PendingStore) -> None:
        """Write a pending store or addition."""
        self.leads = self._is_leading([one])
        if one.index[0] == "i64":
            self._to_one(pointer, one)
            return
        line = self.linear_values.get(one.index[1])
        size = len(one.values)
        together = line is not None and line.stride == size and self.mask is None
        if together and size in GROUPED and set(one.values) == set(range(size)):
            assert line is not None
            self._make_group(pointer, one, line)
        elif not one.adds:
            self._scatter_all(pointer, one)
        elif line is None or not line.stride:
            self._count_scattered(one)
            self._add_in_order(pointer, one)
        elif line.unless is None:
            self._add_apart(pointer, one)
        else:
            if line.read:
                self._count_scattered(one)
            self._unless(
                line, lambda: self._add_apart(pointer, one), lambda: self._add_in_order(pointer, one)
            )

    def _count_scattered(self, one: PendingStore) -> None:
        """Note that this is added for one lane after the other."""
        self.scattered += len(one.values)
        if self.loops:
            raise NotWorthIt("not worth it in lanes")

    def _make_group(self, pointer: str, one: PendingStore, line: LinearValue) -> None:
        """All components: one stretch of memory, but in blocks of threads whose elements do not count."""

        def together() -> None:
            self._make_together(self._at(pointer, one.kind, line.base), one)

        def apart() -> None:
            (self._add_in_order if one.adds else self._scatter_all)(pointer, one)

        if line.unless is None:
            together()
            return
        if one.adds and line.read:
            self._count_scattered(one)
        self._unless(line, together, apart)

    def _scatter_all(self, pointer: str, one: PendingStore) -> None:
        for component, value in one.values.items():
            self._scatter(pointer, one.kind, self._component(one, component), self._broadcast(value))

    def _component(self, one: PendingStore, component: int) -> Operand:
        index = one.index[0], self._moved_all(one.index, component)
        return index

    def _make_together(self, place: str, one: PendingStore) -> None:
        """All components of all lanes: one stretch of memory."""
        size, width, of = len(one.values), self.width, llvm_type(one.kind)
        many, part = f"<{size * width} x {of}>", f"<{width} x {of}>"
        sorted_in = [self._broadcast(one.values[component]) for component in range(size)]
        pair = f"<{2 * width} x {of}>"
        halves = []
        for left, right in zip(sorted_in[::2], [*sorted_in[1::2], "poison"], strict=False):
            halves.append(self._value("", shuffle(part, left, right, range(2 * width)))[1])
        other = halves[1] if len(halves) > 1 else "poison"
        lanes = (lane + width * component for lane in range(width) for component in range(size))
        value = self._value("", shuffle(pair, halves[0], other, lanes))[1]
        align = alignment(one.kind)
        self._fetch(place, one.kind, size * width)
        if one.adds:
            old = self._value("", f"load {many}, ptr {place}, align {align}")[1]
            value = self._value("", f"{self._adding(one.kind)} {many} {old}, {value}")[1]
        self._write(f"store {many} {value}, ptr {place}, align {align}")

    def _scatter(self, pointer: str, kind: str, index: Operand, value: str) -> None:
        """Stores; where lanes meet, the last one's stays."""
        line, of, align = self.linear_values.get(index[1]), self._type("~" + kind), alignment(kind)
        if line is not None and line.unless is None and line.stride == 1:
            place = self._at(pointer, kind, line.base)
            if self.mask is None and self.names.streams:
                self._stream(of, value, place, align)
                return
            if self.mask is None:
                self._fetch(place, kind, self.width)
                self._write(f"store {of} {value}, ptr {place}, align {align}")
                return
            self._write(self._masked(kind).store(value, place, self.mask))
            return
        places = self._places(pointer, kind, index)
        self._write(self._masked(kind).scatter(value, places, self._lanes()))

    def _stream(self, of: str, value: str, place: str, align: int) -> None:
        """Store a vector past the caches, if it is aligned as processors demand."""
        size = min(align * self.width, WIDEST // 8)  # of two vectors, each is stored by itself
        name = f"td.stream.{self.width}.{of.rpartition(' ')[2].rstrip('>')}"
        self.needs["!0 = !{i32 1}"] = None
        self.needs[STREAM.format(name=name, of=of, rest=size - 1, size=size, align=align)] = None
        self._write(f"call void @{name}({of} {value}, ptr {place})")

    def _add_apart(self, pointer: str, one: PendingStore) -> None:
        """Additions to elements that differ from lane to lane."""
        for component, value in one.values.items():
            index = self._component(one, component)
            line = self.linear_values[index[1]]
            straight = replace(line, unless=None)
            if line.stride == 1:
                self.linear_values[index[1]] = straight
                old = self._load_contiguous(pointer, one.kind, straight)
                self.leads = False  # the load has fetched what the store would
            else:
                self.scattered += self.mask is None
                old = self._gather(pointer, one.kind, index)
            of = self._type("~" + one.kind)
            total = self._value("", f"{self._adding(one.kind)} {of} {old[1]}, {self._broadcast(value)}")[1]
            self._scatter(pointer, one.kind, index, total)
            self.linear_values[index[1]] = line

    def _add_in_order(self, pointer: str, one: PendingStore) -> None:
        """Additions for one lane after the other."""
        places = self._spread(("~i64", self._broadcast(one.index)))
        values = {c: self._spread(("~" + one.kind, self._broadcast(v))) for c, v in one.values.items()}

        def lane(number: str) -> None:
            index = self._lane_of(places, "i64", number)
            for component, slot in values.items():
                place = self._at(pointer, one.kind, self._moved(index, component))
                self._add(place, one.kind, self._lane_of(slot, one.kind, number))

        self._each_lane(lane)

    def _to_one(self, pointer: str, one: PendingStore) -> None:
        """Stores and additions to one element for all lanes."""
        for component, value in one.values.items():
            index = self._moved_all(one.index, component)
            place = self._at(pointer, one.kind, index)
            varying = self._broadcast(value)
            if not one.adds:
                last = self._last_lane("~" + one.kind, varying)
                self._write(f"store {llvm_type(one.kind)} {last}, ptr {place}")
                continue
            node = one.nodes[component]
            if isinstance(node, ast.AugAssign) and self._is_uniform(node):
                self._accumulate(node, one.kind, index, varying)
            else:
                self._add(place, one.kind, self._total(one.kind, self._counted(one.kind, varying)))

    def _is_uniform(self, node: ast.AugAssign) -> bool:
        return isinstance(node.target, ast.Subscript) and self.names.is_invariant(node.target.slice)
