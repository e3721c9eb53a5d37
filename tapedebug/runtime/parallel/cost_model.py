"""Decide from measured times whether the next launch uses other threads."""

from __future__ import annotations

from time import perf_counter

BREAK_EVEN = 150e-6
"""Seconds from which a launch is worth waking others."""
AWAKE_EVEN = 40e-6
"""Seconds from which it is worth sharing with others that are awake."""
SOON = 40e-6
"""Seconds after a launch within which another one is one of many: it wakes others for those that follow."""
AWAKE = 80e-6
"""Seconds after a launch together for which others are surely awake: they look for the next one
(`compiler.work_queue`)."""
SURE = 0.01
"""Seconds after which the first launch is not tried again: what it took was not all memory that was new."""
PATIENCE = 64
"""Most launches that run alone after others gained nothing."""


class _Last:
    """When the last launch was done, and the last one together."""

    __slots__ = ("done", "together")

    def __init__(self) -> None:
        self.done = self.together = -1.0


_last = _Last()


class CostModel:
    """How long launches of one size take, alone and together: which is tried next."""

    __slots__ = ("alone", "patience", "runs", "waits", "wakes")

    def __init__(self) -> None:
        self.alone = 0.0
        self.runs = 0
        self.waits = 0
        self.wakes = False
        self.patience = 1

    def together(self) -> bool:
        """Whether the next launch should wake others."""
        if self.runs < 2 and self.alone < SURE:
            return False
        now = perf_counter()
        self.wakes = now - _last.together > AWAKE
        if self.alone < BREAK_EVEN and (self.alone < AWAKE_EVEN or (self.wakes and now - _last.done > SOON)):
            return False
        if self.waits:
            self.waits -= 1
            return False
        return True

    def ran_alone(self, seconds: float) -> None:
        """Note a launch on one thread: the shortest, which slowly gives way to what is usual now."""
        _last.done = perf_counter()
        self.runs += 1
        if self.runs == 1 or seconds < self.alone:
            self.alone = seconds
        else:
            self.alone += (min(seconds, 2 * self.alone) - self.alone) / 16

    def ran_together(self, seconds: float) -> None:
        """Note a launch with others; where that gained nothing more and more of the next run alone.

        One that woke them has to gain less: the next one, for which they are awake, has something of it.
        """
        _last.done = _last.together = perf_counter()
        if seconds < (1.0 if self.wakes else 0.9) * self.alone:
            self.patience = 1
        elif not self.wakes or self.alone >= BREAK_EVEN:
            self.patience = min(2 * self.patience, PATIENCE)
            self.waits = self.patience
