"""Gradients that share memory although the values of their arrays do not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from tapedebug.contract import SharedGradient
from tapedebug.watch.memory import WatchedArray
from tapedebug.watch.tape.tape_recording import TapeRecording


def overlapping_gradients(tape: TapeRecording) -> list[SharedGradient]:
    """Return neighbours in memory whose gradients overlap although their values do not, in that way."""
    placed = [
        (array.gradient_address + array.start - array.offset, array)
        for arrays in tape.regions.values()
        for array in cast("dict[WatchedArray, None]", arrays)
        if array.gradient_address and array.address and array.size
    ]
    placed.sort(key=lambda item: item[0])
    found = []
    for (start, one), (following, other) in pairwise(placed):
        assert one.address and one.gradient_address and other.address and other.gradient_address
        apart = other.address - one.address != other.gradient_address - one.gradient_address
        if apart and following < start + one.stop - one.start:
            places = (tape.memory.gradient_given(array.source) for array in (other, one))
            found.append(SharedGradient(one, other, next(filter(None, places), None)))
    return found


class OverlappingGradients:
    """The capability `SharedGradients`."""

    def __init__(self, tape: TapeRecording) -> None:
        self._tape = tape

    def shared(self) -> Sequence[SharedGradient]:
        """Return pairs of arrays whose gradients were the same memory when the last reverse pass began."""
        return self._tape.shared_gradients
