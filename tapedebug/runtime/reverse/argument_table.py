"""Pack the adjoint arguments of all records into one table and run it backwards.

The same code serves the arrays of the user and the private memory of a `Shadow`; an `AddressSpace` gives the
addresses of values and adjoints.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from struct import pack_into
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from tapedebug.compiler.objects import Entry
from tapedebug.lang import types
from tapedebug.runtime.launch.call_list import DOUBLE, Call, CallList, Pulse
from tapedebug.runtime.launch.plan import NOTHING, LaunchPlan, Runner
from tapedebug.runtime.launch.python_operation import reverse_python
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import ALIGNMENT, Bytes
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.parallel.parallel_entry import sized
from tapedebug.runtime.reverse.inplace_saves import shares_views
from tapedebug.runtime.tape.buffer_versions import InplaceSave, SavedValue
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.runtime.foreign_engine import ForeignReverse

Values = np.ndarray[Any, Any]
Words = np.ndarray[Any, np.dtype[np.int64]]
Columns = tuple[tuple[Any, ...], ...]
"""By parameter, the arguments of some launches."""
Group = tuple[LaunchPlan, list[Record], Columns]
"""A plan, and the records that have it."""


class Steps(NamedTuple):
    """The calls of a reverse pass, as lists with one entry per call.

    Attributes:
        records: The record that it reverses.
        runs: The function to call.
        threads: Its number of threads.
        addresses: The address of its packed arguments.
    """

    records: list[Record]
    runs: list[Runner]
    threads: list[int]
    addresses: list[int]

    def backwards(self) -> Steps:
        """Return the steps in reverse order."""
        return Steps(self.records[::-1], self.runs[::-1], self.threads[::-1], self.addresses[::-1])


def grouped(records: Iterable[Record]) -> list[Group]:
    """Return the records by plan: work done once for all launches of a plan costs little for each."""
    members: dict[LaunchPlan, list[Record]] = {}
    for record in records:
        known = members.get(record.plan)
        if known is None:
            members[record.plan] = [record]
        else:
            known.append(record)
    return [
        (plan, found, tuple(zip(*[r.args for r in found], strict=True))) for plan, found in members.items()
    ]


class AddressSpace(Protocol):
    """The values and adjoints that a reverse pass uses."""

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
        """This is the user's own reverse pass: the output of kernels in it is shown."""

    @property
    def guarded(self) -> bool:
        """Adjoints may see other values than their launches did: their indices must be checked."""

    def value(self, a: array) -> int:
        """Return the present address of the first element."""

    def adjoint(self, a: array) -> int:
        """Return the address of the first element's adjoint."""

    def value_view(self, a: array) -> Values:
        """Return the values as a NumPy view."""

    def adjoint_view(self, a: array) -> Values:
        """Return the adjoint as a NumPy view."""

    def stretch(self, a: array) -> int:
        """Return the ratio of its strides, in scalars, to those in the user's memory."""

    def preserved(self, record: Record, need: SavedValue) -> Bytes | None:
        """Return the values that were current when `record` ran, or None if they are still in place."""

    def inplace_save(self, record: Record, save: InplaceSave) -> Bytes:
        """Return the values that an in-place launch starts from."""

    def in_memory(self, record: Record) -> frozenset[int]:
        """Return the parameters that a launch wrote in place and its adjoint reads from memory."""

    @property
    def foreign(self) -> ForeignReverse | None:
        """The reverse of another engine, which takes precedence where it differs; usually None."""

    def offset(self, a: array, start: int) -> int:
        """Return the bytes from `start` of the array's buffer to the first element, in this space."""

    def call(self, record: Record) -> None:
        """Run the custom reverse function of a record."""


FIRST, CHUNK = 64, 8192
"""Words of the first array of stored arguments, and of the largest."""
FEW = 8
"""Launches of one plan up to which each is packed individually."""


class _Found(dict[Any, Any]):
    """A cache of the results of a function: tapes use few arrays and plans many times."""

    def __init__(self, look: Callable[[Any], Any]) -> None:
        super().__init__()
        self.look = look

    def __missing__(self, key: Any) -> Any:
        found = self[key] = self.look(key)
        return found


