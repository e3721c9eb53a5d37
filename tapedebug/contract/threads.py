"""Capabilities: the threads of a launch, followed one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tapedebug._dataclass import dataclass
from tapedebug.contract.program import Place, Values


class CannotFollow(Exception):
    """A thread cannot be followed: too many operations, an index outside an array, or an unknown operation.

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
        saturates: The operation has a range, far out or beyond a limit, with a negligible slope.
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

    def operation_derivatives(self, incoming: Mapping[int, Values] | None = None, /) -> list[LocalDerivative]:
        """Return the operations whose results have an adjoint, in reverse order; `incoming` is 1 if None."""

    def flat_operations(self) -> list[LocalDerivative]:
        """Return the operations that are flat in a value with an adjoint, the surest first."""

    def corner(self) -> LocalDerivative | None:
        """Return the first operation that is at a kink in a value with an adjoint: `abs` of 0."""

    def turns(self) -> int:
        """Return the number of runs of the operation that ran most often."""


class Threads(Protocol):
    """The threads of an operation, which can be followed one by one."""

    def follow(self, index: int, values: Mapping[int, Values], /) -> FollowedThread:
        """Return a thread that has not run yet; `values` are those of arrays before the operation."""
