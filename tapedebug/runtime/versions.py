"""Versions of memory ranges: what recorded adjoints still need, and what a replay starts from.

A tape has a `Tracker`; it has one `Ledger` for each buffer that the tape touches. A ledger holds a
`RangeState` for each distinct range (array layout) that was used. Just before anything writes a range, the
open needs and live-ins of
all ranges that overlap it are closed: copied where the mode says so, and told who clobbered them.

Buffers refer to ledgers weakly, ledgers to buffers strongly, states to other states by number only: a tape
that is dropped goes away at once, with every copy that it kept.
"""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import OverwriteWarning
from tapedebug.runtime import _messages
from tapedebug.runtime.buffer import Buffer, Bytes
from tapedebug.runtime.config import config

if TYPE_CHECKING:
    from tapedebug.runtime.array import array
    from tapedebug.runtime.record import Record, Site

_OVERLAP_EFFORT = 20_000
"""Work that NumPy may spend on an exact overlap of strided views; beyond it they count as overlapping."""


def range_key(a: array) -> tuple[Any, ...]:
    """What makes two arrays one range: the same bytes, for contiguous ones whatever their shape."""
    if a.is_contiguous:
        return (id(a.buffer), a.start, a.stop)
    return (id(a.buffer), a.ptr, a.shape, a.strides, a.dtype)


def elements_of(data: Bytes, a: array, start: int = 0) -> np.ndarray[Any, Any]:
    """The elements of `a` as bytes, in bytes of its buffer that begin at `start`: shape (…, item)."""
    return np.ndarray(
        (*a.shape, a.item_size), np.uint8, data, a.ptr - a.buffer.address - start, (*a.strides, 1)
    )


class Need:
    """Values of one range at one version, which adjoints of recorded launches read.

    Attributes:
        start: First byte of the buffer.
        stop: The byte after the last.
        reader: (record index, parameter) of the first launch that needs them.
        copy: The values, once something overwrote them (or could do so unseen).
        clobber: Number of records on the tape when they were overwritten, or None: for a recorded launch its
            index.
        outside: Overwritten by something that is not on the tape.
    """

    __slots__ = ("clobber", "copy", "outside", "reader", "start", "stop")

    def __init__(self, start: int, stop: int, reader: tuple[int, int]) -> None:
        self.start = start
        self.stop = stop
        self.reader = reader
        self.copy: Bytes | None = None
        self.clobber: int | None = None
        self.outside = False


class LiveIn:
    """Values that the tape found in memory and did not compute itself: where a replay starts.

    Attributes:
        array: An array of that range: between the elements of a strided one lies memory of others.
        at: Number of records when the range was first used; for `injected` ones, when something outside the
            tape
            wrote it (a replay loads it at that point).
        fill: The byte pattern, where the content is a known constant and needs no copy.
        copy: The values, once overwritten; None while memory still holds them.
    """

    __slots__ = ("array", "at", "copy", "fill", "injected", "start", "stop")

    def __init__(self, a: array, at: int, fill: bytes | None, injected: bool) -> None:
        self.array = a
        self.start = a.start
        self.stop = a.stop
        self.at = at
        self.fill = fill
        self.injected = injected
        self.copy: Bytes | None = None


class Scratch:
    """Pre-launch values of a range that one launch both needs and writes, through one or more parameters."""

    __slots__ = ("copy", "params", "start", "stop")

    def __init__(self, params: tuple[int, ...], start: int, stop: int, copy: Bytes | None) -> None:
        self.params = params
        self.start = start
        self.stop = stop
        self.copy = copy


class Outside:
    """A write that is not on the tape: between which records, to what, from where."""

    __slots__ = ("array", "at", "how", "site")

    def __init__(self, at: int, array: array, site: Site | None, how: str) -> None:
        self.at = at
        self.array = array
        self.site = site
        self.how = how


