"""The core of the contract: arrays, operations, recorded tapes and replays. It imports nothing of ours.

The debugger (`trace`, `autograd`, `diagnose`, `panel`, `report`, `notebook`) sees a program as a
`RecordedTape`: operations in order, each a map from the state of memory before it to the state after it, on
byte ranges of memory regions. A `Replay` runs these operations again in private memory, forward and in
reverse. Everything else that an engine can do is a capability: the debugger queries it and, if it is missing,
lists in the coverage what was not examined.

An array is a region, a byte range, a shape, strides and a data type. Two arrays alias where their bytes
overlap; names play no part. All values cross this boundary as NumPy arrays of shape
`array.shape + array.element_shape`; an adjoint or tangent has the shape and data type of its array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from tapedebug._dataclass import dataclass

Values: TypeAlias = np.ndarray[Any, Any]
Seeds: TypeAlias = "Mapping[Array, Values]"
T = TypeVar("T")
A = TypeVar("A", bound="Array")

Consume = Literal["versions", "current"]
"""The values that adjoints read: those that each operation had, or those that memory holds at the end."""

Kind = Literal["kernel", "copy", "fill", "python", "func"]
"""The kinds of operations. `"func"` is a reverse function without a forward: no replay can run it."""


class Region(Hashable, Protocol):
    """A piece of memory that the program allocated. Hashable and comparable by identity."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""


@runtime_checkable
class Array(Protocol):
    """A strided view of one memory region of the program. Hashable by identity."""

    @property
    def region(self) -> Region:
        """The memory that holds the elements: the same for all views of one allocation."""

    @property
    def offset(self) -> int:
        """The byte of the region at which element `(0, …)` begins."""

    @property
    def start(self) -> int:
        """The first byte in the region that the array covers."""

    @property
    def stop(self) -> int:
        """The byte after the last that the array covers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each axis."""

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next, along each axis."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def is_contiguous(self) -> bool:
        """True if the elements lie side by side in C order."""

    @property
    def scalar_dtype(self) -> np.dtype[Any]:
        """The NumPy type of one scalar: `float32` for an array of `vec3`."""

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of one element: `(3,)` for `vec3`, `()` for scalars."""

    @property
    def is_float(self) -> bool:
        """True if the values have derivatives; a struct does if one of its fields has."""

    @property
    def dtype_name(self) -> str:
        """The data type as the engine's users write it: `float32`, `vec3`."""

    @property
    def requires_grad(self) -> bool:
        """True if the reverse pass of the program computes the gradient of this array."""

    def current(self) -> Values:
        """Return a copy of the values that the program's memory holds now."""

    def current_gradient(self) -> Values | None:
        """Return a copy of the gradient that the program's memory holds now; None if there is no gradient."""


class Place(Protocol):
    """A range in a source file; lines count from 1, columns from 0."""

    @property
    def file(self) -> str:
        """The path of the file, or the name of a notebook cell."""

    @property
    def line(self) -> int:
        """The first line."""

    @property
    def column(self) -> int:
        """The first column."""

    @property
    def end_line(self) -> int:
        """The last line."""

    @property
    def end_column(self) -> int:
        """The column after the last."""

    @property
    def function(self) -> str:
        """The name of the function around it."""

    @property
    def text(self) -> str:
        """The text of the first line; empty if it is not known."""


class Access(NamedTuple):
    """The use that an operation makes of one array.

    Attributes:
        param: The number of the argument in `Operation.args`.
        name: The name of the parameter; a field of a struct as `state.q`.
        array: The array.
        reads: The operation reads values that were there before it.
        writes: The operation writes values, atomically or not.
        atomic: It only adds to, or otherwise updates, values atomically.
        needs_before: The adjoint reads the values as they were before the operation. Claiming too much costs
            time only: effects are measured.
        needs_after: The adjoint reads the values that the operation wrote.
        active: Adjoints are meant to pass through. A constant is not disconnected.
    """

    param: int
    name: str
    array: Array
    reads: bool
    writes: bool
    atomic: bool = False
    needs_before: bool = False
    needs_after: bool = False
    active: bool = True


