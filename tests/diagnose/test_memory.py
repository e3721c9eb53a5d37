"""The memory of a diagnosis, in times that of its tape: all allocations count, and memory kept for reuse."""

from __future__ import annotations

import pytest

from tests.benchmarks.diagnosing import PEAK_RATIO, allocated


@pytest.mark.parametrize(("launches", "elements"), [(10, 300_000), (60, 100_000), (1_000, 100), (2_000, 100)])
def test_a_diagnosis_takes_three_times_the_memory_of_its_tape(launches: int, elements: int) -> None:
    found = allocated(elements, launches)
    own, peak = found["tape_memory"], found["memory"]
    assert found["verdict"] == "AGREE"
    assert own > 4e-6 * elements * 2 * (launches - 2)  # the tape keeps both arrays for each launch
    assert peak <= PEAK_RATIO * own, f"{peak / own:.2f} times"
