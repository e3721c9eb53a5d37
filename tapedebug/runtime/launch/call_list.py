"""Ordered lists of calls: consecutive compiled calls run in one pass over a table, others one by one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import neg
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.compiler.objects import Entry
from tapedebug.runtime.launch.bounds_precheck import BoundsPrecheck
from tapedebug.runtime.launch.plan import OFTEN, Runner
from tapedebug.runtime.parallel.parallel_entry import ParallelEntry

if TYPE_CHECKING:
    from tapedebug.runtime.tape.record import Record

MOST = 1 << 22
"""Maximum number of threads, over several rows, that run between two interruption points."""

LONG = 0.01
"""Estimated seconds that compiled calls run between two interruption points."""

FEW = 4
"""Number of consecutive compiled calls from which the compiled loop is used; loading it has a cost."""

BACK = 4
"""Estimated upper bound on the run time of an adjoint, in multiples of that of its launch."""

DOUBLE = 3
"""The same of the float64 twin of a launch: half the threads in a vector, longer functions."""

MEASURED = 2
"""Number of passes after which the launches of a list have been measured; see `CostModel.is_measured`."""

Pulse = Callable[[], None] | None
Call = tuple[Runner, int, int | None]
"""A runner, its number of threads, and the address of its arguments; None if it handles all rows itself."""
Words = np.ndarray[Any, np.dtype[np.int64]]
Seconds = np.ndarray[Any, np.dtype[np.float64]]

_NO_STAMPS: Words = np.empty(0, np.int64)
_NO_SECONDS: Seconds = np.empty(0)


class CallList:
    """A sequence of calls; each runs for all rows before the next one.

    A call can be replaced between runs, like an item of a list.

    Args:
        runs: The runners.
        threads: Number of threads of each call.
        addresses: Addresses of their arguments; None for a call that handles all rows.
        stride: Bytes from the arguments of one row to those of the next.
        seconds: Estimated seconds of each call, if known.
        held: An object that must live as long as the list.

    Attributes:
        done: Number of the call at which the last `run` stopped.
    """

    def __init__(
        self,
        runs: Sequence[Runner],
        threads: Sequence[int],
        addresses: Sequence[int | None],
        *,
        stride: int = 0,
        seconds: Sequence[float] | None = None,
        held: Any = None,
    ) -> None:
        self._runs, self._threads, self._addresses = list(runs), list(threads), list(addresses)
        self._stride = stride
        self._seconds = seconds
        self._held = held
        self._direct: list[Runner] | None = None  # the runners, once they have been called often
        self._passes = 0
        self._starts: list[int] = []  # first calls of the parts that run at once, then the end of the last
        self._unmeasured: list[int] = []  # calls for which measurements have to tell how they run
        self._measuring = MEASURED  # passes in which that is found out
        self.done = 0
        self._table: Words = np.empty((0, 4), np.int64)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Call]:
        return zip(self._runs, self._threads, self._addresses, strict=True)

    def __getitem__(self, number: int) -> Call:
        return self._runs[number], self._threads[number], self._addresses[number]

    def __setitem__(self, number: int, call: Call) -> None:
        self._runs[number], self._threads[number], self._addresses[number] = call
        self._starts = []

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._table.nbytes

    def prepare(self) -> bool:
        """Determine how the calls run, unless that is known; then a call for few threads is its entry.

        Returns:
            False if some of them may run in another way once they have been measured.
        """
        if not self._starts:
            self._prepare()
        elif self._unmeasured:
            self._look_again()
        return not self._unmeasured

    def _prepare(self) -> None:
        """Determine how the calls run, from their arguments, which are packed by now."""
        for number, (run, threads, at) in enumerate(self):
            if type(run) is BoundsPrecheck and at is not None and run.is_shown(threads, at):
                self._runs[number] = run.plain
        self._measuring = MEASURED
        self._resolve(range(len(self._runs)))
        self._divide()

    def _look_again(self) -> None:
        """Look again at calls that may have been measured by now."""
        before = len(self._unmeasured)
        self._resolve(self._unmeasured)
        if len(self._unmeasured) < before:
            self._divide()

    def _measure(self) -> None:
        """Look again at calls before a pass; after the last pass that measures, the rest stays as it is."""
        self._look_again()
        self._measuring -= 1
        if not self._measuring:
            self._unmeasured = []

    def _divide(self) -> None:
        """Write the table, and divide the calls into parts: several compiled calls, or one of any kind."""
        calls = len(self._runs)
        self._direct, self._passes = None, 0
        if calls < FEW:  # each call is a part
            self._starts = [*range(calls + 1)]
            return
        table = self._table = np.empty((calls, 4), np.int64)
        table[:, 0] = [run.address if type(run) is Entry else 0 for run in self._runs]
        table[:, 1] = self._threads
        table[:, 2] = [at or 0 for at in self._addresses]
        if None in self._addresses:
            table[:, 0] *= [at is not None for at in self._addresses]
        table[:, 3] = self._stride
        spent = np.zeros(calls + 1)
        if self._seconds is not None:
            np.cumsum(self._seconds, out=spent[1:])
        self._starts, start = [], 0
        for other in [*np.flatnonzero(table[:, 0] == 0).tolist(), calls]:
            while start < other:
                together = int(np.searchsorted(spent, spent[start] + LONG, "right"))
                stop = min(other, max(together - 1, start + 1))
                self._starts += range(start, stop) if stop - start < FEW else [start]
                start = stop
            self._starts.append(other)
            start = other + 1

    def _resolve(self, numbers: Iterable[int]) -> None:
        """Replace the parallel entries of calls by their entries where these run all threads."""
        unmeasured = []
        for number in numbers:
            run, threads, at = self[number]
            if type(run) is not ParallelEntry:
                continue
            if threads < run.least:
                self._runs[number] = run.entry.settled()
            elif at is not None:
                most = 0.0 if self._seconds is None else BACK * self._seconds[number]
                found, open_yet = run.whole_entry(threads, at, most)
                if found is not None:
                    self._runs[number] = found
                elif open_yet:
                    unmeasured.append(number)
        self._unmeasured = unmeasured

    def run(self, first: int = 0, last: int | None = None, *, rows: int = 1, pulse: Pulse = None) -> None:
        """Run calls `first … last-1`.

        Args:
            first: By default 0.
            last: By default the number of calls.
            rows: Number of rows.
            pulse: Called every few milliseconds; may raise to cancel.
        """
        if not self._starts:
            self._prepare()
        elif self._unmeasured and not first:
            self._measure()
        starts, end = self._starts, len(self._runs) if last is None else last
        self.done = first
        for part in range(bisect_right(starts, first) - 1 if first else 0, len(starts) - 1):
            start, stop = max(first, starts[part]), min(end, starts[part + 1])
            if start >= stop:
                break
            if pulse is not None:
                pulse()
            if stop - start > 1:
                self._drive(start, stop, rows, pulse)
            else:
                run, threads, at = self[start]
                for row in range(1 if at is None else rows):
                    run(0, threads, (at or 0) + row * self._stride)
            self.done = stop

    def run_timed(self, times: Times) -> None:
        """Run all calls, and store the time of each in `times`."""
        if not self._starts:
            self._prepare()
        elif self._unmeasured:
            self._measure()
        starts = self._starts
        took: list[float] = []
        stamps = 0
        if len(starts) <= len(self._runs):  # NumPy takes as long for this as a launch: single ones have none
            if times.stamps.size != len(self._runs) + len(starts):
                # For each part, one stamp more than it has calls: its start, and the end of each call.
                times.stamps = np.zeros(len(self._runs) + len(starts), np.int64)
            stamps = times.stamps.ctypes.data
        elif self._passes < OFTEN:
            self._passes += 1
            if self._passes == OFTEN:
                self._direct = [run.direct() if type(run) is Entry else run for run in self._runs]
        runs = self._direct or self._runs
        before = perf_counter()
        for part, start in enumerate(starts[:-1]):
            stop = starts[part + 1]
            if stop - start > 1:
                self._drive(start, stop, 1, None, stamps + 8 * (start + part))
            else:
                runs[start](0, self._threads[start], self._addresses[start] or 0)
            now = perf_counter()
            took.append(now - before)
            before = now
        times.starts, times.took = starts, took

    def _drive(self, start: int, stop: int, rows: int, pulse: Pulse, stamps: int = 0) -> None:
        from tapedebug.compiler.driver import driver

        drive, table = driver(), self._table
        if rows == 1 or int(table[start:stop, 1].sum()) * rows <= MOST:
            drive(stop - start, table.ctypes.data + 32 * start, rows, stamps)
            return
        for entry, threads, first, stride in table[start:stop].tolist():
            several = max(1, MOST // max(1, threads))
            for row in range(0, rows, several):
                if pulse is not None:
                    pulse()
                part = np.array([(entry, threads, first + row * stride, stride)], dtype=np.int64)
                drive(1, part.ctypes.data, min(several, rows - row), 0)


class Times:
    """Seconds of each record in the last pass, computed on first use.

    It does not refer to records: records refer to it, and a dropped tape should be freed at once.

    Args:
        indices: Indices of the records, in the order of the calls: descending.

    Attributes:
        indices: The same.
        starts: The first call of each part that ran at once, then the number of calls.
        took: Seconds of each part.
        stamps: Processor counts at the start of a part and at the end of each of its calls; empty if each
            part is one call.
    """

    def __init__(self, indices: list[int]) -> None:
        self.indices = indices
        self._known: tuple[list[float], Seconds] = ([], _NO_SECONDS)
        self.starts: list[int] = []
        self.took: list[float] = []
        self.stamps: Words = _NO_STAMPS

    @property
    def nbytes(self) -> int:
        """Bytes of the stamps."""
        return self.stamps.nbytes

    def of(self, record: Record) -> float | None:
        """Return the seconds of a record; None if no pass has finished."""
        took, known = self._known
        if took is not self.took:
            known = self._seconds()
            self._known = self.took, known
        place = bisect_left(self.indices, -record.index, key=neg)
        found = place < known.size and self.indices[place] == record.index
        return float(known[place]) if found else None

    def _seconds(self) -> Seconds:
        found = np.zeros(len(self.indices))
        for part, took in enumerate(self.took):
            start, stop = self.starts[part : part + 2]
            counts = np.diff(self.stamps[start + part : stop + part + 1]).astype(np.float64)
            whole = counts.sum()
            found[start:stop] = took * counts / whole if whole > 0 else took / (stop - start)
        return found