class Operation(Protocol):
    """One recorded step: a launch, a copy, a fill, a Python operation, or a custom reverse function.

    What follows from `accesses` an engine can take from `AccessSets`.
    """

    @property
    def index(self) -> int:
        """The position on the tape."""

    @property
    def kind(self) -> Kind:
        """The kind of the operation."""

    @property
    def name(self) -> str:
        """The name of the kernel or function; `copy` and `fill` for these."""

    @property
    def dim(self) -> tuple[int, ...]:
        """The launch dimensions; `()` for an operation without threads."""

    @property
    def args(self) -> Sequence[Any]:
        """The arguments: arrays, and values that are not arrays."""

    @property
    def accesses(self) -> Sequence[Access]:
        """The use made of each argument that is an array, in the order of the parameters."""

    @property
    def reads(self) -> Collection[int]:
        """The numbers of the parameters whose former values it reads."""

    @property
    def writes(self) -> Collection[int]:
        """The numbers of the parameters that it writes, atomically or not."""

    @property
    def touched(self) -> Sequence[int]:
        """The numbers of the parameters that it reads or writes, in order."""

    @property
    def written(self) -> Sequence[int]:
        """The numbers of the parameters that it writes, in order."""

    @property
    def needed(self) -> Sequence[int]:
        """The numbers of the parameters whose values its adjoint reads, in order."""

    @property
    def active(self) -> Collection[int]:
        """The numbers of the parameters through which adjoints are meant to pass."""

    @property
    def has_adjoint(self) -> bool:
        """True if the reverse pass of the program does anything for this operation."""

    @property
    def call_site(self) -> Place:
        """The place in the program that launched it."""

    @property
    def scope(self) -> int | None:
        """An index into `RecordedTape.scopes`; None outside of scopes."""

    @property
    def seconds(self) -> float | None:
        """The seconds that the program spent in it; None if they were not measured."""

    @property
    def backward_seconds(self) -> float | None:
        """The seconds that the program's last reverse pass spent in its adjoint, or None."""

    def param_name(self, param: int, /) -> str:
        """Return the name of a parameter."""

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol for this operation, or None."""


class AccessSets:
    """The parameter sets of an operation, derived from its accesses: a base class for engines' operations."""

    accesses: Sequence[Access]

    @property
    def reads(self) -> Collection[int]:
        """The numbers of the parameters whose former values it reads."""
        return frozenset(access.param for access in self.accesses if access.reads)

    @property
    def writes(self) -> Collection[int]:
        """The numbers of the parameters that it writes, atomically or not."""
        return frozenset(access.param for access in self.accesses if access.writes)

    @property
    def touched(self) -> Sequence[int]:
        """The numbers of the parameters that it reads or writes, in order."""
        return tuple(access.param for access in self.accesses if access.reads or access.writes)

    @property
    def written(self) -> Sequence[int]:
        """The numbers of the parameters that it writes, in order."""
        return tuple(access.param for access in self.accesses if access.writes)

    @property
    def needed(self) -> Sequence[int]:
        """The numbers of the parameters whose values its adjoint reads, in order."""
        return tuple(a.param for a in self.accesses if a.needs_before or a.needs_after)

    @property
    def active(self) -> Collection[int]:
        """The numbers of the parameters through which adjoints are meant to pass."""
        return frozenset(access.param for access in self.accesses if access.active)


class OutsideWrite(Protocol):
    """A write to memory of the tape that is not an operation of the tape."""

    @property
    def at(self) -> int:
        """The number of operations recorded when it happened."""

    @property
    def array(self) -> Array:
        """The array that was written."""

    @property
    def call_site(self) -> Place | None:
        """The place in the user's source; None for a write that was only noticed later."""

    @property
    def how(self) -> str:
        """The way it was written, such as `"launch"`, `"copy"`, `"numpy"` or `"fill"`."""

    @property
    def settled(self) -> bool:
        """True if a reverse pass had run already, so that it is most likely the step of an optimiser."""

    @property
    def clock(self) -> int:
        """The time, in events of the process."""


class ReversePass(Protocol):
    """One reverse pass that the program ran over the tape."""

    @property
    def seeds(self) -> Seeds:
        """The adjoints that it started from: of the loss, from `grads=`, and those already in gradients."""

    @property
    def preset(self) -> Sequence[Array]:
        """The arrays whose gradients held a seed when the pass began."""

    @property
    def unseeded(self) -> bool:
        """True if it was given no seed, and no gradient can have held one."""

    @property
    def stale(self) -> Sequence[Array]:
        """The arrays whose gradients still held results of another tape's pass."""

    @property
    def off_tape(self) -> Sequence[Array]:
        """The arrays that the program gave a seed and that no operation uses; they are not in `seeds`."""

    @property
    def operation_count(self) -> int:
        """The number of operations on the tape at that time."""

    @property
    def loss(self) -> Array | None:
        """The loss that the program named; None if it named none."""

    @property
    def objective(self) -> Array | None:
        """The array of one float that has the only seed, 1; None if there is no such array."""

    @property
    def seconds(self) -> float:
        """The duration of the pass."""


