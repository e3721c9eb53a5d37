"""`Tape.backward` on the user's arrays: seeds, the pass, retained gradients, undoing an interrupted pass."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from tapedebug._errors import TapedebugWarning
from tapedebug.runtime import messages
from tapedebug.runtime.config import config
from tapedebug.runtime.interrupts import deferred
from tapedebug.runtime.launch.bounds_precheck import BoundsPrecheck
from tapedebug.runtime.launch.call_list import CallList, Times
from tapedebug.runtime.launch.finite_check import FiniteCheck
from tapedebug.runtime.launch.plan import CHECKED, LaunchPlan, Runner, has_gradient
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import ZERO, Buffer, gradients
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.reverse.argument_table import ArgumentTable, Group, Steps, grouped
from tapedebug.runtime.reverse.backward_plan_cache import BackwardPlan, key_of, outlines, settings
from tapedebug.runtime.reverse.borrowed_seed import BorrowedSeed, values_of
from tapedebug.runtime.reverse.live_space import LiveSpace
from tapedebug.runtime.reverse.preset_seeds import (
    NOTHING,
    PresetSeeds,
    is_nothing,
    outputs_of,
    written_arrays,
)
from tapedebug.runtime.reverse.recompute import Recomputation
from tapedebug.runtime.reverse.retained_grad import RetainedGrad
from tapedebug.runtime.reverse.seed_forwarding import SeedForwarding
from tapedebug.runtime.reverse.seeds import SeedMap
from tapedebug.runtime.tape.gradient_history import input_grads_of, note
from tapedebug.runtime.tape.record import Record, Site
from tapedebug.runtime.tape.tracker import Tracker
from tapedebug.runtime.tape.write_barrier import before_write

Values = np.ndarray[Any, Any]


SHORT = 0.2
"""Seconds of recorded forward work up to which a reverse pass is finished before an interrupt is answered."""


class Undo:
    """Puts the gradients back as they were where a block fails; zeros are remembered, not copied."""

    def __init__(self, buffers: list[Buffer]) -> None:
        self.before = [(b, b.fill, b.writes, None if b.fill == ZERO else b.data.copy()) for b in buffers]

    @property
    def nbytes(self) -> int:
        """Memory of the copies."""
        return sum(copy.nbytes for _, _, _, copy in self.before if copy is not None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            return
        for buffer, fill, writes, copy in self.before:
            buffer.data[:] = 0 if copy is None else copy
            buffer.fill, buffer.writes = fill, writes


class _Changing(deferred):
    """A pass that is not interrupted; should it fail all the same, what gradients hold is unknown."""

    __slots__ = ("memories",)

    def __init__(self, memories: list[Buffer]) -> None:
        self.memories = memories

    def __exit__(self, *error: object) -> None:
        for memory in self.memories if error[0] is not None else ():
            memory.fill = None
        deferred.__exit__(self, *error)


def zero_gradient(a: array, site: Site | None = None) -> None:
    """Zero the part of the gradient memory that belongs to `a`."""
    memory = a.buffer.adjoint
    if memory is None or memory.fill == ZERO:
        return
    gradient = a.grad
    assert gradient is not None
    note("zero", gradient, "zero", site)
    if memory.watch:
        before_write(gradient, None, "zero")
    if a.is_contiguous:
        memory.zero_range(a.start, a.stop)
    else:
        gradient._look().fill(0)
        memory.writes += 1


class Ran(NamedTuple):
    """One reverse pass that has ended.

    Attributes:
        preset: The seeds that it found in gradients.
        stale: Those of their arrays in whose gradients an earlier pass, of another tape, had left them.
        leftovers: What it left in those of arrays that the tape writes, as the number of writes to them.
        unseeded: It was given no seed, and all gradients that may hold one were known to be 0.
        nbytes: How many bytes it took: gradients, preserved values, and what else.
    """

    preset: dict[array, Values]
    stale: list[array]
    leftovers: dict[array, int]
    unseeded: bool
    nbytes: int


class Prepared:
    """What a reverse pass calls, worked out once and used again while nothing has changed.

    Attributes:
        memories: The gradient memory of each buffer that the pass adds to.
        short: It is not interrupted: a copy of every gradient would cost more than the pass itself. A long
            one, or one that calls functions of the user, keeps copies, so that Ctrl-C is answered soon and
            exceptions are undone.
        written: The arrays with a gradient that the tape writes, and that the pass may leave something in.
        outputs: The arrays with a gradient that the tape writes, by gradient memory: where a pass may find
            seeds.
        emptied: The gradient memory in which it leaves nothing.
        filled: That in which it may.
        leaves: Those that it never writes.
        reran: How many launches the last pass ran again, for want of memory.
        again: How many bytes that took.
        nbytes: How many bytes the last pass took, but for its seeds.
    """

    def __init__(self, tracker: Tracker) -> None:
        records = tracker.records
        self.tracker = weakref.ref(tracker)
        self.length = len(records)
        self.kept = tracker.kept
        self.settings = settings()
        self.first = 0
        self.reran = self.again = self.nbytes = 0
        self.known_empty = False
        self._views: dict[array, tuple[Buffer, Values]] = {}
        key = key_of(tracker)
        self.outline = outlines.of(key, tracker)
        if self.outline is None:
            emptied = self._work_out(tracker)
            self.outline = outlines.enter(key, tracker, self)
        else:
            emptied = self._follow(self.outline, tracker)
        self.turn = 0 if self.outline is None else self.outline.turn
        self.taken = gradients.taken
        self.short = not self.may_raise and sum([r.elapsed for r in records]) < SHORT
        self.filled = [memory for buffer, memory in self.memories.items() if buffer not in emptied]
        # What a memory budget let go of is reversed by other calls; who looks for NaN looks at gradients, and
        # who steps through an adjoint at the code that `source` shows.
        lendable = set() if self.first or config.verify_fp or config.interpreted else emptied
        self.lending = SeedForwarding(records, self.table, self.calls, self.times.indices, lendable)

    def _work_out(self, tracker: Tracker) -> set[Buffer]:
        """Look through all records; gives the buffers whose gradients are zero after a pass."""
        records = tracker.records
        groups = grouped(records)
        _warn_of_missing_adjoints(records, [group[0] for group in groups])
        self.space = LiveSpace(tracker.mode, tracker.like_warp)
        touched = {a.buffer: None for plan, _, columns in groups for p in plan.active for a in {*columns[p]}}
        self.memories = {buffer: buffer.gradient() for buffer in touched}
        if tracker.budget is not None and self.space.preserves:
            self.first = tracker.budget.since
        self.retained = RetainedGrad(records, groups)
        self.table = ArgumentTable(records[self.first :], self.space)
        steps = self.table.steps(records[self.first :], None if self.first else groups)
        self.calls, self.times = self._calls(steps)
        self.may_raise = config.verify_fp or self._may_fail([plan for plan, _, _ in groups])
        self.fixed = sum([memory.nbytes for memory in self.memories.values()])
        self.fixed += tracker.preserved_bytes if tracker.kept else 0
        written = written_arrays(groups)
        self.leaves = input_grads_of(_leaves(tracker, written))
        emptied = set() if self.retained.at or self.space.as_warp else _emptied(tracker, groups)
        self.outputs = outputs_of(written)
        self.written = [a for a in written if a.buffer not in emptied]
        self.emptied = [memory for buffer, memory in self.memories.items() if buffer in emptied]
        return emptied

    def _may_fail(self, plans: Sequence[LaunchPlan]) -> bool:
        """True if something of a pass may raise: functions of the user's, diagnostics, and indices."""
        if any(plan.kind in {"func", "python"} or plan.diagnostics_back - CHECKED for plan in plans):
            return True
        if self.first or self.retained.at or config.interpreted:
            return any(plan.diagnostics_back for plan in plans)
        return any(
            type(run) is BoundsPrecheck and (at is None or not run.is_shown(threads, at))
            for run, threads, at in self.calls
        )

    def _follow(self, outline: BackwardPlan, tracker: Tracker) -> set[Buffer]:
        """Take what was worked out for a tape that recorded the same, as `_work_out` does."""
        self.space, self.retained = outline.space, outline.retained
        self.table, self.calls = outline.table, outline.calls
        self.may_raise, self.fixed = outline.may_raise, outline.fixed
        self.times = Times(outline.indices)
        for record in tracker.records:
            record.times = self.times
        arrays = [*tracker.states]
        self.memories = {(buffer := arrays[place].buffer): buffer.gradient() for place in outline.buffers}
        self.leaves = input_grads_of([arrays[place] for place in outline.leaves])
        self.written = [arrays[place] for place in outline.written]
        emptied = [arrays[place] for place in outline.emptied]
        self.outputs = outputs_of([*self.written, *emptied])
        self.emptied = [self.memories[a.buffer] for a in emptied]
        return {a.buffer for a in emptied}

    def holds(self, tracker: Tracker) -> bool:
        """Whether it is still right: no record, preserved copy, other gradient memory or setting since."""
        return (
            self.tracker() is tracker
            and self.settings == settings()
            and self.length == len(tracker.records)
            and self.kept == tracker.kept
            and self._memories_hold()
            and self._has_numbers(tracker)
        )

    def _has_numbers(self, tracker: Tracker) -> bool:
        """True if the packed numbers are those of this tape, or are so again after another tape's pass."""
        outline = self.outline
        if outline is not None and outline.turn != self.turn:
            if not outline.take_numbers(tracker):
                return False
            self.turn = outline.turn
        return True

    def lend(self, seeds: SeedMap) -> SeedMap:
        """Let launches read seeds where the caller has them; gives those that must be copied."""
        if self.outline is not None and BorrowedSeed in map(type, seeds.values()):
            outlines.forget(self.outline)  # its calls are this pass's own from now on
            self.outline = None
        return self.lending.lend(seeds)

    def _memories_hold(self) -> bool:
        """Whether buffers have the gradient memory that they had: nobody looks while none gets another."""
        taken = gradients.taken
        if taken != self.taken:
            if [buffer.adjoint for buffer in self.memories] != [*self.memories.values()]:
                return False
            self.taken = taken
        return True

    def leave_empty(self) -> None:
        """Note, after the first pass, in which gradient memory passes leave nothing."""
        for memory in [] if self.known_empty else self.emptied:
            if not memory.windows:
                memory.fill = ZERO
        self.known_empty = True

    def view(self, a: array) -> Values:
        """The gradient of an array that passes start from, as a NumPy view, which is made once."""
        memory, view = self._views.get(a, (None, None))
        if view is None or memory is not a.buffer.adjoint:
            view = self.space.adjoint_view(a)
            self._views = {a: (a.buffer.gradient(), view)}  # the last one: most passes start from one
        return view

    def _counted(self) -> int:
        """The bytes of the gradients, of the preserved values, and of what the pass itself needs."""
        tables = self.table.nbytes + self.calls.nbytes + self.times.nbytes
        return int(self.fixed + self.again + tables)

    def _calls(self, steps: Steps) -> tuple[CallList, Times]:
        """What reverses records, the last one first."""
        records, runs, threads, addresses = steps.backwards()
        finite = FiniteCheck(self.space.adjoint_view) if config.verify_fp else None
        if finite is not None or self.retained.at:
            runs = [self._looking(r, run, finite) for r, run in zip(records, runs, strict=True)]
        made = CallList(runs, threads, addresses, seconds=[r.elapsed for r in records], held=self.table)
        times = Times([record.index for record in records])
        for record in records:
            record.times = times
        return made, times

    def _looking(self, record: Record, run: Runner, finite: FiniteCheck | None) -> Runner:
        """A step; where somebody looks at the adjoints before or after it, also that."""
        if finite is None and record.index not in self.retained.at:
            return run

        def looked(lo: int, hi: int, where: int) -> None:
            if record.index in self.retained.at:
                self.retained.keep(record, self.space)
            if finite is not None:
                finite.before(record.plan, record.args)
            run(lo, hi, where)
            if finite is not None:
                finite.after(record.plan, record.args)

        return looked

    def run(self, tracker: Tracker) -> None:
        """Run all of it; what was let go of is computed again, part by part, when it is needed."""
        began = perf_counter()
        self.retained.begin()
        self.calls.run_timed(self.times)
        if self.first:
            again = Recomputation(tracker)
            for steps in again.batches():
                calls, times = self._calls(steps)
                calls.run_timed(times)
            self.reran, self.again = again.reran, again.nbytes
        self.retained.put_back(self.space)
        if self.first or not self.nbytes:
            self.nbytes = self._counted()
        # Launches that were recorded first may have taken long to compile, or to get their memory.
        self.short = not self.may_raise and perf_counter() - began < SHORT


