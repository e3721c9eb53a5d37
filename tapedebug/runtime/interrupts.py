"""Delay Ctrl-C until work of a few milliseconds is finished."""

from __future__ import annotations

# The functions of `signal` convert to enums and back, which costs 10 µs in each reverse pass.
from _signal import getsignal, signal  # type: ignore[import-not-found, unused-ignore]
from signal import SIGINT
from threading import get_ident, main_thread
from types import FrameType


class deferred:
    """Context manager that delays a keyboard interrupt until the end of the block.

    Python delivers it to the main thread only, so in other threads there is nothing to delay.
    """

    __slots__ = ("_arrived", "_handler")

    def __enter__(self) -> None:
        self._arrived: list[tuple[int, FrameType | None]] = []
        handler = self._handler = getsignal(SIGINT) if get_ident() == main_thread().ident else None
        if callable(handler):
            signal(SIGINT, self._arrive)

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append((number, frame))

    def __exit__(self, *error: object) -> None:
        handler = self._handler
        if callable(handler):
            signal(SIGINT, handler)
            if self._arrived:
                handler(*self._arrived[0])
