"""Capabilities: the source of operations, as the user wrote it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

from tapedebug._dataclass import dataclass
from tapedebug.contract.program import Place


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


@dataclass(frozen=True, slots=True)
class SourceOperation:
    """One operation of a kernel: the name of its kind, and its place in the source if that is known."""

    kind: str
    span: Place | None


class KernelOperations(Protocol):
    """The operations that a kernel is compiled from, such as `abs` or `norm_of_square`."""

    def operations(self) -> Iterable[SourceOperation]:
        """Return them in the order of the source; those of functions that it calls are among them."""


@dataclass(frozen=True, slots=True)
class GradientStop:
    """A call in the user's source after which another library no longer differentiates a value.

    Attributes:
        call: The call, such as `.detach()`.
        place: Its place.
    """

    call: str
    place: Place


class LibraryAdjoint(Protocol):
    """An operation whose adjoint another library computes, such as PyTorch."""

    @property
    def library(self) -> str:
        """The name of that library."""

    def stops(self) -> Sequence[GradientStop]:
        """Return the calls that end the gradient of a value on which the results depend."""


class HandWrittenAdjoint(Protocol):
    """An operation whose whole adjoint is a function of the user."""

    @property
    def text(self) -> SourceText | None:
        """The source of that function; None if there is none to show."""
