"""The events around a tape, and the copies that it keeps, for the debugger's contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from tapedebug._source import site_span
from tapedebug.contract import History, HistoryEvent, ProgramArrays, Retention, Values, ValueSamples
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.tape import gradient_history

if TYPE_CHECKING:
    from tapedebug.runtime.tape.tape import Tape


class TapeHistory:
    """The events around a tape (`contract.History`)."""

    __slots__ = ("_tracker",)

    def __init__(self, tape: Tape) -> None:
        self._tracker = tape.tracker

    @property
    def dropped(self) -> int:
        """The number of earlier events that are no longer remembered."""
        return self._tracker.log.dropped + sum(history.dropped for _, _, history in self._histories())

    def events(self) -> Iterator[HistoryEvent]:
        """Return the remembered events: of the tape, of reads of single values, and of its memory."""
        for event in self._tracker.log.events:
            yield _as_history_event(event, "tape", None, 0, 0, {})
        for a, event in self._tracker.looks.values():
            yield _as_history_event(event, "values", a.buffer, a.start, a.stop, {})
        for buffer, of, history in self._histories():
            for event in history.events:
                norms = {(start, stop): (before, after) for start, stop, before, after in event.norms}
                inputs = event.inputs or [(event.start, event.stop)]
                for start, stop in dict.fromkeys([*inputs, *norms]):
                    numbers = dict(
                        zip(("norm_before", "norm_after"), norms.get((start, stop), ()), strict=False)
                    )
                    if event.viewed:
                        numbers["viewed"] = 1
                    if event.after_gap:
                        numbers["gap"] = 1
                    yield _as_history_event(event, of, buffer, start, stop, numbers)

    def _histories(
        self,
    ) -> Iterator[tuple[Buffer, Literal["values", "gradient"], gradient_history.History]]:
        for buffer in self._tracker.ledgers:
            if buffer.history is not None and not buffer.history.of_gradient:
                yield buffer, "values", buffer.history
            gradient = buffer.adjoint
            if gradient is not None and gradient.history is not None and gradient.history.of_gradient:
                yield buffer, "gradient", gradient.history


def _as_history_event(
    event: gradient_history.Event,
    of: Literal["values", "gradient", "tape"],
    buffer: Buffer | None,
    start: int,
    stop: int,
    numbers: dict[str, float],
) -> HistoryEvent:
    own: dict[str, float] = {}
    if event.norm is not None:
        own["norm"] = event.norm
    if event.number:
        own["pass"] = event.number
    return HistoryEvent(
        kind=event.kind,
        clock=event.clock,
        of=of,
        region=buffer,
        start=start,
        stop=stop,
        how=event.how,
        call_site=None if event.site is None else site_span(event.site),
        tape=event.tape,
        at=event.at,
        again=event.again,
        numbers={**own, **numbers},
    )


class TapeRetention:
    """The copies that a tape keeps of overwritten values (`contract.Retention`)."""

    __slots__ = ("_tape",)

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    @property
    def mode(self) -> Literal["preserve", "warn", "error", "ignore"]:
        """The tape's `on_overwrite`."""
        return cast('Literal["preserve", "warn", "error", "ignore"]', self._tape.on_overwrite)

    @property
    def preserved_bytes(self) -> int:
        """The bytes of copies for adjoints, and of checkpoints."""
        return self._tape.preserved_bytes

    @property
    def livein_bytes(self) -> int:
        """The bytes of copies for replays only."""
        return self._tape.livein_bytes

    def recomputed(self) -> Iterable[tuple[int, int]]:
        """Return the records and parameters whose copies were released to keep to a `memory_budget`."""
        if self._tape.memory_budget is None:
            return
        for record in self._tape.records:
            for param, need in zip(record.plan.needed, record.needs, strict=False):
                if need.dropped:
                    yield record.index, param


class TapeArrays:
    """Arrays of this engine, which the program's variables hold directly."""

    kind = array

    def array_of(self, found: array, /) -> array:
        """Return the array itself."""
        return found


class EngineValueSamples:
    """The samples of arrays that are kept with events (`contract.ValueSamples`)."""

    def at_event(self, a: array, of: Literal["values", "gradient"], clock: int, /) -> Values | None:
        """Return the sample of an array or its gradient that was kept at an event of exactly its bytes."""
        memory = a.buffer if of == "values" else a.buffer.adjoint
        history = None if memory is None else memory.history
        for event in () if history is None else history.events:
            if (event.clock, event.start, event.stop) == (clock, a.start, a.stop):
                return event.glance
        return None

    def sample(self, values: Values, /) -> Values | None:
        """Return the same sample of other values."""
        return gradient_history.glance_at(np.ascontiguousarray(values))


_arrays = TapeArrays()
_samples = EngineValueSamples()
TAPE[History] = TapeHistory
TAPE[Retention] = TapeRetention
TAPE[ProgramArrays] = lambda tape: _arrays
TAPE[ValueSamples] = lambda tape: _samples
