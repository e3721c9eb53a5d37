"""What runs an entry over its threads: few of them at once, many in lockstep and on several processors."""

from __future__ import annotations

from ctypes import string_at
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.runtime._courses import Survey

LARGE = 256
"""Threads from which a launch is looked at more closely."""


class Large:
    """Runs threads `lo … hi-1` with the packed arguments at an address, as an entry does.

    Attributes:
        entry: The entry.
    """

    __slots__ = ("entry", "kernel", "survey")

    def __init__(self, entry: Any, kernel: Any) -> None:
        self.entry, self.kernel = entry, kernel
        self.survey: Survey | None = None

    @property
    def address(self) -> int:
        """Where the entry's machine code starts."""
        return int(self.entry.address)

    def __call__(self, lo: int, hi: int, args: int) -> None:
        """Run threads."""
        if hi < LARGE or lo:
            self.entry(lo, hi, args)
            return
        survey = self.survey or self._survey()
        if survey is None:
            self.entry(lo, hi, args)
            return
        raw = string_at(args, survey.size)
        survey.course(hi, raw).run(args, raw)

    def compiled(self, threads: int, args: int, *, many: bool = False) -> Any:
        """The one entry that does the same for these arguments; this where there is none.

        Args:
            threads: How many.
            args: The address of the packed arguments.
            many: Whether there are many such launches, so that nobody else is to be woken for one.
        """
        survey = self.survey or self._survey()
        if survey is None:
            return self.entry.settled()
        course = survey.course(threads, string_at(args, survey.size))
        if course.jobs is None or (many and not course.jobs.ordered):
            return course.entry.settled()
        return self

    def _survey(self) -> Survey | None:
        """What is known of the entry; None where the kernel was compiled anew, and is another now."""
        from tapedebug.runtime._courses import Survey  # small programs do without

        variant = self.kernel.variant_of(self.entry)
        if variant is not None:
            self.survey = Survey(self.kernel, variant, self.entry)
        return self.survey


def entry_of(run: Any) -> Any:
    """What runs the same over few threads."""
    return run.entry.settled() if type(run) is Large else run


def sized(run: Any, threads: int, args: int | None = None, *, many: bool = False) -> Any:
    """What runs the same over so many threads: over few, the entry itself.

    Where the address of the packed arguments is given, it is an entry wherever that does the same; `many` is
    as in `Large.compiled`.
    """
    if type(run) is not Large:
        return run
    if threads < LARGE:
        return run.entry.settled()
    return run if args is None else run.compiled(threads, args, many=many)
