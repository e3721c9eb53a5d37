"""Progress and time limits of diagnoses and checks: displayed while they run, stopped at the deadline."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TextIO

from tapedebug._blas import one_thread
from tapedebug._errors import ArgumentError
from tapedebug._memory_retention import retention
from tapedebug._processor_limit import ProcessorLimit
from tapedebug._time_limit import OutOfTime as OutOfTime
from tapedebug._time_limit import Reading, processor_time

Show = Callable[[str], None]
"""Function that shows a line in place of the previous one; an empty line removes it."""

PATIENCE = 0.5
"""Seconds before anything is shown: shorter work needs no progress line."""

EVERY = 0.1
"""Seconds between two updates of the line."""

GONE = (
    "<style>.jp-OutputArea-child:has(> .jp-OutputArea-output .tapedebug-gone) { display: none }</style>"
    '<span class="tapedebug-gone"></span>'
)
"""HTML that hides its own output: Jupyter cannot remove a single output, and an empty one leaves a gap."""

_cancellations: dict[int, threading.Event] = {}
"""For each thread whose diagnoses can be cancelled, the event that does."""


@contextlib.contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Context in which an event ends a diagnosis of this thread like Ctrl-C, which only the main one gets."""
    thread = threading.get_ident()
    _cancellations[thread] = event
    try:
        yield
    finally:
        del _cancellations[thread]


