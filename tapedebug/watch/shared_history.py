"""The history of gradients and inputs over all tapes of a watched program.

A gradient may come from an earlier tape. So passes, zeroings, reads and writes are stored by memory, not by
tape. What no function of Warp writes is found by comparing digests when the next pass begins.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field, replace
from typing import Literal, NamedTuple, cast

import numpy as np

from tapedebug._clock import clock
from tapedebug._dataclass import dataclass
from tapedebug.contract import Array, EventKind, HistoryEvent, Operation, Place, Values, view_of
from tapedebug.operations import OperationTape, Region
from tapedebug.operations.pass_history import Norms, PassHistory, norm_of
from tapedebug.watch.memory import WarpArray

KEPT = 64
"""Smallest number of events of one region that are stored; up to twice as many are."""

SAMPLED = 32
"""Largest number of values of an array that are kept with an event."""

EARLY = 1000
"""Largest number of arrays whose reads are stored before a tape uses them."""

Of = Literal["values", "gradient"]


class _Digest(NamedTuple):
    """A digest of the values or the gradient of an array, and the time at which it was made."""

    clock: int
    number: int
    array: weakref.ref[Array]


class _EarlyEvent(NamedTuple):
    """The last read or fill of an array before any tape used that of which it may be the gradient."""

    kind: EventKind
    array: weakref.ref[WarpArray]
    clock: int
    how: str
    call_site: Place
    norm: float | None
    sample: Values | None


@dataclass(slots=True)
class _RegionHistory:
    """The events of one region, without a reference to it, and digests of its content after the last pass.

    Attributes:
        events: In order; the first `KEPT // 2`, because the first tapes are diagnosed, and at least the last
            `KEPT`.
        dropped: The number of events in between that are no longer stored.
        settled: The last digest of each range of values and gradients.
        views: The NumPy arrays through which the program can read the gradient.
        samples: Numbers of gradients that were read, and of values before they were written, by event.
    """

    events: list[HistoryEvent] = field(default_factory=list)
    dropped: int = 0
    settled: dict[tuple[Of, int, int], _Digest] = field(default_factory=dict)
    views: list[weakref.ref[Values]] = field(default_factory=list)
    samples: dict[tuple[Of, int, int, int], Values] = field(default_factory=dict)

    def add(self, event: HistoryEvent) -> None:
        """Store an event."""
        if len(self.events) >= 2 * KEPT:
            first = KEPT // 2
            del self.events[first:KEPT]
            self.dropped += KEPT - first
            self.events[first] = replace(
                self.events[first], numbers={**self.events[first].numbers, "gap": 1.0}
            )
            kept = {event.clock for event in self.events}
            self.samples = {key: values for key, values in self.samples.items() if key[-1] in kept}
        self.events.append(replace(event, region=None))

    def is_viewed(self) -> bool:
        """True if a NumPy view of the gradient exists."""
        self.views = [view for view in self.views if view() is not None]
        return bool(self.views)


class SharedHistory:
    """The events of the memory that tapes use. It keeps no memory alive.

    It is the capability `contract.ValueSamples` of the tapes.

    Attributes:
        tapes: The tapes that still exist.
        mirrored: The kernels that this engine runs with the results of Warp, as far as they were compared.
    """

    def __init__(self) -> None:
        self.mirrored: set[Hashable] = set()
        self.tapes: weakref.WeakSet[OperationTape] = weakref.WeakSet()
        self._regions: weakref.WeakKeyDictionary[Region, _RegionHistory] = weakref.WeakKeyDictionary()
        self._viewed: weakref.WeakSet[Region] = weakref.WeakSet()
        self._early: dict[tuple[int, EventKind], _EarlyEvent] = {}

    def events(self, regions: Iterable[Region]) -> list[HistoryEvent]:
        """Return the stored events of some regions."""
        return [
            replace(event, region=region)
            for region in regions
            if (found := self._regions.get(region)) is not None
            for event in found.events
        ]

    def dropped(self, regions: Iterable[Region]) -> int:
        """Return the number of events of some regions that are no longer stored."""
        return sum(found.dropped for region in regions if (found := self._regions.get(region)) is not None)

    def add(self, event: HistoryEvent) -> None:
        """Store an event of a region."""
        region = cast("Region", event.region)
        found = self._regions.get(region)
        if found is None:
            found = self._regions[region] = _RegionHistory()
        if event.kind == "backward" and (region in self._viewed or found.is_viewed()):
            event = replace(event, numbers={**event.numbers, "viewed": 1.0})
        found.add(event)

    def note_gradient(
        self,
        kind: EventKind,
        array: Array,
        how: str,
        call_site: Place | None,
        gradient: Values | None = None,
        view: Values | None = None,
    ) -> None:
        """Note that the program has read, written or set to one value the gradient of an array.

        Args:
            kind: `"read"`, `"write"` or `"zero"`.
            array: The array.
            how: The way it was done.
            call_site: The place in the program.
            gradient: The values that were read.
            view: The NumPy view that the program got of them.
        """
        if kind == "read":  # values that NumPy has written since belong to an earlier time
            self._catch_up(array, "values")
        numbers = {} if gradient is None else {"norm": norm_of(gradient)}
        now = self._note(kind, "gradient", array, how, call_site, numbers)
        known = self._regions[cast("Region", array.region)]
        if view is not None:
            known.views.append(weakref.ref(view))
        if gradient is not None and (found := self.sample(gradient)) is not None:
            known.samples["gradient", array.start, array.stop, now] = found

    def note_early_read(self, gradient: WarpArray, how: str, call_site: Place, values: Values) -> None:
        """Note that the program has read an array, which may turn out to be the gradient of an input.

        Args:
            gradient: The array, which is not kept alive.
            how: The way it was done.
            call_site: The place in the program.
            values: Its values.
        """
        self._note_early("read", gradient, how, call_site, norm_of(values), self.sample(values))

    def note_early_fill(self, gradient: WarpArray, how: str, call_site: Place) -> None:
        """Note that the program has filled an array, which may turn out to be the gradient of an input."""
        self._note_early("zero", gradient, how, call_site)

    def _note_early(
        self,
        kind: EventKind,
        gradient: WarpArray,
        how: str,
        call_site: Place,
        norm: float | None = None,
        sample: Values | None = None,
    ) -> None:
        if len(self._early) >= EARLY:
            self._early = {key: event for key, event in self._early.items() if event.array() is not None}
        key = id(gradient), kind
        if key in self._early or len(self._early) < EARLY:
            self._early[key] = _EarlyEvent(
                kind, weakref.ref(gradient), clock.tick(), how, call_site, norm, sample
            )

    def claim_early_events(self, arrays: Iterable[Array]) -> None:
        """Add the early reads and fills of the gradients of some arrays to their events."""
        if not self._early:
            return
        for array in arrays:
            gradient = getattr(getattr(array, "source", None), "grad", None)
            keys: list[tuple[int, EventKind]] = [(id(gradient), "read"), (id(gradient), "zero")]
            early = [self._early[key] for key in keys if key in self._early]
            for event in sorted(early, key=lambda event: event.clock):
                if gradient is not None and event.array() is gradient:
                    del self._early[id(gradient), event.kind]
                    self._add_early(array, event)

    def _add_early(self, array: Array, event: _EarlyEvent) -> None:
        place = array.region, array.start, array.stop, event.how, event.call_site
        numbers = {} if event.norm is None else {"norm": event.norm}
        self.add(HistoryEvent(event.kind, event.clock, "gradient", *place, numbers=numbers))
        if event.sample is not None:
            region = cast("Region", array.region)
            self._regions[region].samples["gradient", array.start, array.stop, event.clock] = event.sample

    def before_write(self, array: Array) -> Values | None:
        """Return a sample of an array that the program is about to write, for `note_write`.

        It is None for arrays of which there are no events, and for those on a device.
        """
        region = cast("Region", array.region)
        if region not in self._regions or not region.on_host or not array.is_contiguous:
            return None
        return self.sample(view_of(array, region.values))

    def note_viewed(self, array: Array) -> None:
        """Note that another library, such as PyTorch, has a view of the gradient of an array."""
        self._viewed.add(cast("Region", array.region))

    def note_write(
        self, array: Array, how: str, call_site: Place | None, before: Values | None = None
    ) -> int:
        """Note that the program has written the values of an array outside of all tapes.

        Args:
            array: The array.
            how: The way it was done.
            call_site: The place in the program.
            before: The result of `before_write`.

        Returns:
            The time.
        """
        now = self._note("write", "values", array, how, call_site, {})
        if before is not None:
            known = self._regions[cast("Region", array.region)]
            known.samples["values", array.start, array.stop, now] = before
        return now

    def at_event(self, array: Array, of: Of, clock: int, /) -> Values | None:
        """Return the numbers that were kept of an array or its gradient at an event of just its bytes."""
        found = self._regions.get(cast("Region", array.region))
        return None if found is None else found.samples.get((of, array.start, array.stop, clock))

    def sample(self, values: Values, /) -> Values | None:
        """Return a copy of at most `SAMPLED` evenly spread numbers; None if the values have gaps."""
        if not values.flags.c_contiguous:
            return None
        row = values.reshape(-1)
        return row.copy() if row.size <= SAMPLED else row[:: -(-row.size // SAMPLED)].copy()

    def tape_begins(self) -> None:
        """Add an event for each array whose values have changed unseen since the last pass."""
        for region in self._regions.values():
            for (of, _, _), digest in list(region.settled.items()):
                array = digest.array()
                if of == "values" and array is not None:
                    self._catch_up(array, of)

    def catch_up(self, arrays: Iterable[Array]) -> None:
        """Add an event for each array whose values or gradient have changed unseen since the last pass."""
        for array in arrays:
            self._catch_up(array, "values")
            self._catch_up(array, "gradient")

    def settle(self, arrays: Iterable[Array]) -> None:
        """Store digests of arrays and of their gradients after a pass."""
        for array in arrays:
            found = self._regions.get(cast("Region", array.region))
            if found is not None:
                for of in OF:
                    number = _digest(array, of)
                    if number is not None:
                        key = of, array.start, array.stop
                        found.settled[key] = _Digest(clock.now, number, weakref.ref(array))

    def _note(
        self,
        kind: EventKind,
        of: Of,
        array: Array,
        how: str,
        call_site: Place | None,
        numbers: dict[str, float],
    ) -> int:
        now = clock.tick()
        self.add(
            HistoryEvent(
                kind, now, of, array.region, array.start, array.stop, how, call_site, numbers=numbers
            )
        )
        return now

    def _catch_up(self, array: Array, of: Of) -> None:
        found = self._regions.get(cast("Region", array.region))
        key = of, array.start, array.stop
        if found is None or key not in found.settled:
            return
        known, number = found.settled[key], _digest(array, of)
        if number is None or number == known.number:
            return
        found.settled[key] = _Digest(clock.now, number, known.array)
        noted = any(
            event.clock > known.clock
            and event.of == of
            and event.kind in ("write", "zero")
            and event.start < array.stop
            and array.start < event.stop
            for event in found.events
        )
        if not noted:
            self._note("write", of, array, "unseen", None, {})


OF: tuple[Of, Of] = ("values", "gradient")


def _digest(array: Array, of: Of) -> int | None:
    """Return a number that changes when the values or the gradient of an array do; None if there are none."""
    if of == "values":
        region = cast("Region", array.region)
        if not region.on_host:
            return None
        return zlib.crc32(region.values[array.start : array.stop].data)
    gradient = array.current_gradient()
    if gradient is None:
        return None
    return zlib.crc32(np.ascontiguousarray(gradient).reshape(-1).view(np.uint8).data)


class WatchedHistory(PassHistory):
    """The capability `contract.History` of a tape: its own events, and those of the memory that it uses.

    Args:
        shared: The events of the memory of all tapes.
        tape: The tape, which is not kept alive.
    """

    def __init__(self, shared: SharedHistory, tape: OperationTape) -> None:
        super().__init__()
        self.shared, self._tape = shared, weakref.ref(tape)
        shared.tapes.add(tape)

    @property
    def dropped(self) -> int:
        """The number of earlier events that are no longer stored."""
        return self._dropped + self.shared.dropped(self._regions())

    def events(self) -> list[HistoryEvent]:
        """Return the stored events, without unseen writes that the tape has found itself."""
        own = super().events()
        tape = self._tape()
        began = 0 if tape is None else tape.began
        first_pass = min((event.clock for event in own if event.kind == "backward"), default=clock.now)

        def is_found(event: HistoryEvent) -> bool:
            is_unseen = event.kind == "write" and event.of == "values" and event.how == "unseen"
            return is_unseen and began <= event.clock < first_pass

        return own + [event for event in self.shared.events(self._regions()) if not is_found(event)]

    def others_use(self, array: Array) -> bool:
        """True if another tape that still exists uses an array."""
        own = self._tape()
        return any(tape is not own and tape.uses(array) for tape in self.shared.tapes)

    def written_by_others(self, region: Region, start: int, stop: int) -> Operation | None:
        """Return the operation on another tape that wrote bytes of a region since this one recorded.

        It is None if there is none, or if others have written them after it.
        """
        own = self._tape()
        since = 0 if own is None or own.is_recording else own.ended
        later = (each for each in self.shared.tapes if each is not own and each.began > since)
        for tape in sorted(later, key=lambda each: each.began, reverse=True):
            found = tape.last_writer(region, start, stop)
            if found is not None:
                return found
        return None

    def tape_begins(self) -> None:
        """Find what has changed unseen before the tape begins to record."""
        self.shared.tape_begins()

    def begin(self, inputs: Sequence[Array]) -> tuple[int, Norms]:
        """Note that a reverse pass begins; return the argument `begun` of `end`."""
        self.shared.claim_early_events(inputs)
        self.shared.catch_up(inputs)
        return super().begin(inputs)

    def end(
        self,
        begun: tuple[int, Norms],
        tape: int,
        at: int,
        number: int,
        again: bool,
        call_site: Place | None,
    ) -> None:
        """Note a reverse pass that has ended; see `PassHistory`."""
        super().end(begun, tape, at, number, again, call_site)
        self.shared.settle(array for array, _ in begun[1])

    def _regions(self) -> Iterable[Region]:
        tape = self._tape()
        return () if tape is None else tape.regions

    def _add(self, event: HistoryEvent) -> None:
        if event.region is None:
            super()._add(event)
        else:
            self.shared.add(event)
