"""The versions of each buffer of a tape: the ranges that it uses, open and saved.

Buffers refer to trackers weakly, ledgers to buffers strongly, and states to other states by number only: a
tape that is dropped is freed at once, with every copy that it kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from tapedebug._clock import clock
from tapedebug._interval_index import IntervalIndex
from tapedebug._source import Site, Span, site_span
from tapedebug.runtime.memory.alias_spans import folds
from tapedebug.runtime.memory.array import range_key
from tapedebug.runtime.memory.buffer import Buffer, Bytes

VIEWS = 20
"""Bits for the number of views in the counts of a buffer.

The counts are one integer, which the garbage collector need not visit.
"""

_GIVEN, _UNWRITTEN, _FLAGS = 1, 2, 2
"""Two flags below the counts, and the bits that they take."""

WRITES = VIEWS + _FLAGS
"""Bits below the number of writes in `BufferVersions.first`."""

if TYPE_CHECKING:
    from tapedebug.runtime.memory.array import array

_UNGUARDED: dict[int, Any] = {}
"""The `guarded` of a buffer that NumPy cannot write to; it is never filled."""

_OVERLAP_EFFORT = 20_000
"""Work that NumPy may spend on an exact overlap of strided views; beyond it they count as overlapping."""


def same_elements(copy: Bytes, a: array) -> bool:
    """Return True if the elements of `a` equal, bit for bit, those in a copy of its range."""
    if not a.is_contiguous:
        return bool(np.array_equal(elements_of(copy, a, a.start), elements_of(a.buffer.data, a)))
    now = a.buffer.data[a.start : a.stop]
    words = now.size // 8 * 8  # eight bytes at a time, which is ten times as fast
    return bool(
        np.array_equal(copy[:words].view(np.uint64), now[:words].view(np.uint64))
        and np.array_equal(copy[words:], now[words:])
    )


def share_elements(a: array, b: array) -> bool:
    """Return True if two arrays of one buffer share a byte; True also if an exact answer costs too much."""
    try:
        return bool(np.shares_memory(a._numpy_view(), b._numpy_view(), max_work=_OVERLAP_EFFORT))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def elements_of(data: Bytes, a: array, start: int = 0) -> np.ndarray[Any, Any]:
    """Return the elements of `a` as bytes, shape (…, item), from a part of its buffer from `start` on."""
    return np.ndarray(
        (*a.shape, a.item_size), np.uint8, data, a.ptr - a.buffer.address - start, (*a.strides, 1)
    )


class SavedValue:
    """Values of one range at one version, which adjoints of recorded launches read.

    Attributes:
        start: First byte of the range in the buffer.
        stop: The byte after the last.
        reader: Index of the first record that needs them.
        param: The parameter of that record.
        copy: The values, once something has overwritten them (or could do so unnoticed).
        clobber: Number of records on the tape when they were overwritten, or None: for a recorded launch its
            index.
        outside: Overwritten by something that is not on the tape.
        dropped: The copy was released to keep to a memory budget; the values are recomputed when needed.
    """

    __slots__ = ("clobber", "copy", "dropped", "outside", "param", "reader", "start", "stop")

    def __init__(self, start: int, stop: int, reader: int, param: int) -> None:
        self.start = start
        self.stop = stop
        self.reader = reader
        self.param = param
        self.copy: Bytes | None = None
        self.clobber: int | None = None
        self.outside = False
        self.dropped = False


class ExternalInput:
    """Values that the tape found in memory and did not compute itself: a replay starts from them.

    Attributes:
        array: An array of that range: the gaps of a strided array belong to other arrays.
        at: Number of records when the range was first used; of an `injected` one, when something outside the
            tape wrote it (a replay loads it at that point).
        fill: The byte pattern, if the content is a known constant and needs no copy.
        copy: The values, once overwritten; None while memory still holds them.
        injected: Written outside the tape after the tape had begun.
        settled: Of an `injected` one: written after a reverse pass had run.
    """

    __slots__ = ("array", "at", "copy", "fill", "injected", "settled", "start", "stop")

    def __init__(self, a: array, at: int, fill: bytes | None, injected: bool, settled: bool = False) -> None:
        self.array = a
        self.start = a.start
        self.stop = a.stop
        self.at = at
        self.fill = fill
        self.injected = injected
        self.settled = settled
        self.copy: Bytes | None = None

    def content(self, buffer: Buffer) -> Bytes:
        """Return the values; `buffer` is the one that they belong to."""
        if self.fill is not None:
            pattern = np.frombuffer(self.fill, np.uint8)
            turned = np.roll(pattern, -(self.start % pattern.size))
            return np.tile(turned, -(-(self.stop - self.start) // pattern.size))[: self.stop - self.start]
        return self.copy if self.copy is not None else buffer.data[self.start : self.stop]


class InplaceSave:
    """Pre-launch values of a range that one launch both needs and writes, through one or more parameters."""

    __slots__ = ("copy", "params", "start", "stop")

    def __init__(self, params: tuple[int, ...], start: int, stop: int, copy: Bytes | None) -> None:
        self.params = params
        self.start = start
        self.stop = stop
        self.copy = copy


class UntrackedWrite(NamedTuple):
    """A write that is not on the tape.

    Attributes:
        at: Number of records when it happened.
        array: The array that was written.
        site: The place in the user's source; None for a write through NumPy, which is not announced.
        how: `"launch"`, `"copy"`, `"numpy"`, …
        settled: A reverse pass had already run: most likely an optimiser's step.
        clock: The time, in events of the process.
    """

    at: int
    array: array
    site: Site | None
    how: str
    settled: bool
    clock: int

    @property
    def call_site(self) -> Span | None:
        """The place in the user's source, or None."""
        return None if self.site is None else site_span(self.site)


