"""What a batch runs: compiled launches of all rows in one call, anything else as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tapedebug.compiler.objects import Entry
from tapedebug.runtime._large import entry_of
from tapedebug.runtime._rows import Words
from tapedebug.runtime.plan import Runner

MOST = 1 << 22
"""Threads that run before somebody may interrupt."""

Pulse = Callable[[], None] | None
Call = tuple[Runner, int, int | None]
"""What runs, its threads, and where among the words its arguments begin; None of what works on all rows."""
Table = np.ndarray[Any, np.dtype[np.int64]]


class RowCalls:
    """Calls in the order in which they run, each for all rows before the next.

    Args:
        calls: What to run.
        words: (rows, words), the packed arguments.
    """

    def __init__(self, calls: Iterable[Call], words: Words) -> None:
        self.words = words  # alive as long as the tables that point there
        self.start: int = words.ctypes.data
        self.stride: int = words.strides[0]
        self.parts: list[Table | Call] = []
        together: list[tuple[int, int, int, int]] = []
        for given, threads, at in calls:
            run = entry_of(given)  # rows are many already
            if at is not None and type(run) is Entry:
                together.append((run.address, threads, self.start + 8 * at, self.stride))
                continue
            self._close(together)
            self.parts.append((run, threads, at))
        self._close(together)

    def _close(self, together: list[tuple[int, int, int, int]]) -> None:
        if together:
            self.parts.append(np.array(together, dtype=np.int64))
            together.clear()

    def run(self, count: int, pulse: Pulse) -> None:
        """Run everything for the first `count` rows; `pulse` is called every few milliseconds."""
        for part in self.parts:
            if pulse is not None:
                pulse()
            if isinstance(part, np.ndarray):
                _drive(part, count, pulse)
                continue
            run, threads, at = part
            if at is None:
                run(0, threads, 0)
                continue
            for row in range(count):
                run(0, threads, self.start + 8 * at + row * self.stride)


def _drive(table: Table, count: int, pulse: Pulse) -> None:
    from tapedebug.compiler.driver import driver

    drive = driver()
    if int(table[:, 1].sum()) * count <= MOST:
        drive(len(table), table.ctypes.data, count)
        return
    for entry, threads, first, stride in table.tolist():
        several = max(1, MOST // max(1, threads))
        for row in range(0, count, several):
            if pulse is not None:
                pulse()
            part = np.array([(entry, threads, first + row * stride, stride)], dtype=np.int64)
            drive(1, part.ctypes.data, min(several, count - row))
