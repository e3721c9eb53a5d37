"""Replays: the recorded forward and reverse pass again, in private memory, with any inputs replaced.

All checks run here. The user's arrays are read once, when the shadow is made, and never written; nothing has
to be restored if a check is interrupted.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

from tapedebug import contract
from tapedebug._errors import TapeError
from tapedebug.compiler.diagnostics import ASSERT
from tapedebug.compiler.objects import Entry
from tapedebug.runtime.config import config
from tapedebug.runtime.launch.call_list import DOUBLE, CallList
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.replay.dependent_records import DependentRecords, Rerun, first_overwrites
from tapedebug.runtime.replay.partial_reversal import PartialReversal
from tapedebug.runtime.replay.shadow_memory import ShadowBuffer, copied
from tapedebug.runtime.replay.shadow_state import ShadowState
from tapedebug.runtime.replay.shadow_state import Values as Values
from tapedebug.runtime.replay.single_launch import one_launch
from tapedebug.runtime.replay.tangents import Calls, forward_special, tangent_calls, why_lost
from tapedebug.runtime.reverse.argument_table import ArgumentTable, Reversal
from tapedebug.runtime.tape.buffer_versions import InplaceSave, SavedValue
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.contract import A, Consume, OnReplay
    from tapedebug.runtime.launch.plan import LaunchPlan, Runner

OnLaunch = Callable[[Record], Any]

SAVED_ALONE = 1 << 16
"""Bytes from which on the values that a launch overwrites are copied before it, by several threads."""


class Shadow(ShadowState):
    """A private copy of all memory that a tape uses, which runs the tape's records.

    A new shadow stands before the first record (`position` 0), with the values that the tape found. Float64
    shadows hold float32 arrays as float64 and run the kernels' float64 twins.

    Args:
        tracker: The tracker of the tape.
        dtype: `float64` for the twin; None for the program as it is.

    Attributes:
        position: The index of the record that runs next.
        uncovered: The reasons why parts cannot be replayed; empty if everything can.
        lost: Custom functions that a tangent went into in the last `push`; the tangents of their results are
            unknown.
        pulse: Called before each record that runs, forward or backward; may raise to cancel.
        forward_only: It will not run backward, and does not keep overwritten values. Its runs from the first
            record repeat only those that the replaced inputs can change, if launches are large.
        on_outside: Called with each record that a write outside the tape precedes, after that write was
            loaded.
        after_operation: Called with this shadow and each record that ran forward; may change values.
        after_adjoint: The same after the adjoint of each record; may change adjoints.

    Raises:
        TapeError: In float64, if one buffer is used both as float32 and as another type.
    """

    def __init__(self, tracker: Tracker, dtype: Any = None) -> None:
        super().__init__(tracker, dtype)
        self.records: list[Record] = list(tracker.records)
        self.uncovered = _uncovered(self.records)
        self.pulse: Callable[[], None] | None = None
        self.forward_only = False
        self.on_outside: Callable[[Any], Any] | None = None
        self.after_operation: OnReplay | None = None
        self.after_adjoint: OnReplay | None = None
        self._saves = _SavedBefore(tracker, self._buffers, len(self.records))
        in_place = [r.index for r in self.records if r.inplace_saves]
        self._busy = [*sorted({*self._saves.records, *self._injections, *in_place}), len(self.records)]
        self._replaceable = False  # calls of forward runs may have been replaced
        self._injected = [*sorted(self._injections), len(self.records)]
        self._pushes: dict[tuple[bool, bool], tuple[Any, CallList]] = {}
        self._tables: dict[tuple[str, int, bool], Reversal] = {}

    @classmethod
    def for_launch(
        cls,
        kernel: Any,
        dim: Any,
        args: Sequence[Any],
        dtype: Any = None,
        active: frozenset[int] | None = None,
        flat: bool = False,
    ) -> Self:
        """Return a shadow of one launch that is on no tape; nothing runs yet.

        Args:
            kernel: A kernel.
            dim: As for `launch`.
            args: All arguments, inputs and outputs.
            flat: True if `args` has one entry for each flat parameter, as records have them.
            dtype: As for the class.
            active: Parameters that have a gradient; by default the float arrays with `requires_grad`.

        Raises:
            LaunchError: The arguments do not fit the kernel.
        """
        return cls(one_launch(kernel, dim, args, active=active, flat=flat), dtype)

    # -- running --------------------------------------------------------------------------------------

    def reset(self, discard: bool = False) -> Self:
        """Return to the first record and drop replaced inputs, except those from before `fix_inputs`.

        Args:
            discard: Drop values that were set after the first record and were never used.

        Raises:
            TapeError: There are such values, and `discard` is False.
        """
        if self._unused is not None and not discard:
            raise self._unused_error(
                "reset() drops them", f"to use these, go on with forward({self.position})"
            )
        for a, values in reversed(self._found.items()):  # latest first: they may overlap
            if values is None:
                self._buffer(a).restart()
            else:
                self._buffer(a).view(a)[...] = values
        self._found.clear()
        self._unused = None
        self._inputs = dict(self._fixed)
        return self.forward(0, 0)

    def inject(self) -> None:
        """Load what was written outside the tape just before the record that runs next."""
        for buffer in self._injections.get(self.position, ()):
            buffer.inject(self.position)
        if self.position == len(self.records):
            for buffer in self._buffers.values():
                buffer.inject_late()

    def forward(
        self,
        start: int = 0,
        stop: int | None = None,
        on_operation: OnLaunch | None = None,
        skip: Collection[int] = (),
    ) -> Self:
        """Run records `start … stop-1`.

        Args:
            start: 0 starts over with the tape's values and the inputs that were set; otherwise it must be
                `position`.
            stop: By default the end of the tape.
            on_operation: Called with each record after it ran.
            skip: Records that do nothing, as if they had not been recorded.

        Returns:
            This shadow.

        Raises:
            TapeError: `start` is neither 0 nor `position`, or it is 0 and values that were set since would be
                lost.
        """
        observed = on_operation is not None or self.after_operation is not None or skip
        if self.forward_only or observed or self._replaceable or stop == start:
            return self._run(self._forward[1], start, stop, on_operation, skip=skip)
        calls, busy = self._saving
        return self._run(calls, start, stop, None, busy=busy)

    def assert_once(self) -> None:
        """Run a launch with its assertions, which other runs leave out: displaced inputs may violate them.

        Raises:
            KernelAssertionError: One does not hold.
        """
        for record, (_, _, address) in zip(self.records, self._forward[1], strict=True):
            if record.kernel is not None and ASSERT in record.kernel.diagnostic_kinds():
                record.plan.asserted_run()(0, record.threads, address or 0)

    def push(
        self,
        tangents: Mapping[A, Any] | None,
        start: int = 0,
        stop: int | None = None,
        on_operation: OnLaunch | None = None,
        detached: bool = False,
    ) -> Self:
        """Run records `start … stop-1` with their tangents: values change as in `forward`, to the last bit.

        Values written outside the tape are constants. Overwrites do no harm.

        Args:
            tangents: Tangents of arrays before the first record; all others are zero. None continues with
                those of the call before.
            start: As for `forward`.
            stop: As for `forward`.
            on_operation: As for `forward`.
            detached: Tangents stop where gradients do, at arrays without `requires_grad`.

        Returns:
            This shadow; `tangent` returns the results. It can also run backward.

        Raises:
            TapeError: As for `forward`; or a tangent does not fit its array.
        """
        way = (detached, config.strong_zero)
        if way not in self._pushes:
            table, calls = tangent_calls(self.records, self.space, self._note_lost, detached)
            self._pushes[way] = table, self._listed(table, calls)
        if tangents is not None:
            self._set_tangents(tangents)
        self._has_pushed = True
        return self._run(self._pushes[way][1], start, stop, on_operation, moving=True)

    def _run(
        self,
        calls: CallList,
        start: int,
        stop: int | None,
        on_operation: OnLaunch | None,
        moving: bool = False,
        skip: Collection[int] = (),
        busy: list[int] | None = None,
    ) -> Self:
        last = len(self.records) if stop is None else min(stop, len(self.records))
        if start == 0:
            self._restart(later=self.forward_only and not self._replaceable)
        elif start != self.position:
            raise TapeError(
                f"replay: cannot run from record {start}: the shadow stands before record {self.position}",
                hint=f"start at {self.position}, or at 0",
            )
        if self.after_operation is not None:
            on_operation = self._hooked(self.after_operation, on_operation)
        if busy is None:
            busy = self._injected if self.forward_only else self._busy
        if start == last:
            return self
        self._unused = None
        is_plain = self.forward_only and not (self._replaceable or on_operation is not None or skip)
        is_complete = is_plain and not moving and start == 0 and last == len(self.records)
        inputs = frozenset(a.buffer for a in self._inputs)
        rerun = self._rerun(inputs) if is_complete else None
        self._standing = None
        overwritten = self._renew(start, last if is_plain else start, rerun)
        try:
            for first, end in [(start, last)] if rerun is None else rerun.parts:
                self._run_part(calls, first, end, on_operation, moving, skip, busy)
        except BaseException:
            if rerun is not None:  # memory that is kept holds values of the end
                self.position = len(self.records)
                self._restart()
            for index, buffer in overwritten:
                if index >= self.position:
                    buffer.restart()
            raise
        self.position = last
        if is_complete:
            self._standing = inputs
        return self

    def _rerun(self, inputs: frozenset[Buffer]) -> Rerun | None:
        """Return the records to run again with other inputs after a complete run; None if all have to."""
        if self._standing is None or not (self._standing or inputs):
            return None  # a second run on the same values shows if they repeat, and how long a run takes
        found = self._dependent.of(self._standing | inputs)
        if found is None or not all(self._buffers[buffer].is_stale for buffer in found.kept):
            return None  # something has read, and so restored, what is to be kept
        return found

    def _renew(self, start: int, last: int, rerun: Rerun | None) -> list[tuple[int, ShadowBuffer]]:
        """Restore memory whose restart was put off, but for what records `start … last-1` overwrite first.

        Returns:
            The memory that they overwrite, each with the record that does.
        """
        stale, self._stale = self._stale, []
        kept: frozenset[Buffer] = frozenset() if rerun is None else rerun.kept
        overwritten: list[tuple[int, ShadowBuffer]] = []
        for buffer in stale:
            if not buffer.is_stale:
                continue
            index = self._first_overwrites.get(buffer.buffer, last)
            if buffer.buffer in kept:
                buffer.is_stale = False
            elif start <= index < last:
                buffer.is_stale = False
                overwritten.append((index, buffer))
            else:
                buffer.restart()
        return overwritten

    @cached_property
    def _dependent(self) -> DependentRecords:
        injected = {
            index: [buffer.buffer for buffer in buffers] for index, buffers in self._injections.items()
        }
        return DependentRecords(self.records, injected)

    @cached_property
    def _first_overwrites(self) -> dict[Buffer, int]:
        return first_overwrites(self.records)

    def _run_part(
        self,
        calls: CallList,
        start: int,
        last: int,
        on_operation: OnLaunch | None,
        moving: bool,
        skip: Collection[int],
        busy: list[int],
    ) -> None:
        while start < last:
            if busy and start == busy[bisect_left(busy, start)]:
                self._begin(self.records[start], moving)
            # Consecutive records without preparation run together.
            stop = start + 1
            if on_operation is None and not skip:
                stop = min(last, busy[bisect_left(busy, stop)])
            if start in skip:
                self.position = stop
            else:
                try:
                    calls.run(start, stop, pulse=self.pulse)
                finally:
                    self.position = calls.done
            if on_operation is not None:
                on_operation(self.records[start])
            start = stop

    def _hooked(self, hook: OnReplay, on_operation: OnLaunch | None) -> OnLaunch:
        """Return the function that is called after each record: the hook first, then `on_operation`."""

        def then(record: Record) -> None:
            hook(self, record)
            self._unused = None  # values set by the hook are part of the run
            if on_operation is not None:
                on_operation(record)

        return then

    def _begin(self, record: Record, moving: bool) -> None:
        """Prepare for a record: keep values that it overwrites, load those written outside the tape."""
        index = record.index
        for need, buffer in () if self.forward_only else self._saves.at(index):
            self._keep(need, buffer)
        for injected in self._injections.get(index, ()):
            injected.inject(index)
            if moving:
                injected.still(index)
        if self.on_outside is not None and index in self._injections:
            self.on_outside(record)
        for save in () if self.forward_only else record.inplace_saves:
            self._keep_inplace_save(record, save)

    def backward(
        self,
        seeds: Mapping[A, Any] | None,
        consume: Consume = "versions",
        start: int | None = None,
        stop: int = 0,
        on_operation: OnLaunch | None = None,
        skip: Collection[int] = (),
    ) -> Self:
        """Run the adjoints of records `start-1 … stop`, after `forward`.

        Args:
            seeds: Incoming adjoints; all others are zero. None continues with the adjoints of the call
                before.
            consume: `"versions"`: adjoints see the values of the forward pass. `"current"`: they see what
                memory holds now, as with `on_overwrite="ignore"`.
            start: By default `position`.
            stop: The earliest record.
            on_operation: Called with each record after its adjoint ran (also if it has none).
            skip: Records whose adjoints do nothing.

        Returns:
            This shadow.

        Raises:
            TapeError: `start` lies after `position`, or a seed does not fit its array.
        """
        if self.forward_only:
            raise TapeError("replay: this shadow runs forward only", hint="make another one to run backward")
        first = self.position if start is None else start
        if first > self.position:
            raise TapeError(
                f"replay: cannot run backward from record {first}: forward has run {self.position} records",
                hint="run forward further first",
            )
        self._unused = None
        if seeds is not None:
            self._seed(seeds)
        if self.after_adjoint is not None:
            on_operation = self._hooked(self.after_adjoint, on_operation)
        steps = self._steps(consume)
        with self._late_writes(consume):
            if on_operation is None and not skip:
                steps.run(first, stop, self.pulse)
                return self
            for record in reversed(self.records[stop:first]):
                if self.pulse is not None:
                    self.pulse()
                if record.index not in skip:
                    steps.run(record.index + 1, record.index)
                if on_operation is not None:
                    on_operation(record)
        return self

    @contextmanager
    def _late_writes(self, consume: Consume) -> Iterator[None]:
        """Context manager that sets memory as the user's reverse pass found it, with late outside writes."""
        late = [buffer for buffer in self._buffers.values() if buffer.late]
        if consume != "current" or self.position < len(self.records) or not late:
            yield
            return
        before = [(buffer, buffer.data.copy()) for buffer in late]
        for buffer in late:
            buffer.inject_late()
        try:
            yield
        finally:
            for buffer, data in before:
                buffer.data[:] = data

    @property
    def reverses_in_parts(self) -> bool:
        """True if `gradients_in_parts` takes much less memory than `forward` and `backward`."""
        return self._partial is not None and not (
            self.forward_only or self._replaceable or self.after_operation or self.after_adjoint
        )

    def gradients_in_parts(self, seeds: Mapping[A, Any]) -> Self:
        """Run forward and backward as `forward(0).backward(seeds)` does, in less memory.

        The adjoints are equal to the last bit. The values are not those at the end of the tape.

        Raises:
            TapeError: As for `forward` and `backward`.
        """
        assert self._partial is not None, "see reverses_in_parts"
        self._partial.run(self, seeds)
        return self

    @cached_property
    def _partial(self) -> PartialReversal | None:
        return PartialReversal.of(self)

    # -- internals ------------------------------------------------------------------------------------

    def call_lists(self, *, tangents: bool) -> list[CallList]:
        """Return the calls that `forward` runs, or those of `push`; they may be replaced."""
        if not tangents:
            self._replaceable = True
            return [self._forward[1]]
        self.push({}, stop=0)  # makes the list
        return [calls for _, calls in self._pushes.values()]

    def packed(self, record: Record) -> bytes:
        """Return the argument slots of a kernel's launch, as packed for private memory."""
        found: bytes = ctypes.string_at(
            self._forward[1][record.index][2] or 0, record.plan.kernel.layout.size
        )
        return found

    def _note_lost(self, record: Record) -> None:
        self.lost.append(why_lost(record))

    def _keep(self, need: SavedValue, buffer: ShadowBuffer) -> None:
        now = buffer.range(need.start, need.stop)
        kept = self.space.copies.get(need)
        if kept is None:
            self.space.copies[need] = copied(now)
        else:
            parallel_memcpy.copy(kept, now)

    def _keep_inplace_save(self, record: Record, save: InplaceSave) -> None:
        if self._is_shared(record, save):
            return
        buffer = self._buffers[self._whose(record, save)]
        # A write outside the tape just before the launch is loaded between the two.
        needs = () if record.index in self._injections else self._saves.at(record.index)
        for need, own in needs:
            if own is buffer and need.start == save.start and need.stop == save.stop:
                self.space.inplace_values[save] = self.space.copies[need]
                return
        parallel_memcpy.copy(self.space.inplace_save(record, save), buffer.range(save.start, save.stop))

    def _is_shared(self, record: Record, save: InplaceSave) -> bool:
        """True if the values that a launch starts from are the copy of a needed value."""
        kept = self.space.inplace_values.get(save)
        copies = self.space.copies
        return kept is not None and any(copies.get(n) is kept for n, _ in self._saves.at(record.index))

    @cached_property
    def _forward(self) -> tuple[Any, CallList]:
        """The calls that run each record forward, and the table that must live as long."""
        table = ArgumentTable(self.records, self.space)
        calls: Calls = []
        runners: dict[LaunchPlan, Runner] = {}
        for record in self.records:
            if record.kind == "kernel":
                run = runners.get(record.plan)
                if run is None:
                    run = runners[record.plan] = record.plan.forward_run(self.is_float64)
                calls.append((run, table.forward(record)))
            else:
                calls.append((forward_special(record, self.space), 0))
        return table, self._listed(table, calls)

    @property
    def _saving(self) -> tuple[CallList, list[int]]:
        """The calls of a forward run that also copy the values which small launches overwrite.

        With them come the records before which something is left to do, and at last the number of records.
        Subclasses that keep more of a launch than its values do all of it before each.
        """
        plain = self._forward[1]
        if type(self)._keep is not Shadow._keep or len(self._busy) == len(self._injected):
            return plain, self._busy
        return self._copying if plain.prepare() else (plain, self._busy)

    @cached_property
    def _copying(self) -> tuple[CallList, list[int]]:
        """The same, once it is known which launches run on one thread."""
        table, plain = self._forward
        busy, calls = set(self._injections), [(run, address) for run, _, address in plain]
        for index in set(self._busy[:-1]) - busy:
            record, (run, address) = self.records[index], calls[index]
            saves, in_place = self._saves.at(index), record.inplace_saves
            nbytes = sum(need.stop - need.start for need, _ in saves)
            nbytes += sum(save.stop - save.start for save in in_place)
            if type(run) is not Entry or address is None or nbytes > SAVED_ALONE:
                busy.add(index)
                continue
            for need, buffer in saves:  # make room; what an earlier run kept stays
                if need not in self.space.copies:
                    self._keep(need, buffer)
            for save in in_place:
                if save not in self.space.inplace_values:
                    self._keep_inplace_save(record, save)
            copies = [(self.space.copies[need], b.range(need.start, need.stop)) for need, b in saves]
            copies += [
                (
                    self.space.inplace_save(record, save),
                    self._buffers[self._whose(record, save)].range(save.start, save.stop),
                )
                for save in in_place
                if not self._is_shared(record, save)
            ]
            places = [(address_of(kept), address_of(now), kept.nbytes) for kept, now in copies]
            calls[index] = table.after_copies(run, address, places)
        return self._listed(table, calls), [*sorted(busy), len(self.records)]

    @staticmethod
    def _whose(record: Record, save: InplaceSave) -> Buffer:
        """Return the buffer that a launch reads and overwrites."""
        found: Buffer = record.args[save.params[0]].buffer
        return found

    def _listed(self, table: ArgumentTable, calls: Sequence[tuple[Runner, int | None]]) -> CallList:
        runs, addresses = zip(*calls, strict=True) if calls else ((), ())
        threads, slower = [r.threads for r in self.records], DOUBLE if self.is_float64 else 1
        seconds = [slower * r.elapsed for r in self.records]
        return CallList(runs, threads, addresses, seconds=seconds, held=table)

    def _steps(self, consume: Consume) -> Reversal:
        if consume not in {"versions", "current"}:
            raise TapeError(
                f"replay: consume is 'versions' or 'current'; got {consume!r}", hint="use one of these"
            )
        key = (consume, self.position, config.strong_zero)
        if key not in self._tables:
            for record in self.records:
                for p in record.plan.active:
                    self._buffer(record.args[p]).gradient()
            self.space.current = consume == "current"
            self.space.position = self.position
            table = ArgumentTable(self.records, self.space)
            self._tables = {key: Reversal(table, table.steps(self.records))}
        return self._tables[key]