class Scope(Protocol):
    """A named group of operations, `first … last` inclusive; `last` is None while the group is open."""

    @property
    def name(self) -> str:
        """The name that the program gave it."""

    @property
    def parent(self) -> int | None:
        """The index of the group around it, in `RecordedTape.scopes`."""

    @property
    def first(self) -> int:
        """The index of its first operation."""

    @property
    def last(self) -> int | None:
        """The index of its last operation."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine that ran a program, as a report names it: `NVIDIA Warp`, `1.19.0`, `cpu`."""

    name: str
    version: str = ""
    device: str = "cpu"


OnReplay: TypeAlias = "Callable[[Replay, Operation], None]"
"""Callback with the running replay and the operation that has run."""


class Replay(Protocol):
    """A repeated run of the operations of a tape in private memory. The program's arrays are never written.

    A new replay is at the first operation, with the values that the tape found.
    """

    @property
    def position(self) -> int:
        """The index of the operation that runs next."""

    @property
    def is_float64(self) -> bool:
        """True if it computes in float64 what the program computed in float32."""

    pulse: Callable[[], None] | None
    """Called before each operation that runs, forward or in reverse; may raise to cancel."""

    forward_only: bool
    """Set it if the replay will not run in reverse: it then keeps no overwritten values."""

    on_outside: Callable[[Any], Any] | None
    """Called with an operation before which there was an outside write, after that is loaded."""

    after_operation: OnReplay | None
    """Called after each operation that ran forward; may change values with `set`."""

    after_adjoint: OnReplay | None
    """Called after the adjoint of each operation, also of one that has none; may change adjoints."""

    def reset(self, discard: bool = False) -> Replay:
        """Return to the state before the first operation, with the values that the tape found.

        Args:
            discard: Drop values that were set after the first operation and have not been used; without it,
                such values are an error.
        """

    def set(self, array: Array, values: Values, /) -> None:
        """Replace the values of an array before the operation that runs next.

        Before the first operation the array is an input: it keeps these values through `forward(0)`, until
        `reset`. Later values are for the next operation; until then `forward(0)` and `reset()` are errors.
        """

    def forward(
        self,
        start: int = 0,
        stop: int | None = None,
        on_operation: Callable[[Operation], Any] | None = None,
        skip: Collection[int] = (),
    ) -> Replay:
        """Run the operations `start … stop-1`; `start` is `position`, or 0 to start over."""

    def backward(
        self,
        seeds: Mapping[A, Values] | None,
        consume: Consume = "versions",
        start: int | None = None,
        stop: int = 0,
        on_operation: Callable[[Operation], Any] | None = None,
        skip: Collection[int] = (),
    ) -> Replay:
        """Run the adjoints of the operations `start-1 … stop`, after `forward`.

        Args:
            seeds: The incoming adjoints; all others are zero. None goes on with those of the last call.
            consume: The values that adjoints read.
            start: By default `position`.
            stop: The earliest operation.
            on_operation: Called with each operation after its adjoint ran.
            skip: Operations whose adjoints do nothing.
        """

    def inject(self) -> None:
        """Load the outside writes just before the operation that runs next.

        `forward` does the same before it runs the operation.
        """

    def values(self, array: Array, /) -> Values:
        """Return a copy of the values of an array now."""

    def gradient(self, array: Array, /) -> Values:
        """Return a copy of the adjoint of an array now."""

    def set_gradient(self, array: Array, values: Values, /) -> None:
        """Replace the adjoint of an array."""

    def matches_live(self) -> bool:
        """True if the values computed here equal, bit for bit, what the program's arrays hold."""


