"""Capabilities: what an engine may tell or do beyond the contract's core. The debugger asks for each.

Ask with `tape.capability(Float64)` or `operation.capability(KernelSource)`. An engine returns None for those
that it lacks; the coverage then says what was not examined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from tapedebug.contract.program import (
    A,
    Array,
    Operation,
    OutsideWrite,
    Place,
    RecordedTape,
    Replay,
    Seeds,
    Values,
)


class Float64(Protocol):
    """The same program in float64. It is a property of the whole tape."""

    def obstacle(self) -> str:
        """Return why a float64 replay is not possible or not entirely float64; empty if it is."""


class Tangents(Protocol):
    """Forward-mode derivatives: replays have `push` and `tangent`, see `TangentReplay`."""

    def tangent_replay(self, *, float64: bool = False) -> TangentReplay:
        """Return a new replay that can push tangents."""


class TangentReplay(Replay, Protocol):
    """A replay that runs forward with tangents."""

    lost: list[str]
    """Operations without a tangent that a tangent reached in the last `push`; what comes out is unknown."""

    def push(
        self,
        tangents: Mapping[A, Values] | None,
        start: int = 0,
        stop: int | None = None,
        on_operation: Callable[[Operation], Any] | None = None,
        detached: bool = False,
    ) -> TangentReplay:
        """Run the operations `start … stop-1` with tangents; None goes on with those of the last call."""

    def tangent(self, array: Array, /) -> Values:
        """Return a copy of the tangent of an array now."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: its name, its type as the engine's users write it, and if it is an array."""

    name: str
    type: str
    is_array: bool


@dataclass(frozen=True, slots=True)
class SourceText:
    """The source of one function: its file, or the name of a notebook cell, and its lines."""

    name: str
    file: str
    first_line: int
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """A place in the source that accesses an array parameter; `param` is its number."""

    param: int
    kind: Literal["read", "write", "atomic"]
    place: Place


class KernelSource(Protocol):
    """The source of an operation. Operations of one kernel may share one."""

    @property
    def kernel(self) -> Hashable:
        """Equal for operations of the same kernel."""

    @property
    def text(self) -> SourceText:
        """The kernel itself."""

    @property
    def functions(self) -> Sequence[SourceText]:
        """The functions that it calls, and those that they call."""

    @property
    def parameters(self) -> Sequence[Parameter]:
        """The parameters, in the order of `Operation.args`."""

    @property
    def accesses(self) -> Sequence[SourceAccess]:
        """The places that access arrays; empty if they are not known."""

    @property
    def needed(self) -> Mapping[int, Sequence[Place]]:
        """For each parameter, the reads whose values the adjoint of this operation uses."""

    @property
    def needed_key(self) -> Hashable:
        """Equal for operations of one kernel with equal `needed`."""

    @property
    def enable_backward(self) -> bool:
        """True if the kernel has an adjoint at all."""

    def adjoint_text(self) -> str | None:
        """Return the source of the adjoint of this operation; None if there is none to show."""


class CallArguments(Protocol):
    """The arguments as the source of a call writes them: `launch(kernel, dim, [x, y], [z])`."""

    def written_as(self, param: int, /) -> tuple[int, str]:
        """Return the position of an argument in the lists, and the end of its name: `.q` for a field."""


EventKind = Literal["backward", "zero", "read", "write", "reset"]


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened around a tape and is not an operation on it.

    Attributes:
        kind: A reverse pass began; a gradient was set to one value; something was read or written; a tape
            forgot what it had recorded.
        clock: The time.
        of: What it happened to: the `"values"` or the `"gradient"` of memory of the tape, or the `"tape"`.
        region: The memory, that of the values also for gradients; None for events of the tape.
        start: The first byte.
        stop: The byte after the last.
        how: The way it was done, such as `"numpy"` or `"optimiser"`.
        call_site: The place in the program, if it is known.
        tape: The id of the tape that ran backward, or that recorded meanwhile; 0 for none.
        at: The number of operations that this tape had.
        again: The pass began from the same seeds as the one before on that tape.
        numbers: `pass`, `norm`, `norm_before`, `norm_after`, `viewed`: see `tapedebug.trace.Event`.
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
        """The number of earlier events that are not remembered."""

    def events(self) -> Iterable[HistoryEvent]:
        """Return what is remembered, in any order; `RecordedTape.outside_writes` may be among them."""