class _SavedBefore:
    """The needed values that a replay keeps, by the record before which it does.

    Lists instead of a dict of pairs, which for tiny arrays would take as much memory as the values.

    Args:
        tracker: The tracker of the tape.
        buffers: The private memory by buffer.
        stop: The number of records; values that nothing overwrites before stay in place.

    Attributes:
        records: The index of a record for each value, in ascending order.
    """

    def __init__(self, tracker: Tracker, buffers: Mapping[Buffer, ShadowBuffer], stop: int) -> None:
        found: list[tuple[int, SavedValue, ShadowBuffer]] = [
            (need.clobber, need, buffers[buffer])
            for buffer, ledger in tracker.ledgers.items()
            for need in ledger.needs
            if need.clobber is not None and need.clobber < stop
        ]
        found.sort(key=itemgetter(0))
        self.records = [index for index, _, _ in found]
        self._needs = [need for _, need, _ in found]
        self._buffers = [buffer for _, _, buffer in found]

    def at(self, index: int) -> list[tuple[SavedValue, ShadowBuffer]]:
        """Return the values to keep before a record, with the memory that they are in."""
        first = bisect_left(self.records, index)
        last = bisect_right(self.records, index, first)
        return list(zip(self._needs[first:last], self._buffers[first:last], strict=True))


def _uncovered(records: list[Record]) -> list[str]:
    reasons = []
    for record in records:
        if (obstacle := record.capability(contract.Irreplayable)) is not None:
            reasons.append(obstacle.reason())
        elif record.kernel is not None and record.info is None and record.plan.active:
            reasons.append(f"launch {record.index} ({record.name}) has no adjoint: enable_backward=False")
    return reasons
