"""A cost model that decides from measured times whether the next launch uses helper threads."""

from __future__ import annotations

from time import perf_counter

BREAK_EVEN = 150e-6
"""Seconds of a launch from which waking helpers pays off."""
AWAKE_EVEN = 40e-6
"""Seconds of a launch from which sharing it with awake helpers pays off."""
SERIES_EVEN = 80e-6
"""Seconds of a launch from which sharing it with awake helpers pays off where it could also run with others
in one call of compiled code."""
SOON = 40e-6
"""Seconds after a launch within which the next counts as part of a series and wakes helpers for the rest."""
AWAKE = 300e-6
"""Seconds after a parallel launch during which helpers are certainly awake: they poll for the next job
(`compiler.work_queue.IDLE`)."""
SURE = 0.01
"""Seconds from which a single sequential run suffices: page faults on new memory do not explain its time."""
PATIENCE = 64
"""Maximum number of sequential launches after a parallel one that was not faster."""


class _Last:
    """End times of the last launch and of the last parallel launch."""

    __slots__ = ("done", "together")

    def __init__(self) -> None:
        self.done = self.together = -1.0


_last = _Last()


class CostModel:
    """Measured times of launches of one size, from which it chooses sequential or parallel execution."""

    __slots__ = ("alone", "patience", "runs", "waits", "wakes")

    def __init__(self) -> None:
        self.alone = 0.0
        self.runs = 0
        self.waits = 0
        self.wakes = False
        self.patience = 1

    @property
    def is_measured(self) -> bool:
        """True if its sequential launches tell how long one takes."""
        return self.runs >= 2 or self.alone >= SURE

    def together(self) -> bool:
        """True if the next launch should run in parallel."""
        if not self.is_measured:
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
        """Record a sequential launch: keep the shortest time, which slowly adapts to longer recent ones."""
        _last.done = perf_counter()
        self.runs += 1
        if self.runs == 1 or seconds < self.alone:
            self.alone = seconds
        else:
            self.alone += (min(seconds, 2 * self.alone) - self.alone) / 16

    def ran_together(self, seconds: float) -> None:
        """Record a parallel launch; if it was not faster, an increasing number of launches run sequentially.

        A launch that woke the helpers need not gain as much: the next one benefits, since they are awake.
        """
        _last.done = _last.together = perf_counter()
        if seconds < (1.0 if self.wakes else 0.9) * self.alone:
            self.patience = 1
        elif not self.wakes or self.alone >= BREAK_EVEN:
            self.patience = min(2 * self.patience, PATIENCE)
            self.waits = self.patience
