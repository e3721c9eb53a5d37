"""The time limit of the running diagnosis, for slow steps far below it: compilations and private copies.

A limit that is tested between experiments is exceeded by whatever a single one takes. So the steps that
take long test it as well: `pulse` raises if it has expired, `ensure` if a step of a known duration would
exceed it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Protocol

from tapedebug._errors import TapedebugError


class OutOfTime(TapedebugError):
    """The time limit of a diagnosis or a check has expired.

    Attributes:
        step: The step that was not begun because it would have exceeded the limit; empty if it has expired.
    """

    step: str = ""


READ_EVERY = 2e-3
"""Seconds in which a pulse reads a clock of processor time once: that takes as long as a small launch."""


class Reading:
    """Tells when a clock that is slow to read should be read again."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        """True if it was not read in the last `READ_EVERY` seconds; then it is read now."""
        now = time.monotonic()  # the only clock that is read without a call of the system
        if now < self._next:
            return False
        self._next = now + READ_EVERY
        return True


class TimeLimit(Protocol):
    """A time limit with a deadline."""

    @property
    def counts_compilation(self) -> bool:
        """True if its clock runs while kernels are compiled."""
        ...

    def now(self) -> float:
        """Return the time on the clock of the limit, in seconds."""
        ...

    def remaining(self) -> float:
        """Return the seconds until the deadline; infinite without one."""
        ...

    def pulse(self) -> None:
        """Test the deadline.

        Raises:
            OutOfTime: It has passed.
        """
        ...

    def compared(self) -> None:
        """Note that there is a first result, for which the limit may be longer."""
        ...


_limits: list[tuple[int, TimeLimit]] = []
_compiling = 0.0
"""The processor time that this process has spent compiling kernels, in seconds."""


def processor_time() -> float:
    """Return the processor time of this process in seconds, without that of `compilation`."""
    return time.process_time() - _compiling


@contextlib.contextmanager
def compilation() -> Iterator[None]:
    """Context in which a kernel is compiled, after which it is in the cache.

    Limits of processor time do not count it: else the first diagnosis of a program would tell least.
    """
    global _compiling
    began = processor_time()
    try:
        yield
    finally:
        _compiling += processor_time() - began


@contextlib.contextmanager
def enforced(limit: TimeLimit) -> Iterator[None]:
    """Context in which `pulse` and `ensure` test a limit, in this thread."""
    entry = (threading.get_ident(), limit)
    _limits.append(entry)
    try:
        yield
    finally:
        _limits.remove(entry)


def _current() -> TimeLimit | None:
    """Return the innermost limit of this thread."""
    if not _limits:
        return None
    thread = threading.get_ident()
    return next((limit for owner, limit in reversed(_limits) if owner == thread), None)


def now() -> float:
    """Return the time on the clock of this thread's limit; that of `time.monotonic` if there is none.

    Deadlines within a limit are times of this clock: it may be that of the processor.
    """
    limit = _current()
    return time.monotonic() if limit is None else limit.now()


def remaining() -> float:
    """Return the seconds until the deadline of this thread's limit; infinite if there is none."""
    limit = _current()
    return float("inf") if limit is None else limit.remaining()


def compared() -> None:
    """Note that there is a first result, for which the limit of this thread may be longer."""
    limit = _current()
    if limit is not None:
        limit.compared()


def pulse() -> None:
    """Test the limit of this thread, if there is one.

    Raises:
        OutOfTime: It has expired.
    """
    limit = _current()
    if limit is not None:
        limit.pulse()


class _Share:
    """A limit that ends earlier than the one around it, if there is one.

    Args:
        outer: The limit around it.
        seconds: The seconds until this one ends.
    """

    def __init__(self, outer: TimeLimit, seconds: float) -> None:
        self._outer = outer
        self._until = outer.now() + seconds
        self._reading = Reading()

    def compared(self) -> None:
        """Note a first result in the limit around it."""
        self._outer.compared()

    @property
    def counts_compilation(self) -> bool:
        """True if the clock of the limit around it runs while kernels are compiled."""
        return self._outer.counts_compilation

    def now(self) -> float:
        """Return the time on the clock of the limit around it."""
        return self._outer.now()

    def remaining(self) -> float:
        """Return the seconds until this limit ends."""
        return min(self._until - self.now(), self._outer.remaining())

    def pulse(self) -> None:
        """Test both limits.

        Raises:
            OutOfTime: One of them has expired.
        """
        self._outer.pulse()
        if self._reading.is_due() and self.now() >= self._until:
            raise OutOfTime("the share of the time for this step was up")


@contextlib.contextmanager
def shared(part: float) -> Iterator[None]:
    """Context of a step that may take a part of the time that the limit of this thread leaves, if any."""
    limit = _current()
    if limit is None:
        yield
        return
    with enforced(_Share(limit, part * max(0.0, limit.remaining()))):
        yield


def ensure(seconds: float, step: str) -> None:
    """Test if the compilation of a kernel fits into the limit of this thread.

    Args:
        seconds: The estimated duration.
        step: The compilation, in a few words.

    Raises:
        OutOfTime: It does not fit.
    """
    limit = _current()
    if limit is not None and limit.counts_compilation:
        limit.pulse()
        _require(limit, f"{step} would take about {seconds:.2g} s", seconds, step)


def ensure_processor(seconds: float, step: str) -> None:
    """Test if a step fits into the limit of this thread, if that is one of processor time.

    Args:
        seconds: The least processor time that it takes, without that of compilations.
        step: The step, in a few words.

    Raises:
        OutOfTime: It does not fit.
    """
    limit = _current()
    if limit is not None and not limit.counts_compilation:
        _require(limit, f"{step} would take at least {seconds:.2g} s", seconds, step)


def _require(limit: TimeLimit, why: str, seconds: float, step: str) -> None:
    """Raise `OutOfTime` if a step does not fit into a limit; `why` is the first part of the message."""
    left = limit.remaining()
    if seconds > left:
        error = OutOfTime(f"{why}, and {max(0.0, left):.2g} s were left")
        error.step = step
        raise error
