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


class TimeLimit(Protocol):
    """A time limit with a deadline."""

    def remaining(self) -> float:
        """Return the seconds until the deadline; infinite without one."""
        ...

    def pulse(self) -> None:
        """Test the deadline.

        Raises:
            OutOfTime: It has passed.
        """
        ...


_limits: list[tuple[int, TimeLimit]] = []


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
        self._until = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds until this limit ends."""
        return min(self._until - time.monotonic(), self._outer.remaining())

    def pulse(self) -> None:
        """Test both limits.

        Raises:
            OutOfTime: One of them has expired.
        """
        self._outer.pulse()
        if time.monotonic() >= self._until:
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
    """Test if a step fits into the limit of this thread.

    Args:
        seconds: The estimated duration.
        step: The step, in a few words.

    Raises:
        OutOfTime: It does not fit.
    """
    limit = _current()
    if limit is None:
        return
    limit.pulse()
    left = limit.remaining()
    if seconds > left:
        error = OutOfTime(f"{step} would take about {seconds:.2g} s, and {max(0.0, left):.2g} s were left")
        error.step = step
        raise error
