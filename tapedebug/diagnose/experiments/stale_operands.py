"""Values that an adjoint needs and that code off the tape has overwritten, and their effect."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tapedebug.diagnose.experiments.experiment import ValueChange, Values, value_change

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay
    from tapedebug.runtime.tape.buffer_versions import SavedValue, UntrackedWrite


@dataclass(slots=True)
class OffTapeWrite:
    """A write that is not on the tape.

    Attributes:
        array: Id of the array whose values it took.
        clock: When.
        at: How many launches the tape had.
        how: As in `Event`.
        pairs: The (launch, parameter) pairs whose adjoints need these values.
    """

    array: int
    clock: int
    at: int
    how: str
    event: UntrackedWrite = field(repr=False)
    pairs: list[tuple[int, int]] = field(default_factory=list)


def off_tape_writes(replay: Replay) -> list[OffTapeWrite]:
    """Return the writes off the tape, before a reverse pass ran, that took values which adjoints need."""
    from tapedebug.runtime.tape.buffer_versions import RangeState

    found: dict[int, OffTapeWrite] = {}
    events: dict[int, list[UntrackedWrite]] = {}
    for event in replay.recorded.tape.outside_writes:
        events.setdefault(event.at, []).append(event)

    def taker(need: SavedValue, a: Any) -> UntrackedWrite | None:
        state = RangeState(-1, a)
        return next(
            (
                event
                for event in events.get(need.clobber or 0, ())
                if event.array.region is a.region and RangeState(-2, event.array).meets(state)
            ),
            None,
        )

    for record in replay.engine_records:
        for p, need in zip(record.needed, record.needs, strict=True):
            taken = taker(need, record.args[p]) if need.outside else None
            if taken is not None and not taken.settled:
                if id(taken) not in found:
                    array = replay.recorded.id_of(record.args[p])
                    assert array is not None
                    found[id(taken)] = OffTapeWrite(array, taken.clock, taken.at, taken.how, taken)
                found[id(taken)].pairs.append((record.index, p))
    return list(found.values())


def change_by(replay: Replay, write: OffTapeWrite) -> ValueChange:
    """What a write did to the values of its array."""
    a = write.event.array
    shadow = replay._shadow().forward(stop=write.at)
    before = shadow.values(a)
    _inject(shadow, write)
    return value_change(a.shape, before, shadow.values(a))


def gradients_seeing(replay: Replay, writes: Collection[OffTapeWrite]) -> dict[int, Values]:
    """Return the gradients where adjoints see what these writes left in memory."""
    shadow = replay._ready()
    replay.stale.see(shadow, [pair for write in writes for pair in write.pairs], ())
    before = []
    for write in writes:
        if write.at == len(replay.engine_records):
            before.append((write.event.array, shadow.values(write.event.array)))
            _inject(shadow, write)
    try:
        shadow.backward(replay.seeds)
        return {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}
    finally:
        for a, values in reversed(before):
            shadow.set(a, values)


def _inject(shadow: Any, write: OffTapeWrite) -> None:
    """Load what a write left."""
    buffer = shadow._buffer(write.event.array)
    if write.event.at in buffer.injections:
        buffer.inject(write.event.at)
    elif write.at == shadow.position:
        buffer.inject_late()
