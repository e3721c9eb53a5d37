"""Events around a tape, as data: untracked writes, reverse passes, gradients zeroed and read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from tapedebug.contract import Array, History, HistoryEvent, Place, RecordedTape
from tapedebug.trace.model import Event, Location

KEPT = 1000
"""Largest number of events in a trace; the first and the last ones are kept."""

Placed = Callable[[Place], Location]


def events_of(tape: RecordedTape, arrays: Sequence[Array], place: Placed) -> tuple[list[Event], int]:
    """Return the first and last events around a tape, in order, and the number of others.

    Args:
        tape: The tape.
        arrays: Its arrays, by their ids.
        place: Function that converts a place of the contract to a location of the trace.
    """
    builder = _Builder(tape, arrays, place)
    events = sorted(builder.events(), key=lambda event: event.clock)
    dropped = max(0, len(events) - KEPT)
    if dropped:
        del events[KEPT // 2 : KEPT // 2 + dropped]
        events[KEPT // 2].numbers["gap"] = 2
    return events, builder.dropped + dropped


class _Builder:
    def __init__(self, tape: RecordedTape, arrays: Sequence[Array], place: Placed) -> None:
        self.tape = tape
        self.place = place
        self.dropped = 0
        self.inside: dict[Hashable, list[tuple[int, int, int]]] = {}
        self.exact: dict[tuple[Hashable, int, int], int] = {}
        for number, a in enumerate(arrays):
            self.inside.setdefault(a.region, []).append((a.start, a.stop, number))
            self.exact.setdefault((a.region, a.start, a.stop), number)

    def events(self) -> Iterator[Event]:
        """Yield all stored events, in no particular order."""
        history = self.tape.capability(History)
        remembered = [] if history is None else list(history.events())
        self.dropped += 0 if history is None else history.dropped
        for item in remembered:
            if item.region is None:
                yield self._event(item, None, 1)
        known = set()
        for write in self.tape.outside_writes:
            known.add(write.clock)
            a = write.array
            yield Event(
                kind="write",
                clock=write.clock,
                at=write.at,
                of="values",
                array=self._array(a.region, a.start, a.stop)[0],
                how=write.how,
                call_site=None if write.call_site is None else self.place(write.call_site),
                settled=write.settled,
            )
        for item in remembered:
            if item.region is None:
                continue
            array, touched = self._array(item.region, item.start, item.stop)
            if item.kind == "read" and item.of == "values":
                yield self._event(item, array, 1)
            elif array is not None and item.clock not in known:
                yield self._event(item, array, touched)

    def _event(self, item: HistoryEvent, array: int | None, touched: int) -> Event:
        numbers = dict(item.numbers)
        if touched > 1:
            numbers["arrays"] = touched
        return Event(
            kind=item.kind,
            clock=item.clock,
            at=self._at(item),
            of=item.of,
            array=array,
            how=item.how,
            call_site=None if item.call_site is None else self.place(item.call_site),
            tape=item.tape,
            again=item.again,
            numbers=numbers,
        )

    def _at(self, item: HistoryEvent) -> int:
        """Return the number of launches on the tape at that time."""
        if item.tape == self.tape.id:
            return item.at
        return 0 if item.clock < self.tape.began else len(self.tape.operations)

    def _array(self, region: Hashable, start: int, stop: int) -> tuple[int | None, int]:
        """Return the array that represents these bytes, and the number of arrays that it represents.

        That is the array with exactly these bytes, else the smallest array that contains them, else the first
        that overlaps them.
        """
        number = self.exact.get((region, start, stop))
        if number is not None:
            return number, 1
        around: tuple[int, int] | None = None
        touched: list[int] = []
        for low, high, number in self.inside.get(region, ()):
            if low <= start and stop <= high and (around is None or high - low < around[0]):
                around = high - low, number
            if low < stop and start < high:
                touched.append(number)
        if around is not None:
            return around[1], 1
        return (touched[0], len(touched)) if touched else (None, 0)