_FIELDS = len(UntrackedWrite._fields)


class UntrackedWrites(Sequence[UntrackedWrite]):
    """The writes that are not on a tape, in order.

    Their fields are in one list: a loop that keeps its last tape lists a write for each launch of the next
    one, and each object more is one that the garbage collector visits.

    Attributes:
        total: The number of writes, which each recorded launch asks for.
    """

    __slots__ = ("_fields", "total")

    def __init__(self) -> None:
        self._fields: list[Any] = []
        self.total = 0

    def add(self, at: int, a: array, site: Site | None, how: str, settled: bool) -> None:
        """Add a write that happens now."""
        self._fields += (at, a, site, how, settled, clock.now)
        self.total += 1

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[UntrackedWrite]:
        fields = self._fields
        for first in range(0, len(fields), _FIELDS):
            yield UntrackedWrite(*fields[first : first + _FIELDS])

    @overload
    def __getitem__(self, number: int, /) -> UntrackedWrite: ...

    @overload
    def __getitem__(self, number: slice, /) -> list[UntrackedWrite]: ...

    def __getitem__(self, number: int | slice, /) -> UntrackedWrite | list[UntrackedWrite]:
        if isinstance(number, slice):
            return [self[each] for each in range(self.total)[number]]
        first = range(self.total)[number] * _FIELDS
        return UntrackedWrite(*self._fields[first : first + _FIELDS])


SAMPLE = 4096
"""Bytes that are compared to distinguish given values from a constant."""


