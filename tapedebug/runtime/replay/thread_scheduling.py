"""Run the threads of launches of a replay in other orders: a capability of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tapedebug._dataclass import dataclass
from tapedebug.contract import Array, Replay, ThreadSchedule, ThreadScheduling, Values
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.launch.bounds_precheck import BoundsPrecheck
from tapedebug.runtime.launch.plan import Runner
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True, slots=True)
class TapeThreadScheduling:
    """The capability `contract.ThreadScheduling` of a tape."""

    tape: Tape

    def reschedule(
        self, replay: Replay, schedules: Mapping[int, ThreadSchedule], /, *, tangents: bool = False
    ) -> None:
        """Make a replay run the threads of some launches by schedules, in all its further runs."""
        assert isinstance(replay, Shadow)
        for calls in replay.call_lists(tangents=tangents):
            for index, schedule in schedules.items():
                run, threads, where = calls[index]
                calls[index] = _scheduled(run, schedule), threads, where

    def views(self, replay: Replay, array: Array, /) -> Sequence[Values]:
        """Return writable views of the values of an array in a replay, and of its tangents if it has some."""
        assert isinstance(replay, Shadow)
        a = replay._own(array)
        buffer = replay._buffer(a)
        return [buffer.view(a)] if buffer.tangent is None else [buffer.view(a), buffer.dots(a)]


def _scheduled(run: Runner, schedule: ThreadSchedule) -> Runner:
    def scheduled(lo: int, hi: int, where: int) -> None:
        piece = run.in_pieces(hi, where) if isinstance(run, BoundsPrecheck) else run
        schedule(lambda low, high: piece(low, high, where), hi)

    return scheduled


TAPE[ThreadScheduling] = TapeThreadScheduling
