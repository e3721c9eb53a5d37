"""The pace at which unfinished diagnoses are shown: so rarely that it takes little of their time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.trace import Trace

BETWEEN_UPDATES = 0.3
"""Shortest time in seconds between two updates while a tape is diagnosed."""

UPDATES = 10.0
"""The same in times of what the last update took, so that updates take less than a tenth of the time."""


class UpdatePace:
    """Shows an unfinished diagnosis, unless that was done a moment ago.

    Args:
        show: Shows the trace of the tape with the verdict and the findings so far.
    """

    def __init__(self, show: Callable[[Trace], Any]) -> None:
        self._show = show
        self._next = 0.0

    def __call__(self, trace: Trace) -> None:
        """Show a trace, or do nothing."""
        began = time.monotonic()
        if began >= self._next:
            self._show(trace)
            ended = time.monotonic()
            self._next = ended + max(BETWEEN_UPDATES, UPDATES * (ended - began))
