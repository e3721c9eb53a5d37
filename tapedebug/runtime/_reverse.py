"""The reverse pass: adjoint arguments of all records packed into one table, then run backwards.

The same code serves the arrays of the user and the private memory of a `Shadow`; a `Space` says where values
and adjoints are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tapedebug.lang import types
from tapedebug.runtime._large import sized
from tapedebug.runtime.array import array
from tapedebug.runtime.buffer import Bytes
from tapedebug.runtime.ledger import Need, Scratch
from tapedebug.runtime.plan import NOTHING, Plan, Runner
from tapedebug.runtime.record import Record

Values = np.ndarray[Any, Any]
Step = tuple[Record, Runner, int, int]
"""Record, what to call, number of threads, address of the packed arguments."""


class Space(Protocol):
    """Where a reverse pass finds values and adjoints."""

    @property
    def f64(self) -> bool:
        """Float32 arrays are held as float64."""

    @property
    def rounded(self) -> bool:
        """The adjoints of a float64 twin round as float32 does, but elsewhere."""

    @property
    def moved(self) -> bool:
        """Values are not where the records packed them."""

    @property
    def live(self) -> bool:
        """This is the user's own reverse pass: what kernels say in it is shown."""

    @property
    def guarded(self) -> bool:
        """Adjoints may see other values than their launches did: an index among them must not lead astray."""

    def value(self, a: array) -> int:
        """Address of the first element now."""

    def adjoint(self, a: array) -> int:
        """Address of the first element's adjoint."""

    def adjoint_view(self, a: array) -> Values:
        """The adjoint as a NumPy view."""

    def stretch(self, a: array) -> int:
        """How much further apart its elements are than in the user's memory, in scalars."""

    def kept(self, record: Record, need: Need) -> Bytes | None:
        """The values that were current when `record` ran, where they are no more in place."""

    def scratch(self, record: Record, scratch: Scratch) -> Bytes:
        """A fresh copy of the values that an in-place launch starts from; its adjoint changes it."""

    def in_memory(self, record: Record) -> frozenset[int]:
        """Parameters that a launch wrote in place and whose values its adjoint reads in memory."""

    @property
    def as_warp(self) -> bool:
        """Records are reversed as Warp reverses them, right or wrong."""

    def offset(self, a: array, start: int) -> int:
        """Bytes from `start` of the array's buffer to the first element, in this space."""

    def call(self, record: Record) -> None:
        """Run the custom reverse function of a record."""


_CHAR = ctypes.c_char


class _Found(dict[Any, Any]):
    """What was asked for before: tapes use few arrays and plans many times."""

    def __init__(self, look: Callable[[Any], Any]) -> None:
        super().__init__()
        self.look = look

    def __missing__(self, key: Any) -> Any:
        found = self[key] = self.look(key)
        return found


