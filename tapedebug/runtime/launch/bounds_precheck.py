"""Prove before a launch that no index is outside its array, so that the launch runs unchecked.

Ranges of indices are compared with shapes once for each launch (`compiler.bounds`). Indices without a known
range are tested by a probe: a variant that computes them and writes nothing. If neither is possible, or an
index is outside, the checked variant runs: one thread after the other, each index tested before its use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import string_at
from math import prod
from struct import Struct
from typing import TYPE_CHECKING, Any

from tapedebug.compiler.bounds import ALL, UNKNOWN, Reaches
from tapedebug.compiler.diagnostics import BOUNDS
from tapedebug.compiler.layout import DIMS
from tapedebug.compiler.parallel_info import Bound, Place, evaluated
from tapedebug.compiler.variant import Variant
from tapedebug.lang import types
from tapedebug.runtime.launch.argument_packing import address_of
from tapedebug.runtime.launch.print_buffer import FAILED, PRINT_BUFFER
from tapedebug.runtime.memory.alias_spans import alias_span, contiguous
from tapedebug.runtime.memory.block_allocator import MARGIN
from tapedebug.runtime.parallel.parallel_entry import ParallelEntry

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import Runner
    from tapedebug.runtime.tape.record import Record

REMEMBERED = 8192
"""Number of launches for which the results of the range test and of the test for shared memory are cached."""


NEAR = MARGIN // 4
"""Bytes around a buffer that replays may access out of bounds without harm; float64 doubles the distance."""


def are_confined(records: Sequence[Record]) -> bool:
    """True if no unchecked launch of a tape can access memory outside the private copy of a replay.

    The test uses static ranges only; an index that is read from memory can have any value.
    """
    tests: dict[Any, BoundsPrecheck] = {}
    for record in records:
        plan: Any = record.plan
        if record.kind != "kernel" or BOUNDS in plan.diagnostics:
            continue
        if plan not in tests:
            variant = Variant("forward", strided=plan.strided)
            tests[plan] = BoundsPrecheck(plan.kernel, variant, plan.large, plan.large)
        room = {}
        for param in plan.arrays:
            a = record.args[param]
            before = a.ptr - a.buffer.address
            room[param] = before + NEAR, a.buffer.nbytes - before + NEAR
        if not tests[plan].is_confined(record.threads, address_of(record.packed), room):
            return False
    return True


class BoundsPrecheck:
    """A runner that uses the unchecked variant if no index is outside, else the checked one.

    Args:
        kernel: The kernel.
        variant: The variant without tests.
        plain: The runner of that variant.
        otherwise: The runner of the variant with tests, which reports an index outside, or of the one that
            keeps indices inside.

    Attributes:
        plain: The runner of the unchecked variant.
    """

    def __init__(self, kernel: Any, variant: Variant, plain: Runner, otherwise: Runner) -> None:
        self.kernel, self.variant, self.plain, self.otherwise = kernel, variant, plain, otherwise
        self._reaches: Reaches | None = None
        self._words = Struct("")
        self._known: dict[Any, bool] = {}
        self._aliased: dict[tuple[str, bytes], bool] = {}
        self._probes: dict[str, ParallelEntry] = {}

    def __call__(self, lo: int, hi: int, args: int) -> None:
        """Run threads; `args` is the address of the packed slots.

        Raises:
            BoundsError: An index was outside its array.
        """
        (self.plain if self.is_inside(hi, args, lo) else self.otherwise)(lo, hi, args)

    def in_pieces(self, threads: int, address: int) -> Runner:
        """Return the runner of the parts of a launch: the unchecked one if no thread has an index outside."""
        return self.plain if self.is_inside(threads, address) else self

    def packing(
        self, packed: Callable[[bytes, tuple[Any, ...]], bytes | None], written: Sequence[int]
    ) -> Callable[[bytes, tuple[Any, ...]], Any]:
        """Return a function that packs a launch, and raises if an index would be outside.

        A launch that raises leaves memory unchanged.
        """

        def tested(sizes: bytes, args: tuple[Any, ...]) -> bytes | None:
            slots = packed(sizes, args)
            if slots is not None:
                address, threads = address_of(slots), prod(memoryview(sizes).cast("q"))
                if threads and not self.is_inside(threads, address):
                    self._tried(threads, address, [args[p] for p in written])
            return slots

        return tested

    def _tried(self, threads: int, address: int, written: list[Any]) -> None:
        from tapedebug.runtime.launch.checked_launch import Memory

        before = Memory(written)
        try:
            self.otherwise(0, threads, address)
        finally:
            before.restore()

    def is_shown(self, threads: int, address: int) -> bool:
        """True if ranges prove that no index can be outside, independent of the content of memory."""
        found, known, _ = self._looked_up(threads, address)
        return known and not found.unknown

    def is_inside(self, threads: int, address: int, first: int = 0) -> bool:
        """True if no index of a launch can be outside; False if one is, or if that cannot be proved.

        Threads before `first` are not probed: a launch that runs piece by piece probes each thread once.
        """
        found, known, raw = self._looked_up(threads, address)
        if known and not found.unknown:
            return True
        kind = UNKNOWN if known else ALL
        read = found.probed.get(kind)
        return (
            read is not None
            and not self._may_alias(found, kind, raw)
            and self._passes(kind, read, (first, threads), address)
        )

    def is_confined(self, threads: int, address: int, room: Mapping[int, tuple[int, int]]) -> bool:
        """True if each index has a range that stays inside its array or within the given room around it.

        Args:
            threads: Number of threads.
            address: Address of the packed slots.
            room: For each array parameter, the accessible bytes before its first element and from there on.
        """
        found, known, raw = self._looked_up(threads, address)
        if found.unknown:
            return False
        return known or self._are_near(found, threads, raw, room)

    def _looked_up(self, threads: int, address: int) -> tuple[Reaches, bool, bytes]:
        """Return facts about the indices, True if their ranges are inside in this launch, and its slots."""
        found = self._reaches
        if found is None:
            found = self._reaches = self.kernel.reaches(self.variant)
            self._words = self._selected(found)
        raw = string_at(address, self._words.size)
        key = threads, self._words.unpack(raw)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[key] = self._are_within(found, threads, raw)
        return found, known, raw

    def _passes(self, kind: str, read: Sequence[int], threads: tuple[int, int], address: int) -> bool:
        """Return the result of a probe, which is known if the same launch ran and it reads no memory."""
        if read:
            return self._probed(kind, threads, address)
        key = kind, threads, string_at(address, self.kernel.layout.size)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._probed(kind, threads, address)
        return found

    def _probed(self, kind: str, threads: tuple[int, int], address: int) -> bool:
        probe = self._probes.get(kind)
        if probe is None:
            probe = self._probes[kind] = ParallelEntry(self.kernel.probing(self.variant, kind), self.kernel)
        with PRINT_BUFFER.lock:
            PRINT_BUFFER.header[FAILED] = 0
            probe(*threads, address)
            return not PRINT_BUFFER.header[FAILED]

    def _bound_reader(self, threads: int, words: memoryview) -> Callable[[str, int, int], int]:
        layout, rest = self.kernel.layout, prod(words[1 : max(1, self.kernel.axes)])

        def look(kind: str, a: int, b: int) -> int:
            if kind == "argument":
                return int(words[layout.values[a] + b])
            if kind == "extent":
                return int(words[layout.shape(a, b)])
            return (
                int(words[a]) if a else -(-threads // rest)
            )  # a kernel may use fewer axes than the launch has

        return look

    def _are_within(self, found: Reaches, threads: int, raw: bytes) -> bool:
        look = self._bound_reader(threads, memoryview(raw).cast("q"))
        try:
            return all(reach.is_inside(look) for reach in found.known)
        except OverflowError:
            return False

    def _are_near(
        self, found: Reaches, threads: int, raw: bytes, room: Mapping[int, tuple[int, int]]
    ) -> bool:
        words = memoryview(raw).cast("q")
        look = self._bound_reader(threads, words)
        ends: dict[int, dict[int, tuple[int, int]]] = {}
        for reach in found.known:
            if not isinstance(reach.length, tuple) or reach.length[0] != "extent":
                return False  # a component, or a slice made in the kernel
            _, param, axis = reach.length
            try:
                low, high = evaluated(reach.low, look), evaluated(reach.high, look)
            except OverflowError:
                return False
            known = ends.setdefault(param, {}).get(axis, (0, 0))
            ends[param][axis] = min(low, known[0]), max(high, known[1])
        for param, axes in ends.items():
            _, strides, item = self._form(("value", param), words)
            steps = [sorted(end * strides[axis] for end in both) for axis, both in axes.items()]
            low, high = (sum(column) for column in zip(*steps, strict=True))
            before, behind = room[param]
            if low < -before or high + item > behind:
                return False
        return True

    def _selected(self, found: Reaches) -> Struct:
        """Return a format that selects the words of the slots on which the range test depends."""
        layout, wanted = self.kernel.layout, {*range(1, DIMS)}

        def add(bound: Bound) -> None:
            if isinstance(bound, int):
                return
            if bound[0] == "argument":
                wanted.add(layout.values[bound[1]] + bound[2])
            elif bound[0] == "extent":
                wanted.add(layout.shape(bound[1], bound[2]))
            elif bound[0] != "size":
                for inner in bound[1:]:
                    add(inner)

        for reach in found.known:
            for bound in (reach.low, reach.high, reach.length):
                add(bound)
        slots = range(self.kernel.layout.size // 8)
        return Struct("=" + "".join("q" if slot in wanted else "8x" for slot in slots))

    def _may_alias(self, found: Reaches, kind: str, raw: bytes) -> bool:
        """True if the function may write to memory that a probe reads, because arrays may share memory.

        This follows from the slots alone, which are the same in each run of a replay.
        """
        read = found.probed[kind]
        if not read or not found.written:
            return False
        known = self._aliased.get((kind, raw))
        if known is None:
            if len(self._aliased) >= REMEMBERED:
                self._aliased.clear()
            known = self._aliased[kind, raw] = self._overlap(found, read, raw)
        return known

    def _overlap(self, found: Reaches, read: Sequence[int], raw: bytes) -> bool:
        """True if memory that the probe reads overlaps memory that the function may write to."""
        words = memoryview(raw).cast("q")
        spans = [(*self._span(("value", param), words), False) for param in read]
        spans += [(*self._span(place, words), True) for place in found.written]
        return any(a[0] < b[1] and b[0] < a[1] for a in spans if not a[2] for b in spans if b[2])

    def _span(self, place: Place, words: memoryview) -> tuple[int, int]:
        """Return the addresses of the first byte of an array's memory and of the byte after the last."""
        side, param = place
        layout = self.kernel.layout
        slot = (layout.values if side == "value" else layout.adjoints)[param]
        shape, strides, item = self._form(place, words)
        found = alias_span(place, words[slot], shape, strides, item)
        return found.start, found.stop

    def _form(self, place: Place, words: memoryview) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Return the shape and byte strides of an array, and the bytes of an element."""
        param = place[1]
        layout, kind = self.kernel.layout, self.kernel.params[param].type
        of: Any = types.scalar_of(kind)
        scalar = 8 if self.variant.f64 and types.is_float(of) else types.numpy_dtype(of).itemsize
        item, first = scalar * types.components(kind), layout.shape(param, 0)
        shape = tuple(words[first : first + kind.ndim])
        steps = words[first + kind.ndim : first + 2 * kind.ndim]
        strides = tuple(step * scalar for step in steps) if self.variant.strided else contiguous(shape, item)
        return shape, strides, item
