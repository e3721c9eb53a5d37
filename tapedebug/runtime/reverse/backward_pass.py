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
    Outputs,
    PresetSeeds,
    is_nothing,
    outputs_of,
    written_arrays,
)
from tapedebug.runtime.reverse.retained_grad import RetainedGrad
from tapedebug.runtime.reverse.seed_forwarding import SeedForwarding
from tapedebug.runtime.reverse.seeds import SeedMap
from tapedebug.runtime.tape.gradient_history import input_grads_of, note
from tapedebug.runtime.tape.record import Record, Site
from tapedebug.runtime.tape.tracker import Tracker
from tapedebug.runtime.tape.write_barrier import after_write, before_write

Values = np.ndarray[Any, Any]


FEW = 8
"""Gradient memories of a short pass which, if all are zero, are restored after an interrupt.

That needs no copy, and to delay interrupts takes a microsecond or two.
"""

SMALL = 4096
"""Bytes of a seed up to which it is copied as bytes."""

SHORT = 0.2
"""Seconds of recorded forward work up to which a reverse pass finishes before an interrupt is handled."""


class Undo:
    """Context manager that restores the gradients if its block fails; zeros are remembered, not copied."""

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
    """Context manager for a pass that is not interrupted; if it fails, gradients become unknown."""

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
    before_write(gradient, None, "zero")
    if a.is_contiguous:
        memory.zero_range(a.start, a.stop)
    else:
        gradient._numpy_view().fill(0)
    after_write(gradient)


class Ran(NamedTuple):
    """One reverse pass that has ended.

    Attributes:
        preset: The seeds that it found in gradients.
        stale: The arrays among them whose seeds an earlier pass, of another tape, had left.
        leftovers: The arrays written by the tape in whose gradients it left something, with the number of
            writes to these.
        unseeded: It was given no seed, and all gradients that may hold one were known to be 0.
        nbytes: Memory that it used: gradients, preserved values and all else.
    """

    preset: dict[array, Values]
    stale: list[array]
    leftovers: dict[array, int]
    unseeded: bool
    nbytes: int