def run(prepared: Prepared, seeds: SeedMap, leftovers: Mapping[array, int]) -> Ran:
    """One reverse pass.

    Args:
        prepared: Of the tape.
        seeds: Incoming gradients; they replace what is there.
        leftovers: What the last pass left in the gradients of arrays that the tape writes, with the number
            of writes to the gradient memory then.
    """
    others = [a.buffer.gradient() for a in seeds if a.buffer not in prepared.memories]
    memories = [*prepared.memories.values(), *others]
    uncertain = []
    for memory in memories:
        if memory.watch:
            _announce_all(memory)
        if memory.fill is not ZERO:
            uncertain.append(memory)
    tracker = prepared.tracker()
    assert tracker is not None
    undo = None if prepared.short else Undo(memories)
    with undo or _Changing(memories):
        found = NOTHING
        if not is_nothing(prepared.outputs, uncertain, seeds, leftovers):
            found = PresetSeeds(prepared.outputs, uncertain, seeds, leftovers, tracker)
        for memory in [*prepared.filled, *others]:
            memory.fill = None
        try:
            for a, seed in prepared.lend(seeds).items():
                parallel_memcpy.copy(prepared.view(a), values_of(seed))
            prepared.run(tracker)
        finally:
            if found is not NOTHING:
                found.give_back()
        if found is not NOTHING:
            found.add_back()
    prepared.leave_empty()
    held: list[Any] = [*seeds.values(), *others]
    nbytes = prepared.nbytes + sum([each.nbytes for each in held]) + (0 if undo is None else undo.nbytes)
    nbytes += 0 if found is NOTHING else found.nbytes
    unseeded = not (seeds or found.seeds or found.touched)
    return Ran(found.seeds, found.stale, found.left(prepared.written), unseeded, nbytes)


