"""Loops of a tape: repeated launches, and the values that one round passes to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tapedebug._dataclass import dataclass
from tapedebug.trace import Trace
from tapedebug.trace.model import Sequence
from tapedebug.trace.repeats import sequences_of, sequences_within


@dataclass(frozen=True, slots=True)
class LoopCarried:
    """A value that one round writes and the next one reads.

    `writer` and `reader` count the launches of a round from 0; the others are parameter numbers.
    """

    writer: int
    written: int
    reader: int
    read: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeated sequence and the values it carries; round `k` begins at launch `first + k * length`.

    Attributes:
        first: The first launch of the first round.
        length: Number of launches in a round.
        count: Number of rounds.
        carried: The values that one round passes to the next.
        occurrences: The first launches of all its occurrences, if it is inside another loop; the last one is
            `first`.
    """

    first: int
    length: int
    count: int
    carried: tuple[LoopCarried, ...]
    occurrences: tuple[int, ...] = ()

    @property
    def stop(self) -> int:
        """The launch after the last round."""
        return self.first + self.length * self.count

    def launch(self, number: int, offset: int) -> int:
        """Return the index of a launch of round `number`."""
        return self.first + number * self.length + offset


def loops(trace: Trace, least: int = 3) -> list[Loop]:
    """Return the repeated sequences that carry values, also those within the last round of another one.

    Args:
        trace: The tape.
        least: The smallest number of rounds.
    """
    outer = trace.sequences or sequences_of(trace)
    long = [run for run in outer if run.length > least]
    spans = [(run.first + run.length * (run.count - 1), run.length) for run in long]
    inner = [
        (run, tuple(run.first - around.length * back for back in reversed(range(around.count))))
        for around, runs in zip(long, sequences_within(trace, spans), strict=True)
        for run in runs
    ]
    writers = {(version.array, version.version): version.written_by for version in trace.versions}
    runs = [*((run, (run.first,)) for run in outer), *inner]
    found = [_rounds(trace, run, places, writers) for run, places in runs if run.count >= least]
    return [rounds for rounds in found if rounds.carried]


def in_larger_steps(trace: Trace, rounds: Loop, times: int) -> Loop | None:
    """Return a loop with `times` rounds merged into one, up to the same end; None for fewer than three."""
    length, count = rounds.length * times, rounds.count // times
    if count < 3:
        return None
    writers = {(version.array, version.version): version.written_by for version in trace.versions}
    skipped = rounds.stop - length * count - rounds.first
    places = tuple(first + skipped for first in rounds.occurrences)
    run = Sequence(first=rounds.first + skipped, length=length, count=count)
    found = _rounds(trace, run, places, writers)
    return found if found.carried else None


def alike(trace: Trace, found: Iterable[Loop]) -> list[Loop]:
    """Return the last of several equal loops, with all of them as its occurrences."""
    groups: dict[object, Loop] = {}
    for rounds in found:
        launches = trace.launches[rounds.first : rounds.first + rounds.length]
        key = (
            tuple((launch.name, tuple(launch.dim)) for launch in launches),
            rounds.count,
            rounds.carried,
        )
        before = groups.get(key)
        places = {*rounds.occurrences, *(before.occurrences if before is not None else ())}
        last = rounds if before is None or rounds.first > before.first else before
        groups[key] = replace(last, occurrences=tuple(sorted(places)))
    return list(groups.values())


def _rounds(
    trace: Trace, run: Sequence, places: tuple[int, ...], writers: Mapping[tuple[int, int], int | None]
) -> Loop:
    """Return the values that the last round reads of the one before, each once."""
    last = run.first + run.length * (run.count - 1)
    carried: dict[tuple[int, int], LoopCarried] = {}
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
                carried.setdefault(place, LoopCarried(*place, offset, param))
    return Loop(run.first, run.length, run.count, tuple(carried.values()), places)
