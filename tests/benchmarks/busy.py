"""Launches while four processes spin beside them: none may wait for threads that do not run.

A launch shares the processors with whoever wants them, and how long it then waits is the scheduler's choice:
what takes microseconds alone takes milliseconds once its turn is over. So a Python loop that takes as long as
the launch is measured beside it: a launch may take 20 times its idle time, or twice as long as such a loop.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from tests.benchmarks import bound
from tests.benchmarks.bound import BACKWARD, FORWARD
from tests.benchmarks.cases import CASES
from tests.benchmarks.engines import ALONE, OURS
from tests.benchmarks.figures import Figures, Found
from tests.benchmarks.timing import Timed

SPINNERS = 4
SECONDS = 1.0
"""Launches of each series."""
LOOP = "a Python loop"
IDLE, BUSY = "alone", "beside busy processes"
SUBJECTS = (("double", 1_000), ("sine", 100_000), ("sine", 4_000_000), ("springs", 300), ("heat", 2048))


def pairs(figures: Figures) -> Iterator[tuple[str, str, Found, Found]]:
    """A kernel, its size, and the figures alone and beside busy processes."""
    grouped = figures.grouped()
    for (case, part, size), found in grouped.items():
        what, _, state = part.partition(", ")
        if case == "busy" and state == BUSY:
            yield what, size, grouped[case, f"{what}, {IDLE}", size], found


@contextlib.contextmanager
def spinning(count: int = SPINNERS) -> Iterator[None]:
    """So many processes that never wait."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.3)
        yield
    finally:
        for other in others:
            other.kill()
        for other in others:
            other.wait()


def repeated(call: Callable[[], object], seconds: float) -> list[float]:
    """Seconds of each call, for so long, and at least of ten."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 10 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def loop_of(seconds: float) -> Callable[[], object]:
    """A Python loop that takes so long where nothing else runs."""
    count = 100_000
    once = min(repeated(lambda: sum(range(count)), 0.05)) / count
    whole = range(max(1, int(seconds / once)))
    return lambda: sum(whole)


def measured(
    engines: Any,
    threads: int | None,
    seconds: float = SECONDS,
    say: Callable[[str], Any] = lambda _: None,
) -> Iterator[Timed]:
    """Launches forward, and the reverse passes of their tapes, alone and beside spinning processes."""
    for name, count in SUBJECTS:
        launch = engines.bound(CASES[name].make(count))[OURS]
        for part in (FORWARD, BACKWARD):
            say(f"beside busy processes: {name} {part}, {CASES[name].says(count)}")
            if part == BACKWARD:
                launch.record()
            yield from _both(name, part, CASES[name].says(count), getattr(launch, part), threads, seconds)


def _both(
    name: str, part: str, size: str, call: Callable[[], object], threads: int | None, seconds: float
) -> Iterator[Timed]:
    ways = {
        OURS: (bound.number_of_threads(threads), call),
        ALONE: (bound.number_of_threads(1), call),
    }
    found = {state: Timed("busy", f"{name} {part}, {state}", size, {}, True) for state in (IDLE, BUSY)}
    for state, others in ((IDLE, contextlib.nullcontext()), (BUSY, spinning())):
        with others:
            for engine, (enter, run) in ways.items():
                enter()
                run()
                found[state].seconds[engine] = repeated(run, seconds)
            if state == IDLE:
                ways[LOOP] = (lambda: None, loop_of(median(found[IDLE].seconds[OURS])))
                found[IDLE].seconds[LOOP] = repeated(ways[LOOP][1], seconds)
    yield from found.values()
