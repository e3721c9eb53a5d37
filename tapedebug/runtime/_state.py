"""What is global to the process: the tape that records now, and whether it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapedebug.runtime.tape import Tape


class _State:
    """One object, so that the fast path of `launch` reads one attribute.

    Attributes:
        tape: The tape that records.
        as_warp: How many blocks are open in which programs for Warp run.
    """

    __slots__ = ("as_warp", "tape")

    def __init__(self) -> None:
        self.tape: Tape | None = None
        self.as_warp = 0


state = _State()


def active_tape() -> Tape | None:
    """The tape whose `with` block is running, or None."""
    return state.tape
