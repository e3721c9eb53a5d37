"""Times of several engines in turns, and what is said of them: minimum, median, ratios, the machine."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 0.05
"""Seconds of a turn that hold more than one run."""
MOST_RUNS = 40
"""In a turn."""
STEADY, SINCE = 0.99, 3
"""Minima are settled once none has fallen below this part of what it was so many rounds before."""
MOST_ROUNDS = 3
"""Times the rounds that were asked for, at most, until minima are settled."""
SETTLE = 0.003
"""Seconds of sleep before a turn: threads of the engine before (OpenMP's, XLA's) spin for a while."""


def nothing() -> None:
    """Nothing to do."""


@dataclass
class Run:
    """One way to do a thing.

    Attributes:
        call: What is timed.
        before: Runs before each call, untimed: puts back what the call uses up.
        enter: Runs before each turn: settings.
        per: Operations in a call; seconds are those of one.
    """

    call: Callable[[], object]
    before: Callable[[], object] = nothing
    enter: Callable[[], object] = nothing
    per: int = 1


@dataclass
class Timed:
    """One thing, on each engine that can do it.

    Attributes:
        case, part, size: What it is, in words.
        runs: By engine.
        largest: Whether there is no larger size.
        notes: What an engine computes wrongly.
        bits: Of which parts results depend on the number of threads or the run; None where nobody asked.
        seconds: What was measured, by engine.
    """

    case: str
    part: str
    size: str
    runs: dict[str, Run]
    largest: bool = False
    notes: dict[str, str] = field(default_factory=dict)
    bits: str | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def turn(self, engine: str, *, keep: bool = True) -> None:
        """Run on `engine` for about `LONGEST`, at least once."""
        run = self.runs[engine]
        run.enter()
        time.sleep(SETTLE)
        kept = self.seconds.setdefault(engine, [])
        begin = time.perf_counter()
        for _ in range(MOST_RUNS):
            run.before()
            start = time.perf_counter()
            run.call()
            end = time.perf_counter()
            if keep:
                kept.append((end - start) / run.per)
            if end - begin > LONGEST:
                break

    def in_turns(self, rounds: int) -> None:
        """Run once a round on each engine; the order of the engines alternates.

        Further rounds follow until no engine's minimum falls any more (see `most_rounds`): on a shared
        machine, a few of them may hold no quiet moment.

        A round before the first is not kept: it compiles and warms. What there is after it is left out of
        later garbage collections: millions of objects of compilers, which a program of one engine has not.
        """
        minima: list[dict[str, float]] = []
        for number in range(most_rounds(rounds) + 1):
            for engine in list(self.runs)[:: 1 if number % 2 else -1]:
                self.turn(engine, keep=number > 0)
            if not number:
                gc.collect()
                gc.freeze()
                continue
            minima.append({engine: min(self.seconds[engine]) for engine in self.runs})
            if number >= rounds and settled(minima):
                break
        gc.unfreeze()


def most_rounds(rounds: int) -> int:
    """Return the most rounds that follow if at least `rounds` are wanted; a few are for a quick look."""
    return MOST_ROUNDS * rounds if rounds > SINCE else rounds


def settled(minima: Sequence[dict[str, float]]) -> bool:
    """True if no engine's minimum has fallen in the last rounds."""
    return len(minima) > SINCE and all(
        minima[-1][engine] >= STEADY * before for engine, before in minima[-1 - SINCE].items()
    )


# ------------------------------------------------------------------------------------ what is said


def duration(seconds: float) -> str:
    """`seconds` with a unit and three digits."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{digits(seconds / scale)} {unit}"
    return f"{digits(seconds / 1e-9)} ns"


def digits(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


LONGEST_CALLS = 20
"""Number of the longest calls whose mean is kept."""


def summary(seconds: list[float]) -> dict[str, Any]:
    """Minimum, median, maximum, the mean of the longest, and of how many."""
    return {
        "min": min(seconds), "median": statistics.median(seconds), "max": max(seconds), "count": len(seconds),
        "longest": statistics.fmean(sorted(seconds)[-LONGEST_CALLS:]),
    }  # fmt: skip


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a table for a terminal: the first column to the left, the others to the right."""
    table = [tuple(row) for row in rows]
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not k else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def load() -> str:
    """The load of the machine."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def machine() -> dict[str, Any]:
    """Cores, processor and versions."""
    from importlib import metadata

    versions = {}
    for name in ("tapedebug", "warp-lang", "numba", "llvmlite", "jax", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "python": platform.python_version(),
        "versions": versions,
    }


def processor() -> str:
    """Return the system's name of its processor."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return platform.machine()