class Retention(Protocol):
    """The copies that a tape keeps of overwritten values."""

    @property
    def mode(self) -> Literal["preserve", "warn", "error", "ignore"]:
        """The treatment of an overwrite of values that an adjoint needs."""

    @property
    def preserved_bytes(self) -> int:
        """The bytes of copies for adjoints."""

    @property
    def livein_bytes(self) -> int:
        """The bytes of copies for replays only."""

    def recomputed(self) -> Iterable[tuple[int, int]]:
        """Return the operations and parameters whose copies were let go of, to be computed again."""


class ProgramArrays(Protocol):
    """The objects that the program's variables hold for arrays of the tape."""

    @property
    def kind(self) -> type:
        """Their class."""

    def array_of(self, found: Any, /) -> Array:
        """Return the array that such an object is."""


class NoTangents(Protocol):
    """An operation that a tangent does not pass: what comes out of it has an unknown tangent."""

    def reason(self) -> str:
        """Return why, as a clause: `record 3 is a Python operation without jvp (solve)`."""


class HandWrittenAdjoint(Protocol):
    """An operation whose whole adjoint is a function of the user."""

    @property
    def text(self) -> SourceText | None:
        """The source of that function; None if there is none to show."""


class UnrecordedLaunches(Protocol):
    """Launches that the program kept off the tape, such as those with `record_tape=False`."""

    def computed(self) -> Sequence[tuple[Array, Place]]:
        """Return the arrays of the tape that such launches wrote, each with the call site."""


class CannotFollow(Exception):
    """A thread cannot be followed: it runs too long, reaches outside an array, or does something unknown.

    Attributes:
        native: The native function whose code would have to be followed, if that is the reason.
    """

    def __init__(self, message: str, native: str = "") -> None:
        super().__init__(message)
        self.native = native


@dataclass(frozen=True, slots=True)
class NonfiniteOperation:
    """The operation that turned finite numbers into one that is not finite.

    Attributes:
        kind: The name of the operation.
        span: Its place in the source.
        operands: Their values.
        adjoint: The adjoint that came in; None if the value itself is not finite.
        unselected: The place of the `where` that did not select what the operation computed.
    """

    kind: str
    span: Place | None
    operands: list[float]
    adjoint: float | None
    unselected: Place | None = None


@dataclass(frozen=True, slots=True)
class LocalDerivative:
    """One operation of a thread that an adjoint passed.

    Attributes:
        kind: The name of the operation.
        span: Its place in the source.
        operands: Their values.
        incoming: The adjoint of the result.
        slope: The largest derivative by an operand that matters, as a magnitude.
        bent: The slope depends on an operand that matters; that of a division by a constant does not.
        saturates: The operation has a part, far out or beyond a limit, with no slope to speak of.
        compares: It is a comparison.
    """

    kind: str
    span: Place | None
    operands: list[float]
    incoming: float
    slope: float
    bent: bool = False
    saturates: bool = False
    compares: bool = False


