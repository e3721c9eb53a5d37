"""The memory of a diagnosis, in times that of its tape: all allocations count, and memory kept for reuse."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tapedebug.diagnose import diagnose
from tests.benchmarks.diagnosing import PEAK_RATIO, record


@pytest.mark.parametrize(("launches", "elements"), [(10, 300_000), (60, 100_000), (1_000, 100), (4_000, 100)])
def test_a_diagnosis_takes_three_times_the_memory_of_its_tape(launches: int, elements: int) -> None:
    tape, loss = record(1000, 12)  # compiles the kernels and loads the rules
    tape.backward(loss)
    diagnose(tape)
    del tape, loss
    gc.collect()  # Python reuses freed tuples, which would not count
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
    assert peak <= PEAK_RATIO * own, f"{peak / own:.2f} times"