class ArgumentTable:
    """The packed arguments of a reverse pass; keeps everything alive that they point to."""

    alone = True

    def __init__(self, records: list[Record], space: AddressSpace) -> None:
        self.space = space
        chosen = [r for r in records if r.plan.kernel is not None]
        packed = [self._packed(r) for r in chosen]
        self.memory = np.frombuffer(b"".join(packed) or bytes(8), dtype=np.uint64).copy()
        self.start = address_of(self.memory)
        self.words = memoryview(self.memory.data)
        self.held: list[Any] = [self.memory]
        self.forget_arrays()
        self.arguments: Words = np.empty(FIRST, np.int64)
        self.held.append(self.arguments)
        self.stored = 0
        self.replaying: dict[tuple[LaunchPlan, frozenset[int], frozenset[int], bool], Runner] = {}
        self.in_place = [r for r in chosen if r.inplace_saves]
        self.scratch: Bytes = np.empty(0, np.uint8)
        starts = accumulate([len(slots) // 8 for slots in packed], initial=0)
        self.base: dict[int, int] = dict(zip([r.index for r in chosen], starts, strict=False))

    def forget_arrays(self) -> None:
        """Clear the cached addresses of values and adjoints, to look them up again."""
        space = self.space
        self.values = _Found(space.value)
        self.adjoints = _Found(space.adjoint)
        self.factors = _Found(space.stretch)
        self.views = _Found(space.adjoint_view)

    def _packed(self, record: Record) -> bytes:
        """Return the initial slots of a record."""
        return record.packed

    def _entry(
        self, plan: LaunchPlan, replay: frozenset[int], memory: frozenset[int], shared: bool = False
    ) -> Runner:
        """Return the function that reverses the launches of a plan."""
        return reversing(plan, self.space, replay, memory, shared=shared)

    def leaving(self, record: Record, places: Mapping[int, int]) -> Runner | None:
        """Return the function that reverses a launch and leaves some incoming adjoints unchanged.

        It is None if there are none: then the usual function does. Args:
            record: A record without in-place saves.
            places: By parameter, one of `AdjointInfo.once`, the address of its adjoint; for the others the
                address in this space is used.
        """
        for p, slot in record.plan.adjoint_slots:
            self.words[self.base[record.index] + slot] = places.get(p) or self.adjoints[record.args[p]]
        return reversing(record.plan, self.space, kept=frozenset(places)) if places else None

    def _special(self, record: Record) -> Runner:
        """Return the adjoint of a copy, a fill, a Python operation or a custom function."""
        if record.kind == "python":
            return reverse_python(record, self.space)
        if record.kind == "func":
            return lambda lo, hi, where: self.space.call(record)
        return reverse_special(record, self.space.adjoint_view)

    def _call_of_special(self, record: Record) -> tuple[Runner, int, int]:
        """Return the call that reverses a record other than a launch: compiled if arrays have no gaps."""
        simple = self.alone and record.kind in {"copy", "fill"} and 0 in record.active
        views = [self.views[record.args[p]] for p in sorted(record.active)] if simple else []
        if not simple or not all(v.flags.c_contiguous for v in views):
            return self._special(record), 0, 0
        from tapedebug.compiler.driver import clear, pass_back

        dest, *sources = views
        what = np.array([v.ctypes.data for v in reversed(views)], np.int64)
        self.held.append(what)
        if not sources:
            return clear(), dest.nbytes, what[-1:].ctypes.data
        if dest.dtype.itemsize < 4 or dest.dtype != sources[0].dtype or np.may_share_memory(*views):
            return self._special(record), 0, 0
        return pass_back(dest.dtype.itemsize == 8), dest.size, what.ctypes.data

    def steps(self, records: list[Record], groups: list[Group] | None = None) -> Steps:
        """Return the calls of a reverse pass for each record that has an adjoint, in recorded order.

        Args:
            records: All or some of those of the table.
            groups: The same by plan, if known.
        """
        foreign = self.space.foreign
        self.replaying.clear()  # the runners depend on settings
        usual: dict[LaunchPlan, Runner] = {}
        own: dict[int, tuple[Runner, int, int]] = {}
        for plan, members, columns in grouped(records) if groups is None else groups:
            if not plan.active:
                continue
            if plan.kernel is None:
                wanted = members if foreign is None else [r for r in members if not foreign.omits(r)]
                own.update({r.index: self._call_of_special(r) for r in wanted})
            elif plan.info is not None:
                self._fill(plan, members, columns)
                others = self.in_place or foreign is not None
                special = {r.index: found for r in members if (found := self._own(r))} if others else {}
                own.update(special)
                if len(special) < len(members):
                    usual[plan] = self._entry(plan, NOTHING, NOTHING)
        chosen = [r for r in records if r.plan in usual or r.index in own]
        base, start = self.base, self.start
        if not own:
            addresses = [start + 8 * base[r.index] for r in chosen]
            return Steps(chosen, [usual[r.plan] for r in chosen], [r.threads for r in chosen], addresses)
        calls = [own.get(r.index) or (usual[r.plan], r.threads, start + 8 * base[r.index]) for r in chosen]
        return Steps(chosen, [c[0] for c in calls], [c[1] for c in calls], [c[2] for c in calls])

    def forward(self, record: Record) -> int:
        """Return the address of a record's packed arguments, for a forward run in this space."""
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

    def _fill(self, plan: LaunchPlan, records: list[Record], columns: Columns) -> None:
        """Pack the addresses of the adjoints of launches of one plan, and of the values that they need."""
        space, adjoints, words, base = self.space, self.adjoints, self.words, self.base
        if space.moved:
            for record in records:
                self.forward(record)
        begin = [base[r.index] for r in records]
        for p, slot in plan.adjoint_slots:
            if len(records) < FEW:
                for at, a in zip(begin, columns[p], strict=True):
                    words[at + slot] = adjoints[a]
            else:
                self.memory[np.array(begin) + slot] = [adjoints[a] for a in columns[p]]
        for record in records if plan.needed else ():
            for need, (p, slot) in zip(record.needs, plan.needed_slots, strict=False):
                if need.copy is not None or need.clobber is not None:
                    copy = space.preserved(record, need)
                    if copy is not None:
                        place = self._address_of_copy(copy) + space.offset(record.args[p], need.start)
                        words[base[record.index] + slot] = place

    def _own(self, record: Record) -> tuple[Runner, int, int] | None:
        """Return the function, threads and arguments that reverse a launch, if not the usual ones."""
        base = self.base[record.index]
        foreign = self.space.foreign
        if foreign is not None:
            if foreign.omits(record):
                return _nothing, 0, 0
            run = None if self.space.f64 else foreign.adjoint_of(record)
            if run is not None:
                return run, record.threads, self.start + 8 * base
        if not record.inplace_saves:
            return None
        run, address = self._replaying(record, base)
        return run, record.threads, address

    def _address_of_copy(self, copy: Bytes) -> int:
        """Return the address of a copy, which is kept alive."""
        self.held.append(copy)
        return address_of(copy)

    def _replaying(self, record: Record, base: int) -> tuple[Runner, int]:
        """Return an adjoint that repeats stores, and the address of its arguments.

        The stores go to a copy of the values that is made just before. All such launches share the memory of
        these copies.
        """
        slots, memory = dict(record.plan.value_slots), self.space.in_memory(record)
        key = (record.plan, record.replay - memory, memory, shares_views(record))
        found = self.replaying.get(key)
        if found is None:
            found = self.replaying[key] = self._entry(*key)
        entry = sized(found, record.threads)
        again = [save for save in record.inplace_saves if not memory.issuperset(save.params)]
        address = self.start + 8 * base
        if not again:
            return entry, address
        sources = [self.space.inplace_save(record, save) for save in again]
        into, copies = self._scratch_address, []
        for save, source in zip(again, sources, strict=True):
            for p in save.params:
                place = into + self.space.offset(record.args[p], save.start)
                self.words[base + slots[p]] = place
            copies += [(into, self._address_of_copy(source), source.nbytes)]
            into += _aligned(source.nbytes)
        if type(entry) is Entry:
            return self.after_copies(entry, address, copies)

        def run(lo: int, hi: int, where: int) -> None:
            for to, source, nbytes in copies:
                parallel_memcpy.move(to, source, nbytes)
            entry(lo, hi, where)

        return run, address

    def after_copies(
        self, entry: Entry, address: int, copies: Sequence[tuple[int, int, int]]
    ) -> tuple[Runner, int]:
        """Return a call that copies memory before it runs an entry, and the address of its arguments.

        Args:
            entry: The entry.
            address: The address of its arguments.
            copies: For each copy its target, its source and its size in bytes.
        """
        from tapedebug.compiler.driver import after_copies

        return after_copies(), self._stored(entry.address, address, len(copies), *chain(*copies))

    def _stored(self, *words: int) -> int:
        """Store the arguments of a call, many of them in one array; return their address."""
        count = len(words)
        if self.stored + count > self.arguments.size:
            self.arguments = np.empty(max(count, min(2 * self.arguments.size, CHUNK)), np.int64)
            self.held.append(self.arguments)
            self.stored = 0
        at, self.stored = self.stored, self.stored + count
        pack_into(f"={count}q", self.arguments.data, 8 * at, *words)
        return address_of(self.arguments) + 8 * at

    @cached_property
    def _scratch_address(self) -> int:
        """The address of memory that has room for the copies of any one launch."""
        sizes = [
            sum([_aligned(self.space.inplace_save(r, s).nbytes) for s in r.inplace_saves])
            for r in self.in_place
        ]
        self.scratch = np.empty(max(sizes), np.uint8)
        return address_of(self.scratch)

    @property
    def nbytes(self) -> int:
        """Memory of the packed arguments, and of the copies that in-place launches start from."""
        return self.memory.nbytes + self.scratch.nbytes


class Reversal:
    """The calls that reverse the records of a replay, by index of the record; each can be replaced.

    Args:
        table: The table of their arguments.
        steps: The steps, in recorded order.
    """

    def __init__(self, table: ArgumentTable, steps: Steps) -> None:
        records, runs, threads, addresses = steps.backwards()
        slower = DOUBLE if table.space.f64 else 1
        seconds = [slower * r.elapsed for r in records]
        self.calls = CallList(runs, threads, addresses, seconds=seconds, held=table)
        self._order = [-r.index for r in records]

    def __contains__(self, index: int) -> bool:
        place = bisect_left(self._order, -index)
        return place < len(self._order) and self._order[place] == -index

    def __getitem__(self, index: int) -> Call:
        return self.calls[bisect_left(self._order, -index)]

    def __setitem__(self, index: int, call: Call) -> None:
        self.calls[bisect_left(self._order, -index)] = call

    def run(self, start: int, stop: int, pulse: Pulse = None) -> None:
        """Reverse records `start-1 … stop`."""
        first, last = bisect_left(self._order, 1 - start), bisect_right(self._order, -stop)
        self.calls.run(first, last, pulse=pulse)


def reversing(
    plan: LaunchPlan,
    space: AddressSpace,
    replay: frozenset[int] = NOTHING,
    memory: frozenset[int] = NOTHING,
    kept: frozenset[int] = NOTHING,
    shared: bool = False,
) -> Runner:
    """Return the function that reverses launches of a plan in a space; see `LaunchPlan.adjoint_run`."""
    return plan.adjoint_run(replay, space.f64, space.guarded, space.live, memory, space.rounded, kept, shared)


def _nothing(lo: int, hi: int, where: int) -> None:
    """Do nothing: the reverse of an operation that another engine does not record."""


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def reverse_special(record: Record, view: Callable[[array], Values]) -> Runner:
    """Return the adjoint of a copy or a fill, on the adjoint memory that `view` returns."""
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
