"""Track versions of memory ranges: those that adjoints still need, and the live-in values.

A tape has a `Tracker`, with a ledger for each buffer that the tape uses. Just before a range is written, the
open needs and live-ins of all ranges that overlap it are closed: copied if the mode asks for it, and marked
with the record that overwrote them.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tapedebug._clock import clock
from tapedebug._errors import OverwriteWarning
from tapedebug.runtime import messages
from tapedebug.runtime.config import config
from tapedebug.runtime.memory.array import range_key
from tapedebug.runtime.memory.buffer import Buffer, Bytes
from tapedebug.runtime.reverse.inplace_saves import save_inplace_values
from tapedebug.runtime.state import state as process
from tapedebug.runtime.tape.buffer_versions import (
    BufferVersions,
    ExternalInput,
    RangeState,
    SavedValue,
    UntrackedWrite,
    UntrackedWrites,
    same_elements,
    versions_of,
)
from tapedebug.runtime.tape.gradient_history import Event, History, is_gradient, note, note_read
from tapedebug.runtime.tape.memory_budget import Budget
from tapedebug.runtime.tape.record_hook import new_record_hook
from tapedebug.runtime.tape.write_barrier import after_write

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import KernelPlan
    from tapedebug.runtime.memory.array import array
    from tapedebug.runtime.tape.imported_arrays import Arrival
    from tapedebug.runtime.tape.record import Record, Site
    from tapedebug.runtime.tape.recording_log import EarlierRecording


HOST_READS = 1000

Watch = tuple[weakref.ref["Tracker"], ...]
"""The trackers of the tapes that use a buffer."""


_Range = tuple[weakref.ref[Buffer], int, int]
"""Memory, which is not kept alive: the first byte, and the byte after the last."""


class LeftOut(NamedTuple):
    """A launch with `record_tape=False` that computed memory which the tape had not used yet.

    Attributes:
        name: The name of the kernel.
        at: The number of records then.
        site: The place in the program.
        reads: The memory with a gradient that it read.
    """

    name: str
    at: int
    site: Site
    reads: list[_Range]


class Tracker:
    """The ledgers of one tape.

    Attributes:
        mode: The tape's `on_overwrite`.
        dry: Its launches will not run: it registers with no buffer and notifies no other tape.
        settled: A reverse pass has run: later overwrites give no warning (an optimiser's step).
        kept: A counter of copies made and released.
        is_open: Its tape is recording.
        outside: Writes that were not on the tape, in order; for each range, only the first between two
            records.
        outside_meanwhile: The number of them when the tape last stopped recording.
        unseen: Memory that a launch with `record_tape=False` computed from an array with a gradient before
            the tape used any of it, and the launch.
        log: The events of the tape: reverse passes, zeroed gradients, resets.
        looks: For a range of one value, by `range_key`, its last read outside kernels.
        host_reads: For ranges of any size, their last reads outside kernels: by `range_key`, the number of
            the tape that recorded meanwhile (0 for none), and the place. At most `HOST_READS`.
        early_reads: Reads of arrays with a gradient while the tape recorded and had not used them yet: their
            memory, if it still exists. At most `HOST_READS`.
        arrivals: Arrays that were made of values from outside while the tape recorded, before it used them.
            At most `HOST_READS`.
        activated: Memory of the tape has got a gradient since it was used.
        has_idle: A launch has an array that its kernel does not access.
        budget: The memory budget for copies, or None.
        foreign_reverse: The reverse of another engine that passes of the tape use where it differs, or None.
        watch: The `watch` of a buffer that refers to this tracker only.
        recording: The summary of its recording that later tapes may need; None until it has ended.
    """

    def __init__(self, mode: str, dry: bool = False, budget: Budget | None = None) -> None:
        self.mode = mode
        self.budget = budget
        self.dry = dry
        self.settled = False
        self._ledgers: dict[Buffer, BufferVersions] = {}
        self.states: dict[array, RangeState] = {}
        self.records: list[Record] = []
        self.kept = 0
        self.is_open = False
        self.outside = UntrackedWrites()
        self.outside_meanwhile = 0
        self._entered = 0  # the entries of `outside` whose values are live-ins already
        self.unseen: dict[_Range, LeftOut] = {}
        self.log = History()
        self.looks: dict[Any, tuple[array, Event]] = {}
        self.host_reads: dict[Any, tuple[array, Event]] = {}
        self.early_reads: list[tuple[weakref.ref[Buffer], Event]] = []
        self.arrivals: list[Arrival] = []
        self.activated = self.has_idle = False
        self.foreign_reverse = None if process.foreign is None else process.foreign.reverse_of(mode)
        self.watch = (weakref.ref(self),)
        self.recording: EarlierRecording | None = None
        self._known: Watch = ()
        self._beside: Watch = self.watch
        self._warned: set[tuple[Any, ...]] = set()

    # -- while recording --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Note that the tape records from now on."""
        if self._entered < self.outside.total:
            self._enter_outside()
        self.settled, self.is_open = False, True

    def end(self) -> None:
        """Note that the tape has stopped recording."""
        self.is_open, self.outside_meanwhile = False, self.outside.total

    def _watch_beside(self, known: Watch) -> Watch:
        """Return references to the live trackers of `known` and to this one, which many buffers share."""
        others = [ref for ref in known if ref() is not None]
        self._known, self._beside = known, (*others, *self.watch) if others else self.watch
        return self._beside

    @property
    def ledgers(self) -> dict[Buffer, BufferVersions]:
        """The versions of each buffer that the tape uses."""
        if self._entered < self.outside.total:
            self._enter_outside()
        return self._ledgers

    def resolve(self, a: array) -> RangeState:
        """Return the state of an array that the tape has not seen yet."""
        buffer = a.buffer
        ledger = self._ledgers.get(buffer)
        if ledger is not None:
            state = self.states[a] = ledger.state(a)
            return state
        ledger = self.states[a] = self._ledgers[buffer] = versions_of(a)
        if not self.dry:
            watch = buffer.watch
            if watch:
                buffer.watch = self._beside if watch is self._known else self._watch_beside(watch)
            else:
                buffer.watch = self.watch
        return ledger

    @property
    def preserved_bytes(self) -> int:
        """Memory of values that are kept for adjoints, and of checkpoints to recompute them from."""
        checkpoints = self.budget.checkpoint_bytes if self.budget is not None else 0
        return checkpoints + sum(copy.nbytes for copy in self._for_adjoints().values())

    @property
    def livein_bytes(self) -> int:
        """Memory of values that are kept for replays only."""
        counted = self._for_adjoints()
        copies = {id(x.copy): x.copy for ledger in self._ledgers.values() for x in ledger.liveins}
        return sum(c.nbytes for key, c in copies.items() if c is not None and key not in counted)

    def _for_adjoints(self) -> dict[int, Bytes]:
        copies = [need.copy for ledger in self._ledgers.values() for need in ledger.needs]
        copies += [save.copy for record in self.records for save in record.inplace_saves]
        return {id(copy): copy for copy in copies if copy is not None}

    def uses(self, a: array) -> bool:
        """Return True if a record of the tape uses memory of `a`."""
        if a in self.states and a.size:
            return True
        ledger = self._ledgers.get(a.buffer)
        probe = RangeState(-1, a)
        return ledger is not None and any(probe.meets(state) for state in ledger.within(a.start, a.stop))

    def include(self, a: array) -> None:
        """Add an array that no record uses, with its present values."""
        if not self.uses(a):
            self.find(self.resolve(a), a.buffer)

    def before(self, record: Record) -> bool:
        """Prepare for a launch: open what it reads and needs, close what it overwrites.

        Returns:
            True if `after` must be called after the launch.

        Raises:
            OverwriteError: In `"error"` mode, before anything has changed.
        """
        if self._entered < self.outside.total:
            self._enter_outside()
        budget = self.budget
        if budget is not None and budget.full:
            budget.thin(self)
        plan = record.plan
        if plan.record_hook is None:
            plan.record_hook = new_record_hook(plan)
        watched = plan.record_hook(self, record)
        if budget is not None and plan.kind == "func":
            budget.pinned.update(record.needs)
        return watched

    def catch_up_near(self, buffer: Buffer, state: RangeState) -> None:
        """Note writes through NumPy to a range, and to those that overlap it."""
        ledger = self._ledgers[buffer]
        self.catch_up(ledger, ledger.around(state))

    def keep_in_place(self, record: Record, own: dict[int, RangeState]) -> None:
        """Save the pre-launch values of arrays that a launch writes and its own adjoint needs."""
        args, plan = record.args, record.plan
        crossed = [x for x in plan.exposed if args[x[0]].buffer is args[x[1]].buffer]
        if plan.strided:
            crossed += [(p, p, True) for p in plan.written if p in plan.active and own[p].folded]
        if crossed or any([n.clobber == record.index and not n.outside for n in record.needs]):
            save_inplace_values(self, record, own, crossed)

    def find(self, state: RangeState, buffer: Buffer) -> None:
        """Enter a live-in: the tape finds values in a range that it has not written."""
        if is_gradient(state.array):
            note_read(state.array, "tape")
        live = ExternalInput(state.array, len(self.records), buffer.fill, injected=False)
        state.defined = True
        ledger = self._ledgers[buffer]
        ledger.add_livein(live)
        if live.fill is None:
            state.livein = live
            ledger.heat(state)
            if buffer.windows:
                self._guard(state, ledger)

    def need_late(self, record: Record, own: dict[int, RangeState]) -> None:
        """Open needs of values that the launch itself writes, once those that it overwrites are closed."""
        plan = record.plan
        found = dict(zip(plan.early, record.needs, strict=True))
        for p in plan.late:
            state, buffer = own[p], record.args[p].buffer
            found[p] = state.need or self.open_need(state, buffer, record.index, p, late=True)
        record.needs = tuple(found[p] for p in plan.needed)

    def open_need(
        self, state: RangeState, buffer: Buffer, reader: int, param: int, *, late: bool = False
    ) -> SavedValue:
        """Open a need of the values of a range; the parameter of a record is its first reader."""
        a = state.array
        need = state.need = SavedValue(a.start, a.stop, reader, param)
        ledger = self._ledgers[buffer]
        ledger.add_need(need)
        ledger.heat(state)
        if buffer.windows and not late:
            self._guard(state, ledger)  # a late one is guarded after the launch has written it
        return need

    # -- when something is overwritten ------------------------------------------------------------------

    def close(self, ledger: BufferVersions, state: RangeState, by: Record | UntrackedWrite) -> None:
        """Copy what is still needed of the bytes of `state`, which `by` is about to overwrite."""
        outside = isinstance(by, UntrackedWrite)
        at = by.at if isinstance(by, UntrackedWrite) else by.index
        for each in ledger.around(state):
            need, live = each.need, each.livein
            if need is not None:
                need.clobber, need.outside = at, outside
                if self.mode != "ignore" and need.copy is None:
                    self._keep_need(need, ledger.buffer, live)
                self._warn(need, ledger.buffer, by)
                each.need = None
            if live is not None:
                seen = self.settled and not live.settled  # by a reverse pass that reads what is in memory
                if live.injected and outside and live.at == at and not seen:
                    if live.copy is None:
                        continue  # no record has read it: a later write before the same record replaces it
                    if each is state:
                        ledger.liveins = [other for other in ledger.liveins if other is not live]
                elif live.copy is None:
                    self._keep_livein(live, ledger.buffer, need)
                each.livein = None
        state.hot = False

    def _keep_need(self, need: SavedValue, buffer: Buffer, live: ExternalInput | None) -> None:
        self.kept += 1
        shared = live.copy if live is not None else None
        need.copy = buffer.copy_range(need.start, need.stop) if shared is None else shared
        if self.budget is not None and shared is None:
            self.budget.keep(need, need.copy.nbytes)

    def _keep_livein(self, live: ExternalInput, buffer: Buffer, need: SavedValue | None = None) -> None:
        shared = need.copy if need is not None else None
        live.copy = buffer.copy_range(live.start, live.stop) if shared is None else shared
        if self.budget is not None and shared is None:
            self.budget.fix(live.copy.nbytes)
        elif self.budget is not None and need is not None:
            self.budget.pinned.add(need)

    def overwritten_outside(self, buffer: Buffer, a: array, site: Site | None, how: str) -> None:
        """Note that something that is not on this tape is about to write `a`.

        A training loop that keeps its last tape calls this for each launch of the next one. A write of values
        that an ended tape does not need is therefore only listed; the live-in that a replay would find is
        made when `ledgers` is next used. If a range has been written since the last record, it has changed:
        further writes are not listed.
        """
        ledger = self._ledgers[buffer]
        state = ledger if ledger.array is a else ledger.state(a)
        at, settled = len(self.records), self.settled
        entered = state.outside if state.outside >> 2 == at else at << 2
        now = 2 if settled else 1
        if not (state.overlaps or ledger.guarded):
            live = state.livein
            if live is None:
                if entered & now and not state.hot:
                    return
                if not (entered & 3 or state.hot or self.is_open):
                    state.outside = entered | now
                    self.outside.add(at, a, site, how, settled)
                    return
            elif (
                entered & now
                and live.injected
                and live.at == at
                and live.copy is None
                and (live.settled or not settled)
                and state.need is None
            ):
                return
        if self._entered < self.outside.total:
            self._enter_outside()
        if ledger.guarded and how != "numpy":
            self.catch_up(ledger, ledger.around(state))
        event = UntrackedWrite(at, a, site, how, settled, clock.now)
        if state.hot:
            self.close(ledger, state, event)
        # An announced write changes all of these; for one through NumPy, each of them is compared.
        for each in (ledger.around(state) if how != "numpy" else [state]) if ledger.guarded else ():
            ledger.guarded.pop(each.number, None)
        if not entered & now:
            state.outside = entered | now
            self.outside.add(at, a, site, how, settled)
            self._entered += 1
        self._inject(ledger, state, event)

    def _enter_outside(self) -> None:
        """Make live-ins of the writes since the tape stopped recording."""
        events, self._entered = self.outside[self._entered :], self.outside.total
        for event in events:
            ledger = self._ledgers[event.array.buffer]
            self._inject(ledger, ledger.state(event.array), event)

    def _inject(self, ledger: BufferVersions, state: RangeState, event: UntrackedWrite) -> None:
        if state.livein is None:
            live = ExternalInput(state.array, event.at, None, injected=True, settled=event.settled)
            state.livein = live
            ledger.add_livein(live)
        state.defined = True
        ledger.heat(state)

    def left_out(self, plan: KernelPlan, args: tuple[Any, ...], site: Site) -> None:
        """Note the results of a launch that runs while the tape records and is not recorded."""
        if not any(args[p].requires_grad for p in plan.reads):
            return
        for p in plan.written:
            a = args[p]
            if a.requires_grad and a.buffer not in self._ledgers:
                read = [args[q] for q in plan.reads if args[q].requires_grad]
                launch = LeftOut(plan.kernel.key, len(self.records), site, [_range(each) for each in read])
                self.unseen.setdefault(_range(a), launch)

    def constants_computed(self) -> list[tuple[LeftOut, list[array], array]]:
        """Return such launches, the arrays of the tape that each read, and one that it wrote."""
        found = []
        for written, launch in self.unseen.items():
            reads = [each for read in launch.reads for each in self._arrays_within(*read)]
            found += [(launch, reads, each) for each in self._arrays_within(*written)]
        return found

    def _arrays_within(self, memory: weakref.ref[Buffer], start: int, stop: int) -> list[array]:
        """Return the array of the tape that lies in a range of memory, in a list; empty if there is none."""
        buffer = memory()
        ledger = None if buffer is None else self._ledgers.get(buffer)
        return [] if ledger is None else [state.array for state in ledger.within(start, stop)[:1]]

    # -- NumPy windows: writes that are not announced ---------------------------------------------------

    def window_opened(self, ledger: BufferVersions, start: int, stop: int) -> None:
        """Keep copies of open values in these bytes, which NumPy can write until the window closes."""
        if ledger.opened is None:
            ledger.opened = len(self.records)
        states = ledger.within(start, stop)
        self.catch_up(ledger, states)  # changes through an earlier window do not belong to this one
        for state in states:
            if state.number not in ledger.guarded:
                self._guard(state, ledger)

    def window_closed(self, ledger: BufferVersions) -> None:
        """Note what changed while NumPy could write, and release the copies of what did not."""
        guarded = [ledger.numbered(number) for number in ledger.guarded]
        changed = [state for state in guarded if self._changed(state, ledger)]
        for state in changed:
            self._note_numpy(ledger, state)
        ledger.guarded.clear()
        self.kept += 1
        for state in guarded:
            # Memory holds the open values, and they cannot change unnoticed any more.
            if state.need is not None:
                state.need.copy = None
            if state.livein is not None:
                state.livein.copy = None

    def _guard(self, state: RangeState, ledger: BufferVersions) -> None:
        need, live = state.need, state.livein
        if need is not None and need.copy is None and self.mode != "ignore":
            self._keep_need(need, ledger.buffer, live)
        if live is not None and live.copy is None:
            self._keep_livein(live, ledger.buffer, need)
        known = any(each is not None and each.copy is not None for each in (need, live))
        ledger.guard(state.number, None if known else ledger.buffer.copy_range(state.start, state.stop))

    def _changed(self, state: RangeState, ledger: BufferVersions) -> bool:
        """Return True if memory differs from the copy made when a window opened or the range was used."""
        a, kept = state.array, [x.copy for x in (state.need, state.livein) if x is not None]
        kept.append(ledger.guarded.get(state.number))
        return any(copy is not None and not same_elements(copy, a) for copy in kept)

    def catch_up(self, ledger: BufferVersions, states: Iterable[RangeState]) -> None:
        """Note what NumPy has changed in these ranges while a window is open."""
        changed = self._changed_among(ledger, states)
        for state in changed:
            self._note_numpy(ledger, state)
        # The write is over, and memory holds the injected value. Ranges that overlap a changed one were
        # closed with it, and have lost the copies that they could be compared with.
        for each in {near for state in changed for near in ledger.around(state)}:
            if each.number in ledger.guarded or each in changed:
                self._guard(each, ledger)

    def _changed_among(self, ledger: BufferVersions, states: Iterable[RangeState]) -> list[RangeState]:
        """Return the changed ranges among these, and among the guarded ones that overlap a changed one."""
        changed: list[RangeState] = []
        waiting, seen = list(states), set()
        while waiting:
            state = waiting.pop()
            if state not in seen and state.number in ledger.guarded and self._changed(state, ledger):
                changed.append(state)
                waiting.extend(ledger.around(state))
            seen.add(state)
        return changed

    def catch_up_everywhere(self) -> None:
        """Note writes through NumPy to any range, before the tape's knowledge of its memory is used."""
        for ledger in self._ledgers.values():
            if ledger.guarded:
                self.catch_up(ledger, [ledger.numbered(number) for number in ledger.guarded])

    def _note_numpy(self, ledger: BufferVersions, state: RangeState) -> None:
        note("write", state.array, "numpy", None)
        self.overwritten_outside(ledger.buffer, state.array, None, "numpy")

    def looked_at(self, a: array, event: Event) -> None:
        """Note a read of an array outside kernels; a later one replaces it if tape and place are the same."""
        if not self.uses(a):
            return
        if a.size == 1:
            self.looks[range_key(a)] = a, event
        place = None if event.site is None else (id(event.site[0]), event.site[1])
        key = range_key(a), event.tape, place
        if key in self.host_reads or len(self.host_reads) < HOST_READS:
            self.host_reads[key] = a, event

    def looked_at_early(self, a: array, event: Event) -> None:
        """Note a read, outside kernels, of an array that the recording tape has not used yet."""
        if len(self.early_reads) < HOST_READS:
            self.early_reads.append((weakref.ref(a.buffer), event))

    def after(self, record: Record) -> None:
        """Note, for all tapes, what a launch has written to memory that is open to NumPy."""
        for p in record.plan.written if not self.dry else ():
            after_write(record.args[p])

    def written(self, ledger: BufferVersions, a: array) -> None:
        """Note the content after an announced write, while a NumPy window is open."""
        for state in ledger.around(ledger.state(a)):
            self._guard(state, ledger)

    # -- modes ------------------------------------------------------------------------------------------

    def may_overwrite(self, write: Record) -> None:
        """Check a write that is no record, and is about to happen.

        Raises:
            OverwriteError: In `"error"` mode, if it would overwrite a needed value.
        """
        if self.mode == "error" and not self.settled:
            a = write.args[0]
            self.refuse(write, {0: self.states.get(a) or self.resolve(a)})

    def refuse(self, record: Record, own: dict[int, RangeState]) -> None:
        """Raise an error if a launch would overwrite a needed value.

        Raises:
            OverwriteError: It would.
        """
        for p in record.plan.written:
            ledger = self._ledgers[record.args[p].buffer]
            for each in ledger.around(own[p]) if own[p].hot else ():
                if each.need is not None:
                    raise messages.overwrite(self.records, each.need, record, p)
            for q in record.plan.early:
                if own[q] is own[p] or own[q].number in own[p].overlaps:
                    own_need = SavedValue(own[q].start, own[q].stop, record.index, q)
                    raise messages.overwrite([*self.records, record], own_need, record, p)

    def _warn(self, need: SavedValue, buffer: Buffer, by: Record | UntrackedWrite) -> None:
        if self.settled or not (self.mode == "warn" or config.verify_autograd_array_access):
            return
        records = self.records
        if not isinstance(by, UntrackedWrite) and by.index == len(records):
            records = [*records, by]
        key = messages.overwrite_key(records, need, by)
        if key not in self._warned:
            self._warned.add(key)
            text = messages.overwrite_warning(records, need, buffer, by, self.mode)
            warnings.warn(text, OverwriteWarning, stacklevel=messages.user_stacklevel())


def _range(a: array) -> _Range:
    return weakref.ref(a.buffer), a.start, a.stop