class Table:
    """The packed arguments of a reverse pass; keeps everything alive that they point to."""

    def __init__(self, records: list[Record], space: Space) -> None:
        self.space = space
        chosen = [r for r in records if r.plan.kernel is not None]
        packed = b"".join([self._packed(r) for r in chosen])
        self.memory = np.frombuffer(packed or bytes(8), dtype=np.uint64).copy()
        self.start: int = self.memory.ctypes.data
        self.words = memoryview(self.memory.data)
        self.held: list[Any] = [self.memory]
        self.values = _Found(space.value)
        self.adjoints = _Found(space.adjoint)
        self.factors = _Found(space.stretch)
        self.runs: dict[Plan, Runner] = {}
        self.copies: dict[int, int] = {}
        self.base: dict[int, int] = {}
        at = 0
        for r in chosen:
            self.base[r.index] = at
            at += len(self._packed(r)) // 8

    def _packed(self, record: Record) -> bytes:
        """The slots of a record as they begin."""
        return record.packed

    def _entry(self, plan: Plan, replay: frozenset[int], memory: frozenset[int]) -> Runner:
        """What reverses the launches of a plan."""
        space = self.space
        return plan.adjoint_run(replay, space.f64, space.guarded, space.live, memory, space.rounded)

    def _special(self, record: Record) -> Runner:
        """The adjoint of a copy, a fill or a custom function."""
        if record.kind == "func":
            return lambda lo, hi, where: self.space.call(record)
        return reverse_special(record, self.space.adjoint_view)

    def steps(self, records: list[Record]) -> list[Step]:
        """What a reverse pass calls for each record that has an adjoint, in recorded order."""
        steps: list[Step] = []
        space = self.space
        for record in records:
            plan = record.plan
            if not plan.active:
                continue
            if plan.kernel is None:
                if space.as_warp and record.is_off_warps_tape:
                    continue
                steps.append((record, self._special(record), 0, 0))
            elif plan.info is not None:
                steps.append(self._kernel(record, plan))
        return steps

    def forward(self, record: Record) -> int:
        """The address of a record's packed arguments, for a forward run in this space."""
        base = self.base[record.index]
        for p, slot in record.plan.value_slots:
            a = record.args[p]
            self.words[base + slot] = self.values[a]
            factor = self.factors[a]
            if factor != 1:
                scalar = types.numpy_dtype(a.dtype).itemsize
                for axis, stride in enumerate(a.strides, start=base + slot + 1 + a.ndim):
                    self.words[axis] = stride // scalar * factor % 2**64
        return self.start + 8 * base

    def _kernel(self, record: Record, plan: Plan) -> Step:
        args, words, space, adjoints = record.args, self.words, self.space, self.adjoints
        base = self.base[record.index]
        if space.moved:
            self.forward(record)
        for p, slot in plan.adjoint_slots:
            words[base + slot] = adjoints[args[p]]
        for (p, slot), need in zip(plan.needed_slots, record.needs, strict=True):
            if need.clobber is not None or need.copy is not None:
                copy = space.kept(record, need)
                if copy is not None:
                    words[base + slot] = self._held(copy) + space.offset(args[p], need.start)
        retained = frozenset(p for p in plan.active if args[p].retain_grad) if space.as_warp else NOTHING
        warps = plan.warp_run(retained) if space.as_warp and not space.f64 else None
        if warps is not None:
            run = warps
        elif record.scratch:
            run = self._replaying(record, base)
        else:
            run = self.runs.get(plan) or self.runs.setdefault(plan, self._entry(plan, NOTHING, NOTHING))
        return record, sized(run, record.threads), record.threads, self.start + 8 * base

    def _held(self, copy: Bytes) -> int:
        """The address of a copy, which is kept alive."""
        address = self.copies.get(id(copy))
        if not address:
            self.held.append(copy)
            address = self.copies[id(copy)] = address_of(copy)
        return address

    def _replaying(self, record: Record, base: int) -> Runner:
        """An adjoint that re-executes stores: into a copy of the values, made when it runs."""
        words, space, slots = self.words, self.space, dict(record.plan.value_slots)
        memory = space.in_memory(record)
        entry = self._entry(record.plan, record.replay - memory, memory)
        again = [scratch for scratch in record.scratch if not memory.issuperset(scratch.params)]
        if not again:
            return entry

        def run(lo: int, hi: int, where: int) -> None:
            copies = []
            for scratch in again:
                copy = space.scratch(record, scratch)
                copies.append(copy)
                start = address_of(copy)
                for p in scratch.params:
                    words[base + slots[p]] = start + space.offset(record.args[p], scratch.start)
            entry(lo, hi, where)

        return run


def address_of(copy: Any) -> int:
    """The address of the first byte; twice as fast as `copy.ctypes.data`, and asked for very often."""
    return ctypes.addressof(_CHAR.from_buffer(copy)) if copy.size else 0


def reverse_special(record: Record, view: Callable[[array], Values]) -> Runner:
    """The adjoint of a copy or a fill, on the adjoint memory that `view` shows."""
    active = record.plan.active
    if record.kind == "fill":
        return lambda lo, hi, where: view(record.args[0]).fill(0)

    def copied(lo: int, hi: int, where: int) -> None:
        if 0 not in active:
            return
        dest = view(record.args[0])
        passed = dest.copy()
        dest.fill(0)
        if 1 in active:
            source = view(record.args[1])
            source += passed

    return copied
