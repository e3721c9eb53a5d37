"""Global state: the tape that records in this thread, and settings of the whole process."""

from __future__ import annotations

import threading
from types import CodeType
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tapedebug._errors import TapeError

if TYPE_CHECKING:
    from tapedebug.runtime.replay.tape_snapshot import TapeSnapshot
    from tapedebug.runtime.tape.tape import Tape


class _Thread:
    """What belongs to one thread.

    Attributes:
        tape: The tape that records its launches.
    """

    __slots__ = ("__weakref__", "tape")

    def __init__(self) -> None:
        self.tape: Tape | None = None


class _Here(threading.local):
    """The thread that asks, which everybody else finds in `_threads` for as long as it lives."""

    def __init__(self) -> None:
        self.thread = _Thread()
        _threads[id(self.thread)] = self.thread


_threads: WeakValueDictionary[int, _Thread] = WeakValueDictionary()
here = _Here()


class _State:
    """What belongs to the process.

    Attributes:
        moment: Where in the past the arrays of a tape are (`Tape.at`).
        as_warp: How many blocks are open in which programs for Warp run.
        caller: The last code of the user that launched something on a tape.
    """

    __slots__ = ("as_warp", "caller", "moment")

    def __init__(self) -> None:
        self.moment: TapeSnapshot | None = None
        self.as_warp = 0
        self.caller: CodeType | None = None

    @property
    def tape(self) -> Tape | None:
        """The tape that records in this thread; settable."""
        return here.thread.tape

    @tape.setter
    def tape(self, tape: Tape | None) -> None:
        here.thread.tape = tape


state = _State()


def refuse_at_another_time(what: str) -> None:
    """Nothing may take the arrays for what they are now while they are what they were.

    Raises:
        TapeError: They are.
    """
    if state.moment is not None:
        raise TapeError(
            f"{what}: the arrays are those of {state.moment!r}, not those of now",
            hint="leave that `with` block first",
        )


def active_tape() -> Tape | None:
    """The tape whose `with` block is running in this thread, or None."""
    return here.thread.tape


def is_recording(tape: Tape) -> bool:
    """Whether a tape records the launches of a thread."""
    own = here.thread
    return own.tape is tape or (len(_threads) > 1 and any(thread.tape is tape for thread in _all_threads()))


def others_record() -> bool:
    """Whether a tape is recording in another thread."""
    return any(thread.tape is not None for thread in _all_threads() if thread is not here.thread)


def close(tape: Tape) -> None:
    """Let a tape record nowhere: its block may end in a thread that did not open it."""
    threads = [here.thread] if here.thread.tape is tape else _all_threads()
    for thread in threads:
        if thread.tape is tape:
            thread.tape = None


def _all_threads() -> list[_Thread]:
    """The threads alive that asked for their tape (other threads may come and go meanwhile)."""
    found = (reference() for reference in _threads.valuerefs())
    return [thread for thread in found if thread is not None]
