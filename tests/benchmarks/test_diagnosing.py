"""The benchmark of diagnoses: a tape with a time limit is measured, and its table tells what was left out."""

from __future__ import annotations

import pytest

from tests.benchmarks import diagnosing


def test_a_tape_is_diagnosed_within_a_limit_and_told() -> None:
    found = diagnosing.measured(8, 3, 30.0)
    assert found["verdict"] == "AGREE" and found["max_seconds"] == 30.0
    assert found["seconds"] > 0.0 and diagnosing.is_kept(found)
    row = diagnosing.of_limits([found]).splitlines()[2]
    assert row.startswith("| 3 × 8 | 30 s | ") and "| kept | AGREE | " in row and row.endswith("| nothing |")


@pytest.mark.parametrize(
    ("limit", "took", "kept"), [(1.0, 1.49, True), (1.0, 1.51, False), (20.0, 23.9, True)]
)
def test_a_limit_may_be_exceeded_by_a_fifth_or_half_a_second(limit: float, took: float, kept: bool) -> None:
    assert diagnosing.is_kept({"max_seconds": limit, "wall": took}) is kept


def test_steps_that_were_not_completed_are_named() -> None:
    timings = [["end-to-end check", 0.1, 0.2, True], ["overwrite", 3.0, 1.0, False]]
    found = {"launches": 1000, "elements": 100, "max_seconds": 1.0, "wall": 1.7, "verdict": "NOT CHECKED"}
    table = diagnosing.of_limits([found | {"timings": timings}])
    assert table.splitlines()[2] == (
        "| 1,000 × 100 | 1 s | 1.70 s | EXCEEDED | NOT CHECKED | 1 of 2 | overwrite |"
    )
