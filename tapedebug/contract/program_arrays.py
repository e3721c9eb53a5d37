"""Capabilities: the arrays of the program, and the objects that its variables hold for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from tapedebug.contract.program import Array, RecordedTape


class ProgramArrays(Protocol):
    """The objects that the program's variables hold for arrays of the tape."""

    @property
    def kind(self) -> type:
        """Their class."""

    def array_of(self, found: Any, /) -> Array:
        """Return the array that such an object is."""


class ArrayOrigins(Protocol):
    """Facts about arrays of the tape that do not show in its operations."""

    def given(self, array: Array, /) -> bool:
        """True if it was created with values that differ, and first used by this tape."""

    def used_elsewhere(self, array: Array, /) -> bool:
        """True if another live tape uses what it holds."""

    def retains_gradient(self, array: Array, /) -> bool:
        """True if it keeps its adjoint on purpose."""


class ArrayMemory(Protocol):
    """The memory of the program's arrays, as other libraries may share it."""

    def address(self, array: Array, /) -> int:
        """Return the address of the first element of an array in this process."""

    def gradient_reads(self, array: Array, /) -> Collection[str] | None:
        """Return the ways in which the gradient of an array has been read, such as `"numpy"`.

        `"view"` is among them while outside code can read it unnoticed. None if it is not known.
        """


class LiveArrays(Protocol):
    """The arrays of the program, which may be made to hold what they held at another time."""

    def check(self, what: str, /) -> None:
        """Raise a `TapeError` that begins with `what` if arrays hold other values than those of now."""


def from_program(tape: RecordedTape, given: object) -> Any:
    """Return arrays of the contract in place of the objects that the program has for them.

    Args:
        tape: The tape that may know these objects.
        given: An array, or a list or dictionary with arrays, perhaps of the engine's own class; anything else
            is returned as it is.
    """
    program = tape.capability(ProgramArrays)
    if program is None:
        return given
    if isinstance(given, program.kind):
        return program.array_of(given)
    if isinstance(given, Mapping):
        return {from_program(tape, key): from_program(tape, value) for key, value in given.items()}
    if isinstance(given, list):
        return [from_program(tape, each) for each in given]
    if type(given) is tuple:
        return tuple(from_program(tape, each) for each in given)
    return given