class RangeState:
    """One range of a buffer as the tape sees it now.

    Attributes:
        array: An array that covers the range.
        number: The position in the ledger's `states`.
        need: The open need of its values, or None.
        livein: The open live-in, or None.
        overlaps: Numbers of the ledger's other states that share bytes with this one.
        hot: A write of this range may have to close needs or live-ins.
        defined: Its content comes from the tape, or from a registered live-in.
        outside: The number of records when a write outside the tape was last entered, times 4, plus 1 if that
            was before a reverse pass, and 2 if after one.
    """

    __slots__ = ("array", "defined", "hot", "livein", "need", "number", "outside", "overlaps")

    def __init__(self, number: int, a: array) -> None:
        self.array = a
        self.number = number
        self.need: SavedValue | None = None
        self.livein: ExternalInput | None = None
        self.overlaps: tuple[int, ...] = ()
        self.hot = self.defined = False
        self.outside = 0

    @property
    def start(self) -> int:
        """The first byte of the range in the buffer."""
        return self.array.start

    @property
    def stop(self) -> int:
        """The byte after the last."""
        return self.array.stop

    @property
    def is_contiguous(self) -> bool:
        """False if the range has gaps, which belong to other arrays."""
        return self.array.is_contiguous

    @property
    def folded(self) -> bool:
        """True if two of its elements may share memory, so that several threads have it as their own."""
        a = self.array
        return not a.is_contiguous and folds(a.shape, a.strides, a.item_size)

    def meets(self, other: RangeState) -> bool:
        """Return True if the two share a byte."""
        a, b = self.array, other.array
        if a.stop <= b.start or b.stop <= a.start or a.start == a.stop:
            return False
        return (a.is_contiguous and b.is_contiguous) or share_elements(a, b)


def _differ(buffer: Buffer) -> bool:
    """Return True if the first numbers of a buffer, of 4 or 8 bytes, are not all the same."""
    head = buffer.data[:SAMPLE]
    return all((head[step:] != head[:-step]).any() for step in (4, 8))


class _Others:
    """The ranges of a buffer but the first one, of which most have none.

    Attributes:
        first_key: The `range_key` of the first one.
        by_range: The others by their `range_key`.
        states: The others; the number of a state is its index plus 1.
        index: The index of all ranges; None while there is only the first one.
    """

    __slots__ = ("by_range", "first_key", "index", "states")

    def __init__(self, first: array) -> None:
        self.first_key = range_key(first)
        self.by_range: dict[Any, RangeState] = {}
        self.states: list[RangeState] = []
        self.index: IntervalIndex | None = None


