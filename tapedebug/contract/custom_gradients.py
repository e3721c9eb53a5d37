"""Capabilities: functions that kernels call, with gradients that the user wrote."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from tapedebug._dataclass import dataclass
from tapedebug.contract.program import Place, Values


@dataclass(frozen=True, slots=True)
class AdjointWrite:
    """A statement of a custom gradient that changes adjoints.

    Attributes:
        params: The parameters whose adjoints it changes, by the names that the gradient gives them.
        place: The place of the statement.
        assigned: It sets the adjoint, and does not add to it.
    """

    params: frozenset[str]
    place: Place
    assigned: bool


class CustomFunction(Hashable, Protocol):
    """A function of the user that kernels call, or the gradient of one. Comparable by identity."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def declaration(self) -> str:
        """The name and the parameters with their types: functions may have several versions."""

    @property
    def parameters(self) -> Sequence[str]:
        """The names of the parameters."""

    @property
    def place(self) -> Place:
        """The place of the definition."""

    @property
    def gradient(self) -> CustomFunction | None:
        """The gradient that the user gave the function."""

    @property
    def replay(self) -> CustomFunction | None:
        """The function that computes its results again in adjoints, if the user gave one."""

    @property
    def differs(self) -> bool:
        """True for a gradient that is meant to differ from the derivative."""

    @property
    def adjoint_writes(self) -> Sequence[AdjointWrite]:
        """The statements of a gradient that change adjoints, in order."""


@dataclass(frozen=True, slots=True)
class CustomCall:
    """A call in a kernel whose adjoint is not derived from its body.

    Attributes:
        name: The name of the function.
        span: The place of the call, if it is known.
        function: The function; None for a native one.
        has_gradient: It has a custom gradient; else only a replay.
    """

    name: str
    span: Place | None
    function: CustomFunction | None
    has_gradient: bool


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call of a native function whose adjoint, if there is one, is native user code."""

    name: str
    span: Place | None


@dataclass(frozen=True, slots=True)
class PartialDerivative:
    """One argument of one call.

    Attributes:
        name: The parameter, with the component of a vector.
        value: The value of the argument.
        given: The derivative that the custom gradient adds, for the seeds.
        right: The derivative by finite differences of the body; None if it has none here.
        thrown_away: The adjoint accumulated before is lost afterwards.
    """

    name: str
    value: float
    given: float
    right: float | None
    thrown_away: bool


@dataclass(slots=True)
class CheckedCall:
    """One call of a function with a custom gradient, compared with differences of the function.

    Attributes:
        function: The function.
        thread: The thread that called it.
        partials: The derivatives by its arguments.
    """

    function: CustomFunction
    thread: int
    partials: list[PartialDerivative] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BypassedGradient:
    """A custom gradient that never runs: kernels call another function of the same name.

    Attributes:
        gradient: The gradient.
        function: Its function.
        used: The function that the kernel calls instead, which has no gradient.
        redefined: `function` was defined again as `used`; else they are versions for other types.
    """

    gradient: CustomFunction
    function: CustomFunction
    used: CustomFunction
    redefined: bool


class CustomGradients(Protocol):
    """The custom gradients that the adjoint of an operation runs."""

    def calls(self) -> Sequence[CustomCall]:
        """Return the calls of functions with a gradient or a replay of the user's, native ones too."""

    def native_calls(self) -> Sequence[NativeCall]:
        """Return the calls of native functions."""

    def bypassed(self) -> Iterable[BypassedGradient]:
        """Return the gradients of functions that the kernel refers to and that its adjoint never runs."""

    def check(self, thread: int, values: Mapping[int, Values], /) -> Sequence[CheckedCall]:
        """Return the calls of one thread, each compared with differences; raises `CannotFollow`.

        Args:
            thread: The thread.
            values: The values of arrays before the operation, by parameter.
        """
