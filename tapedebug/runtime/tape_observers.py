"""Callbacks that are notified when a tape is recorded, reversed or reset, by weak references."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tapedebug import _live_tapes

if TYPE_CHECKING:
    from tapedebug.runtime.tape.tape import Tape

observers: list[Any] = []
"""Objects with any of `tape_created(tape)`, `tape_exited(tape)`, `backward_done(tape, call)`, and
`tape_reset(tape)`, called before the records are gone."""

_heard: ContextVar[bool] = ContextVar("heard", default=True)


@contextmanager
def unheard() -> Iterator[None]:
    """Tapes of this thread are no one's meanwhile: nobody hears of them, and new ones are not listed."""
    token = _heard.set(False)
    try:
        yield
    finally:
        _heard.reset(token)


def are_heard() -> bool:
    """Whether tapes are somebody's."""
    return _heard.get()


def enrol(tape: Tape) -> None:
    """A tape was made."""
    if not _heard.get():
        return
    _live_tapes.enrol(tape)
    notify("tape_created", tape)


def notify(event: str, *args: Any) -> None:
    """Call the observers that have a method of this name."""
    if not observers or not _heard.get():
        return
    for observer in observers:
        method = getattr(observer, event, None)
        if method is not None:
            method(*args)
