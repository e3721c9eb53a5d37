"""Versions of memory ranges: what recorded adjoints still need, and what a replay starts from.

A tape has a `Tracker`, with a ledger for each buffer that the tape touches. Just before anything writes a
range, the open needs and live-ins of all ranges that overlap it are closed: copied where the mode says so,
and told who clobbered them.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import OverwriteWarning
from tapedebug.runtime import _messages
from tapedebug.runtime.buffer import Buffer
from tapedebug.runtime.config import config
from tapedebug.runtime.ledger import Ledger, LiveIn, Need, Outside, RangeState, Scratch, elements_of

if TYPE_CHECKING:
    from tapedebug.runtime.array import array
    from tapedebug.runtime.record import Record, Site


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
