"""Launches while four processes spin beside them: none may wait for threads that do not run.

A launch shares the processors with whoever wants them, and how long it then waits is the scheduler's choice:
what takes microseconds alone takes milliseconds once its turn is over. So a Python loop that takes as long as
the launch is measured beside it: a launch may take 20 times its idle time, or 1.5 times as long as the loop.

A process is interrupted as often in a second whether its calls are long or short, so the longest calls of
each in the same time are compared. The one longest call is chance: in eleven such comparisons of launches
with loops it took 0.5 to 1.6 times as long as the longest of the loop, while the means of the twenty longest
were within 0.9 and 1.2 (four kernels, load 4 to 6 with the spinning ones). Launches and loops take turns, so
that other work disturbs both.
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
SECONDS = 2.0
"""Seconds of each series beside busy processes; half of that alone."""
TURNS = 16
"""The number of turns of a series beside busy processes."""
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


def repeated(call: Callable[[], object], seconds: float, least: int = 10) -> list[float]:
    """Seconds of each call, for so long, and at least of so many."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
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
    idle, busy = (Timed("busy", f"{name} {part}, {state}", size, {}, True) for state in (IDLE, BUSY))
    for engine, (enter, run) in ways.items():
        enter()
        run()
        idle.seconds[engine] = repeated(run, seconds / 2)
    ways[LOOP] = (lambda: None, loop_of(median(idle.seconds[OURS])))
    idle.seconds[LOOP] = repeated(ways[LOOP][1], seconds / 2)
    with spinning():
        for turn in range(TURNS):
            for engine in list(ways)[:: 1 if turn % 2 else -1]:
                enter, run = ways[engine]
                enter()
                busy.seconds.setdefault(engine, []).extend(repeated(run, seconds / TURNS, 2))
    yield from (idle, busy)
