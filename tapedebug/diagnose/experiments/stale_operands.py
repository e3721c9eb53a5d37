"""Finds needed values that code off the tape has overwritten, and measures the effect."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from tapedebug._dataclass import dataclass
from tapedebug.contract import (
    Array,
    OutsideWrite,
    OverwrittenOutside,
    RecordedTape,
    Region,
    arrays_overlap,
)
from tapedebug.diagnose.experiments.experiment import ValueChange, Values, value_change

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay


@dataclass(slots=True)
class OffTapeWrite:
    """A write that is not on the tape.

    Attributes:
        array: Id of the array that it overwrote.
        clock: Its time, in events of the process.
        at: The number of launches on the tape at that time.
        how: The method, as in `Event`.
        pairs: The (launch, parameter) pairs whose adjoints need these values.
    """

    array: int
    clock: int
    at: int
    how: str
    event: OutsideWrite = field(repr=False)
    pairs: list[tuple[int, int]] = field(default_factory=list)


def off_tape_writes(replay: Replay) -> list[OffTapeWrite]:
    """Return the writes off the tape, before a reverse pass ran, that overwrote needed values."""
    found: dict[int, OffTapeWrite] = {}
    tape: RecordedTape = replay.recorded.tape
    known = tape.capability(OverwrittenOutside)
    for index, p, taken in _taken(replay) if known is None else known.taken():
        if taken.settled:
            continue
        if id(taken) not in found:
            array = replay.recorded.id_of(replay.records[index].args[p])
            assert array is not None
            found[id(taken)] = OffTapeWrite(array, taken.clock, taken.at, taken.how, taken)
        found[id(taken)].pairs.append((index, p))
    return list(found.values())


def _taken(replay: Replay) -> Iterator[tuple[int, int, OutsideWrite]]:
    """Yield the same, derived from accesses: the first write that overwrites values needed by an adjoint."""
    outside: dict[Region, list[OutsideWrite]] = {}
    for write in replay.recorded.tape.outside_writes:
        outside.setdefault(write.array.region, []).append(write)
    writers: dict[Region, list[tuple[int, Array]]] = {region: [] for region in outside}
    for record in replay.records:
        for access in record.accesses:
            if access.writes and access.array.region in writers:
                writers[access.array.region].append((record.index, access.array))
    for record in replay.records:
        for access in record.accesses:
            a = access.array
            if a.region not in outside or not (access.needs_before or access.needs_after):
                continue
            first = record.index + access.needs_before
            later = writers[a.region][bisect_left(writers[a.region], first, key=lambda each: each[0]) :]
            last = next((index for index, each in later if arrays_overlap(each, a)), len(replay.records))
            for write in outside[a.region]:
                if record.index < write.at <= last and arrays_overlap(write.array, a):
                    yield record.index, access.param, write
                    break


def change_by(replay: Replay, write: OffTapeWrite) -> ValueChange:
    """Return the change that a write made to the values of its array."""
    a = write.event.array
    shadow = replay._shadow().forward(stop=write.at)
    before = shadow.values(a)
    shadow.inject()
    return value_change(a.shape, before, shadow.values(a))


def gradients_seeing(replay: Replay, writes: Collection[OffTapeWrite]) -> dict[int, Values]:
    """Return the gradients if adjoints read the values that these writes left in memory."""
    shadow, total = replay._ready(), len(replay.records)
    replay.stale.see(shadow, [pair for write in writes for pair in write.pairs], ())
    late = [write.event.array for write in writes if write.at == total]
    before = [(a, shadow.values(a)) for a in late]
    if late:
        after = replay._shadow().forward()
        after.inject()
        for a in late:
            shadow.set(a, after.values(a))
    try:
        shadow.backward(replay.seeds)
        return {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}
    finally:
        for a, values in reversed(before):
            shadow.set(a, values)
