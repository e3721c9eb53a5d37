"""Extends a loop of a tape by more rounds, to measure the loss and gradient of the longer program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapeError
from tapedebug.contract import Array, Copy, Operation, Resequencing, regions_of
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.trace_analysis.loops import Loop

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

MOST_LAUNCHES = 40_000
"""Largest number of launches of an extended tape."""


@dataclass(frozen=True, slots=True)
class ExtendedRun:
    """The results of a program with a longer loop, in float64 if that is possible.

    Attributes:
        rounds: The number of rounds of its loop.
        loss: The objective: the outputs times the seeds of the reverse pass.
        gradients: The gradients of the leaves.
    """

    rounds: int
    loss: float
    gradients: dict[int, Values]


def extended(replay: Replay, resequencing: Resequencing, rounds: Loop, extra: int) -> ExtendedRun | None:
    """Run a tape forward and backward with `extra` more rounds in every occurrence of a loop.

    Each further round repeats the last one, after its results have been copied to the arrays that it reads.

    Args:
        replay: The tape.
        resequencing: Creates replays of other sequences of steps.
        rounds: The loop.
        extra: The number of further rounds.

    Returns:
        The result; None if the loop cannot be extended so, the tape would become too long, or a value is not
        finite.
    """
    more = extra * len(rounds.occurrences) * (rounds.length + len(rounds.carried))
    if len(replay.records) + more > MOST_LAUNCHES or not can_go_on(replay, rounds):
        return None
    return _run(replay, resequencing, _steps(replay, rounds, extra), rounds.count + extra)


def can_go_on(replay: Replay, rounds: Loop) -> bool:
    """True if the copies between rounds are independent, and no value of an earlier round is carried."""
    trace = replay.recorded.trace
    writers = {(version.array, version.version): version.written_by for version in trace.versions}
    last = rounds.launch(rounds.count - 1, 0)
    for launch in trace.launches[last : last + rounds.length]:
        for arg in launch.args:
            writer = writers.get((arg.array or 0, arg.read_version or 0)) if arg.array is not None else None
            if writer is not None and rounds.first <= writer < last - rounds.length:
                return False  # written two or more rounds ago: two rounds would have to be carried
    copies = _copies(replay, rounds, rounds.first)
    return not any(
        copy.dest.region is other.src.region
        and other.src.start < copy.dest.stop
        and copy.dest.start < other.src.stop
        for number, copy in enumerate(copies)
        for other in copies[number + 1 :]
    )


def _copies(replay: Replay, rounds: Loop, first: int) -> list[Copy]:
    """Return the copies of carried values from where a round writes them to where a round reads them."""
    last = first + rounds.length * (rounds.count - 1)
    pairs: list[tuple[Array, Array]] = [
        (
            replay.records[last + item.reader].args[item.read],
            replay.records[last + item.writer].args[item.written],
        )
        for item in rounds.carried
    ]
    return [Copy(dest, src) for dest, src in pairs if _place(dest) != _place(src)]


def _place(a: Array) -> tuple[int, int, tuple[int, ...]]:
    return id(a.region), a.offset, a.shape


def _steps(replay: Replay, rounds: Loop, extra: int) -> list[Operation | Copy]:
    found: list[Operation | Copy] = []
    ends = {first + rounds.length * rounds.count: first for first in rounds.occurrences}
    for index in range(len(replay.records) + 1):
        if index in ends:
            once_more: list[Operation | Copy] = [
                *_copies(replay, rounds, ends[index]),
                *replay.records[index - rounds.length : index],
            ]
            found += once_more * extra
        if index < len(replay.records):
            found.append(replay.records[index])
    return found


def _run(
    replay: Replay, resequencing: Resequencing, steps: Sequence[Operation | Copy], rounds: int
) -> ExtendedRun | None:
    try:
        shadow = resequencing.new_replay(steps, float64=True)
    except TapeError:
        shadow = resequencing.new_replay(steps)
    shadow.pulse = replay.pulse
    start = replay._shadow().forward(stop=0)
    known = regions_of(replay.records)
    for a in replay.arrays:
        if a.region in known:
            shadow.set(a, start.values(a))
    with np.errstate(all="ignore"):
        shadow.forward(start=0).backward(replay.seeds)
    loss = sum(float(np.sum(seed * shadow.values(a))) for a, seed in replay.seeds.items())
    gradients = {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}
    if not (np.isfinite(loss) and all(np.isfinite(values).all() for values in gradients.values())):
        return None
    return ExtendedRun(rounds, loss, gradients)
