"""Capabilities of this engine's replays: float64, tangents, and records without a replay."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tapedebug import contract
from tapedebug._dataclass import dataclass
from tapedebug._errors import TapeError
from tapedebug.lang.types import float64 as float64_type
from tapedebug.runtime import capabilities
from tapedebug.runtime.launch.python_operation import operation_of
from tapedebug.runtime.replay.second_order import SecondShadow
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.shadow_space import check_float64
from tapedebug.runtime.replay.tangents import why_lost
from tapedebug.runtime.tape.record import Record, site_span

if TYPE_CHECKING:
    from tapedebug.runtime.tape.tape import Tape
    from tapedebug.runtime.tape.tracker import Tracker


@dataclass(frozen=True, slots=True)
class Float64Replays:
    """See `contract.Float64`."""

    tape: Tape

    def obstacle(self) -> str:
        """Return why a float64 replay is not possible or not entirely float64; empty if it is."""
        for record in self._narrow():
            why = operation_of(record).measured()
            return f"record {record.index} ({record.name}) computes in float32: {why}"
        try:
            check_float64(self.tape.tracker)
        except TapeError as error:
            return error.message
        return ""

    def narrow(self) -> list[int]:
        """Return the indices of the records that compute in float32 in a float64 replay."""
        return [record.index for record in self._narrow()]

    def _narrow(self) -> Iterator[Record]:
        for record in self.tape.records:
            if record.kind == "python" and operation_of(record).measured():
                yield record


@dataclass(frozen=True, slots=True)
class TangentReplays:
    """See `contract.Tangents`."""

    tape: Tape

    def tangent_replay(self, *, float64: bool = False) -> Shadow:
        """Return a new replay that can push tangents."""
        return Shadow(self.tape.tracker, float64_type if float64 else None)


@dataclass(frozen=True, slots=True)
class UnrecordedLaunches:
    """See `contract.UnrecordedLaunches`."""

    tape: Tape

    def launches(self) -> list[contract.UnrecordedLaunch]:
        """Return the launches with `record_tape=False` of whose results the tape used some."""
        return [
            contract.UnrecordedLaunch(launch.name, reads, [written], launch.at, site_span(launch.site))
            for launch, reads, written in self.tape.tracker.constants_computed()
        ]


@dataclass(frozen=True, slots=True)
class SecondOrderReplays:
    """See `contract.SecondOrder`."""

    tape: Tape

    def second_order_replay(self, *, float64: bool = False) -> SecondShadow:
        """Return a new replay whose reverse pass has tangents."""
        self.tape.tracker.catch_up_everywhere()
        return SecondShadow(self.tape.tracker, float64_type if float64 else None)


@dataclass(frozen=True, slots=True)
class TrackerRecording:
    """See `contract.Recording`: a reset gives the tape a new tracker, and leaves this one unchanged."""

    tracker: Tracker

    @property
    def operations(self) -> list[Record]:
        """The records in order."""
        return self.tracker.records

    def new_replay(self, *, float64: bool = False) -> Shadow:
        """Return a private replay that stands before the first record."""
        self.tracker.catch_up_everywhere()
        return Shadow(self.tracker, float64_type if float64 else None)

    def weak(self) -> Callable[[], TrackerRecording | None]:
        """Return a reference that does not keep the tracker alive."""
        known = weakref.ref(self.tracker)

        def alive() -> TrackerRecording | None:
            tracker = known()
            return None if tracker is None else TrackerRecording(tracker)

        return alive


@dataclass(frozen=True, slots=True)
class CustomFunction:
    """See `contract.Irreplayable`: `Tape.record_func` gives a reverse function and no forward."""

    record: Record

    def reason(self) -> str:
        """Return why the record is not replayed."""
        return f"record {self.record.index} is a custom function ({self.record.name}), which is not replayed"


@dataclass(frozen=True, slots=True)
class LostTangents:
    """See `contract.NoTangents`."""

    record: Record

    def reason(self) -> str:
        """Return why a tangent does not pass."""
        return why_lost(self.record)


capabilities.TAPE[contract.Float64] = Float64Replays
capabilities.TAPE[contract.SecondOrder] = SecondOrderReplays
capabilities.TAPE[contract.Tangents] = TangentReplays
capabilities.TAPE[contract.Recording] = lambda tape: TrackerRecording(tape.tracker)
capabilities.TAPE[contract.UnrecordedLaunches] = UnrecordedLaunches
capabilities.OPERATION[contract.Irreplayable] = lambda record: (
    CustomFunction(record) if record.kind == "func" else None
)
capabilities.OPERATION[contract.NoTangents] = lambda record: (
    LostTangents(record) if why_lost(record) else None
)
