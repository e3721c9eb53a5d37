"""Assignments that type-check only while our engine conforms to the debugger's contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapedebug import contract
    from tapedebug._source import Span
    from tapedebug.runtime.memory.array import array
    from tapedebug.runtime.replay.replay_capabilities import TrackerRecording
    from tapedebug.runtime.replay.second_order import SecondShadow
    from tapedebug.runtime.replay.shadow import Shadow
    from tapedebug.runtime.tape.buffer_versions import UntrackedWrite
    from tapedebug.runtime.tape.record import Record
    from tapedebug.runtime.tape.scopes import BackwardCall, Scope
    from tapedebug.runtime.tape.tape import Tape

    def recorded(tape: Tape, record: Record, write: UntrackedWrite, call: BackwardCall, scope: Scope) -> None:
        """Assign what our tapes hold to the protocols."""
        _tape: contract.RecordedTape = tape
        _operation: contract.Operation = record
        _write: contract.OutsideWrite = write
        _pass: contract.ReversePass = call
        _scope: contract.Scope = scope

    def replayed(a: array, place: Span, shadow: Shadow) -> None:
        """Assign what our replays take and give to the protocols."""
        _array: contract.Array = a
        _place: contract.Place = place
        _replay: contract.Replay = shadow
        _tangents: contract.TangentReplay = shadow

    def replayed_twice(shadow: SecondShadow, recording: TrackerRecording) -> None:
        """Assign replays with second derivatives, and recordings, to the protocols."""
        _second: contract.SecondOrderReplay = shadow
        _recording: contract.Recording = recording
