"""Counters that all tapes of the process share, whichever engine recorded them."""

from __future__ import annotations

import itertools


class Clock:
    """Counter that orders the events of the process: those of tapes, values and gradients.

    Attributes:
        now: The time of the last event.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0

    def tick(self) -> int:
        """Advance the clock and return the new time."""
        self.now += 1
        return self.now


clock = Clock()
tape_ids = itertools.count(1)
"""Unique ids for tapes."""
