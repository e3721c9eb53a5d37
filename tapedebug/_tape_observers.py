"""Tapes of all engines: a weak list of the live ones, and callbacks when one is recorded or reversed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.contract import RecordedTape


observers: list[Any] = []
"""Objects with any of `tape_created(tape)`, `tape_exited(tape)`, `backward_done(tape, …)`, and
`tape_reset(tape)`, called before the operations are deleted."""

_live: dict[int, weakref.ref[Any]] = {}
"""References to listed tapes by their number.

Those to tapes that are gone stay until there are many. To remove each at once, as a `WeakSet` does, takes
half a microsecond for each step of a loop.
"""
MOST_GONE = 64
"""Number of references, beyond twice those to live tapes, from which those to other tapes are removed."""
_room = MOST_GONE
_listed: ContextVar[bool] = ContextVar("listed", default=True)


def live_tapes() -> list[Any]:
    """Return the live tapes of all engines, in the order of their creation."""
    found = [tape for reference in [*_live.values()] if (tape := reference()) is not None]
    return sorted(found, key=lambda tape: tape.id)


@contextmanager
def unlisted() -> Iterator[None]:
    """Context in which tapes that this thread creates are neither listed nor announced."""
    token = _listed.set(False)
    try:
        yield
    finally:
        _listed.reset(token)


def are_listed() -> bool:
    """Return True if tapes of this thread are listed and announced."""
    return _listed.get()


def enrol(tape: RecordedTape) -> None:
    """Add a new tape to the weak list of live tapes, and notify the observers."""
    global _room
    if not _listed.get():
        return
    _live[tape.id] = weakref.ref(tape)
    if len(_live) > _room:
        for number in [number for number, reference in [*_live.items()] if reference() is None]:
            _live.pop(number, None)
        _room = 2 * len(_live) + MOST_GONE
    notify("tape_created", tape)


def unlist(tape: RecordedTape) -> None:
    """Remove a tape that is not one of the user's from the list."""
    _live.pop(tape.id, None)


_RECORDING = "_tapedebug_recording"
_program_tapes: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()


def link(program_tape: object, tape: RecordedTape) -> None:
    """Note that `tape` is the recording of an object that the program uses as its tape."""
    setattr(program_tape, _RECORDING, tape)
    _program_tapes[tape] = weakref.ref(program_tape)


def recorded_tape(found: object) -> Any:
    """Return the recording of a tape object of another engine; any other object as it is."""
    return getattr(found, _RECORDING, found)


def program_tape(tape: RecordedTape) -> Any:
    """Return the object that the program uses as its tape: of tapedebug's engine the tape itself."""
    linked = _program_tapes.get(tape)
    found = None if linked is None else linked()
    return tape if found is None else found


def notify(event: str, *args: object) -> None:
    """Call the observers that have a method of this name."""
    if not observers or not _listed.get():
        return
    for observer in observers:
        method = getattr(observer, event, None)
        if method is not None:
            method(*args)