class Progress:
    """Progress display and time limit of a diagnosis or check.

    Inside the context BLAS uses one thread, and freed memory is retained for the next private copy.

    Args:
        progress: Function that is called with a short text at each step; None shows the text on a terminal or
            in a notebook, if there is one; False shows nothing.
        max_seconds: The time limit of all the work, in seconds that pass or as processor time; None for no
            limit.
        parts: The number of tapes that share the time.
        caller: The function that was called, for error messages.
        doing: The word shown before the step: "diagnosing", "checking".

    Attributes:
        subject: The tape or array that is being diagnosed or checked, for the displayed text.
        max_seconds: The time limit in seconds of its clock; None for no limit.
        now: Returns the time on that clock.

    Raises:
        TypeError: `progress` or `max_seconds` has another type.
        ValueError: `max_seconds` is not positive.
    """

    def __init__(
        self,
        progress: Callable[[str], None] | bool | None = None,
        max_seconds: float | ProcessorLimit | None = None,
        parts: int = 1,
        *,
        caller: str = "diagnose",
        doing: str = "diagnosing",
    ) -> None:
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise ArgumentError(
                f"{caller}: progress is a function of one string, True or False, not {progress!r}"
            )
        self._processor = max_seconds if isinstance(max_seconds, ProcessorLimit) else None
        self.now: Callable[[], float] = time.monotonic
        if isinstance(max_seconds, ProcessorLimit):
            self.now, max_seconds = processor_time, max_seconds.seconds
        if max_seconds is not None and (
            isinstance(max_seconds, bool) or not isinstance(max_seconds, (int, float))
        ):
            raise ArgumentError(f"{caller}: max_seconds is a number of seconds or None, not {max_seconds!r}")
        if max_seconds is not None and not max_seconds > 0:
            raise ValueError(f"{caller}: max_seconds must be positive, not {max_seconds!r}")
        self.max_seconds = max_seconds
        self._waiting = parts
        self.subject = ""
        self._doing = doing
        self._tell = progress if callable(progress) else None
        self._show: Show | None = None if progress is False or self._tell is not None else find_display()
        self._shown_from = time.monotonic()
        self._shown_at = self._shown_from + PATIENCE - EVERY
        self._began = self.now()
        self._until = float("inf") if max_seconds is None else self._began + max_seconds
        self._compared_until = self._until
        self._next = self._shown_at + EVERY
        self._step = ""
        self._visible = False
        self._reading = Reading()
        self._cancelled = _cancellations.get(threading.get_ident())

    def __enter__(self) -> Progress:
        one_thread.__enter__()
        retention.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        retention.__exit__()
        one_thread.__exit__()
        self._next = self._until = float("inf")
        if self._visible and self._show is not None:
            self._visible = False
            self._show("")

    def begin(self, step: str) -> None:
        """Begin a step; `step` describes it in a few words."""
        self._step = step
        if self._tell is not None:
            self._tell(step)
        self._next = 0.0 if self._visible else self._next
        self._reading = Reading()  # a step may take long before its first pulse
        self.pulse()

    def pulse(self) -> None:
        """Update the display and test the deadline; called repeatedly during a long step.

        Raises:
            OutOfTime: The time limit has expired.
            KeyboardInterrupt: The event of `cancelled_by` is set.
        """
        if self._cancelled is not None and self._cancelled.is_set():
            self._cancelled = None  # what was found until now is still to be reported
            raise KeyboardInterrupt
        if (self._processor is None or self._reading.is_due()) and self.now() >= self._until:
            limit = f"max_seconds={self.max_seconds:g}"
            if self._processor is not None:
                limit = f"{self.max_seconds:.2g} s of processor time"
            raise OutOfTime(f"time was up ({limit})")
        if self._show is not None and time.monotonic() >= self._next:
            self._update(self._show)

    def remaining(self) -> float:
        """Return the seconds until the deadline; infinite without one."""
        return self._until - self.now()

    @property
    def counts_compilation(self) -> bool:
        """True if the clock runs while kernels are compiled."""
        return self._processor is None

    @property
    def explains_wrong(self) -> bool:
        """True if `allow_for_explanation` extends the limit."""
        return self._processor is not None and self._processor.longest > self._processor.seconds

    def allow_for_explanation(self) -> None:
        """Extend a limit in processor time because a gradient is wrong."""
        if self._processor is not None and self.explains_wrong:
            self.max_seconds = self._processor.longest
            self._until = self._began + self.max_seconds

    @contextlib.contextmanager
    def share(self, part: float, most: float) -> Iterator[float]:
        """Context of a step that may take `part` of a tape's time; yields its time limit, at most `most`.

        Each tape in turn gets an equal share of what the tapes before it have left of `part` of all time;
        a step after that gets `part` of the time that remains.
        """
        if self.max_seconds is None:
            yield most
            return
        until, now, waiting = self._until, self.now(), self._waiting
        self._waiting = max(0, waiting - 1)

        if waiting:
            last = now + max(0.0, self._began + part * self.max_seconds - now) / waiting
        else:
            last = now + part * max(0.0, until - now)
        self._until = self._compared_until = min(until, last)
        self._until = max(self._until, self._surely_until())
        try:
            yield max(0.0, min(most, 0.5 * (self._compared_until - now)))
        finally:
            self._until, self._compared_until = until, float("inf")

    def has_share(self, part: float) -> bool:
        """True if a step that may take `part` of the time has any left; see `share`."""
        return max(self._until, self._surely_until()) > self.now()

    def _surely_until(self) -> float:
        """Return the end of a share of processor time until its first result: each tape should reach that."""
        return -float("inf") if self._processor is None else self._began + self._processor.longest

    def compared(self) -> None:
        """Note the first result of a step that has a share: from now on its limit is not the longest one."""
        self._until = min(self._until, self._compared_until)

    def _update(self, show: Show) -> None:
        now = time.monotonic()
        if now >= self._shown_at + EVERY:
            what = f"{self._doing} {self.subject}" if self.subject else self._doing
            self._visible, self._shown_at = True, now
            show(f"{what}: {self._step or 'starting'} ({now - self._shown_from:.0f} s)")
        self._next = self._shown_at + EVERY


def find_display() -> Show | None:
    """Return the function that shows a line of progress, in a notebook or on a terminal; None elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        with contextlib.suppress(ImportError):
            return line_below_cell()
        return None
    stream = sys.stderr
    if stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb":
        return _Terminal(stream).show
    return None


def line_below_cell() -> Callable[[str], None]:
    """Return a function that shows a line in place of the previous one; an empty line removes it.

    It is plain text and not a widget: a notebook saved with a closed widget shows "model not found" when it
    is opened again.

    Raises:
        ImportError: IPython is not installed.
    """
    from IPython.display import display

    handle: Any = None

    def show(text: str) -> None:
        nonlocal handle
        if not text and handle is None:
            return
        line = {"text/plain": text} if text else {"text/html": GONE, "text/plain": ""}
        if handle is not None:
            handle.update(line, raw=True)
        else:
            handle = display(line, raw=True, display_id=True)
        if not text:
            handle = None

    return show


class _Terminal:
    """A terminal line that is overwritten repeatedly."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def show(self, text: str) -> None:
        """Replace the line, cut to the width of the terminal: the rest of longer text would remain."""
        room = max(1, shutil.get_terminal_size().columns - 1)
        shown = text if len(text) <= room else text[: room - 1] + "…"
        self.stream.write(f"\r\x1b[2K{shown}")
        self.stream.flush()