class FollowedThread(Protocol):
    """One thread of a launch, run operation by operation."""

    active: frozenset[int]
    """The array parameters that have a gradient; may be replaced before `run`."""
    scalars: Mapping[int, Sequence[Any]]
    """The values of the parameters that are not arrays, as sequences of components; may be replaced."""
    memory: dict[int, Values]
    """The arrays that it wrote, flat, by parameter."""
    loads: dict[int, set[int]]
    """The scalars that it read, by parameter."""
    stores: dict[int, set[int]]
    """The scalars that it wrote, by parameter."""

    def run(self) -> None:
        """Run the thread; raises `CannotFollow`."""

    def bad_value(self) -> NonfiniteOperation | None:
        """Return the first operation with finite operands and a value that is not finite."""

    def bad_adjoint(self, incoming: Mapping[int, Values], /) -> NonfiniteOperation | None:
        """Return the first operation of the reverse pass that makes an adjoint that is not finite."""

    def store_at(self, param: int, element: int, item: int, /) -> Place | None:
        """Return the place of the last store to an element (of `item` bytes) of a parameter, or None."""

    def slopes(self, incoming: Mapping[int, Values] | None = None, /) -> list[LocalDerivative]:
        """Return the operations whose results have an adjoint, in reverse order; `incoming` is 1 if None."""

    def flat_operations(self) -> list[LocalDerivative]:
        """Return the operations that are flat in a value with an adjoint, the surest first."""

    def corner(self) -> LocalDerivative | None:
        """Return the first operation that stands at a corner in a value with an adjoint: `abs` of 0."""

    def turns(self) -> int:
        """Return how often the operation that ran most often was run."""


class Threads(Protocol):
    """The threads of an operation, which can be followed one by one."""

    def follow(self, index: int, values: Mapping[int, Values], /) -> FollowedThread:
        """Return a thread that has not run yet; `values` are those of arrays before the operation."""


class SingleReplay(Protocol):
    """An operation that can be replayed alone, without those before it."""

    def new_replay(self, args: Sequence[Any] | None = None, /, *, float64: bool = False) -> Replay:
        """Return a replay of this operation only, which has not run.

        Args:
            args: Arrays and values in place of `Operation.args`; arrays hold what it starts from.
            float64: Compute in float64; raises if that is not possible.
        """


class StaleReads(Protocol):
    """Reverse passes in which some adjoints read other values than their operations had."""

    def new_replay(self) -> Replay:
        """Return a new replay that `see` can be used with."""

    def see(
        self, replay: Replay, now: Collection[tuple[int, int]], left: Collection[tuple[int, int]], /
    ) -> None:
        """Set what the next reverse passes read, by (operation, parameter).

        Args:
            replay: One of `new_replay` that has run forward.
            now: These read what memory holds at the end of the forward pass.
            left: These read what the operation itself left in the array. All others read what they had.
        """


class ReverseDivergence(Protocol):
    """A construct of a kernel that another engine may reverse wrongly."""

    @property
    def kind(self) -> Literal["loop", "while", "part", "array", "counter", "function"]:
        """The construct.

        A loop with variables; one with a condition; a part of a variable that is assigned; `*=` on an array;
        a number that an atomic returned; a function whose adjoint is incomplete.
        """

    @property
    def span(self) -> Place:
        """Its place in the source."""

    @property
    def variables(self) -> Sequence[str]:
        """The variables that a loop carries; of a function its name, what has no adjoint, and the version."""

    @property
    def needed(self) -> bool:
        """True if the reverse of the loop needs what its variables held in each iteration."""

    @property
    def param(self) -> int | None:
        """The array parameter that `*=` changes."""


