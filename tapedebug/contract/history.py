"""Capabilities: events around a tape that are not operations on it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from types import CodeType
from typing import Any, Literal, Protocol, TypeAlias

from tapedebug._dataclass import dataclass
from tapedebug.contract.frames import FrameValues
from tapedebug.contract.program import Array, OutsideWrite, Place, Values

EventKind = Literal["backward", "zero", "read", "write", "reset"]


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """An event around a tape that is not an operation on it.

    Attributes:
        kind: A reverse pass began; a gradient was set to one value; memory was read or written; a tape
            was reset.
        clock: The time.
        of: The subject: the `"values"` or the `"gradient"` of memory of the tape, or the `"tape"`.
        region: The memory, that of the values also for gradients; None for events of the tape.
        start: The first byte.
        stop: The byte after the last.
        how: The way it was done, such as `"numpy"` or `"optimiser"`.
        call_site: The place in the program, if it is known.
        tape: The id of the tape that ran backward, or that recorded meanwhile; 0 for none.
        at: The number of operations that this tape had.
        again: The pass began from the same seeds as the one before on that tape.
        numbers: `pass`, `norm`, `norm_before`, `norm_after`, `viewed`, `gap`: see `tapedebug.trace.Event`.
    """

    kind: EventKind
    clock: int
    of: Literal["values", "gradient", "tape"] = "tape"
    region: Hashable = None
    start: int = 0
    stop: int = 0
    how: str = ""
    call_site: Place | None = None
    tape: int = 0
    at: int = 0
    again: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)


class History(Protocol):
    """The events around a tape: reverse passes, and gradients that were set, read or zeroed."""

    @property
    def dropped(self) -> int:
        """The number of earlier events that are no longer stored."""

    def events(self) -> Iterable[HistoryEvent]:
        """Return the stored events, in any order; `RecordedTape.outside_writes` may be among them."""


class ValueSamples(Protocol):
    """A few evenly spread numbers of arrays, which are kept at each event that concerns them."""

    def at_event(self, array: Array, of: Literal["values", "gradient"], clock: int, /) -> Values | None:
        """Return the numbers that were kept of an array or its gradient at an event of just its bytes."""

    def sample(self, values: Values, /) -> Values | None:
        """Return the same numbers of other values of an array; None if they cannot be taken."""


Stack: TypeAlias = "tuple[tuple[CodeType, int, int], ...]"
"""Frames of the program, innermost first: code, index of the calling instruction, number of the frame."""


@dataclass(frozen=True, slots=True)
class OutsideRead:
    """A read of memory of the tape outside of its operations, through NumPy for instance.

    Attributes:
        region: The memory.
        start: The first byte that was read.
        stop: The byte after the last.
        at: The number of operations that the tape had, if it was the one that recorded; else None.
        elsewhere: Another tape recorded meanwhile.
        call_site: The place in the program.
        how: The way it was read: `"numpy"`, `"to_torch"`, …
        clock: The time, in events of the process.
        stack: The frames of the program, if this tape recorded.
        memory: The number of the memory.
        array: The array that was read, if it is on the tape.
        frames: The functions that ran then, with the numbers that they held.
    """

    region: Hashable
    start: int
    stop: int
    at: int | None
    elsewhere: bool
    call_site: Place
    how: str = ""
    clock: int = 0
    stack: Stack = ()
    memory: int = -1
    array: Array | None = None
    frames: Sequence[FrameValues] = ()


class OutsideReads(Protocol):
    """The reads of memory of the tape that are not operations of it."""

    def reads(self) -> Sequence[OutsideRead]:
        """Return the last read of each range of memory."""


class OverwrittenOutside(Protocol):
    """Values that were overwritten outside the tape before an adjoint read them."""

    def taken(self) -> Iterable[tuple[int, int, OutsideWrite]]:
        """Return operation, parameter and write for each lost value that an adjoint needs."""


@dataclass(frozen=True, slots=True)
class ArrivedArray:
    """An array that was made of values from outside while the tape recorded.

    Attributes:
        region: Its memory.
        start: Its first byte.
        stop: The byte after the last.
        at: The number of operations on the tape then.
        clock: The time, in events of the process.
        how: The function that made it: `"array"`, `"from_torch"`, `"assign"`, …
        stack: The frames of the program.
        memory: The number of the memory that its values are a view of, or None.
        tensor: The tensor that it was made of, if PyTorch has recorded how that was computed.
        call_site: The place in the program, if it is known.
    """

    region: Hashable
    start: int
    stop: int
    at: int
    clock: int
    how: str
    stack: Stack
    memory: int | None = None
    tensor: Any = None
    call_site: Place | None = None


class Arrivals(Protocol):
    """The arrays that came in from another library while the tape recorded."""

    def arrivals(self) -> Sequence[ArrivedArray]:
        """Return them in order."""


@dataclass(frozen=True, slots=True)
class UnrecordedLaunch:
    """A launch, or another operation, that wrote arrays of a tape and is not on it.

    Attributes:
        name: The name of the kernel, `copy`, or the name of a function.
        reads: The arrays of the tape that it read, or whose values it got through others like it.
        writes: The arrays of the tape that it wrote.
        at: The number of operations on the tape then.
        call_site: The place in the program.
        paused: The tape did not record then, and recorded again afterwards.
        kind: A launch, a copy, or the call of a function that no tape records.
        earlier: It ran before the tape began to record, while no tape recorded.
        unset: The names of arrays that are not on the tape, from whose values it computed, and whose
            gradients the program read after the reverse pass although they were all 0.
    """

    name: str
    reads: Sequence[Array]
    writes: Sequence[Array]
    at: int
    call_site: Place
    paused: bool = False
    kind: Literal["launch", "copy", "call"] = "launch"
    earlier: bool = False
    unset: Sequence[str] = ()


class UnrecordedLaunches(Protocol):
    """Launches whose results a tape took as constants, such as those with `record_tape=False`."""

    def launches(self) -> Sequence[UnrecordedLaunch]:
        """Return them in order."""


class ConsumedGradients(Protocol):
    """The gradients that the program's last reverse pass computed, as its memory held them afterwards."""

    def consumed(self, array: Array, /) -> Values | None:
        """Return what the pass added to the gradient of an input; None if that is not known."""


