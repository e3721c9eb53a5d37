"""The benchmark of diagnoses: a tape is measured, and its tables tell time, memory and what was left out."""

from __future__ import annotations

import pytest

from tests.benchmarks import diagnosing


def test_a_tape_is_diagnosed_within_a_limit_and_told() -> None:
    found = diagnosing.measured(8, 3, 30.0)
    assert found["verdict"] == "AGREE" and found["max_seconds"] == 30.0
    assert found["seconds"] > 0.0 and diagnosing.is_kept(found)
    assert 0.0 < found["verdict_after"] < found["wall"]
    row = diagnosing.of_limits([found]).splitlines()[2]
    assert row.startswith("| 3 × 8 | 30 s | ") and f"| AGREE | {len(found['rules'])} | nothing |" in row


@pytest.mark.parametrize(
    ("limit", "took", "kept"), [(1.0, 1.49, True), (1.0, 1.51, False), (20.0, 23.9, True)]
)
def test_a_limit_may_be_exceeded_by_a_fifth_or_half_a_second(limit: float, took: float, kept: bool) -> None:
    assert diagnosing.is_kept({"max_seconds": limit, "wall": took}) is kept


def test_what_there_was_no_time_for_is_named() -> None:
    coverage = [
        "3 of 3 launches checked end to end; agrees to 3e-6",
        "each gradient was compared in 2 directions only, to keep to 0.2 s",
        "not compared, as time was up: v, k",
        "values and adjoints were not summarised: time was up (max_seconds=1)",
        "not looked for, as time was up: overwrite, seed",
    ]
    found = {"launches": 1000, "elements": 100, "max_seconds": 1.0, "wall": 1.7, "verdict": "AGREE"}
    table = diagnosing.of_limits([found | {"coverage": coverage, "rules": ["nonfinite"]}])
    assert table.splitlines()[2] == (
        "| 1,000 × 100 | 1 s | 1.70 s | EXCEEDED | AGREE | 1 | of the directions of each gradient all but "
        "2 directions; the gradients of v, k; summaries of values; overwrite, seed |"
    )
    assert diagnosing.left_out({"coverage": coverage[-1:], "rules": []}) == ["all 2 rules"]


def test_a_table_tells_time_and_memory_beside_those_of_the_tape() -> None:
    found = {
        "launches": 1000,
        "elements": 100,
        "tape_seconds": 2.0,
        "seconds": 50.0,
        "tape_memory": 3.0,
        "memory": 9.4,
        "verdict": "AGREE",
        "verdict_after": 12.5,
    }
    short = found | {"launches": 10, "tape_seconds": 0.05, "seconds": 1.5, "verdict_after": 0.5}
    left_out = {"launches": 10, "elements": 10**9, "tape_memory": 120_000.0}
    rows = diagnosing.of_tapes([found, left_out], 0.3).splitlines()[2:]
    assert rows[0] == (
        "| 1,000 × 100 | 2.00 s | 50.0 s | 25.0 | 3.00 MB | 9.40 MB | 3.13 | 3.03 | AGREE | 12.5 s |"
    )
    assert "about 120,000 MB" in rows[1] and "not measured" in rows[1]
    goals = diagnosing.of_goals([found, short, left_out], 0.3).splitlines()[2:]
    assert goals[0].endswith("| 25.00 | ≤ 30 | holds |") and goals[1].endswith("| 3.03 | ≤ 3 | MISSED |")
    assert goals[2] == (
        "| seconds until the verdict, tapes of at most 0.1 s: worst (10 × 100) | 0.50 | ≤ 1 | holds |"
    )


def test_a_diagnosis_takes_at_most_three_times_the_memory_of_its_tape() -> None:
    """Launches of 10⁵ elements: the largest ratio of all tapes in the table."""
    least = diagnosing.in_process(*diagnosing.LEAST_TAPE[::-1], memory=True)
    found = diagnosing.in_process(100_000, 10, memory=True)
    any_takes = least["memory"] - least["tape_memory"]
    assert (found["memory"] - any_takes) / found["tape_memory"] <= diagnosing.PEAK_RATIO