class WarpReverse(Protocol):
    """The reverse pass that NVIDIA Warp would run for the same kernels."""

    @property
    def consumed(self) -> bool:
        """True if the program's own reverse pass gave what Warp's would."""

    def divergences(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """Return, for each operation with an adjoint, what Warp may reverse wrongly, if there is any."""

    def commands(self) -> Sequence[int]:
        """Return the operations that a recorded command launched."""

    def rewritten(self, operation: int, /) -> Collection[int]:
        """Return the parameters that an operation stores to and whose arrays keep their gradients."""

    def backward(
        self,
        replay: Replay,
        seeds: Seeds,
        operations: Collection[int],
        *,
        parts: bool = True,
        functions: bool = True,
        retained: bool = False,
    ) -> bool:
        """Run a replay forward and backward, with Warp's reverse of some operations.

        Args:
            replay: A new replay of the tape.
            seeds: The incoming adjoints.
            operations: Those that are reversed as Warp does.
            parts: Assigning components and fields in place is reversed so, too.
            functions: Functions lack the adjoints that they lack there; only with `parts`.
            retained: Arrays with `retain_grad` keep adjoints so, too.

        Returns:
            False if it is not known what Warp does with one of the kernels.
        """


class StructChanges(Protocol):
    """The structs that a program changed between a launch and the reverse pass."""

    def changed(self) -> Mapping[int, Sequence[int]]:
        """Return, by operation, the parameters that were something else when the reverse pass began."""

    def backward(self, replay: Replay, seeds: Seeds, operations: Collection[int], /) -> bool:
        """Run a new replay, and reverse some operations with what their structs held by then.

        Returns False if an array in them is not on the tape.
        """


class StoredLoop(Protocol):
    """A loop of which an adjoint keeps values."""

    @property
    def span(self) -> Place:
        """Its place in the source."""

    @property
    def iterations(self) -> int:
        """The number of iterations."""

    @property
    def values(self) -> int:
        """The number of values that are kept of each iteration."""

    @property
    def bytes(self) -> int:
        """The memory that takes, while one thread is reversed."""


class StoredLoops(Protocol):
    """The memory that adjoints use for the values of loops."""

    def loops(self) -> Mapping[int, Sequence[StoredLoop]]:
        """Return the loops of known length of which something is kept, by operation."""


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


class Length(NamedTuple):
    """The length of a list or tuple that a variable held."""

    value: int


class FrameValues(NamedTuple):
    """One function that was running, with the numbers that it held.

    Attributes:
        code: The code of the function.
        instruction: The index of the call that it was in.
        values: By name, also `self.name`: numbers, lengths, weak references to arrays.
    """

    code: CodeType
    instruction: int
    values: dict[str, Any]


class Rerecording(Protocol):
    """The same operations once more, on a private tape, with other adjoints."""

    def rerecorded(
        self, revived: Callable[[Any], frozenset[int]], stop: int | None = None, /
    ) -> RecordedTape:
        """Return a tape of the same operations, of which some arrays have a gradient that they did not have.

        Args:
            revived: Gives the parameters of an operation that are such arrays.
            stop: The number of operations; by default all.
        """


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


class ElementTracking(Protocol):
    """Launches that can be run again with every access of their threads tracked, element by element."""

    def arrays_in(self, region: Hashable, /) -> Sequence[Array]:
        """Return the ranges of a region that the tape uses, as arrays."""


class OverwrittenOutside(Protocol):
    """The values that something outside the tape overwrote before an adjoint read them."""

    def taken(self) -> Iterable[tuple[int, int, OutsideWrite]]:
        """Return operation, parameter and write, for each value that an adjoint needs and that is gone."""


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


class Arrivals(Protocol):
    """The arrays that came in from another library while the tape recorded."""

    def arrivals(self) -> Sequence[ArrivedArray]:
        """Return them in order."""


class ArrayOrigins(Protocol):
    """Facts about arrays of the tape that do not show in its operations."""

    def given(self, array: Array, /) -> bool:
        """True if it was created with values that differ, and first used by this tape."""

    def used_elsewhere(self, array: Array, /) -> bool:
        """True if another live tape uses what it holds."""

    def retains_gradient(self, array: Array, /) -> bool:
        """True if it keeps its adjoint on purpose."""


class LiveArrays(Protocol):
    """The arrays of the program, which may be made to hold what they held at another time."""

    def check(self, what: str, /) -> None:
        """Raise a `TapeError` that begins with `what` if arrays hold other values than those of now."""


class Confinement(Protocol):
    """The range of indices that operations use."""

    def is_confined(self) -> bool:
        """True if no operation can reach out of the memory of a replay, whatever values it is given."""


class Irreplayable(Protocol):
    """An operation that has no forward, such as the closure of a `record_func`."""

    def reason(self) -> str:
        """Return why it cannot be run again, as a clause: `record 3 is a custom function (clip), …`."""


def overwrite_mode(tape: RecordedTape) -> str:
    """Return the treatment of overwrites; of a tape without `Retention`, one that is the same in effect."""
    retention = tape.capability(Retention)
    if retention is not None:
        return retention.mode
    return "preserve" if tape.preserves_values else "ignore"
