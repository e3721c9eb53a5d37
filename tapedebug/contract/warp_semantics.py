"""Capabilities: reverse passes as NVIDIA Warp would run them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from tapedebug.contract.program import Place, Replay, Seeds


class ReverseDivergence(Protocol):
    """A construct of a kernel that another engine may reverse wrongly."""

    @property
    def kind(self) -> Literal["loop", "while", "part", "array", "counter", "function", "adjoint"]:
        """The construct.

        A loop with variables; one with a condition; a part of a variable that is assigned; `*=` on an array;
        a number that an atomic returned; a function whose adjoint is incomplete; the whole kernel, if no
        construct is known to be the cause.
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
        """True if the program's own reverse pass gave the same results as Warp's would."""

    @property
    def is_own(self) -> bool:
        """True if Warp itself ran the program."""

    def divergences(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """Return, for each operation with an adjoint, what Warp may reverse wrongly, if there is any."""

    def left_out(self) -> Sequence[str]:
        """Return, as sentences, the operations that `divergences` did not measure."""

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
            operations: The operations that are reversed as Warp does.
            parts: Also reverse in-place assignments of components and fields as Warp does.
            functions: Functions lack the adjoints that they lack there; only with `parts`.
            retained: Arrays with `retain_grad` keep adjoints as in Warp.

        Returns:
            False if it is not known what Warp does with one of the kernels.
        """


class StructChanges(Protocol):
    """The structs that a program changed between a launch and the reverse pass."""

    def changed(self) -> Mapping[int, Sequence[int]]:
        """Return, by operation, the parameters that had changed when the reverse pass began."""

    def backward(self, replay: Replay, seeds: Seeds, operations: Collection[int], /) -> bool:
        """Run a new replay, and reverse some operations with what their structs held by then.

        Returns False if an array in them is not on the tape.
        """
