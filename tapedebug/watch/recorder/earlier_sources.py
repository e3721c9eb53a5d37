"""Search for the launches off all tapes that computed the arrays which a tape starts from."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType

from tapedebug.contract import share_bytes
from tapedebug.watch.earlier_launches import EarlierLaunch
from tapedebug.watch.memory import WatchedArray
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
        candidates = [array for array in tape.arrays_with_gradient() if self._earlier.at(array.address or 0)]
        for array in tape.read_first(candidates):
            writer = self._writer_of(array, tape.began)
            if writer is not None:
                launch, reads = writer
                tape.note_earlier(
                    launch,
                    array,
                    self._sources(reads, launch.clock),
                    frame,
                )

    def _writer_of(self, array: WatchedArray, before: int) -> tuple[EarlierLaunch, list[WatchedArray]] | None:
        """Return the last launch off all tapes, before some time, that wrote an array, and what it read.

        The latter are arrays of other memory with a gradient. There is no such launch if a tape has recorded
        a later write.
        """
        for launch in self._earlier.at(array.address or 0):
            values = launch.values() if launch.clock < before else None
            if values is None:
                continue
            if launch.kernel is None:
                writes, reads = ([self._memory.array_of(value)] for value in values)
            else:
                arrays, leaves, values = self._forms.arguments(launch.kernel, values)
                form = self._forms.form(launch.kernel, values, arrays, leaves)
                writes, reads = form.written(arrays), form.read(arrays)
            if not any(share_bytes(written, array) for written in writes):
                continue
            later = (tape for tape in self._history.tapes if launch.clock < tape.began < before)
            if any(tape.last_writer(array.region, array.start, array.stop) is not None for tape in later):
                return None
            found = [a for a in reads if a.requires_grad and not any(share_bytes(a, w) for w in writes)]
            return (launch, found) if found else None
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
