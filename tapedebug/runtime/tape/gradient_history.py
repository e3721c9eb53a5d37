"""The history of gradients around and between tapes, and of the values that they belong to.

A tape sees only its own launches. It cannot see that a gradient was read before the reverse pass wrote it, or
was not zero when a pass began. Each buffer with a gradient remembers its last few such events, and so does
its gradient memory; one clock for the whole process orders the events of all tapes.

A launch alone adds no event. Writes by launches that no tape watches are found by the count of writes when
the next reverse pass begins, and writes through NumPy by comparison. An event holds numbers and a place in
the source; it keeps neither arrays nor tapes alive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tapedebug._clock import clock
from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float
from tapedebug.runtime.state import here, state
from tapedebug.runtime.tape.frame_values import frame_values
from tapedebug.runtime.tape.record import Site, Stack, call_site, call_stack, site_of

if TYPE_CHECKING:
    from tapedebug.contract import FrameValues
    from tapedebug.runtime.memory.array import array
    from tapedebug.runtime.memory.buffer import Buffer, Bytes

KEPT = 64
"""The smallest number of events of one buffer, or of one tape, that are remembered; up to twice as many are.
"""

LEAVES = 256
"""The largest number of input buffers that a reverse pass inspects."""

LISTED = 16
"""The largest number of inputs in one buffer that a pass lists."""

MEASURED = 64
"""Inputs in one buffer, at most, for which a pass measures the norm of a gradient that is not zero."""

WHOLE = 1 << 15
"""Arrays up to this size get an exact gradient norm; larger ones a sampled estimate.

