"""Search for the launches off all tapes that computed the arrays which a tape starts from."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import cast

from tapedebug._names import find_names
from tapedebug.contract import memory_key, share_bytes
from tapedebug.watch.earlier_launches import EarlierLaunch
from tapedebug.watch.hooks import look_up
from tapedebug.watch.memory import WatchedArray, WatchedRegion
from tapedebug.watch.recorder.launch_forms import LaunchForms
from tapedebug.watch.recorder.recording import Recording
from tapedebug.watch.tape import WatchedTape

MOST_SOURCES = 100
"""Largest number of arrays that are followed back from one that a tape starts from."""


class EarlierSources:
    """Finds the launches and copies that computed the arrays which a tape starts from.

    Args:
        recording: The recording.
        forms: The descriptions of launches.
    """

    def __init__(self, recording: Recording, forms: LaunchForms) -> None:
        self._memory, self._history = recording.memory, recording.history
        self._earlier = recording.earlier
        self._forms = forms

    def note(self, tape: WatchedTape, frame: FrameType) -> None:
        """Note the launches off all tapes that computed what a tape starts from."""
        candidates = [array for array in _with_gradient(tape) if self._earlier.at(array.address or 0)]
        for array in _read_first(tape, candidates):
            writer = self._writer_of(array, tape.began)
            if writer is not None:
                launch, reads = writer
                _note(tape, launch, array, self._sources(reads, launch.clock), frame)

    def _writer_of(self, array: WatchedArray, before: int) -> tuple[EarlierLaunch, list[WatchedArray]] | None:
        """Return the last launch off all tapes, before some time, that wrote an array, and what it read.

        The latter are arrays of other memory with a gradient. There is no such launch if a tape has recorded
        a later write, or if a later launch got an array that is gone: it may have written this one.
        """
        for launch in self._earlier.at(array.address or 0):
            if launch.clock >= before:
                continue
            values = launch.values()
            if values is None:
                return None
            if launch.kernel is None:
                writes, reads = ([self._memory.array_of(value)] for value in values)
            else:
                arrays, leaves, values, _ = self._forms.arguments(launch.kernel, values)
                form = self._forms.form(launch.kernel, values, arrays, leaves)
                writes, reads = form.written(arrays), form.read(arrays)
            if not any(share_bytes(written, array) for written in writes):
                continue
            later = (tape for tape in self._history.tapes if launch.clock < tape.began < before)
            if any(tape.last_writer(array.region, array.start, array.stop) is not None for tape in later):
                return None
            found = [a for a in reads if a.requires_grad and not any(share_bytes(a, w) for w in writes)]
            if found:
                return launch, found
            if launch.threads >= array.size and not any(share_bytes(read, array) for read in reads):
                return None  # with fewer threads, or in place, something of the values before remains
        return None

    def _sources(self, arrays: Sequence[WatchedArray], before: int) -> list[WatchedArray]:
        """Return arrays, and those of which launches off all tapes before some time computed them."""
        found: dict[WatchedArray, None] = {}
        waiting = [(array, before) for array in arrays]
        while waiting and len(found) < MOST_SOURCES:
            array, time = waiting.pop()
            if array not in found:
                found[array] = None
                launch = self._writer_of(array, time)
                waiting += [] if launch is None else [(read, launch[0].clock) for read in launch[1]]
        return list(found)


def _with_gradient(tape: WatchedTape) -> list[WatchedArray]:
    """Return the arrays of the tape that have a gradient."""
    return [
        array
        for arrays in tape.regions.values()
        for array in cast("dict[WatchedArray, None]", arrays)
        if array.requires_grad
    ]


def _read_first(tape: WatchedTape, arrays: Sequence[WatchedArray]) -> list[WatchedArray]:
    """Return those of some arrays whose values operations read before any writes their memory."""
    waiting = {array.region: array for array in arrays if memory_key(array) not in tape.earlier}
    found = []
    for operation in tape.operations if waiting else ():
        for access in operation.accesses:
            region = cast("WatchedRegion", access.array.region)
            if access.reads and region in waiting:
                found.append(waiting.pop(region))
        for access in operation.accesses:
            if access.writes:
                waiting.pop(cast("WatchedRegion", access.array.region), None)
        if not waiting:
            break
    return found


def _note(
    tape: WatchedTape,
    launch: EarlierLaunch,
    written: WatchedArray,
    sources: Sequence[WatchedArray],
    frame: FrameType,
) -> None:
    """Note a launch or a copy that computed an array before the tape began to record.

    Args:
        tape: The tape.
        launch: The launch.
        written: The array.
        sources: The arrays from which it computed, also by other such launches.
        frame: The first frame in which their names are searched.
    """
    wanted = {memory_key(array) for array in sources}
    names = find_names(
        look_up("warp:array"), lambda found: memory_key(tape.memory.find(found)), wanted, frame
    )
    named = {array: next(iter(names.get(memory_key(array), ())), "an array") for array in sources}
    tape.earlier[memory_key(written)] = launch, written, named