def _emptied(tracker: Tracker, groups: list[Group]) -> set[Buffer]:
    """The buffers whose gradients are zero after a pass: the first launch that uses one replaces all of it.

    The adjoint of that launch uses up the gradient of each element, and no other runs after it.
    """
    if any(plan.active and plan.kernel is not None and plan.info is None for plan, _, _ in groups):
        return set()
    # What is written through an array without a gradient passes none on, and leaves that of others.
    kinds = {a._kind: has_gradient(a) for a in tracker.states}
    kept = {a.buffer for a in tracker.states if not kinds[a._kind]}
    found = set()
    count = len(tracker.records)
    for buffer, ledger in tracker.ledgers.items():
        if not (ledger.liveins and ledger.found(count)) and len(ledger.states) == 1 and buffer not in kept:
            state = ledger.states[0]
            if state.exact is None and state.stop - state.start == buffer.nbytes:
                found.add(buffer)
    return found


def _leaves(tracker: Tracker, written: list[array]) -> list[array]:
    """The arrays with a gradient that the tape found and never writes: parameters, mostly."""
    count, ledgers = len(tracker.records), tracker.ledgers
    changed = {
        (a.buffer, tracker.states[a].number)
        for a in written
        if ledgers[a.buffer].liveins and ledgers[a.buffer].found(count)
    }
    found: dict[Any, array] = {}
    for buffer, ledger in ledgers.items():
        for live in ledger.liveins:
            if live.injected or not has_gradient(live.array):
                continue
            around = ledger.around(ledger.state(live.array))
            if not any((buffer, state.number) in changed for state in around):
                found.setdefault((buffer, live.start, live.stop), live.array)
    return list(found.values())


def _warn_of_missing_adjoints(records: list[Record], plans: list[LaunchPlan]) -> None:
    mute = {p for p in plans if p.kernel is not None and p.active and p.info is None}
    for kernel in {plan.kernel for plan in mute}:
        first = next(r for r in records if r.plan in mute and r.kernel is kernel)
        warnings.warn(
            f"backward: launch {first.index} ({first.name}) passes no gradient on, "
            "because the kernel has enable_backward=False",
            TapedebugWarning,
            stacklevel=messages.user_stacklevel(),
        )


def _announce_all(memory: Buffer) -> None:
    for ledger, _ in memory.watchers():
        for state in list(ledger.states):
            before_write(state.array, None, "backward")