Reading all of their values would cost more than the reverse pass of a small launch.
"""

AT_ONCE = 4096
"""Bytes up to which two arrays are compared as bytes."""

BLOCKS, BLOCK = 32, 64
"""The number of evenly spaced runs that an estimate samples, and the length of each."""

GLANCE = 32
"""The number of evenly spaced values of an array that are kept with an event."""

Kind = Literal["backward", "zero", "read", "write", "reset"]


class Event(NamedTuple):
    """One event in the history of a buffer or tape.

    Attributes:
        kind: A reverse pass began; a gradient was set to one value; something was read or written; a tape
            forgot its records.
        clock: The time.
        start: First byte of the range in the buffer.
        stop: The byte after the last.
        how: `"launch"`, `"numpy"`, `"optimiser"`, …; of a write that was found later, `"unseen"`.
        site: The place in the user's source, if it is known.
        tape: Number of the tape that ran backward, or that recorded meanwhile; 0 for none.
        at: The number of records of that tape.
        number: Of a pass: its number among those of its tape, from 1 on.
        again: Of a pass: it began from the same seeds as the one before on that tape.
        norm: Of a read: the norm of the gradient.
        glance: A sample as `glance_at` takes it: of a gradient that was read, or of values before they were
            written while no tape recorded.
        frames: Of a read of values: the functions that ran then.
        viewed: Of a pass: the gradient was open to NumPy when it ended.
        inputs: Of a pass: the bytes of the inputs that get gradients; if one buffer has more than `LISTED`,
            only the start of the first and the end of the last.
        norms: For each of the first `MEASURED` inputs whose gradient was not 0 when the pass began: its
            bytes, and the norms of its gradient before and after.
        stack: Of values that were read while a tape recorded: the user's frames.
        after_gap: Events before this one, and after the earliest ones, were discarded.
    """

    kind: Kind
    clock: int
    start: int
    stop: int
    how: str = ""
    site: Site | None = None
    tape: int = 0
    at: int = 0
    number: int = 0
    again: bool = False
    norm: float | None = None
    glance: np.ndarray[Any, Any] | None = None
    frames: tuple[FrameValues, ...] = ()
    viewed: bool = False
    inputs: tuple[tuple[int, int], ...] = ()
    norms: tuple[tuple[int, int, float, float], ...] = ()
    stack: Stack = ()
    after_gap: bool = False


@dataclass(slots=True)
class History:
    """The first and the last events of one buffer, of one gradient memory, or of one tape.

    The first ones stay because a program with many tapes keeps its first two (see `_tape_retention`).

    Attributes:
        of_gradient: It belongs to gradient memory.
        rows: The events in order, the first `KEPT // 2` and at least the last `KEPT`: as plain tuples without
            the last fields that are at their defaults. The garbage collector visits a plain tuple of numbers,
            names and places once, an object in each of its runs; a step may write a thousand buffers.
        dropped: The number of events in between that were discarded.
        writes: The buffer's count of writes when a pass last ended.
        settled: The time then; 0 before the first pass.
        written: The time of the last write that was noted.
        digest: A digest of its bytes then, or when NumPy could first write to them; None if they cannot have
            changed unnoticed.
        left: Of gradient memory: the count of writes when the last pass ended that left part of the gradient
            of an array that its tape wrote; None if a later pass has added to it as the gradient of an input.
    """

    of_gradient: bool = False
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: int = 0
    writes: int = 0
    settled: int = 0
    written: int = 0
    digest: int | None = None
    left: int | None = None

    @property
    def events(self) -> list[Event]:
        """The remembered events, in order."""
        found = [Event(*row) for row in self.rows]
        if self.dropped:
            gap = KEPT // 2
            found[gap] = found[gap]._replace(after_gap=True)
        return found

    def add(self, row: tuple[Any, ...]) -> None:
        """Remember an event: an `Event`, or its first fields."""
        rows = self.rows
        if len(rows) >= 2 * KEPT:
            first = KEPT // 2
            del rows[first:KEPT]
            self.dropped += KEPT - first
        rows.append(row if type(row) is tuple else tuple(row))
        if row[0] in ("write", "zero"):
            self.written = row[1]

    def end_pass(self, buffer: Buffer) -> None:
        """Note the state of memory at the end of a pass."""
        self.writes, self.settled, self.left = buffer.writes, clock.now, None
        self.digest = digest_of(buffer.data) if buffer.windows else None

    def catch_up(self, buffer: Buffer) -> None:
        """Add an event if memory was written since the last pass without a notification."""
        changed = self.writes != buffer.writes
        if not changed and self.digest is not None:
            changed = self.digest != digest_of(buffer.data)
        if changed and 0 < self.settled > self.written:
            self.add(Event("write", clock.tick(), 0, buffer.nbytes, "unseen"))


def digest_of(data: Bytes) -> int:
    """Return a number that changes when bytes do: a hash of the sums of 32 columns of words."""
    rows = data.size // 256
    columns = data[: rows * 256].view(np.uint64).reshape(rows, 32).sum(axis=0)
    return hash((columns.tobytes(), data[rows * 256 :].tobytes()))


def norm_of(a: array) -> float:
    """Return the Euclidean norm of the values of an array; 0 without reading them if they are known to be 0.

    For more than `WHOLE` values it is an estimate.
    """
    return _norm_of(a.buffer, a._numpy_view())


def _norm_of(buffer: Buffer, values: np.ndarray[Any, Any]) -> float:
    if _is_zero(buffer):
        return 0.0
    if not is_float(values.dtype):
        return math.nan
    sampled = _sampled(values)
    return _scale(values, sampled) * _norm(sampled.reshape(-1))


def _is_zero(buffer: Buffer) -> bool:
    """Return True if a buffer is known to hold zeros only."""
    return buffer.fill is not None and not any(buffer.fill)


def _scale(values: np.ndarray[Any, Any], sampled: np.ndarray[Any, Any]) -> float:
    """Return the ratio of the norm of an array to that of its sample, by their numbers of values."""
    return 1.0 if sampled.size == values.size else math.sqrt(values.size / sampled.size)


def sample_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return all values in one row; of more than `WHOLE` contiguous ones an evenly spaced sample."""
    return _sampled(values).reshape(-1)


