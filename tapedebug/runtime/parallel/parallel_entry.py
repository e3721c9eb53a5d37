"""Runners of a kernel's entry over its threads: one by one, in lockstep, or on several processors."""

from __future__ import annotations

from ctypes import string_at
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.runtime.parallel.schedule import LaunchSchedule, Scheduler

LARGE = 256
"""Number of threads from which a launch is scheduled."""
LOOPING = 32
"""The same for kernels with loops, whose threads do more work."""


def least_of(kernel: Any) -> int:
    """Return the number of threads from which launches of a kernel are scheduled."""
    return LOOPING if kernel.analysis.loops else LARGE


class ParallelEntry:
    """A runner with the interface of an entry; it schedules launches of many threads.

    Attributes:
        entry: The entry.
        least: Number of threads from which a launch is scheduled.
    """

    __slots__ = ("_last", "entry", "kernel", "least", "scheduler")

    def __init__(self, entry: Any, kernel: Any) -> None:
        self.entry, self.kernel, self.least = entry, kernel, least_of(kernel)
        self.scheduler: Scheduler | None = None
        self._last: tuple[int, bytes, LaunchSchedule | None] = (0, b"", None)

    @property
    def address(self) -> int:
        """Address of the entry's machine code."""
        return int(self.entry.address)

    def __call__(self, lo: int, hi: int, args: int) -> None:
        """Run threads `lo … hi-1`; `args` is the address of the packed arguments."""
        if hi < self.least or lo:
            self.entry(lo, hi, args)
            return
        scheduler = self.scheduler
        if scheduler is None:
            scheduler = self._make_scheduler()
            if scheduler is None:
                self.entry(lo, hi, args)
                return
        raw = string_at(args, scheduler.size)
        threads, same, schedule = self._last
        if schedule is None or threads != hi or same != raw:
            schedule = scheduler.schedule(hi, raw)
            self._last = hi, raw, schedule
        schedule.run(args, raw)

    def whole_entry(self, threads: int, args: int, most: float) -> tuple[Any, bool]:
        """Return the entry that can run all threads with these arguments; None if they should run in chunks.

        Args:
            threads: Number of threads.
            args: Address of the packed arguments.
            most: An upper bound on its seconds, on any number of threads, used if it was not measured; 0 if
                unknown.

        Returns:
            The entry, and True if a measurement may still change the answer.
        """
        scheduler = None if threads < self.least else self.scheduler or self._make_scheduler()
        if scheduler is None:
            return self.entry.settled(), False
        schedule = scheduler.schedule(threads, string_at(args, scheduler.size))
        short = schedule.is_short(most)
        return schedule.entry.settled() if short else None, short is None

    def _make_scheduler(self) -> Scheduler | None:
        """Return the scheduler of the entry; None if the kernel has been recompiled since."""
        from tapedebug.runtime.parallel.schedule import Scheduler  # small programs skip it

        variant = self.kernel.variant_of(self.entry)
        if variant is not None:
            self.scheduler = Scheduler(self.kernel, variant, self.entry)
        return self.scheduler


def sized(run: Any, threads: int) -> Any:
    """Return the runner for this number of threads: for few threads, the entry itself."""
    return run.entry.settled() if type(run) is ParallelEntry and threads < run.least else run
