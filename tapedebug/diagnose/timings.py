"""Measures the steps of a diagnosis, and estimates beforehand how long they will take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tapedebug._dataclass import dataclass
from tapedebug.trace import Launch, Timing, Trace

END_TO_END = "end-to-end check"
"""The step that gives the verdict."""

PER_OPERATION = 5e-6
"""Seconds that a rule takes to visit each operation of a tape once."""

PER_OBSERVED = 1e-4
"""Seconds that a replay takes for each operation whose values are observed, beyond those of the operation."""

PER_OBSERVED_BYTE = 2e-9
"""Seconds that a replay takes for each byte of the values that it observes."""

TWIN = 2.0
"""The duration of a launch in float64, in times that of the program's."""

PER_REPLAYED, PER_REPLAYED_ARRAY, PER_REPLAYED_BYTE = 3e-6, 1.5e-5, 3e-10
"""Seconds that a replay takes for each operation, array, and byte of its memory, beyond the launches."""


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a step: runs of its tape, and work besides.

    Attributes:
        runs: Forward runs that take as long.
        observed: Runs that observe the values of every operation.
        visits: Visits of every operation by code that reads the trace.
        seconds: Seconds of work that does not grow with the tape.
    """

    runs: float = 0.0
    observed: float = 0.0
    visits: float = 1.0
    seconds: float = 0.0


READS_TRACE = Cost()
"""A rule that looks at the trace, and at experiments that rules share."""

FOLLOWS_DATA = Cost(visits=15.0)
"""A rule that follows the data flow through the trace."""


PROFILE = Cost(4.0, 2.0)
"""A forward and a reverse run that observe all values and adjoints."""


class StepTimer:
    """Measures the steps of the diagnosis of one tape.

    A step inside another is measured by itself: its time is not part of the outer one's. So the times of all
    steps add up to the time of the diagnosis.

    Args:
        timings: The list that the measurements are added to, in the order in which steps begin.
    """

    def __init__(self, timings: list[Timing]) -> None:
        self._timings = timings
        self._inner: list[float] = []

    @contextmanager
    def measure(self, step: str, estimate: float | None = None) -> Iterator[None]:
        """Context of a step; a step that was measured before is added to its earlier measurement.

        Args:
            step: The code of a rule, or the experiment in a few words.
            estimate: The seconds that it is expected to take; None if unknown.
        """
        timing = next((known for known in self._timings if known.step == step), None)
        if timing is None:
            timing = Timing(step=step, estimate=estimate)
            self._timings.append(timing)
        elif timing.estimate is not None and estimate is not None:
            timing.estimate += estimate
        self._inner.append(0.0)
        began = time.perf_counter()
        completed = False
        try:
            yield
            completed = True
        finally:
            passed = time.perf_counter() - began
            timing.seconds += passed - self._inner.pop()
            timing.completed = timing.completed and completed
            if self._inner:
                self._inner[-1] += passed


def seconds_per_run(trace: Trace) -> float | None:
    """Return the estimated duration of a forward run in float64; None if unknown.

    Launches take as long as in the program, and a replay sets up private memory besides.
    """
    by_kernel: dict[object, list[Launch]] = {}
    for launch in trace.launches:
        if launch.seconds is not None:
            by_kernel.setdefault((launch.kernel, launch.name), []).append(launch)
    if not by_kernel:
        return None
    launches = TWIN * sum(len(each) * _typical(each) for each in by_kernel.values())
    memory = sum(array.stop - array.start for array in trace.arrays) * PER_REPLAYED_BYTE
    return launches + memory + len(trace.launches) * PER_REPLAYED + len(trace.arrays) * PER_REPLAYED_ARRAY


def _typical(launches: list[Launch]) -> float:
    """Return the typical duration of launches of one kernel, without the compilation in the first of them.

    The median of many does not contain it. Of few launches the fastest counts, or an adjoint if it was
    faster: adjoints are timed after their compilation, and seldom take less time than their launch.
    """
    found = [launch.seconds for launch in launches if launch.seconds is not None]
    if len(found) > 2:
        return _median(found)
    return min([*found, *(launch.backward_seconds for launch in launches if launch.backward_seconds)])


def version_bytes(trace: Trace) -> int:
    """Return the bytes of all versions of all arrays together."""
    size = [array.stop - array.start for array in trace.arrays]
    return sum(size[version.array] for version in trace.versions)


def _median(values: list[float]) -> float:
    """Return the median; `statistics` and NumPy's load modules for it that take as long as a small rule."""
    ordered = sorted(values)
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def estimated(trace: Trace, cost: Cost, seconds: float | None) -> float | None:
    """Return the estimated duration of a step in seconds; None if unknown.

    Args:
        trace: The tape.
        cost: The runs of the tape.
        seconds: The duration of a forward run.
    """
    own = cost.seconds + len(trace.launches) * (PER_OPERATION * cost.visits + PER_OBSERVED * cost.observed)
    if cost.observed:
        own += cost.observed * PER_OBSERVED_BYTE * version_bytes(trace)
    if not cost.runs:
        return own
    return None if seconds is None else own + cost.runs * seconds
