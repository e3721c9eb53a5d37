"""Global state: the tape that records in this thread, and settings of the whole process."""

from __future__ import annotations

import threading
from types import CodeType
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tapedebug._errors import TapeError

if TYPE_CHECKING:
    from tapedebug.runtime.foreign_engine import ForeignEngine
    from tapedebug.runtime.replay.tape_snapshot import TapeSnapshot
    from tapedebug.runtime.tape.tape import Tape


class _Thread:
    """The state of one thread.

    Attributes:
        tape: The tape that records its launches.
    """

    __slots__ = ("__weakref__", "tape")

    def __init__(self) -> None:
        self.tape: Tape | None = None


class _Here(threading.local):
    """Access to the current thread's state; other threads find it in `_threads` while the thread lives."""

    def __init__(self) -> None:
        self.thread = _Thread()
        _threads[id(self.thread)] = self.thread


_threads: WeakValueDictionary[int, _Thread] = WeakValueDictionary()
here = _Here()


class _State:
    """The state of the process.

    Attributes:
        moment: The moment of a tape that the arrays show now (`Tape.at`), or None.
        foreign: The hooks of another engine, while a program runs that was written for it; else None.
        site: The last place of user code that launched something on a tape; at first no place.
    """

    __slots__ = ("foreign", "moment", "site")

    def __init__(self) -> None:
        self.moment: TapeSnapshot | None = None
        self.foreign: ForeignEngine | None = None
        self.site: tuple[CodeType, int] = _State.__init__.__code__, -1

    @property
    def tape(self) -> Tape | None:
        """The tape that records in this thread; settable."""
        return here.thread.tape

    @tape.setter
    def tape(self, tape: Tape | None) -> None:
        here.thread.tape = tape


state = _State()


def refuse_at_another_time(what: str) -> None:
    """Refuse an operation while the arrays hold the values of an earlier moment (`Tape.at`).

    Raises:
        TapeError: They do.
    """
    if state.moment is not None:
        raise TapeError(
            f"{what}: the arrays are those of {state.moment!r}, not those of now",
            hint="leave that `with` block first",
        )


def active_tape() -> Tape | None:
    """Return the tape whose `with` block is running in this thread, or None."""
    return here.thread.tape


def is_recording(tape: Tape) -> bool:
    """Return True if a tape records the launches of any thread."""
    own = here.thread
    return own.tape is tape or (len(_threads) > 1 and any(thread.tape is tape for thread in _all_threads()))


def others_record() -> bool:
    """Return True if a tape is recording in another thread."""
    return any(thread.tape is not None for thread in _all_threads() if thread is not here.thread)


def close(tape: Tape) -> None:
    """Stop a tape recording in every thread: its block may end in another thread than it began in."""
    own = here.thread
    if own.tape is tape:
        own.tape = None
        return
    for thread in _all_threads():
        if thread.tape is tape:
            thread.tape = None


def _all_threads() -> list[_Thread]:
    """Return the live threads that have used their state; other threads may start and end meanwhile."""
    found = (reference() for reference in _threads.valuerefs())
    return [thread for thread in found if thread is not None]