class RangeState:
    """One range of a buffer as the tape sees it now.

    Attributes:
        exact: The elements as a NumPy view where the range has holes, else None.
        overlaps: Numbers of the ledger's other states that share bytes with this one.
        hot: A write of this range may have something to close.
        defined: Its content comes from the tape, or from a registered live-in.
    """

    __slots__ = ("array", "defined", "exact", "hot", "livein", "need", "number", "overlaps", "start", "stop")

    def __init__(self, number: int, a: array) -> None:
        self.number = number
        self.array = a
        self.start = a.start
        self.stop = a.stop
        self.exact = None if a.is_contiguous else a._look()
        self.overlaps: list[int] = []
        self.need: Need | None = None
        self.livein: LiveIn | None = None
        self.hot = False
        self.defined = False

    def meets(self, other: RangeState) -> bool:
        """Whether the two share a byte."""
        if self.stop <= other.start or other.stop <= self.start:
            return False
        if self.exact is None and other.exact is None:
            return True
        mine, theirs = self.array._look(), other.array._look()
        try:
            return bool(np.shares_memory(mine, theirs, max_work=_OVERLAP_EFFORT))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True


class Ledger:
    """The ranges of one buffer that one tape uses."""

    __slots__ = ("__weakref__", "buffer", "by_range", "liveins", "needs", "states", "tracker")

    def __init__(self, buffer: Buffer, tracker: Tracker) -> None:
        self.buffer = buffer
        self.tracker = weakref.ref(tracker)
        self.states: list[RangeState] = []
        self.by_range: dict[Any, RangeState] = {}
        self.needs: list[Need] = []
        self.liveins: list[LiveIn] = []
        if not tracker.dry:
            buffer.watch = (*(ref for ref in buffer.watch if ref() is not None), weakref.ref(self))

    def state(self, a: array) -> RangeState:
        """The state of the range that `a` covers."""
        key = range_key(a)
        found = self.by_range.get(key)
        if found is None:
            found = self.by_range[key] = RangeState(len(self.states), a)
            for other in self.states:
                if found.meets(other):
                    found.overlaps.append(other.number)
                    other.overlaps.append(found.number)
                    found.hot = found.hot or other.need is not None or other.livein is not None
                    inside = other.exact is None and other.start <= found.start and found.stop <= other.stop
                    found.defined = found.defined or (inside and other.defined)
            self.states.append(found)
        return found

    def around(self, state: RangeState) -> list[RangeState]:
        """The state and all that overlap it."""
        return [state, *(self.states[i] for i in state.overlaps)]

    def heat(self, state: RangeState) -> None:
        """Something was opened: writes of this range and of overlapping ones must look."""
        for each in self.around(state):
            each.hot = True