class BufferVersions(RangeState):
    """The ranges of one buffer that one tape uses; the object itself is the first of them.

    Most buffers have that one alone, and a tape may use thousands: an object for both takes less time and
    memory, and is one less for the garbage collector to visit. It is in none of its own lists, which would
    keep a dropped tape alive. `versions_of` makes it, and what can be found from its array is not stored.

    Attributes:
        needs: All needs, open and closed.
        liveins: All live-ins, open and closed.
        guarded: Numbers of the states that NumPy can write to, with a copy of their content if neither a need
            nor a live-in has one. The dictionary is created for the first: thousands of ledgers have none.
        opened: Number of records on the tape when NumPy could first write to it unnoticed, or None.
        first: The buffer when the tape first used it, in one integer: `counts`, `given` and `unwritten`.
    """

    __slots__ = ("_others", "first", "guarded", "liveins", "needs", "opened")

    _others: _Others | None
    first: int
    guarded: dict[int, Bytes | None]
    liveins: list[ExternalInput] | tuple[()]
    needs: list[SavedValue] | tuple[()]
    opened: int | None

    @property
    def buffer(self) -> Buffer:
        """The buffer."""
        return self.array.buffer

    @property
    def counts(self) -> int:
        """The numbers of writes and views of the buffer when the tape first used it, in one integer."""
        return self.first >> _FLAGS

    @property
    def given(self) -> bool:
        """True if the tape found the differing values in the buffer that it was created with."""
        return bool(self.first & _GIVEN)

    @property
    def unwritten(self) -> bool:
        """True if the buffer had never been written when the tape first used it."""
        return bool(self.first & _UNWRITTEN)

    @property
    def states(self) -> list[RangeState]:
        """A new list of the ranges; the number of a state is its index."""
        return [self] if self._others is None else [self, *self._others.states]

    @property
    def is_single(self) -> bool:
        """True if the tape uses one range of the buffer."""
        return self._others is None or not self._others.states

    def numbered(self, number: int) -> RangeState:
        """Return the range with a number."""
        return self._others.states[number - 1] if number and self._others is not None else self

    def state(self, a: array) -> RangeState:
        """Return the state of the range that `a` covers, creating it if needed."""
        if self.array is a:
            return self
        others = self._others
        if others is None:
            others = self._others = _Others(self.array)
        key = range_key(a)
        if key == others.first_key:
            return self
        found = others.by_range.get(key)
        if found is None:
            found = others.by_range[key] = RangeState(len(others.states) + 1, a)
            self._place(found, others)
            others.states.append(found)
        return found

    def known(self, a: array) -> RangeState | None:
        """Return the state of the range that `a` covers, or None if the tape does not use it."""
        key, others = range_key(a), self._others
        if key == (range_key(self.array) if others is None else others.first_key):
            return self
        return None if others is None else others.by_range.get(key)

    def _place(self, found: RangeState, others: _Others) -> None:
        """Record which ranges a new range overlaps."""
        ranges = others.index
        if ranges is None:
            ranges = others.index = IntervalIndex()
            ranges.add(self.start, self.stop, 0)
        for number in ranges.near(found.start, found.stop):
            other = self.numbered(number)
            if found.meets(other):
                found.overlaps += (other.number,)
                other.overlaps += (found.number,)
                found.hot = found.hot or other.need is not None or other.livein is not None
                inside = other.is_contiguous and other.start <= found.start and found.stop <= other.stop
                found.defined = found.defined or (inside and other.defined)
        ranges.add(found.start, found.stop, found.number)

    def add_need(self, need: SavedValue) -> None:
        """Enter a need. The list is created for the first: thousands of ledgers have none."""
        if self.needs:
            self.needs.append(need)
        else:
            self.needs = [need]

    def add_livein(self, live: ExternalInput) -> None:
        """Enter a live-in."""
        if self.liveins:
            self.liveins.append(live)
        else:
            self.liveins = [live]

    def found(self, records: int) -> list[ExternalInput]:
        """Return the live-ins that the first `records` can read: those written later are left out."""
        return [live for live in self.liveins if not live.injected or live.at < records]

    def guard(self, number: int, copy: Bytes | None) -> None:
        """Enter a state that NumPy can write to from now on."""
        if self.guarded is _UNGUARDED:
            self.guarded = {}
        self.guarded[number] = copy

    def within(self, start: int, stop: int) -> list[RangeState]:
        """Return the states that share bytes with `start … stop`."""
        ranges = None if self._others is None else self._others.index
        near = [self] if ranges is None else [self.numbered(n) for n in ranges.near(start, stop)]
        return [state for state in near if state.start < stop and start < state.stop]

    def around(self, state: RangeState) -> list[RangeState]:
        """Return the state and all that overlap it."""
        return [state, *[self.numbered(i) for i in state.overlaps]] if state.overlaps else [state]

    def heat(self, state: RangeState) -> None:
        """Mark a range and those that overlap it: their writes must check for open needs and live-ins."""
        state.hot = True
        for number in state.overlaps:
            self.numbered(number).hot = True


def versions_of(a: array) -> BufferVersions:
    """Return the ledger of the buffer of an array, of which a tape uses the range of that array first.

    Tapes do this for thousands of arrays: as `__init__` it would take a quarter longer.
    """
    buffer = a.buffer
    made = _new(BufferVersions)
    made.array = a
    made.number = made.outside = 0
    made.need = made.livein = made._others = made.opened = None
    made.overlaps = made.needs = made.liveins = ()
    made.hot = made.defined = False
    made.guarded = _UNGUARDED
    if buffer.windows:
        made.opened = 0
    first = buffer.writes << WRITES | buffer.views << _FLAGS
    if not buffer.writes:
        if buffer.undefined:
            first |= _UNWRITTEN
        elif buffer.fill is None and _differ(buffer):
            first |= _GIVEN
    made.first = first
    return made


_new = BufferVersions.__new__
