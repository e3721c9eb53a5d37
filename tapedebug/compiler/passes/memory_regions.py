"""Accesses of a function to each memory region, and the thread orders that they allow.

A region is one of an array's memories: its values, its adjoint, or the tangent of one of these. Threads meet
where one changes an element that another uses; where analysis shows that they do not, they may run in another
order than one after the other: several at a time in lockstep, or chunks of them on several processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from tapedebug._dataclass import dataclass
from tapedebug.compiler.ir import (
    ADJOINT,
    ADJOINT_DOT,
    DIAGNOSTICS,
    DOT,
    MEMORY,
    NATIVE,
    Block,
    For,
    Function,
    Op,
    Value,
    While,
    blocks_of,
    operands,
    walk,
)
from tapedebug.compiler.parallel_info import Pair, Place
from tapedebug.lang import types as t

BARRED = NATIVE | DIAGNOSTICS | {"native_result", "trace", "log_push", "log_load"}
"""Operations that make threads depend on their order, or may do so."""


@dataclass(frozen=True, slots=True)
class Access:
    """One operation on memory.

    Attributes:
        how: `"load"`, `"store"` or `"add"`: an addition whose result is unused.
        op: The operation.
        looped: Whether a thread may do it more than once.
    """

    how: str
    op: Op
    looped: bool

    @property
    def indices(self) -> tuple[Value, ...]:
        """The indices of the element, one for each axis of the array."""
        return indices_of(self.op)


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """Effects of a function on one memory of one array.

    Attributes:
        side: Which of the array's memories.
        param: The array parameter.
        accesses: All of them, in program order.
        at: For each thread axis, the array axes on which every access has exactly that index.
    """

    side: str
    param: int
    accesses: tuple[Access, ...]
    at: tuple[frozenset[int], ...]

    @property
    def place(self) -> Place:
        """The side and the parameter of the region."""
        return self.side, self.param

    @property
    def does(self) -> frozenset[str]:
        """The kinds of its accesses."""
        return frozenset(access.how for access in self.accesses)

    @property
    def thread_private(self) -> bool:
        """True if no other thread can access an element that a thread accesses."""
        return bool(self.at) and all(self.at)

    @property
    def once(self) -> bool:
        """True if it is only stored to: each component by one operation outside loops, all at one element."""
        components = [access.op.data[1] for access in self.accesses]
        return (
            self.does == {"store"}
            and len(set(components)) == len(components)
            and len({access.op.args[0] for access in self.accesses}) == 1
            and not any(access.looped for access in self.accesses)
        )


def memory_regions(function: Function) -> dict[Place, MemoryRegion]:
    """The memory regions that a function accesses."""
    used = _used(function)
    found: dict[Place, list[Access]] = {}
    for block in function.blocks:
        for op, looped in _memory(block, looped=False):
            for how in _how(op, used):
                found.setdefault((side_of(op), op.data[0]), []).append(Access(how, op, looped))
    return {
        place: MemoryRegion(*place, tuple(accesses), own_axes(function.axes, (a.indices for a in accesses)))
        for place, accesses in found.items()
    }


def in_lanes(function: Function) -> bool:
    """True if consecutive threads may run in lockstep, each operation for all lanes before the next.

    The results are then the same, except for sums, whose terms are added in another order. The pairs of
    regions that `pairs` lists must not share memory. A variant that checks its indices (`diagnostics.BOUNDS`)
    ends at the first thread that is out of bounds, which this does not consider.
    """
    if not unordered(function):
        return False
    return all(
        region.does in _HARMLESS or region.thread_private or region.once
        for region in memory_regions(function).values()
    )


def pairs(function: Function) -> tuple[Pair, ...]:
    """The regions of which two must not share memory for `in_lanes` to hold."""
    found = []
    for one, other in combinations(memory_regions(function).values(), 2):
        both = one.does | other.does
        elements = [_element(function, region.param) for region in (one, other)]
        same = elements[0] == elements[1]
        if both == {"load"} or (both == {"add"} and same):
            continue
        meet = same and one.thread_private and other.thread_private
        alike = meet and all(a & b for a, b in zip(one.at, other.at, strict=True))
        found.append(Pair(one.place, other.place, alike))
    return tuple(found)


_HARMLESS = (frozenset({"load"}), frozenset({"add"}))


def unordered(function: Function) -> bool:
    """True if only accesses to memory can make threads depend on their order."""
    if function.prelude is not None or function.backwards:
        return False
    return not any(op.kind in BARRED and not _is_of_numbers(op) for op in function.ops())


def _is_of_numbers(op: Op) -> bool:
    """Return whether an operation is a call of a function that only computes numbers from numbers."""
    return op.kind in ("native_value", "native_result") and op.data[0].by_value


def _element(function: Function, param: int) -> tuple[type[t.Scalar], int]:
    kind = function.params[param].type
    return t.scalar_of(kind), t.components(kind)


def side_of(op: Op) -> str:
    """Return the memory of an array that an operation accesses."""
    if op.kind in ADJOINT:
        return "adjoint"
    if op.kind in DOT:
        return "dot"
    return "adjoint_dot" if op.kind in ADJOINT_DOT else "value"


def _how(op: Op, used: set[Value]) -> tuple[str, ...]:
    kind = op.kind.partition("_")[0]
    if kind != "atomic":
        return (kind,)
    return ("load", "store") if op.result in used else ("add",)


def _used(function: Function) -> set[Value]:
    """The values that anything uses."""
    used: set[Value] = set()
    for block in function.blocks:
        used.update(block.yields)
        for node in walk(block):
            used.update(operands(node))
            for inner in blocks_of(node):
                used.update(inner.yields)
    return used


def _memory(block: Block, *, looped: bool) -> Iterator[tuple[Op, bool]]:
    """The operations on memory in program order, each with whether it stands in a loop."""
    for node in block.ops:
        if isinstance(node, Op):
            if node.kind in MEMORY:
                yield node, looped
            continue
        for inner in blocks_of(node):
            yield from _memory(inner, looped=looped or isinstance(node, For | While))


def indices_of(op: Op) -> tuple[Value, ...]:
    """The indices of the element that an operation accesses, one for each axis of the array."""
    offset = op.args[0].op
    assert offset is not None
    return offset.args


def own_axes(axes: int, places: Iterable[tuple[Value, ...]]) -> tuple[frozenset[int], ...]:
    """For each of so many thread axes, the array axes on which all these elements have exactly that index.

    Where none of these is empty, no other thread accesses an element that a thread accesses.
    """
    found = [
        {(thread, axis) for axis, value in enumerate(indices) if (thread := _thread(value)) is not None}
        for indices in places
    ]
    common = set.intersection(*found)
    return tuple(frozenset(axis for thread, axis in common if thread == k) for k in range(axes))


def _thread(value: Value) -> int | None:
    """Return the axis whose thread index a value is, or None."""
    op = value.op
    while op is not None and op.kind in ("to_i64", "to_i32"):
        op = op.args[0].op
    return int(op.data[0]) if op is not None and op.kind == "thread" else None
