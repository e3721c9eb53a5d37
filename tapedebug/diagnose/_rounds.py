"""Loops of a tape: launches that repeat, and what one round hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tapedebug.trace import Trace
from tapedebug.trace._sequences import sequences_of, sequences_within
from tapedebug.trace.model import Sequence


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that one round writes and the next one reads.

    `writer` and `reader` count the launches of a round from 0; the others are parameter numbers.
    """

    writer: int
    written: int
    reader: int
    read: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """A repeated sequence with what it carries; round `k` begins at launch `first + k * length`."""

    first: int
    length: int
    count: int
    carried: tuple[Carried, ...]

    @property
    def stop(self) -> int:
        """The launch after the last round."""
        return self.first + self.length * self.count

    def launch(self, number: int, offset: int) -> int:
        """Index of a launch of round `number`."""
        return self.first + number * self.length + offset


def loops(trace: Trace, least: int = 3) -> list[Rounds]:
    """Return the repeated sequences that carry values on, also those within the last round of another.

    Args:
        trace: The tape.
        least: Rounds that a sequence must have.
    """
    outer = trace.sequences or sequences_of(trace)
    spans = [(run.first + run.length * (run.count - 1), run.length) for run in outer if run.length > least]
    inner = [run for runs in sequences_within(trace, spans) for run in runs]
    writers = {(version.array, version.version): version.written_by for version in trace.versions}
    found = [_rounds(trace, run, writers) for run in (*outer, *inner) if run.count >= least]
    return [rounds for rounds in found if rounds.carried]


def _rounds(trace: Trace, run: Sequence, writers: Mapping[tuple[int, int], int | None]) -> Rounds:
    """What the last round reads of the one before, each value once."""
    last = run.first + run.length * (run.count - 1)
    carried: dict[tuple[int, int], Carried] = {}
    for offset in range(run.length):
        for param, arg in enumerate(trace.launches[last + offset].args):
            if arg.array is None or arg.read_version is None:
                continue
            writer = writers.get((arg.array, arg.read_version))
            if writer is None or not last - run.length <= writer < last:
                continue
            source = next(
                (
                    p
                    for p, given in enumerate(trace.launches[writer].args)
                    if given.writes and given.array == arg.array
                ),
                None,
            )
            if source is not None:
                place = (writer - (last - run.length), source)
                carried.setdefault(place, Carried(*place, offset, param))
    return Rounds(run.first, run.length, run.count, tuple(carried.values()))