class Prepared:
    """The calls of a reverse pass, computed once and reused while nothing has changed.

    Attributes:
        memories: The gradient memory of each buffer that the pass adds to.
        short: The pass is not interrupted: a copy of every gradient would cost more than the pass itself. A
            long one, or one that calls functions of the user, keeps copies, so that Ctrl-C is handled soon
            and exceptions are undone.
        written: The arrays with a gradient that the tape writes, and in which the pass may leave something.
        emptied: The gradient memory that is zero after the pass.
        filled: The gradient memory that may not be.
        leaves: The inputs that the tape never writes.
        reran: The number of launches that the last pass ran again, for lack of memory.
        again: The memory that this took, in bytes.
        nbytes: The memory that the last pass took, without its seeds.
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
        self._outputs: Outputs | None = None
        self._views: dict[array, tuple[Buffer, Values]] = {}
        key = key_of(tracker)
        self.outline = outlines.of(key, tracker)
        if self.outline is None:
            self._work_out(tracker)
            self.outline = outlines.enter(key, tracker, self)
        else:
            self._follow(self.outline, tracker)
        self.turn = 0 if self.outline is None else self.outline.turn
        self.taken = gradients.taken
        self.short = not self.may_raise and sum([r.elapsed for r in records]) < SHORT
        self.lending: SeedForwarding | None = None

    def _work_out(self, tracker: Tracker) -> None:
        """Prepare the pass from all records."""
        records = tracker.records
        groups = grouped(records)
        _warn_of_missing_adjoints(records, [group[0] for group in groups])
        self.space = LiveSpace(tracker.mode, tracker.foreign_reverse)
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
        emptied = set() if self.retained.at or self.space.foreign is not None else _emptied(tracker, groups)
        self._outputs = outputs_of(written)
        self.written = [a for a in written if a.buffer not in emptied]
        self.emptied = [memory for buffer, memory in self.memories.items() if buffer in emptied]
        self.filled = [memory for buffer, memory in self.memories.items() if buffer not in emptied]

    def _may_fail(self, plans: Sequence[LaunchPlan]) -> bool:
        """Return True if a part of the pass may raise: functions of the user, diagnostics, and indices."""
        if any(plan.kind in {"func", "python"} or plan.diagnostics_back - CHECKED for plan in plans):
            return True
        if self.first or self.retained.at or config.interpreted:
            return any(plan.diagnostics_back for plan in plans)
        return any(
            type(run) is BoundsPrecheck and (at is None or not run.is_shown(threads, at))
            for run, threads, at in self.calls
        )

    def _follow(self, outline: BackwardPlan, tracker: Tracker) -> None:
        """Take the plan of a tape that recorded the same; otherwise as `_work_out`."""
        self.space, self.retained = outline.space, outline.retained
        self.table, self.calls = outline.table, outline.calls
        self.may_raise, self.fixed, self.nbytes = outline.may_raise, outline.fixed, outline.nbytes
        self.times = Times(outline.indices)
        for record in tracker.records:
            record.times = self.times
        arrays = [*tracker.states]
        memories: dict[Any, Any] = {(b := arrays[place].buffer): b.adjoint for place in outline.buffers}
        self.memories = memories  # each buffer has one, or the outline would not fit
        self.leaves = input_grads_of([arrays[place] for place in outline.leaves])
        self.written = [arrays[place] for place in outline.written]
        self.emptied = [memories[arrays[place].buffer] for place in outline.emptied]
        self.filled = [memories[arrays[place].buffer] for place in outline.filled]

    def outputs(self, tracker: Tracker) -> Outputs:
        """Return the arrays with a gradient that the tape writes, by gradient memory.

        A pass may find seeds there, unless all of it is known to be 0. One that follows a plan looks for them
        only then.
        """
        if self._outputs is None:
            assert self.outline is not None
            arrays = [*tracker.states]
            self._outputs = outputs_of([*self.written, *[arrays[place] for place in self.outline.emptied]])
        return self._outputs

    def holds(self, tracker: Tracker) -> bool:
        """Return True if it is still valid: no new record, preserved copy, gradient memory or setting."""
        return (
            self.tracker() is tracker
            and self.settings == settings()
            and self.length == len(tracker.records)
            and self.kept == tracker.kept
            and self._memories_hold()
            and self._has_numbers(tracker)
        )

    def _has_numbers(self, tracker: Tracker) -> bool:
        """Restore the numbers of this tape after another tape's pass; return False if that fails."""
        outline = self.outline
        if outline is not None and outline.turn != self.turn:
            if not outline.take_numbers(tracker):
                return False
            self.turn = outline.turn
        return True

    def lend(self, tracker: Tracker, seeds: SeedMap) -> SeedMap:
        """Let launches read seeds in the caller's memory; return the seeds that must be copied."""
        if self.lending is None:
            if BorrowedSeed not in map(type, seeds.values()):
                return seeds
            if self.outline is not None:
                self.outputs(tracker)
                outlines.forget(self.outline)  # from now on its calls belong to this pass
                self.outline = None
            # Records whose values a memory budget released are reversed by other calls; `verify_fp` needs the
            # gradients, and the interpreter steps through the code that `source` shows.
            emptied = () if self.first or config.verify_fp or config.interpreted else self.emptied
            known = set(map(id, emptied))
            lendable = {buffer for buffer, memory in self.memories.items() if id(memory) in known}
            records = tracker.records[: self.length]
            self.lending = SeedForwarding(records, self.table, self.calls, self.times.indices, lendable)
        return self.lending.lend(seeds)

    def _memories_hold(self) -> bool:
        """Return True if buffers have the same gradient memory; checked only if some buffer got another."""
        taken = gradients.taken
        if taken != self.taken:
            if [buffer.adjoint for buffer in self.memories] != [*self.memories.values()]:
                return False
            self.taken = taken
        return True

    def leave_empty(self) -> None:
        """Mark, after the first pass, the gradient memory that is zero after each pass."""
        for memory in [] if self.known_empty else self.emptied:
            if not memory.windows:
                memory.fill = ZERO  # no write: the pass, which `run` has announced, consumed every element
        self.known_empty = True

    def begin_from(self, a: array, seed: Values) -> None:
        """Write a seed to the gradient of an array."""
        plain = seed.flags.c_contiguous and seed.dtype.isbuiltin == 1  # others may have no buffer
        if plain and a.is_contiguous and 0 < seed.nbytes < SMALL:  # a view would take longer
            a.buffer.gradient().data.data[a.start : a.stop] = seed.data.cast("B")
        else:
            parallel_memcpy.copy(self._view(a), seed)

    def _view(self, a: array) -> Values:
        """Return the gradient of an array that passes start from as a NumPy view, which is created once."""
        memory, view = self._views.get(a, (None, None))
        if view is None or memory is not a.buffer.adjoint:
            view = self.space.adjoint_view(a)
            self._views = {a: (a.buffer.gradient(), view)}  # the last one: most passes start from one
        return view

    def _counted(self) -> int:
        """Return the bytes of the gradients, of the preserved values, and of the pass itself."""
        tables = self.table.nbytes + self.calls.nbytes + self.times.nbytes
        return int(self.fixed + self.again + tables)

    def _calls(self, steps: Steps) -> tuple[CallList, Times]:
        """Return the calls that reverse records, last record first."""
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
        """Return a step; if adjoints are retained or checked at its record, the step does that, too."""
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
        """Run the whole pass; released values are recomputed, part by part, when they are needed."""
        began = perf_counter()
        self.retained.begin()
        self.calls.run_timed(self.times)
        if self.first:
            from tapedebug.runtime.reverse.recompute import Recomputation

            again = Recomputation(tracker)
            for steps in again.batches():
                calls, times = self._calls(steps)
                calls.run_timed(times)
            self.reran, self.again = again.reran, again.nbytes
        self.retained.put_back(self.space)
        if self.first or not self.nbytes:
            self.nbytes = self._counted()
            if self.outline is not None:
                self.outline.nbytes = self.nbytes
        # Launches that were recorded first may have taken long to compile, or to get their memory.
        self.short = not self.may_raise and perf_counter() - began < SHORT


