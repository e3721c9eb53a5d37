"""Extend a loop of a tape by more rounds, to measure the loss and gradient it would have had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.trace_analysis.loops import Loop
from tapedebug.runtime.launch.plan import has_gradient
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.builtin_plans import COPY
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay
    from tapedebug.runtime.tape.record import Record

MOST = 40_000
"""Launches that an extended tape may have."""


@dataclass(frozen=True, slots=True)
class ExtendedRun:
    """What a program gives, in float64 where it has a twin.

    Attributes:
        rounds: How many rounds its loop has.
        loss: The objective: the outputs times the seeds of the reverse pass.
        gradients: Of the leaves.
    """

    rounds: int
    loss: float
    gradients: dict[int, Values]


def extended(replay: Replay, rounds: Loop, extra: int) -> ExtendedRun | None:
    """Run a tape with `extra` more rounds of a loop, wherever it occurs, forward and backward.

    The further rounds are the last one again, with what it has written copied to where it reads.

    Args:
        replay: The tape.
        rounds: The loop.
        extra: How many rounds more.

    Returns:
        The result; None where the loop can not go on like this, the tape would become too long, or the values
        are not finite.
    """
    more = extra * len(rounds.occurrences) * (rounds.length + len(rounds.carried))
    if len(replay.engine_records) + more > MOST or not can_go_on(replay, rounds):
        return None
    return _run(replay, _records(replay, rounds, extra), rounds.count + extra)


def can_go_on(replay: Replay, rounds: Loop) -> bool:
    """Whether copies from one round to the next do not disturb each other, and nothing else is carried."""
    trace = replay.recorded.trace
    writers = {(version.array, version.version): version.written_by for version in trace.versions}
    last = rounds.launch(rounds.count - 1, 0)
    for launch in trace.launches[last : last + rounds.length]:
        for arg in launch.args:
            writer = writers.get((arg.array or 0, arg.read_version or 0)) if arg.array is not None else None
            if writer is not None and rounds.first <= writer < last - rounds.length:
                return False  # of the round before the last: two rounds would have to be carried
    pairs = _copies(replay, rounds, rounds.first)
    sources = [(a.start, a.stop, a.region) for _, a in pairs]
    return not any(
        start < dest.stop and dest.start < stop and dest.region is buffer
        for number, (dest, _) in enumerate(pairs)
        for start, stop, buffer in sources[number + 1 :]
    )


def _copies(replay: Replay, rounds: Loop, first: int) -> list[tuple[Any, Any]]:
    """(where the last round reads it, where the last round has written it) of all that is carried."""
    last = first + rounds.length * (rounds.count - 1)
    pairs = [
        (
            replay.engine_records[last + item.reader].args[item.read],
            replay.engine_records[last + item.writer].args[item.written],
        )
        for item in rounds.carried
    ]
    return [(dest, src) for dest, src in pairs if dest.ptr != src.ptr or dest.shape != src.shape]


def _records(replay: Replay, rounds: Loop, extra: int) -> list[Record]:
    found: list[Record] = []
    ends = {first + rounds.length * rounds.count: first for first in rounds.occurrences}

    def add(record: Record) -> None:
        again = Record(
            len(found),
            record.plan,
            record.args,
            record.dim,
            record.threads,
            record.packed,
            record.site,
            None,
        )
        again.value = record.value
        found.append(again)

    for index in range(len(replay.engine_records) + 1):
        if index in ends:
            last = replay.engine_records[index - rounds.length : index]
            for _ in range(extra):
                for dest, src in _copies(replay, rounds, ends[index]):
                    plan = COPY[has_gradient(dest), has_gradient(src)]
                    site = last[0].site
                    found.append(
                        Record(len(found), plan, (dest, src), dest.shape, dest.size, b"", site, None)
                    )
                for record in last:
                    add(record)
        if index < len(replay.engine_records):
            add(replay.engine_records[index])
    return found


def _run(replay: Replay, records: Sequence[Record], rounds: int) -> ExtendedRun | None:
    from tapedebug import TapeError, float64

    tracker = Tracker("ignore", dry=True)
    for record in records:
        tracker.before(record)
        tracker.records.append(record)
    try:
        shadow = Shadow(tracker, float64)
    except TapeError:
        shadow = Shadow(tracker)
    shadow.pulse = replay.pulse
    start = replay._shadow().forward(stop=0)
    for a in replay.arrays:
        if a.region in tracker.ledgers:
            shadow.set(a, start.values(a))
    with np.errstate(all="ignore"):
        shadow.forward(start=0).backward(replay.seeds)
    loss = sum(float(np.sum(seed * shadow.values(a))) for a, seed in replay.seeds.items())
    gradients = {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}
    if not (np.isfinite(loss) and all(np.isfinite(values).all() for values in gradients.values())):
        return None
    return ExtendedRun(rounds, loss, gradients)
