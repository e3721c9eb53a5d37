"""Whether the next launch of many threads wakes others: by how long earlier ones took."""

from __future__ import annotations

BREAK_EVEN = 150e-6
"""Seconds from which a launch is worth waking others."""
SURE = 0.01
"""Seconds after which the first launch is not tried again: what it took was not all memory that was new."""
PATIENCE = 64
"""Most launches that run alone after others gained nothing."""


class Pace:
    """How long launches of one size take, alone and together: which is tried next."""

    __slots__ = ("alone", "patience", "runs", "waits")

    def __init__(self) -> None:
        self.alone = 0.0
        self.runs = 0
        self.waits = 0
        self.patience = 1

    def together(self) -> bool:
        """Whether the next launch should wake others."""
        if self.alone < BREAK_EVEN or (self.runs < 2 and self.alone < SURE):
            return False
        if self.waits:
            self.waits -= 1
            return False
        return True

    def ran_alone(self, seconds: float) -> None:
        """Note a launch on one thread: the shortest, which slowly gives way to what is usual now."""
        self.runs += 1
        if self.runs == 1 or seconds < self.alone:
            self.alone = seconds
        else:
            self.alone += (min(seconds, 2 * self.alone) - self.alone) / 16

    def ran_together(self, seconds: float) -> None:
        """Note a launch with others; where that gained nothing more and more of the next run alone."""
        if seconds < 0.9 * self.alone:
            self.patience = 1
        else:
            self.patience = min(2 * self.patience, PATIENCE)
            self.waits = self.patience
