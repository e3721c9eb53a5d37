"""Capabilities: the arguments of operations that are not arrays, and how calls are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tapedebug.contract.history import Stack
from tapedebug.contract.program import Replay


class CallArguments(Protocol):
    """The arguments as the source of a call writes them: `launch(kernel, dim, [x, y], [z])`."""

    def written_as(self, param: int, /) -> tuple[int, str]:
        """Return the position of an argument in the lists, and the end of its name: `.q` for a field."""


class NumberArguments(Protocol):
    """The floating-point numbers that an operation was given: constants for the reverse pass."""

    @property
    def stack(self) -> Stack:
        """The frames of the call, innermost first; one is enough."""

    @property
    def params(self) -> Sequence[int]:
        """The parameters that are such numbers, or vectors of them; of a fill with other than 0 its array."""

    def scale(self, replay: Replay, param: int, factor: float, /) -> None:
        """Multiply an argument of a launch by a factor in all further runs of a replay."""
