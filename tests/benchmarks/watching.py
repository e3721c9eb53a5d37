"""The cost of watching NVIDIA Warp: time and memory a launch, beside Warp alone, interleaved.

    make bench
    python -m tests.benchmarks.watching --rounds 20

A round runs the same launches once watched and once not, so that a busy machine disturbs both alike. The goal
is 30 µs a launch for small arrays. Without warp-lang it prints that there is nothing to compare with.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tapedebug as td

SIZES = {8: 500, 1_000: 500, 100_000: 50, 1_000_000: 20}
"""The elements of an array, with the number of launches."""


def measured(rounds: int) -> list[str]:
    """Return a line for each size of arrays."""
    from tests.watch import programs

    wp: Any = programs.wp
    lines = []
    for size, launches in SIZES.items():
        x = wp.array(np.ones(size, np.float32), dtype=float, requires_grad=True)
        y = wp.zeros(size, dtype=float, requires_grad=True)

        def run(x: Any = x, y: Any = y, size: int = size, launches: int = launches) -> float:
            with wp.Tape():
                started = time.perf_counter()
                for _ in range(launches):
                    wp.launch(programs.square, size, [x], [y])
                return (time.perf_counter() - started) / launches

        alone, watched, stored = [], [], 0
        run()
        for _ in range(rounds):
            alone.append(run())
            with td.watch_warp() as session:
                watched.append(run())
            stored = session.tapes[0].stored_bytes
        lines.append(_line(size, alone, watched, stored))
    return lines


def _line(size: int, alone: list[float], watched: list[float], stored: int) -> str:
    def text(of: Callable[[list[float]], float]) -> str:
        one, other = of(alone) * 1e6, of(watched) * 1e6
        return f"{one:.1f} µs alone, {other:.1f} watched: {other - one:+.1f}"

    return (
        f"{size:>9,} elements: {text(statistics.median)} (minima {text(min)}); "
        f"{stored / (4 * size):.1f} × an array stored"
    )


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    if importlib.util.find_spec("warp") is None:
        print("watching: warp-lang is not installed")
        return
    print("\n".join(measured(options.rounds)))


if __name__ == "__main__":
    main()
