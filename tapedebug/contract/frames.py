"""Numbers in the functions of the program, such as a time step or the length of a list."""

from __future__ import annotations

from types import CodeType
from typing import Any, NamedTuple


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
