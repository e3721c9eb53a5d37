"""Run user code in a check without side effects on its state."""

from __future__ import annotations

import contextlib
import signal
import threading
import weakref
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from tapedebug._tape_observers import observers, unlisted
from tapedebug.runtime.memory.buffer import _REGISTRY, Buffer, Bytes
from tapedebug.runtime.state import state


class isolated:
    """Context manager that restores memory which existed before the block and was written in it.

    It does so however the block ends. Within the block no tape records until the block begins one, and no
    observer is notified of that tape. Writes through the API are noticed when they happen, and cost one copy
    of the buffer; writes through NumPy are noticed for the buffers of `copied` only.

    Args:
        copied: Arrays whose values are copied at the start.
    """

    def __init__(self, copied: Iterable[Any] = ()) -> None:
        self._copied = list(copied)
        self._kept: dict[Buffer, tuple[Bytes, bytes | None]] = {}
        self._watches: list[_Watch] = []
        self._tape: Any = None
        self._observers: list[Any] = []

    def __enter__(self) -> isolated:
        self._tape = state.tape
        self._observers = observers[:]
        try:
            with uninterrupted():
                self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self) -> None:
        for array in self._copied:
            self.keep(array.region)
        for buffer in list(_REGISTRY.values()):
            watch = _Watch(self, buffer)
            self._watches.append(watch)
            buffer.watch = (*buffer.watch, weakref.ref(watch))  # type: ignore[arg-type]
        observers.clear()
        state.tape = None

    def __exit__(self, *_: object) -> None:
        with uninterrupted():
            self._restore()

    def _restore(self) -> None:
        for watch in self._watches:
            watch.buffer.watch = tuple(ref for ref in watch.buffer.watch if ref() is not watch)  # type: ignore[comparison-overlap]
        for buffer, (content, fill) in self._kept.items():
            buffer.data[:] = content
            buffer.fill = None if buffer.windows else fill
        state.tape = self._tape
        observers[:] = self._observers
        self._watches.clear()
        self._kept.clear()

    def keep(self, buffer: Buffer) -> None:
        """Copy the content of a buffer that is about to be written."""
        if buffer not in self._kept:
            self._kept[buffer] = (buffer.data.copy(), buffer.fill)


@contextlib.contextmanager
def private_tapes() -> Iterator[None]:
    """Context manager for private tapes on private memory.

    The user's tape does not record meanwhile, and no observer is notified.
    """
    recording, state.tape = state.tape, None
    try:
        with unlisted():
            yield
    finally:
        state.tape = recording


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Context manager that delays Ctrl-C until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread
        return
    waiting: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting and callable(before):
            before(*waiting[0])


class _Watch:
    """Listener on one buffer: takes the places of tracker, ledger and state in `before_write`."""

    __slots__ = ("__weakref__", "buffer", "guard")

    def __init__(self, guard: isolated, buffer: Buffer) -> None:
        self.guard = guard
        self.buffer = buffer

    @property
    def states(self) -> list[_Watch]:
        return [self]

    @property
    def array(self) -> _Watch:
        return self

    @property
    def ledgers(self) -> dict[Buffer, _Watch]:
        return {self.buffer: self}

    def window_opened(self, ledger: object, start: int, stop: int) -> None:
        """Keep the content of the buffer: NumPy can write to it from now on."""
        self.guard.keep(self.buffer)

    def written(self, ledger: object, array: object) -> None:
        """Do nothing after a write of the buffer."""

    def window_closed(self, ledger: object) -> None:
        """Do nothing when NumPy can no longer write to the buffer."""

    def looked_at(self, array: object, event: object) -> None:
        """Do nothing when the buffer is read."""

    def overwritten_outside(self, buffer: object, array: object, site: object, how: str) -> None:
        """Keep the content of the buffer, which is about to be written."""
        self.guard.keep(self.buffer)
