"""The memory of a diagnosis, in times that of its tape: all allocations count, and memory kept for reuse."""

from __future__ import annotations

import tracemalloc

import pytest

from tapedebug.diagnose import diagnose
from tests.benchmarks.diagnosing import PEAK_RATIO, record

LONG_RATIO = 4.0
"""The same for a long tape of tiny arrays, of which trace, summaries and argument tables take most."""


@pytest.mark.parametrize(
    ("launches", "elements", "most"),
    [(10, 300_000, PEAK_RATIO), (60, 100_000, PEAK_RATIO), (4_000, 100, LONG_RATIO)],
)
def test_a_diagnosis_takes_three_times_the_memory_of_its_tape(
    launches: int, elements: int, most: float
) -> None:
    tape, loss = record(1000, 12)  # compiles the kernels and loads the rules
    tape.backward(loss)
    diagnose(tape)
    del tape, loss
    tracemalloc.start()
    try:
        tape, loss = record(elements, launches)
        tape.backward(loss)
        _, own = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        found = diagnose(tape, progress=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.verdict == "AGREE"
    assert own > 4 * elements * 2 * (launches - 2)  # the tape keeps both arrays for each launch
    assert peak <= most * own, f"{peak / own:.2f} times"