def _sampled(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return these values as a view, if that is possible; those of a sample have two axes."""
    row = values if values.ndim == 1 else values.reshape(-1)
    if values.size <= WHOLE or not values.flags.c_contiguous:
        return row
    length = values.size // BLOCKS
    return row[: BLOCKS * length].reshape(BLOCKS, length)[:, :BLOCK]


def glance_at(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return a copy of at most `GLANCE` evenly spaced values of an array; None if it has gaps."""
    if not values.flags.c_contiguous:
        return None
    row = values.reshape(-1)
    return row.copy() if row.size <= GLANCE else row[:: -(-row.size // GLANCE)].copy()


def same_bits(values: np.ndarray[Any, Any], others: np.ndarray[Any, Any]) -> bool:
    """Return True if two arrays of one type hold the same values; of large ones a sample is compared."""
    some, other = sample_of(values), sample_of(others)
    if some.nbytes <= AT_ONCE:
        return some.tobytes() == other.tobytes()
    return bool((some == other).all())


def _norm(values: np.ndarray[Any, Any]) -> float:
    square = float(np.vdot(values, values)) if values.dtype.itemsize > 2 else math.inf
    if 1e-30 < square < 1e30:
        return math.sqrt(square)
    if square == 0 and not values.any():
        return 0.0
    wide = values.astype(np.float64)  # too large or small for float32
    with np.errstate(all="ignore"):
        square = float(np.vdot(wide, wide))
    return math.sqrt(square) if square >= 0 else math.nan


def is_gradient(a: array) -> bool:
    """Return True if the memory of an array is the gradient of another."""
    history = a.buffer.history
    return history is not None and history.of_gradient


def catch_up(a: array) -> None:
    """Add an event if the memory of `a` was written since the last pass without a notification."""
    if a.buffer.history is not None:
        a.buffer.history.catch_up(a.buffer)


def note(kind: Kind, a: array, how: str, site: Site | None, **facts: Any) -> None:
    """Add an event of the memory of `a` to its history, if it has one."""
    history, now = a.buffer.history, clock.tick()
    if history is None:
        return
    tape = here.thread.tape
    if kind == "write":
        if history.of_gradient:
            kind = "zero" if how in ("zero", "fill_") else kind
        elif tape is None and how != "numpy":
            facts["glance"] = glance_at(a._numpy_view())
    if history.rows or kind != "zero":  # memory without events needs no zero
        number, at = (0, 0) if tape is None else (tape.id, len(tape.records))
        row = kind, now, a.start, a.stop, how, site, number, at
        history.add(Event(*row, **facts) if facts else row)


def note_read(a: array, how: str) -> None:
    """Add an event: a gradient, or values that a tape uses, are read outside kernels and the reverse pass."""
    history = a.buffer.history
    if history is not None and history.of_gradient:
        values = a._numpy_view()
        note("read", a, how, call_site(3), norm=_norm_of(a.buffer, values), glance=glance_at(values))
    elif a.buffer.watch or (a.requires_grad and state.tape is not None):
        tape, at = recording()
        stack = call_stack(3) if tape else ()
        site, around = site_of(stack) or call_site(3), frame_values(3)
        event = Event("read", clock.tick(), a.start, a.stop, how, site, tape, at, stack=stack, frames=around)
        trackers = [tracker for _, tracker in a.buffer.watchers()]
        for tracker in trackers:
            tracker.looked_at(a, event)
        if state.tape is not None and state.tape.tracker not in trackers:
            state.tape.tracker.looked_at_early(a, event)


class InputGrads:
    """The inputs in one buffer that a pass gives gradients to.

    Attributes:
        arrays: The inputs.
        inputs: Their bytes, as an `Event` lists them.
    """

    __slots__ = ("_samples", "arrays", "buffer", "inputs", "start", "stop")

    def __init__(self, buffer: Buffer, arrays: list[array]) -> None:
        self.buffer, self.arrays = buffer, arrays
        if len(arrays) == 1:
            self.start, self.stop = arrays[0].start, arrays[0].stop
        else:
            self.start, self.stop = min([a.start for a in arrays]), max([a.stop for a in arrays])
        self.inputs: tuple[tuple[int, int], ...] = ((self.start, self.stop),)
        if 1 < len(arrays) <= LISTED:
            self.inputs = tuple([(a.start, a.stop) for a in arrays])
        self._samples: dict[array, tuple[Buffer, np.ndarray[Any, Any], float]] = {}

    def norm(self, a: array) -> float:
        """Return the norm of the gradient of an input, from a view of a sample, which is created once.

        A pass over large arrays leaves nothing else in the caches: to create the view takes longer then than
        to read the sample.
        """
        memory, sampled, scale = self._samples.get(a, (None, None, 1.0))
        if sampled is None or memory is not self.buffer.adjoint:
            gradient = a.grad
            assert gradient is not None
            memory, values = gradient.buffer, gradient._numpy_view()
            sampled = _sampled(values)
            scale = _scale(values, sampled)
            if np.may_share_memory(sampled, values):
                self._samples[a] = memory, sampled, scale
        assert memory is not None
        return 0.0 if _is_zero(memory) else scale * _norm(sampled.reshape(-1))


def input_grads_of(arrays: Sequence[array]) -> list[InputGrads]:
    """Return the inputs by buffer, those of the first `LEAVES` buffers."""
    found: dict[Buffer, list[array]] = {}
    for a in arrays:
        if a.buffer in found or len(found) < LEAVES:
            found.setdefault(a.buffer, []).append(a)
    return [InputGrads(buffer, group) for buffer, group in found.items()]


class BackwardSpan:
    """The notes on one reverse pass: created before it, completed after it, discarded if it failed."""

    __slots__ = ("before", "begun", "leaves")

    def __init__(self, leaves: list[InputGrads]) -> None:
        self.leaves = leaves
        self.before: dict[InputGrads, list[tuple[array, float]]] = {}
        for leaf in leaves:
            memory = leaf.buffer.gradient()
            for each in (leaf.buffer, memory):
                history = each.history
                assert history is not None
                if history.writes != each.writes or history.digest is not None:
                    history.catch_up(each)
            if memory.fill != b"\0":
                known = _left_by_last_pass(memory)
                found = []
                for a in leaf.arrays[:MEASURED]:
                    norm = known.get((a.start, a.stop))
                    if norm is None:
                        norm = leaf.norm(a)
                    if norm:
                        found.append((a, norm))
                if found:
                    self.before[leaf] = found
        self.begun = clock.tick()

    def end(self, tape: int, at: int, number: int, again: bool, site: Site) -> tuple[Any, ...]:
        """Add the pass to the history of each input; return the first fields of the tape's event."""
        for leaf in self.leaves:
            memory = leaf.buffer.gradient()
            norms = tuple([(a.start, a.stop, norm, leaf.norm(a)) for a, norm in self.before.get(leaf, ())])
            row = "backward", self.begun, leaf.start, leaf.stop, "", site, tape, at, number, again
            assert memory.history is not None
            assert leaf.buffer.history is not None
            memory.history.add((*row, None, None, (), memory.windows > 0, leaf.inputs, norms))
            memory.history.end_pass(memory)
            leaf.buffer.history.end_pass(leaf.buffer)
        return "backward", self.begun, 0, 0, "", site, tape, at, number, again


def _left_by_last_pass(memory: Buffer) -> dict[tuple[int, int], float]:
    """Return the norms of gradients that have not been written since the last pass ended."""
    history = memory.history
    if history is None or not history.rows or history.writes != memory.writes or history.digest is not None:
        return {}
    return {(start, stop): after for start, stop, _, after in Event(*history.rows[-1]).norms}


def window_opened(buffer: Buffer) -> None:
    """Note the content of a buffer that can be written unnoticed from now on."""
    history = buffer.history
    if history is not None and history.digest is None:
        history.digest = digest_of(buffer.data)


def recording() -> tuple[int, int]:
    """Return the number of the tape that records now, and its number of records."""
    return (0, 0) if state.tape is None else (state.tape.id, len(state.tape.records))
