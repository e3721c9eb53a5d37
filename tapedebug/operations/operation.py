"""Operations that can be run again on private memory, forward and in reverse."""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Mapping, Sequence
from types import FrameType
from typing import Any, Protocol, TypeVar, cast

from tapedebug._source import Span, site_span
from tapedebug.contract import Access, AccessSets, Kind, Operation, Place
from tapedebug.operations.memory import Memory

T = TypeVar("T")


class Step(Protocol):
    """A map from the state of memory to the next one, and its transpose."""

    def forward(self, values: Memory) -> None:
        """Change memory as the operation did; repeatable, and limited to its accesses."""

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Replace the adjoints of the state after the operation by those of the state before it.

        Adjoints of values that it overwrites are consumed, all others stay unchanged. `before` and `after`
        hold the values that its accesses claim to need (`needs_before`, `needs_after`) and must not be
        modified. An operation that is not `ExactAdjoint` reads `before` only, which holds the values after
        the operation if measurement shows that these make the vjp the transpose of `forward`.
        """


class ExecutableOperation(Operation, Step, Protocol):
    """An operation with its step. Capabilities: `RunsInFloat64`, `ExactAdjoint`, those of the contract."""

    @property
    def retained(self) -> Sequence[Access]:
        """The accesses with all values that replays keep: those that any of its adjoints may read."""

    @property
    def code(self) -> Hashable:
        """Equal for operations that compute the same function of their arguments, such as their kernel."""


class RunsInFloat64(Step, Protocol):
    """The same step on memory that holds float32 values as float64."""


class PushesTangents(Protocol):
    """An operation with a forward-mode derivative."""

    def push(self, values: Memory, tangents: Memory, *, float64: bool, detached: bool) -> None:
        """Run the operation on `values`, and replace the tangents of what it writes.

        Args:
            values: The values before it, which change as in `forward`.
            tangents: Their tangents, in memory of the same layout.
            float64: Float32 values are held, and computed with, in float64.
            detached: Tangents stop where gradients do, at arrays without `requires_grad`.
        """


class ExactAdjoint(Protocol):
    """Marker for a `vjp` that reads the values before and after as it should: no measurement is needed."""


class ProgramReverse(Protocol):
    """The program's own reverse of an operation, if that differs from its `vjp`.

    Replays that read the values at the end of the program (`consume="current"`) run it.
    """

    def program_vjp(self, step: Step, values: Memory, adjoint: Memory) -> None:
        """Change the adjoints as the program's reverse pass changes the gradients.

        Args:
            step: The step that this replay runs for the operation.
            values: The values at the end of the program.
            adjoint: The adjoints.
        """


class ReadsStoredValues(Protocol):
    """Marker: the program's own reverse pass reads the values that the program stored when the operation ran.

    Replays that read the values at the end of the program (`consume="current"`) give such an operation those
    before it: the replay's own, which are of its precision, and follow what was set.
    """


class HostOperation(AccessSets):
    """The descriptive half of an `ExecutableOperation`; a subclass adds `forward` and `vjp`.

    Args:
        name: The name of the kernel or function.
        args: The arguments: arrays, and values that are not arrays.
        params: The names of the parameters.
        accesses: The use made of each argument that is an array.
        call_site: The place in the program that ran it, see `caller_place`.
        kind: The kind of the operation.
        dim: The launch dimensions.
        code: A hashable key of the computed function; by default the class and name.
        capabilities: Implementations by capability protocol.
    """

    def __init__(
        self,
        name: str,
        args: Sequence[Any],
        params: Sequence[str],
        accesses: Sequence[Access],
        call_site: Place,
        kind: Kind = "kernel",
        dim: tuple[int, ...] = (),
        code: Hashable = None,
        capabilities: Mapping[type, Any] | None = None,
    ) -> None:
        self.name, self.kind, self.dim = name, kind, dim
        self.args, self.params, self.accesses = args, params, accesses
        self.call_site = call_site
        self.code: Hashable = (type(self), name) if code is None else code
        self.capabilities: dict[type, Any] = dict(capabilities or {})
        self.has_adjoint = True
        self.index = 0
        self.scope: int | None = None
        self.seconds: float | None = None
        self.backward_seconds: float | None = None

    @property
    def retained(self) -> Sequence[Access]:
        """The accesses with all values that replays keep; by default those that the adjoint needs."""
        return self.accesses

    def param_name(self, param: int, /) -> str:
        """Return the name of a parameter."""
        return self.params[param]

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol, or None."""
        return cast("T | None", self.capabilities.get(kind))

    def __repr__(self) -> str:
        return f"<operation {self.index}: {self.name}>"


def caller_place(packages: Collection[str] = ()) -> Span:
    """Return the place of the nearest call from outside of some packages or modules, and of tapedebug."""
    skipped = {"tapedebug", "IPython", *packages}
    frame: FrameType | None = sys._getframe(1)
    last = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name not in skipped and name.partition(".")[0] not in skipped:
            last = frame
            break
        frame = frame.f_back
    return site_span((last.f_code, last.f_lasti))
