"""Share reverse-pass plans between equal tapes: a training loop records a new tape in each step.

To prepare and pack the calls of a pass takes as long as to record the tape. An outline keeps them for the
next tape that records the same launches of the same arrays, if neither tape kept a value nor saw a write from
outside; the numbers among the arguments may differ. It refers to no array, and is dropped with the first of
them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from tapedebug.compiler.objects import Entry
from tapedebug.lang import types
from tapedebug.runtime.config import config
from tapedebug.runtime.launch.plan import LaunchPlan
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.parallel.parallel_entry import ParallelEntry
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.runtime.reverse.backward_pass import Prepared

Key = tuple[Any, ...]

REMEMBERED = 16
"""The number of outlines that are kept, and of keys of single tapes that are remembered."""
LONGEST = 100_000
"""Records of a tape whose outline is kept: it takes 200 bytes for each, for as long as the arrays live."""


def settings() -> tuple[Any, ...]:
    """Return the settings that determine which adjoints run, and how."""
    return config.strong_zero, config.interpreted, config.verify_fp


def key_of(tracker: Tracker) -> Key | None:
    """Return the key that tapes with a common outline share; None if the tape can have none."""
    records = tracker.records
    if tracker.kept or tracker.foreign_reverse is not None or tracker.budget is not None:
        return None
    if tracker.outside_meanwhile or (tracker.outside and tracker.outside[0].at < len(records)):
        return None  # other writes came after the last record: no adjoint reads them
    if len(records) > LONGEST or any([record.inplace_saves for record in records]):
        return None
    arrays = tuple([(id(a), a._kind, a._retain_grad) for a in tracker.states])
    return tracker.mode, settings(), arrays, tuple([record.plan for record in records])


class BackwardPlan:
    """The calls of a reverse pass, and the indices of its arrays among those of its tape.

    Attributes:
        table, calls, indices, space, retained, may_raise, fixed: The parts of the prepared pass that refer to
            no array.
        key: The key of the tapes that may use it.
        buffers: For each gradient memory that passes add to, an array that has it.
        emptied, filled: Those of `Prepared.emptied` and `Prepared.filled`.
        written: Those of `Prepared.written`.
        leaves: Those of `Prepared.leaves`.
        nbytes: The memory that a pass took, without its seeds; 0 before the first has ended.
        turn: The number of times that the packed numbers were replaced by those of another tape.
        single_tape: The calls belong to one tape alone.
    """

    def __init__(self, key: Key, tracker: Tracker, prepared: Prepared, gone: Callable[[Any], object]) -> None:
        self.key = key
        places = {a: place for place, a in enumerate(tracker.states)}
        first: dict[Buffer, int] = {}
        for a, place in places.items():
            first.setdefault(a.buffer, place)
        self._alive = [ref(a, gone) for a in places]
        prepared.table.forget_arrays()
        self.table, self.calls, self.indices = prepared.table, prepared.calls, prepared.times.indices
        self.space, self.retained = prepared.space, prepared.retained
        self.may_raise, self.fixed = prepared.may_raise, prepared.fixed
        self.buffers = [first[buffer] for buffer in prepared.memories]
        emptied = set(map(id, prepared.emptied))
        self.emptied = [first[b] for b, memory in prepared.memories.items() if id(memory) in emptied]
        self.filled = [first[b] for b, memory in prepared.memories.items() if id(memory) not in emptied]
        self.written = [places[a] for a in prepared.written]
        self.leaves = [places[a] for leaves in prepared.leaves for a in leaves.arrays]
        self.turn = self.nbytes = 0
        self.single_tape = False
        self._addresses = [memory.address for memory in prepared.memories.values()]
        self._others = _others(tracker.records)
        self._packed = _packed(tracker.records)
        self._loose = np.zeros(len(self._packed) // 8, np.bool_)
        self._loose[[*_loose(tracker.records)]] = True
        self._large = {n: call for n, call in enumerate(self.calls) if type(call[0]) is ParallelEntry}

    def fits(self, tracker: Tracker) -> bool:
        """Return True if it fits a tape with its key; if so, it has the numbers of that tape now."""
        arrays = [*tracker.states]
        memories = [arrays[place].buffer.adjoint for place in self.buffers]
        if [memory and memory.address for memory in memories] != self._addresses:
            return False
        # A tape with the same plans, which are in the key, has such arguments if this one has.
        if self._others and self._others != _others(tracker.records):
            return False
        return self.take_numbers(tracker)

    def take_numbers(self, tracker: Tracker) -> bool:
        """Put the numbers of a tape into the packed arguments, if everything else is the same."""
        packed = _packed(tracker.records)
        if packed == self._packed:
            return not self.single_tape
        return not self.single_tape and len(packed) == len(self._packed) and self._replace_numbers(packed)

    def _replace_numbers(self, packed: bytes) -> bool:
        now, before = (np.frombuffer(each, np.uint64) for each in (packed, self._packed))
        changed = np.flatnonzero(now != before)
        if not self._loose[changed].all():
            return False
        self._packed = b""  # fits nothing, in case of an interrupt
        self.turn += 1
        self.table.memory[changed] = now[changed]
        for number, call in self._large.items():  # the way that these run may depend on numbers
            self.calls[number] = call
        self._packed = packed
        return True


class BackwardPlanCache:
    """The outlines of the last tapes that were not the first of their kind."""

    def __init__(self) -> None:
        self._known: dict[Key, BackwardPlan] = {}
        self._once: deque[int] = deque(maxlen=REMEMBERED)

    def of(self, key: Key | None, tracker: Tracker) -> BackwardPlan | None:
        """Return the outline of a tape, if there is one that fits it."""
        found = None if key is None else self._known.get(key)
        return found if found is not None and found.fits(tracker) else None

    def enter(self, key: Key | None, tracker: Tracker, prepared: Prepared) -> BackwardPlan | None:
        """Keep the prepared pass of a tape that is not the first of its kind: most are the only one."""
        if key is None or not _is_common(tracker, prepared):
            return None
        seen = hash(key)
        if seen not in self._once:
            self._once.append(seen)
            return None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        made = self._known[key] = BackwardPlan(key, tracker, prepared, lambda _: self._known.pop(key, None))
        return made

    def forget(self, outline: BackwardPlan) -> None:
        """Leave an outline to the tape that has it: other tapes cannot use its calls any more."""
        outline.single_tape = True
        outline.turn += 1
        self._known.pop(outline.key, None)


outlines = BackwardPlanCache()


def _is_common(tracker: Tracker, prepared: Prepared) -> bool:
    """Return True if the pass runs compiled code only, and follows from the key."""
    plans = {record.plan for record in tracker.records}
    return (
        all(type(run) in (Entry, ParallelEntry) for run, _, _ in prepared.calls)
        and not prepared.retained.at
        and not any(p.idle or (p.kernel is not None and p.active and p.info is None) for p in plans)
        # If so, packed addresses identify the array.
        and len({buffer.address for buffer in tracker.ledgers}) == len(tracker.ledgers)
    )


def _packed(records: list[Record]) -> bytes:
    return b"".join([record.packed for record in records])


def _others(records: list[Record]) -> list[int]:
    """Return the arguments of copies and fills, which are not packed."""
    return [id(a) for record in records if not record.packed for a in record.args]


def _loose(records: list[Record]) -> Iterator[int]:
    """Yield the positions of the packed numbers."""
    known: dict[LaunchPlan, list[int]] = {}
    at = 0
    for record in records:
        plan = record.plan
        if plan.kernel is not None and plan not in known:
            known[plan] = [*_numbers_of(plan.kernel)]
        for slot in known.get(plan, ()):
            yield at + slot
        at += len(record.packed) // 8


def _numbers_of(kernel: Any) -> Iterator[int]:
    for param, start in zip(kernel.params, kernel.layout.values, strict=True):
        if not param.is_array:
            yield from range(start, start + types.components(param.type))
