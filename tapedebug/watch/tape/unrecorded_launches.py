"""Launches and copies off a tape that computed with its arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from tapedebug.contract import Array, UnrecordedLaunch, share_bytes
from tapedebug.watch.memory import WatchedArray
from tapedebug.watch.tape.tape_recording import TapeRecording


def forget_unused(tape: TapeRecording) -> None:
    """Forget launches off the tape of whose results it has used none, so that it does not keep these."""
    kept: list[UnrecordedLaunch] = []
    later = _ArraysByRegion()
    for launch in reversed(tape.unrecorded):
        if any(tape.uses(a) or later.meets(a) for a in launch.writes):
            kept.append(launch)
            for read in launch.reads:
                later.add(read)
    tape.unrecorded = kept[::-1]


class _ArraysByRegion:
    """Arrays, each with a number, that are searched by the memory that they share with another one."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[tuple[int, Array]]] = {}

    def add(self, array: Array, number: int = 0) -> None:
        """Enter an array."""
        self._found.setdefault(array.region, []).append((number, array))

    def numbers(self, array: Array) -> Iterator[int]:
        """Yield the numbers of the arrays that share bytes with an array, in the order of their entry."""
        return (number for number, own in self._found.get(array.region, ()) if share_bytes(own, array))

    def meets(self, array: Array, least: int = 0) -> bool:
        """True if an array from number `least` on shares bytes with an array."""
        return any(number >= least for number in self.numbers(array))


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
        read = _ArraysByRegion()
        for operation in self._tape.operations:
            for access in operation.accesses:
                if access.reads:
                    read.add(access.array, operation.index)
        passed = _ArraysByRegion()
        sources: list[Sequence[Array]] = []  # those of each launch, on which its results depend
        for number, launch in enumerate(self._tape.unrecorded):
            reads = {array: None for array in launch.reads if self._tape.uses(array)}
            for earlier in sorted({each for array in launch.reads for each in passed.numbers(array)}):
                reads |= dict.fromkeys(sources[earlier])
            sources.append(list(reads))
            for array in launch.writes:
                passed.add(array, number)
            writes = [array for array in launch.writes if read.meets(array, launch.at)]
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
