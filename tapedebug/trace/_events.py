"""What happened around a tape, as data: writes off it, passes, gradients zeroed and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tapedebug.trace.model import Event, Location

if TYPE_CHECKING:
    from tapedebug.runtime import Tape
    from tapedebug.runtime import array as Array

KEPT = 1000
"""How many events a trace holds; the last ones."""

Placed = Callable[[Any], Location]


def events_of(tape: Tape, arrays: Sequence[Array], place: Placed) -> tuple[list[Event], int]:
    """Return the last events around a tape, in order, and how many earlier ones are not among them.

    Args:
        tape: The tape.
        arrays: Its arrays, by their ids.
        place: Turns a call site of the runtime into a location.
    """
    builder = _Builder(tape, arrays, place)
    events = sorted(builder.events(), key=lambda event: event.clock)
    return events[-KEPT:], builder.dropped + max(0, len(events) - KEPT)


class _Builder:
    def __init__(self, tape: Tape, arrays: Sequence[Array], place: Placed) -> None:
        self.tape = tape
        self.place = place
        self.dropped = 0
        self.inside: dict[int, list[tuple[int, int, int]]] = {}
        self.exact: dict[tuple[int, int, int], int] = {}
        for number, a in enumerate(arrays):
            self.inside.setdefault(id(a.buffer), []).append((a.start, a.stop, number))
            self.exact.setdefault((id(a.buffer), a.start, a.stop), number)

    def events(self) -> Iterator[Event]:
        """All that is remembered, in no order."""
        tracker = self.tape.tracker
        self.dropped += tracker.log.dropped
        for item in tracker.log.events:
            yield self._event(item, "tape", None)
        known = set()
        for write in tracker.outside[-KEPT:]:
            known.add(write.clock)
            yield Event(
                kind="write",
                clock=write.clock,
                at=write.at,
                of="values",
                array=self._array(write.array.buffer, write.array.start, write.array.stop)[0],
                how=write.how,
                call_site=None if write.site is None else self.place(write.site),
                settled=write.settled,
            )
        self.dropped += max(0, len(tracker.outside) - KEPT)
        for a, event in tracker.looks.values():
            yield self._event(event, "values", self._array(a.buffer, a.start, a.stop)[0])
        for buffer in tracker.ledgers:
            for memory, of in ((buffer, "values"), (buffer.adjoint, "gradient")):
                if (
                    memory is None
                    or memory.history is None
                    or memory.history.of_gradient != (of == "gradient")
                ):
                    continue
                self.dropped += memory.history.dropped
                for item in memory.history.events:
                    if item.clock not in known:
                        yield from self._of_memory(item, of, buffer)

    def _of_memory(self, item: Any, of: str, buffer: Any) -> Iterator[Event]:
        norms = {(start, stop): (before, after) for start, stop, before, after in item.norms}
        for start, stop in dict.fromkeys([*(item.inputs or [(item.start, item.stop)]), *norms]):
            array, touched = self._array(buffer, start, stop)
            if array is None:
                continue
            event = self._event(item, of, array)
            if (start, stop) in norms:
                event.numbers["norm_before"], event.numbers["norm_after"] = norms[start, stop]
            if item.viewed:
                event.numbers["viewed"] = 1
            if touched > 1:
                event.numbers["arrays"] = touched
            yield event

    def _event(self, item: Any, of: Any, array: int | None) -> Event:
        numbers: dict[str, float] = {}
        if item.norm is not None:
            numbers["norm"] = item.norm
        if item.number:
            numbers["pass"] = item.number
        return Event(
            kind=item.kind,
            clock=item.clock,
            at=self._at(item),
            of=of,
            array=array,
            how=item.how,
            call_site=None if item.site is None else self.place(item.site),
            tape=item.tape,
            again=item.again,
            numbers=numbers,
        )

    def _at(self, item: Any) -> int:
        """How many launches the tape had then."""
        if item.tape == self.tape.id:
            return int(item.at)
        return 0 if item.clock < self.tape.began else len(self.tape.records)

    def _array(self, buffer: Any, start: int, stop: int) -> tuple[int | None, int]:
        """The array that stands for these bytes, and for how many it does.

        That is the one with just these bytes, else the smallest around them, else the first of those that
        they touch.
        """
        number = self.exact.get((id(buffer), start, stop))
        if number is not None:
            return number, 1
        around: tuple[int, int] | None = None
        touched: list[int] = []
        for low, high, number in self.inside.get(id(buffer), ()):
            if low <= start and stop <= high and (around is None or high - low < around[0]):
                around = high - low, number
            if low < stop and start < high:
                touched.append(number)
        if around is not None:
            return around[1], 1
        return (touched[0], len(touched)) if touched else (None, 0)
