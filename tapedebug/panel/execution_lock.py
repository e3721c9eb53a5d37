"""A lock that keeps checks and notebook cells from running at the same time.

A check started from the panel runs in a thread, so that it can show progress and be cancelled. Cells run on
the main thread. Both may touch the same tape: while a check runs, the next cell waits for it (an interrupt
cancels the check), and while a cell runs, a check waits for the cell.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

BETWEEN_LOOKS = 0.05
"""Seconds after which a waiting check looks again if it was cancelled."""


class ExecutionLock:
    """A lock that is held by the running cell or the running check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._holder = ""
        self._cancellers: list[Callable[[], None]] = []
        self._shells: weakref.WeakSet[Any] = weakref.WeakSet()

    def install(self, shell: InteractiveShell) -> None:
        """Follow the cells of an IPython shell; once for each shell."""
        if shell in self._shells:
            return
        self._shells.add(shell)
        # not pre_execute and post_execute: ipykernel has these around every comm message, too
        shell.events.register("pre_run_cell", self.cell_starts)
        shell.events.register("post_run_cell", self.cell_ends)

    def cell_starts(self, _: object = None) -> None:
        """Wait for the running check before a cell runs. Cells nest (magics run cells)."""
        if self._depth == 0:
            self._wait()
        self._depth += 1

    def cell_ends(self, _: object = None) -> None:
        """Release the lock after a cell. IPython also calls this for empty cells, without a start event."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0:
            self._lock.release()

    @contextmanager
    def between_cells(self) -> Iterator[bool]:
        """Context that holds the lock if no cell or check runs; yields True if so, else False, at once."""
        acquired = self._lock.acquire(blocking=False)
        try:
            yield acquired
        finally:
            if acquired:
                self._lock.release()

    @contextmanager
    def for_check(
        self,
        cancel: Callable[[], None],
        name: str = "another check",
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[bool]:
        """Wait for the running cell or check, then hold the lock. Interrupting a waiting cell calls `cancel`.

        Yields True with the lock; False without it, if the check was cancelled while it waited.

        Args:
            cancel: Function that makes the check end soon.
            name: The name of the check in messages to those that wait for it.
            cancelled: Function that returns True once nobody wants the check any more.
        """
        while not self._lock.acquire(timeout=BETWEEN_LOOKS):
            if cancelled():
                yield False
                return
        try:
            with self.cancelling(cancel):
                self._holder = name
                yield True
        finally:
            self._holder = ""
            self._lock.release()

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Context within `for_check` in which interrupting a waiting cell also calls `cancel`."""
        self._cancellers.append(cancel)
        try:
            yield
        finally:
            self._cancellers.remove(cancel)

    @property
    def busy(self) -> bool:
        """True while a cell or a check runs."""
        return self._lock.locked()

    @property
    def holder(self) -> str | None:
        """Return the name of the running cell or check for a status line; None if there is none."""
        if self.cell_running:
            return "the running cell"
        return (self._holder or "another check") if self.busy else None

    @property
    def cell_running(self) -> bool:
        """True while a cell runs."""
        return self._depth > 0

    def _wait(self) -> None:
        while True:
            try:
                self._lock.acquire()
            except KeyboardInterrupt:
                # The user interrupted: the check ends at its next step, and the loop acquires the lock.
                for cancel in list(self._cancellers):
                    cancel()
            else:
                return


execution_lock = ExecutionLock()
