"""The address space of a shadow's reverse pass: private memory in place of the tape's buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapedebug import _time_limit
from tapedebug.runtime.launch.plan import NOTHING
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer, Bytes
from tapedebug.runtime.replay.shadow_memory import IdleBuffer, ShadowBuffer, Values, scale_of
from tapedebug.runtime.state import refuse_at_another_time
from tapedebug.runtime.tape.buffer_versions import InplaceSave, SavedValue
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.runtime.foreign_engine import ForeignReverse


class ShadowSpace:
    """The values and adjoints of a shadow's reverse pass (an `AddressSpace` of `argument_table`).

    Attributes:
        buffers: The private copies.
        copies: Needed values that the replay has overwritten.
        inplace_values: Pre-launch values of in-place launches.
        rounded: Adjoints of a float64 twin round as float32 does, but elsewhere.
        current: Adjoints see what memory holds now, not the values of the forward pass.
        position: The number of records that have run.
    """

    moved = True
    live = False
    rounded = False

    def __init__(self, tracker: Tracker, f64: bool) -> None:
        if not tracker.dry:
            refuse_at_another_time("replay")
        self.f64 = f64
        used, idle = _arrays_of(tracker)
        last = _last_writers(tracker)
        self.buffers: dict[Buffer, ShadowBuffer] = {}
        for b, ledger in tracker.ledgers.items():
            _time_limit.pulse()
            self.buffers[b] = ShadowBuffer(ledger, f64, tracker, used[b], last.get(b, {}))
        for buffer, arrays in idle.items():
            self.buffers[buffer] = IdleBuffer(buffer, f64, arrays)
        self.copies: dict[SavedValue, Bytes] = {}
        self.inplace_values: dict[InplaceSave, Bytes] = {}
        self.current = False
        self.foreign_reverse = tracker.foreign_reverse
        self.position = 0

    @property
    def guarded(self) -> bool:
        """Adjoints may see other values than their launches did."""
        return self.current

    def value(self, a: array) -> int:
        """Return the address of the values."""
        return self.buffers[a.buffer].address(a)

    def adjoint(self, a: array) -> int:
        """Return the address of the adjoint."""
        return self.buffers[a.buffer].address(a, adjoint=True)

    def value_view(self, a: array) -> Values:
        """Return the values as a NumPy view."""
        return self.buffers[a.buffer].view(a)

    def adjoint_view(self, a: array) -> Values:
        """Return the adjoint as a NumPy view."""
        return self.buffers[a.buffer].view(a, adjoint=True)

    def stretch(self, a: array) -> int:
        """Return the ratio of the strides, in scalars, to those in the user's memory."""
        return self.buffers[a.buffer].stretch(a)

    def dot(self, a: array) -> int:
        """Return the address of the tangent."""
        return self.buffers[a.buffer].dot_address(a)

    def dot_view(self, a: array) -> Values:
        """Return the tangent as a NumPy view."""
        return self.buffers[a.buffer].dots(a)

    def preserved(self, record: Record, need: SavedValue) -> Bytes | None:
        """Return the values that the record saw, or None if this replay has not overwritten them since."""
        if self.current or need.clobber is None or need.clobber >= self.position:
            return None
        return self.copies.get(need)

    def inplace_save(self, record: Record, save: InplaceSave) -> Bytes:
        """Return the values that an in-place launch started from; undefined if it has not run."""
        kept = self.inplace_values.get(save)
        if kept is None:
            now = self.buffers[record.args[save.params[0]].buffer].range(save.start, save.stop)
            kept = self.inplace_values[save] = now.copy()
        return kept

    def in_memory(self, record: Record) -> frozenset[int]:
        """Return all replayed parameters if adjoints see what memory holds now."""
        return record.replay if self.current else NOTHING

    @property
    def foreign(self) -> ForeignReverse | None:
        """The reverse of another engine that the user's own pass had, if adjoints see what memory holds."""
        return self.foreign_reverse if self.current else None

    def offset(self, a: array, start: int) -> int:
        """Return the bytes from `start` to the first element."""
        return (a.ptr - a.buffer.address - start) * self.buffers[a.buffer].scale

    def call(self, record: Record) -> None:
        """Do nothing: custom functions use the user's arrays; `Shadow.uncovered` lists them."""


def check_float64(tracker: Tracker) -> None:
    """Check that a tape can be replayed in float64.

    Raises:
        TapeError: One buffer is used both as float32 and as another type; or the arrays are those of another
            moment of the tape.
    """
    if not tracker.dry:
        refuse_at_another_time("replay")
    for found in _arrays_of(tracker):
        for buffer, arrays in found.items():
            scale_of(buffer, True, arrays)


def _arrays_of(tracker: Tracker) -> tuple[dict[Buffer, list[array]], dict[Buffer, list[array]]]:
    """Return the arrays in each buffer that the tape uses, and those in buffers that launches only get."""
    used: dict[Buffer, list[array]] = {buffer: [] for buffer in tracker.ledgers}
    for a in tracker.states:
        used.setdefault(a.buffer, []).append(a)
    idle: dict[Buffer, list[array]] = {}
    for record in tracker.records:
        for p in getattr(record.plan, "arrays", ()):
            a = record.args[p]
            if a.buffer not in tracker.ledgers:
                idle.setdefault(a.buffer, []).append(a)
    return used, idle


def _last_writers(tracker: Tracker) -> dict[Buffer, dict[int, int]]:
    """Return, by buffer, the states that the tape writes, with the last record that does."""
    last: dict[Buffer, dict[int, int]] = {}
    for record in tracker.records:
        for p in record.plan.written:
            a = record.args[p]
            last.setdefault(a.buffer, {})[tracker.ledgers[a.buffer].state(a).number] = record.index
    return last
