"""The versions of a tape's memory, derived from its records on demand."""

from __future__ import annotations

from dataclasses import field

from tapedebug._dataclass import dataclass
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.buffer_versions import RangeState, SavedValue
from tapedebug.runtime.tape.tracker import Tracker


@dataclass(eq=False)
class Version:
    """One content of one range of memory.

    Attributes:
        array: An array of that range.
        number: 0 for the content that the tape found.
        written_by: The record that wrote it; None for version 0 and for writes outside the tape.
        outside: Written by something that is not on the tape.
        readers: Records that read it.
        needed_by: Records whose adjoints read it.
        overwritten_by: The record that overwrote it; None while it is current or if the overwrite was outside
            the tape.
        overwritten_outside: Overwritten by something that is not on the tape.
        preserved: Overwritten, and kept (or recomputed) for the reverse pass.
    """

    array: array
    number: int
    written_by: int | None = None
    outside: bool = False
    readers: list[int] = field(default_factory=list)
    needed_by: list[int] = field(default_factory=list)
    overwritten_by: int | None = None
    overwritten_outside: bool = False
    preserved: bool = False

    @property
    def overwritten(self) -> bool:
        """True if memory no longer holds its content."""
        return self.overwritten_by is not None or self.overwritten_outside

    @property
    def status(self) -> str:
        """The state of its content.

        `"live"` (still in memory), `"kept"` (in memory and needed), `"preserved"` (overwritten, needed, a
        copy is used), `"lost"` (overwritten, needed, and the reverse pass uses something else), `"harmless"`
        (overwritten and not needed).
        """
        if not self.overwritten:
            return "kept" if self.needed_by else "live"
        if not self.needed_by:
            return "harmless"
        return "preserved" if self.preserved else "lost"


def list_versions(tracker: Tracker) -> list[Version]:
    """Return all versions, in the order in which they were written."""
    book = _Book(tracker)
    events = list(tracker.outside)
    for record in tracker.records:
        while events and events[0].at <= record.index:
            book.write(events.pop(0).array, None)
        for p in sorted(record.plan.reads):
            book.current(record.args[p]).readers.append(record.index)
        needs = list(zip(record.plan.needed, record.needs, strict=True))
        late = [(p, need) for p, need in needs if p in record.plan.late]
        for p, need in [each for each in needs if each not in late]:
            book.need(record.args[p], need, record.index)
        for p in record.plan.written:
            book.write(record.args[p], record.index)
        for p, need in late:
            book.need(record.args[p], need, record.index)
    for event in events:
        book.write(event.array, None)
    return book.all


class _Book:
    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.all: list[Version] = []
        self.now: dict[RangeState, Version] = {}

    def state(self, a: array) -> RangeState:
        return self.tracker.ledgers[a.buffer].state(a)

    def current(self, a: array) -> Version:
        state = self.state(a)
        found = self.now.get(state)
        if found is None:
            found = self.now[state] = Version(state.array, 0)
            self.all.append(found)
        return found

    def need(self, a: array, need: SavedValue, by: int) -> None:
        version = self.current(a)
        version.needed_by.append(by)
        has_values = need.copy is not None or need.dropped
        version.preserved = has_values and self.tracker.mode in {"preserve", "error"}

    def write(self, a: array, by: int | None) -> None:
        own = self.state(a)
        for state in self.tracker.ledgers[a.buffer].around(own):
            if state is not own and state not in self.now:
                continue
            old = self.current(state.array)
            if old.written_by is not None and old.written_by == by:
                continue  # two parameters of one launch
            old.overwritten_by, old.overwritten_outside = by, by is None
            fresh = self.now[state] = Version(state.array, old.number + 1, by, by is None)
            self.all.append(fresh)