class Tracker:
    """The ledgers of one tape.

    Attributes:
        mode: The tape's `on_overwrite`.
        dry: Its one launch will not run: nothing may be told to others.
        settled: A reverse pass has run: from now on overwrites are kept in silence (an optimiser's step).
        preserved_bytes: Memory of values that were kept for adjoints.
        kept: How many times something was kept.
        livein_bytes: Memory of values that were kept for replays only.
        outside: Writes that were not on the tape, in order.
    """

    def __init__(self, mode: str, dry: bool = False) -> None:
        self.mode = mode
        self.dry = dry
        self.settled = False
        self.ledgers: dict[Buffer, Ledger] = {}
        self.states: dict[array, RangeState] = {}
        self.records: list[Record] = []
        self.preserved_bytes = 0
        self.kept = 0
        self.livein_bytes = 0
        self.outside: list[Outside] = []
        self._warned: set[tuple[Any, ...]] = set()

    # -- while recording --------------------------------------------------------------------------------

    def resolve(self, a: array) -> RangeState:
        """The state of an array that the tape has not seen yet."""
        ledger = self.ledgers.get(a.buffer)
        if ledger is None:
            ledger = self.ledgers[a.buffer] = Ledger(a.buffer, self)
        state = self.states[a] = ledger.state(a)
        return state

    def uses(self, a: array) -> bool:
        """Whether anything on the tape uses memory of `a`."""
        ledger = self.ledgers.get(a.buffer)
        probe = RangeState(-1, a)
        return ledger is not None and any(probe.meets(state) for state in ledger.states)

    def before(self, record: Record) -> None:
        """A launch is about to run: open what it reads and needs, close what it overwrites.

        Raises:
            OverwriteError: In `"error"` mode, before anything has changed.
        """
        plan, args, states = record.plan, record.args, self.states
        own = {}
        for p in plan.touched:
            a = args[p]
            state = states.get(a)
            own[p] = state if state is not None else self.resolve(a)
            if a.buffer.windows:
                self._look_for_silent_write(own[p], a)
        if self.mode == "error" and not self.settled:
            self._refuse(record, own)
        for p in plan.found:
            state = own[p]
            if not state.defined:
                if p in plan.covers and args[p].shape == record.dim:
                    state.defined = True
                else:
                    self._open_livein(state, args[p].buffer)
        if plan.needed:
            needs = []
            for p in plan.needed:
                state = own[p]
                needs.append(state.need or self._open_need(state, args[p].buffer, (record.index, p)))
            record.needs = tuple(needs)
        for p in plan.written:
            state, buffer = own[p], args[p].buffer
            if state.hot:
                self._close(self.ledgers[buffer], state, record)
            if self.dry:
                continue
            buffer.fill = None
            buffer.writes += 1
            if len(buffer.watch) > 1:
                announce(args[p], record.site, "launch", skip=self)
        if plan.needed and any(n.clobber == record.index and not n.outside for n in record.needs):
            self._set_scratch(record, own)

    def _open_livein(self, state: RangeState, buffer: Buffer) -> None:
        live = LiveIn(state.array, len(self.records), buffer.fill, injected=False)
        state.defined = True
        ledger = self.ledgers[buffer]
        ledger.liveins.append(live)
        if live.fill is None:
            state.livein = live
            ledger.heat(state)
            if buffer.windows:
                self._keep_livein(live, buffer)

    def _open_need(self, state: RangeState, buffer: Buffer, reader: tuple[int, int]) -> Need:
        need = state.need = Need(state.start, state.stop, reader)
        ledger = self.ledgers[buffer]
        ledger.needs.append(need)
        ledger.heat(state)
        if buffer.windows and self.mode != "ignore":
            self._keep_need(need, buffer, state.livein)
        return need

    # -- when something is overwritten ------------------------------------------------------------------

    def _close(self, ledger: Ledger, state: RangeState, by: Record | Outside) -> None:
        """Keep what is still needed of the bytes of `state`, which `by` is about to overwrite."""
        outside = isinstance(by, Outside)
        at = by.at if isinstance(by, Outside) else by.index
        for each in ledger.around(state):
            need, live = each.need, each.livein
            if need is not None:
                need.clobber, need.outside = at, outside
                if self.mode != "ignore" and need.copy is None:
                    self._keep_need(need, ledger.buffer, live)
                self._warn(need, ledger.buffer, by)
                each.need = None
            if live is not None:
                if live.injected and outside and live.at == at and each is state:
                    ledger.liveins.remove(live)  # overwritten before anything on the tape read it
                elif live.copy is None:
                    self._keep_livein(live, ledger.buffer, need)
                each.livein = None
        state.hot = False

    def _keep_need(self, need: Need, buffer: Buffer, live: LiveIn | None) -> None:
        self.kept += 1
        if live is not None and live.copy is not None:
            need.copy = live.copy  # counted as a live-in already
        else:
            need.copy = buffer.copy_range(need.start, need.stop)
            self.preserved_bytes += need.copy.nbytes

    def _keep_livein(self, live: LiveIn, buffer: Buffer, need: Need | None = None) -> None:
        if need is not None and need.copy is not None:
            live.copy = need.copy
        else:
            live.copy = buffer.copy_range(live.start, live.stop)
            self.livein_bytes += live.copy.nbytes

    def overwritten_outside(self, ledger: Ledger, a: array, site: Site | None, how: str) -> None:
        """Something that is not on this tape is about to write `a`."""
        event = Outside(len(self.records), a, site, how)
        state = ledger.state(a)
        if state.hot:
            self._close(ledger, state, event)
        self.outside.append(event)
        live = LiveIn(state.array, event.at, None, injected=True)
        ledger.liveins.append(live)
        state.livein, state.defined = live, True
        ledger.heat(state)

    def _look_for_silent_write(self, state: RangeState, a: array) -> None:
        """With a NumPy window open, compare with what we know before trusting that nothing was written."""
        known: Any = None
        if state.livein is not None and state.livein.copy is not None:
            known = state.livein.copy
        elif state.need is not None:
            known = state.need.copy
        if known is None or np.array_equal(elements_of(known, a, state.start), elements_of(a.buffer.data, a)):
            return
        ledger = self.ledgers[a.buffer]
        self.overwritten_outside(ledger, a, None, "numpy")
        # The write is over: what memory holds now is the injected value.
        live = state.livein
        if live is not None:
            self._keep_livein(live, a.buffer)

    # -- modes ------------------------------------------------------------------------------------------

    def _refuse(self, record: Record, own: dict[int, RangeState]) -> None:
        for p in record.plan.written:
            ledger = self.ledgers[record.args[p].buffer]
            for each in ledger.around(own[p]) if own[p].hot else ():
                if each.need is not None:
                    raise _messages.overwrite(self.records, each.need, record, p)
            for q in record.plan.needed:
                if own[q] is own[p] or own[q].number in own[p].overlaps:
                    own_need = Need(own[q].start, own[q].stop, (record.index, q))
                    raise _messages.overwrite([*self.records, record], own_need, record, p)

    def _warn(self, need: Need, buffer: Buffer, by: Record | Outside) -> None:
        if self.settled or not (self.mode == "warn" or config.verify_autograd_array_access):
            return
        records = self.records
        if not isinstance(by, Outside) and by.index == len(records):
            records = [*records, by]
        key = _messages.overwrite_key(records, need, by)
        if key not in self._warned:
            self._warned.add(key)
            text = _messages.overwrite_warning(records, need, buffer, by, self.mode)
            warnings.warn(text, OverwriteWarning, stacklevel=_messages.user_stacklevel())

    # -- in-place launches ------------------------------------------------------------------------------

    def _set_scratch(self, record: Record, own: dict[int, RangeState]) -> None:
        """Group the parameters through which this launch writes values that its own adjoint needs."""
        plan = record.plan
        groups: list[set[int]] = []
        for p, need in zip(plan.needed, record.needs, strict=True):
            if need.clobber != record.index:
                continue
            buffer = record.args[p].buffer
            members = {p} | {
                q
                for q in (*plan.written, *plan.needed)
                if record.args[q].buffer is buffer and (own[q] is own[p] or own[q].number in own[p].overlaps)
            }
            for group in [g for g in groups if g & members]:
                groups.remove(group)
                members |= group
            groups.append(members)
        found = []
        for members in groups:
            start = min(own[p].start for p in members)
            stop = max(own[p].stop for p in members)
            buffer = record.args[min(members)].buffer
            copy = None
            if self.mode != "ignore":
                copy = next(
                    (
                        n.copy
                        for n in record.needs
                        if (n.start, n.stop, n.clobber) == (start, stop, record.index)
                    ),
                    None,
                )
                if copy is None:
                    copy = buffer.copy_range(start, stop)
                    self.preserved_bytes += copy.nbytes
            found.append(Scratch(tuple(sorted(members)), start, stop, copy))
        record.scratch = tuple(found)


def announce(a: array, site: Site | None, how: str, skip: Tracker | None = None) -> None:
    """Tell every live tape but `skip` that `a` is about to be written."""
    buffer = a.buffer
    buffer.fill = None
    buffer.writes += 1
    for ref in buffer.watch:
        ledger = ref()
        tracker = ledger.tracker() if ledger is not None else None
        if ledger is not None and tracker is not None and tracker is not skip:
            tracker.overwritten_outside(ledger, a, site, how)
