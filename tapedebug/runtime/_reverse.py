"""The reverse pass: adjoint arguments of all records packed into one table, then run backwards.

The same code serves the arrays of the user and the private memory of a `Shadow`; a `Space` says where values
and adjoints are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from tapedebug.runtime.array import array
from tapedebug.runtime.buffer import Bytes
from tapedebug.runtime.record import Record
from tapedebug.runtime.versions import Need, Scratch

Values = np.ndarray[Any, Any]
Step = tuple[Record, Callable[[int, int, int], Any], int, int]
"""Record, what to call, number of threads, address of the packed arguments."""


class Space(Protocol):
    """Where a reverse pass finds values and adjoints."""

    @property
    def f64(self) -> bool:
        """Float32 arrays are held as float64."""

    @property
    def moved(self) -> bool:
        """Values are not where the records packed them."""

    def value(self, a: array) -> int:
        """Address of the first element now."""

    def adjoint(self, a: array) -> int:
        """Address of the first element's adjoint."""

    def adjoint_view(self, a: array) -> Values:
        """The adjoint as a NumPy view."""

    def kept(self, record: Record, need: Need) -> Bytes | None:
        """The values that were current when `record` ran, where they are no more in place."""

    def scratch(self, record: Record, scratch: Scratch) -> Bytes:
        """A fresh copy of the values that an in-place launch starts from; its adjoint changes it."""

    def offset(self, a: array, start: int) -> int:
        """Bytes from `start` of the array's buffer to the first element, in this space."""

    def call(self, record: Record) -> None:
        """Run the custom reverse function of a record."""


class Table:
    """The packed arguments of a reverse pass; keeps everything alive that they point to."""

    def __init__(self, records: list[Record], space: Space) -> None:
        self.space = space
        chosen = [r for r in records if r.kind == "kernel"]
        self.memory = np.frombuffer(b"".join([r.packed for r in chosen]), dtype=np.uint64).copy()
        self.words = memoryview(self.memory.data)
        self.held: list[Any] = [self.memory]
        self.base: dict[int, int] = {}
        at = 0
        for r in chosen:
            self.base[r.index] = at
            at += len(r.packed) // 8

    def steps(self, records: list[Record]) -> Iterator[Step]:
        """What a reverse pass calls for each record that has an adjoint, in recorded order."""
        for record in records:
            if not record.plan.active:
                continue
            if record.kind != "kernel":
                yield record, _special(record, self.space), 0, 0
            elif record.info is not None:
                yield self._kernel(record)

    def forward(self, record: Record) -> int:
        """The address of a record's packed arguments, for a forward run in this space."""
        base = self.base[record.index]
        for p in record.plan.arrays:
            self.words[base + record.plan.kernel.layout.values[p]] = self.space.value(record.args[p])
        address: int = self.memory.ctypes.data + 8 * base
        return address

    def _kernel(self, record: Record) -> Step:
        plan, args, words, space = record.plan, record.args, self.words, self.space
        base, layout = self.base[record.index], plan.kernel.layout
        for p in plan.arrays if space.moved else ():
            words[base + layout.values[p]] = space.value(args[p])
        for p in plan.active:
            words[base + layout.adjoints[p]] = space.adjoint(args[p])
        for p, need in zip(plan.needed, record.needs, strict=True):
            copy = space.kept(record, need)
            if copy is not None:
                self.held.append(copy)
                words[base + layout.values[p]] = copy.ctypes.data + space.offset(args[p], need.start)
        address = self.memory.ctypes.data + 8 * base
        if record.scratch:
            return record, self._replaying(record, base), record.threads, address
        return record, plan.adjoint_run(frozenset(), space.f64), record.threads, address

    def _replaying(self, record: Record, base: int) -> Callable[[int, int, int], Any]:
        """An adjoint that re-executes stores: into a copy of the values, made when it runs."""
        plan, layout, words, space = record.plan, record.plan.kernel.layout, self.words, self.space
        entry = plan.adjoint_run(record.replay, space.f64)

        def run(lo: int, hi: int, where: int) -> None:
            copies = []
            for scratch in record.scratch:
                copy = space.scratch(record, scratch)
                copies.append(copy)
                for p in scratch.params:
                    words[base + layout.values[p]] = copy.ctypes.data + space.offset(
                        record.args[p], scratch.start
                    )
            entry(lo, hi, where)

        return run


def _special(record: Record, space: Space) -> Callable[[int, int, int], Any]:
    """The adjoint of a copy, a fill or a custom function."""
    if record.kind == "func":
        return lambda lo, hi, where: space.call(record)
    active = record.plan.active
    if record.kind == "fill":
        return lambda lo, hi, where: space.adjoint_view(record.args[0]).fill(0)

    def copied(lo: int, hi: int, where: int) -> None:
        if 0 not in active:
            return
        dest = space.adjoint_view(record.args[0])
        passed = dest.copy()
        dest.fill(0)
        if 1 in active:
            source = space.adjoint_view(record.args[1])
            source += passed

    return copied
