"""Launches and copies off a tape that computed with its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tapedebug.contract import Array, UnrecordedLaunch, share_bytes
from tapedebug.watch.memory import WatchedArray
from tapedebug.watch.tape.tape_recording import TapeRecording


def forget_unused(tape: TapeRecording) -> None:
    """Forget launches off the tape of whose results it has used none, so that it does not keep these."""
    kept: list[UnrecordedLaunch] = []
    for launch in reversed(tape.unrecorded):
        later = [array for each in kept for array in each.reads]
        if any(tape.uses(a) or any(share_bytes(a, read) for read in later) for a in launch.writes):
            kept.append(launch)
    tape.unrecorded = kept[::-1]


def _gradient_was_read(tape: TapeRecording, array: WatchedArray) -> bool:
    """True if the program read the gradient of an array after the last reverse pass of this tape."""
    passes = [e.clock for e in tape.history.events() if e.kind == "backward" and e.tape == tape.id]
    return bool(passes) and any(
        event.kind == "read" and event.of == "gradient" and event.clock > passes[-1]
        for event in tape.history.shared.events([array.region])
    )


class Unrecorded:
    """The capability `UnrecordedLaunches`."""

    def __init__(self, tape: TapeRecording) -> None:
        self._tape = tape

    def launches(self) -> Sequence[UnrecordedLaunch]:
        """Return the launches and copies of whose results the tape used some afterwards.

        Those that only pass values on to others are followed.
        """
        found: list[UnrecordedLaunch] = []
        passed: list[tuple[Array, Sequence[Array]]] = []
        for launch in self._tape.unrecorded:
            reads = {array: None for array in launch.reads if self._tape.uses(array)}
            for array, sources in passed:
                if any(share_bytes(array, read) for read in launch.reads):
                    reads |= dict.fromkeys(sources)
            passed += [(array, list(reads)) for array in launch.writes]
            writes = [array for array in launch.writes if self._is_read(array, launch.at)]
            if writes:
                found.append(replace(launch, reads=list(reads), writes=writes))
        return [*self._earlier(), *found]

    def _earlier(self) -> list[UnrecordedLaunch]:
        """Return those that ran before the tape began to record."""
        found = []
        for launch, written, sources in self._tape.earlier.values():
            if not self._tape.uses(written):
                continue
            lost = {} if launch.is_reversed else sources
            reads = [array for array in lost if self._tape.uses(array)]
            unset = [
                name
                for array, name in lost.items()
                if not self._tape.uses(array)
                and (gradient := array.current_gradient()) is not None
                and not gradient.any()
                and _gradient_was_read(self._tape, array)
            ]
            found.append(
                UnrecordedLaunch(
                    launch.name,
                    reads,
                    [written],
                    0,
                    launch.place,
                    kind=launch.kind,
                    earlier=True,
                    unset=unset,
                )
            )
        return found

    def _is_read(self, array: Array, at: int) -> bool:
        """True if an operation from number `at` on reads an array."""
        return self._tape.uses(array) and any(
            access.reads and share_bytes(access.array, array)
            for operation in self._tape.operations[at:]
            for access in operation.accesses
        )
