"""Measures the steps of a diagnosis, and estimates beforehand how long they will take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tapedebug._dataclass import dataclass
from tapedebug.trace import Timing, Trace

END_TO_END = "end-to-end check"
"""The step that gives the verdict."""

PER_OPERATION = 5e-6
"""Seconds that a rule takes for each operation of a tape, even if it replays nothing."""

PER_OBSERVED = 1e-4
"""Seconds that a replay takes for each operation whose values are observed, beyond those of the operation."""


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a step, in runs of its tape.

    Attributes:
        runs: Forward runs that take as long.
        observed: Runs that observe the values of every operation.
    """

    runs: float = 0.0
    observed: float = 0.0


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
    """Return the estimated duration of a forward run, from the launches of the program; None if unknown.

    Launches of one kernel count with their median: the first of them may have been compiled.
    """
    by_kernel: dict[object, list[float]] = {}
    for launch in trace.launches:
        if launch.seconds is not None:
            by_kernel.setdefault((launch.kernel, launch.name), []).append(launch.seconds)
    if not by_kernel:
        return None
    return sum(len(each) * _median(each) for each in by_kernel.values())


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
    own = len(trace.launches) * (PER_OPERATION + PER_OBSERVED * cost.observed)
    if not cost.runs:
        return own
    return None if seconds is None else own + cost.runs * seconds
