"""Retention of freed memory while a diagnosis or check runs, for its next private copy of a tape.

Each experiment runs on a private copy, and one is freed before the next is made. Without retention the
operating system clears all its pages again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class _Retention:
    """Context in which freed memory is retained; `on_end` is called when the last one ends.

    Attributes:
        contexts: The number of contexts that have begun and not ended.
        on_end: Called when the last one ends.
        on_release: Called where a diagnosis goes on with less memory than it has taken so far.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.contexts = 0
        self.on_end: list[Callable[[], None]] = []
        self.on_release: list[Callable[[], None]] = []

    def release(self) -> None:
        """Return retained memory to the operating system."""
        for call in self.on_release:
            call()

    def __enter__(self) -> None:
        with self._lock:
            self.contexts += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.contexts -= 1
            last = not self.contexts
        if last:
            for call in self.on_end:
                call()


retention = _Retention()
"""The retention of this process."""
