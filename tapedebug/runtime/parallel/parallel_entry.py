"""Run the entry of a kernel over its threads: one by one, in lockstep, on several processors."""

from __future__ import annotations

from ctypes import string_at
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.runtime.parallel.schedule import LaunchSchedule, Scheduler

LARGE = 256
"""Threads from which a launch is looked at more closely."""
LOOPING = 32
"""The same of kernels whose threads run loops: each does more."""


def least_of(kernel: Any) -> int:
    """From how many threads on the launches of a kernel are looked at more closely."""
    return LOOPING if kernel.analysis.loops else LARGE


class ParallelEntry:
    """Runs threads `lo … hi-1` with the packed arguments at an address, as an entry does.

    Attributes:
        entry: The entry.
        least: From how many threads on it is looked at more closely.
    """

    __slots__ = ("_last", "entry", "kernel", "least", "survey")

    def __init__(self, entry: Any, kernel: Any) -> None:
        self.entry, self.kernel, self.least = entry, kernel, least_of(kernel)
        self.survey: Scheduler | None = None
        self._last: tuple[int, bytes, LaunchSchedule | None] = (0, b"", None)

    @property
    def address(self) -> int:
        """Where the entry's machine code starts."""
        return int(self.entry.address)

    def __call__(self, lo: int, hi: int, args: int) -> None:
        """Run threads."""
        if hi < self.least or lo:
            self.entry(lo, hi, args)
            return
        survey = self.survey
        if survey is None:
            survey = self._survey()
            if survey is None:
                self.entry(lo, hi, args)
                return
        raw = string_at(args, survey.size)
        threads, same, course = self._last
        if course is None or threads != hi or same != raw:
            course = survey.course(hi, raw)
            self._last = hi, raw, course
        course.run(args, raw)

    def alone(self, threads: int, args: int, seconds: float) -> Any:
        """The entry that runs so many threads with these arguments; None where they should run in chunks.

        Args:
            threads: How many.
            args: The address of the packed arguments.
            seconds: How long it may take, where that is not known better.
        """
        survey = None if threads < self.least else self.survey or self._survey()
        if survey is None:
            return self.entry.settled()
        course = survey.course(threads, string_at(args, survey.size))
        return course.entry.settled() if course.is_short(seconds) else None

    def _survey(self) -> Scheduler | None:
        """What is known of the entry; None where the kernel was compiled anew, and is another now."""
        from tapedebug.runtime.parallel.schedule import Scheduler  # small programs do without

        variant = self.kernel.variant_of(self.entry)
        if variant is not None:
            self.survey = Scheduler(self.kernel, variant, self.entry)
        return self.survey


def entry_of(run: Any) -> Any:
    """What runs the same over few threads."""
    return run.entry.settled() if type(run) is ParallelEntry else run


def sized(run: Any, threads: int) -> Any:
    """What runs the same over so many threads: over few, the entry itself."""
    return run.entry.settled() if type(run) is ParallelEntry and threads < run.least else run
