"""Counters that all tapes of the process share, whichever engine recorded them."""

from __future__ import annotations

import itertools


class Clock:
    """Counts the events of the process: what happened to tapes, values and gradients, in order.

    Attributes:
        now: The time of the last event.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0

    def tick(self) -> int:
        """Go on, and return the time."""
        self.now += 1
        return self.now


clock = Clock()
tape_ids = itertools.count(1)
"""The ids of tapes, each given once."""