class RecordedTape(Protocol):
    """The operations of a program that an engine recorded, with their replays."""

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations in order."""

    @property
    def engine(self) -> Engine:
        """The engine that ran them."""

    @property
    def id(self) -> int:
        """A number that no other tape of this process has."""

    @property
    def began(self) -> int:
        """The time at which it first recorded, in events of the process."""

    @property
    def ended(self) -> int:
        """The time at which it last stopped to record."""

    @property
    def created_at(self) -> Place | None:
        """The place in the program that made it, if it is known."""

    @property
    def is_recording(self) -> bool:
        """True while operations are still being recorded."""

    @property
    def preserves_values(self) -> bool:
        """True if the program's reverse pass reads the values that each operation had in the forward pass."""

    @property
    def scopes(self) -> Sequence[Scope]:
        """The named groups of operations."""

    @property
    def outside_writes(self) -> Sequence[OutsideWrite]:
        """The writes to memory of the tape that are not on it, in the order in which they happened."""

    @property
    def seeds(self) -> Mapping[Any, Values]:
        """The seeds of the last reverse pass; before the first one, the gradients of written arrays."""

    @property
    def reverse_passes(self) -> Sequence[ReversePass]:
        """The reverse passes that the program ran, in order. Only the last one must still have its seeds."""

    def uses(self, array: Array, /) -> bool:
        """True if an operation of the tape accesses the array's region."""

    def names(self, array: Array, /) -> Sequence[str]:
        """Return the names that the program has for an array, the best first; empty if none is known."""

    def new_replay(self, *, float64: bool = False) -> Replay:
        """Return a new replay.

        Args:
            float64: Compute in float64, as far as operations can; raises if `capability(Float64)` is None or
                memory cannot hold float64 values. `Float64.obstacle` says what remains in float32.
        """

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol for this tape, or None."""


ARRAY_ATTRIBUTES = ("region", "scalar_dtype", "element_shape", "current")
"""The attributes that tell an array of an engine from other arguments."""


@lru_cache(maxsize=64)
def _is_array_type(kind: type) -> bool:
    """True if a class declares these attributes; instances may still set them."""
    return all(hasattr(kind, name) for name in ARRAY_ATTRIBUTES)


def is_array(found: object) -> TypeGuard[Array]:
    """True if an object is an array of an engine that implements this contract."""
    kind: Any = type(found)
    return _is_array_type(kind) or all(hasattr(found, name) for name in ARRAY_ATTRIBUTES)


def is_recorded_tape(found: object) -> TypeGuard[RecordedTape]:
    """True if an object is a tape of an engine that implements this contract."""
    return all(hasattr(found, name) for name in ("operations", "new_replay", "capability", "reverse_passes"))


def arrays_overlap(a: Array, b: Array) -> bool:
    """True if two arrays share an element; exact for strided views, too."""
    if a.region is not b.region or a.stop <= b.start or b.stop <= a.start:
        return False
    if a.is_contiguous and b.is_contiguous:
        return True
    try:
        return bool(np.shares_memory(_Extent(a).view(), _Extent(b).view(), max_work=20_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Extent:
    """The elements of an array at artificial addresses, which are only compared and never read."""

    def __init__(self, array: Array) -> None:
        size = int(np.prod(array.element_shape, dtype=np.int64)) * array.scalar_dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "data": (4096 + array.offset, True),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{size}",
        }

    def view(self) -> Values:
        return np.asarray(self)


def regions_of(operations: Iterable[Operation]) -> set[Region]:
    """Return the memory regions that operations access."""
    return {access.array.region for operation in operations for access in operation.accesses}


def view_of(array: Array, content: Values, scale: int = 1, scalar: np.dtype[Any] | None = None) -> Values:
    """Return an array as a view of the bytes of its region.

    Args:
        array: The array.
        content: The bytes of the region; `scale` times as many as the program's.
        scale: The factor of all offsets and strides.
        scalar: The type of a scalar in these bytes; by default that of the array.
    """
    scalar = array.scalar_dtype if scalar is None else scalar
    inner, step = [], scalar.itemsize
    for length in reversed(array.element_shape):
        inner.append(step)
        step *= length
    return np.ndarray(
        array.shape + array.element_shape,
        scalar,
        content,
        array.offset * scale,
        (*(stride * scale for stride in array.strides), *reversed(inner)),
    )


def memory_key(array: Array) -> Hashable:
    """Return a key that arrays with the same bytes share, for contiguous arrays regardless of their shape."""
    if array.is_contiguous:
        return id(array.region), array.start, array.stop
    return id(array.region), array.start, array.shape, array.strides, array.dtype_name


def share_bytes(array: Array, other: Array) -> bool:
    """True if the ranges of memory from the first to the last byte of two arrays overlap."""
    return array.region is other.region and array.start < other.stop and other.start < array.stop
