"""The table of releases of Warp has the stored counts of each release, without failures."""

from __future__ import annotations

import pytest

from tests.watch import releases


def test_the_page_has_the_stored_counts() -> None:
    page = releases.PAGE.read_text(encoding="utf-8")
    assert f"{releases.BEGIN}{releases.table(releases.load())}{releases.END}" in page


def test_each_release_was_run_and_nothing_failed() -> None:
    found = releases.load()
    assert [name for name in releases.releases() if name not in found] == []
    assert {name: each["failures"] for name, each in found.items() if each["failed"]} == {}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("…\n5 failed, 347 passed, 4 skipped, 1 error in 18.4s (0:03:04)", (347, 4, 6)),
        ("…\n129 passed, 1 warning in 37.17s\n", (129, 0, 0)),
        ("Segmentation fault", (0, 0, 1)),
        ("", (0, 0, 1)),
    ],
)
def test_counts_are_those_of_the_last_line(output: str, expected: tuple[int, int, int]) -> None:
    assert tuple(releases.counts_of(output).values()) == expected
