"""Ctrl-C at a better moment: work of milliseconds is finished first."""

from __future__ import annotations

import threading

# The functions of `signal` turn everything into enums and back: 10 µs in each reverse pass.
from _signal import getsignal, signal  # type: ignore[import-not-found, unused-ignore]
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT
from types import FrameType


@contextmanager
def deferred() -> Iterator[None]:
    """Hold a keyboard interrupt back until the block is done; then let it happen.

    Python delivers it to the main thread only, so elsewhere there is nothing to hold back.
    """
    handler = getsignal(SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal(SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal(SIGINT, handler)
        if arrived:
            handler(*arrived[0])
