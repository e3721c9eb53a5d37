"""What is global to the process: the tape that records now, and whether it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapedebug._errors import TapeError

if TYPE_CHECKING:
    from tapedebug.runtime.moment import Moment
    from tapedebug.runtime.tape import Tape


class _State:
    """One object, so that the fast path of `launch` reads one attribute.

    Attributes:
        tape: The tape that records.
        moment: Where in the past the arrays of a tape are (`Tape.at`).
        as_warp: How many blocks are open in which programs for Warp run.
        caller: The name of the last module of the user that launched something on a tape.
    """

    __slots__ = ("as_warp", "caller", "moment", "tape")

    def __init__(self) -> None:
        self.tape: Tape | None = None
        self.moment: Moment | None = None
        self.as_warp = 0
        self.caller = ""


state = _State()


def refuse_at_another_time(what: str) -> None:
    """Nothing may take the arrays for what they are now while they are what they were.

    Raises:
        TapeError: They are.
    """
    if state.moment is not None:
        raise TapeError(
            f"{what}: the arrays are those of {state.moment!r}, not those of now",
            mend="leave that `with` block first",
        )


def active_tape() -> Tape | None:
    """The tape whose `with` block is running, or None."""
    return state.tape
