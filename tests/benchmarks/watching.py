"""The cost of watching NVIDIA Warp: time and memory a launch, beside Warp alone, interleaved.

    make bench
    python -m tests.benchmarks.watching --rounds 20

A round runs the same launches once watched and once not, so that a busy machine disturbs both alike. Each
launch is timed alone: the 5th percentile is near the time of an idle machine. The processor time is that of
the whole loop, with the copies of what the tape found and with garbage collection. The goal is 30 µs a launch
for small arrays. Without warp-lang it prints that there is nothing to compare with.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

import tapedebug as td

SIZES = {8: 400, 1_000: 400, 100_000: 60, 1_000_000: 20}
"""The elements of an array, with the number of launches of one tape."""


class Times:
    """The times of launches, in µs."""

    def __init__(self) -> None:
        self.each: list[float] = []
        self.processor: list[float] = []

    def percentile(self, part: float) -> float:
        """Return a percentile of the times of single launches."""
        return float(np.percentile(self.each, part))

    def beside(self, alone: Times) -> str:
        """Return by how much launches cost more than those of Warp alone."""

        def text(of: Callable[[Times], float]) -> str:
            return f"{of(alone):.1f} alone, {of(self):.1f} watched: {of(self) - of(alone):+.1f}"

        return (
            f"median {text(lambda t: t.percentile(50))} µs; "
            f"5th percentile {text(lambda t: t.percentile(5))}; "
            f"processor time, least of the rounds: {text(lambda t: min(t.processor))}"
        )


def measured(rounds: int) -> list[str]:
    """Return a line for each size of arrays."""
    from tests.watch import programs

    wp: Any = programs.wp
    lines = []
    for size, launches in SIZES.items():
        x = wp.array(np.ones(size, np.float32), dtype=float, requires_grad=True)
        y = wp.zeros(size, dtype=float, requires_grad=True)

        def run(times: Times, x: Any = x, y: Any = y, size: int = size, launches: int = launches) -> None:
            kernel, inputs, outputs = programs.square, [x], [y]
            with wp.Tape():
                began = process_time()
                for _ in range(launches):
                    started = perf_counter()
                    wp.launch(kernel, size, inputs, outputs)
                    times.each.append((perf_counter() - started) * 1e6)
                times.processor.append((process_time() - began) / launches * 1e6)

        alone, watched, stored = Times(), Times(), 0
        run(Times())
        for number in range(rounds):
            for kind in (alone, watched) if number % 2 else (watched, alone):
                with td.watch_warp() if kind is watched else contextlib.nullcontext() as session:
                    run(kind)
                if session is not None:
                    stored = session.tapes[0].stored_bytes
        lines.append(
            f"{size:>9,} elements: {watched.beside(alone)}; {stored / (4 * size):.1f} × an array stored"
        )
    return lines


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