@dataclass(frozen=True, slots=True)
class SharedGradient:
    """Two arrays of different memory whose gradients share memory.

    Attributes:
        one: One of them.
        other: The other.
        call_site: The place in the program that gave one of them the gradient of the other, if it is known.
    """

    one: Array
    other: Array
    call_site: Place | None = None


class SharedGradients(Protocol):
    """Arrays whose gradients were the same memory when the last reverse pass began."""

    def shared(self) -> Sequence[SharedGradient]:
        """Return pairs of such arrays."""


class RecordingGaps(Protocol):
    """Parts of the program that ran while the tape recorded and that are not on it."""

    def notes(self) -> Sequence[str]:
        """Return them as sentences, each with its place and the reason."""


class EarlierRecording(Protocol):
    """A recording of the process that has ended."""

    @property
    def ended(self) -> int:
        """The time at which it ended, in events of the process."""


class EarlierRecordings(Protocol):
    """Recordings of the same launches that left values in memory for this one to find."""

    def left_by(self, array: Array, content: bytes | None, /) -> EarlierRecording | None:
        """Return the recording of the same launches that wrote what this one found in an array, or None.

        Args:
            array: The array.
            content: The bytes that this recording found there; None if it uses the memory in parts.
        """

    def is_same_cell(self, earlier: EarlierRecording, /) -> bool:
        """True if this is a later run of the notebook cell that the other recording was in."""

    def has_same_arguments(self, earlier: EarlierRecording, /) -> bool:
        """True if the arguments that are not arrays were the same."""

    def is_unchanged(self, array: Array, earlier: EarlierRecording, /) -> bool:
        """True if an array held the same when the earlier recording began."""

    def was_read(self, array: Array, /) -> bool:
        """True if the program has read the number that an array of one element ended at."""
