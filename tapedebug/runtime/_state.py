"""What is known everywhere: the tape that records in this thread, and what holds for the whole process."""

from __future__ import annotations

import threading
from types import CodeType
from typing import TYPE_CHECKING

from tapedebug._errors import TapeError

if TYPE_CHECKING:
    from tapedebug.runtime.moment import Moment
    from tapedebug.runtime.tape import Tape


class _Here(threading.local):
    """What belongs to one thread.

    Attributes:
        tape: The tape that records its launches.
    """

    tape: Tape | None = None


here = _Here()


class _State:
    """What belongs to the process.

    Attributes:
        moment: Where in the past the arrays of a tape are (`Tape.at`).
        as_warp: How many blocks are open in which programs for Warp run.
        caller: The last code of the user that launched something on a tape.
        recorders: By number of a tape whose block is open, the thread that opened it.
    """

    __slots__ = ("as_warp", "caller", "moment", "recorders")

    def __init__(self) -> None:
        self.moment: Moment | None = None
        self.as_warp = 0
        self.caller: CodeType | None = None
        self.recorders: dict[int, int] = {}

    @property
    def tape(self) -> Tape | None:
        """The tape that records in this thread; settable."""
        return here.tape

    @tape.setter
    def tape(self, tape: Tape | None) -> None:
        here.tape = tape


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
    """The tape whose `with` block is running in this thread, or None."""
    return here.tape


def is_recording(tape: Tape) -> bool:
    """Whether the `with` block of a tape is running, in whatever thread."""
    return tape.id in state.recorders


def others_record() -> bool:
    """Whether a tape is recording in another thread."""
    return any(thread != threading.get_ident() for thread in list(state.recorders.values()))