def run(prepared: Prepared, seeds: SeedMap, leftovers: Mapping[array, int]) -> Ran:
    """Run one reverse pass.

    Args:
        prepared: The prepared pass of the tape.
        seeds: Incoming gradients; they replace the present ones.
        leftovers: The arrays written by the tape in whose gradients the last pass left something, with the
            number of writes to the gradient memory then.
    """
    others = [a.buffer.gradient() for a in seeds if a.buffer not in prepared.memories]
    memories = [*prepared.memories.values(), *others]
    uncertain: list[Buffer] = []
    announced: list[array] = []
    for memory in memories:
        if memory.watch:
            announced += _announce(memory)
        if memory.fill is not ZERO:
            uncertain.append(memory)
    tracker = prepared.tracker()
    assert tracker is not None
    delayed = prepared.short and (len(memories) > FEW or bool(uncertain))
    undo = None if delayed else Undo(memories)
    with undo or _Changing(memories):
        found = NOTHING
        if uncertain or leftovers:
            outputs = prepared.outputs(tracker)
            if not is_nothing(outputs, uncertain, seeds, leftovers):
                found = PresetSeeds(outputs, uncertain, seeds, leftovers, tracker)
        for memory in [*prepared.filled, *others]:
            memory.fill = None  # the part of `before_write` that memory needs which no tape uses
        try:
            for a, seed in prepared.lend(tracker, seeds).items():
                prepared.begin_from(a, values_of(seed))
            prepared.run(tracker)
        finally:
            if found is not NOTHING:
                found.give_back()
        if found is not NOTHING:
            found.add_back()
    prepared.leave_empty()
    for a in announced:
        after_write(a)
    nbytes = prepared.nbytes
    if undo is not None:
        nbytes += undo.nbytes
    if found is not NOTHING:
        nbytes += found.nbytes
    for each in (*seeds.values(), *others):
        nbytes += each.nbytes
    unseeded = not (seeds or found.seeds or found.touched)
    return Ran(found.seeds, found.stale, found.left(prepared.written), unseeded, nbytes)


def _emptied(tracker: Tracker, groups: list[Group]) -> set[Buffer]:
    """Return the buffers whose gradients are zero after a pass.

    The first launch that uses such a buffer replaces all of it. Its adjoint consumes the gradient of each
    element, and no other runs after it.
    """
    if any(plan.active and plan.kernel is not None and plan.info is None for plan, _, _ in groups):
        return set()
    # A write through an array without a gradient passes none on, and leaves the gradient of other arrays.
    kinds = {a._kind: has_gradient(a) for a in tracker.states}
    kept = {a.buffer for a in tracker.states if not kinds[a._kind]}
    found = set()
    count = len(tracker.records)
    for buffer, ledger in tracker.ledgers.items():
        whole = ledger.is_single and ledger.is_contiguous and ledger.stop - ledger.start == buffer.nbytes
        if whole and not (ledger.liveins and ledger.found(count)) and buffer not in kept:
            found.add(buffer)
    return found


def _leaves(tracker: Tracker, written: list[array]) -> list[array]:
    """Return the arrays with a gradient that the tape found and never writes: mostly parameters."""
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


def _announce(memory: Buffer) -> list[array]:
    """Announce that a pass writes gradient memory to the tapes that use it; return their arrays."""
    arrays = [state.array for ledger, _ in memory.watchers() for state in ledger.states]
    for a in arrays:
        before_write(a, None, "backward")
    return arrays
