"""A lock that keeps checks and notebook cells from running at the same time.

A check started from the panel runs in a thread, so that its progress shows and it can be cancelled. Cells run
on the main thread. Both may touch the same tape: while a check runs, the next cell waits for it (an interrupt
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


class ExecutionLock:
    """One lock, held by the running cell or by the running check."""

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
        """A cell is about to run: wait for the running check. Cells nest (magics run cells)."""
        if self._depth == 0:
            self._wait()
        self._depth += 1

    def cell_ends(self, _: object = None) -> None:
        """A cell has ended. IPython also says so for empty cells, of which it announced no start."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0:
            self._lock.release()

    @contextmanager
    def between_cells(self) -> Iterator[bool]:
        """Hold the gate for a moment, if no cell and no check runs: True if so, else False, at once."""
        held = self._lock.acquire(blocking=False)
        try:
            yield held
        finally:
            if held:
                self._lock.release()

    @contextmanager
    def for_check(self, cancel: Callable[[], None], name: str = "another check") -> Iterator[None]:
        """Wait for what runs, then hold the gate. Interrupting a waiting cell calls `cancel`.

        Args:
            cancel: Ends what is done meanwhile, soon.
            name: What those are told that wait for it.
        """
        with self._lock, self.cancelling(cancel):
            self._holder = name
            try:
                yield
            finally:
                self._holder = ""

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Within `for_check`: interrupting a waiting cell calls `cancel`, too."""
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
        """Return what is running, as a status line says it; None if nothing is."""
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
                # The user wants the kernel back: the check ends at its next step, and the loop gets the lock.
                for cancel in list(self._cancellers):
                    cancel()
            else:
                return


execution_lock = ExecutionLock()
