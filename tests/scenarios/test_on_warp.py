"""The page of watched scenarios is that of the stored results, and each difference is explained."""

from __future__ import annotations

import pytest

from tests.scenarios import harness
from tests.scenarios.agreement import PAGE, differences, load, page
from tests.scenarios.differences import BY_PROGRAM, BY_RULE

RESULTS = load()
PROGRAMS = {program.name: program for program in harness.programs()}


def test_the_page_shows_the_stored_results() -> None:
    assert PAGE.read_text("utf-8") == page(RESULTS), "python -m tests.scenarios.on_warp --write"


def test_all_programs_that_import_warp_were_run() -> None:
    assert {name for name, program in PROGRAMS.items() if program.as_warp} <= set(RESULTS["programs"])
    assert set(RESULTS["programs"]) <= set(PROGRAMS)


def test_every_difference_is_explained_and_every_explanation_is_of_one() -> None:
    used = set()
    for row in RESULTS["programs"].values():
        for item in differences(row):
            assert item.reason is not None, item
            used.add(item.reason)
    assert used == {*BY_PROGRAM.values(), *BY_RULE.values()}


def test_differences_are_seen() -> None:
    row = RESULTS["programs"]["c13_drone_states_swapped"]
    assert not differences(row)
    (error,) = [item for item in row["watched"]["findings"] if item["severity"] == "error"]
    other = {**row, "watched": {**row["watched"], "findings": [{**error, "line": 7}]}}
    assert [(item.rule, item.side) for item in differences(other)] == [
        ("overwrite", "as-warp"),
        ("overwrite", "watched"),
    ]
    wrong = {label: {**numbers, "wrong": 0.0} for label, numbers in error["gradients"].items()}
    other = {**row, "watched": {**row["watched"], "findings": [{**error, "gradients": wrong}]}}
    assert {item.side for item in differences(other)} == {"both"}


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["c11_heat_probe_keeps_gradient", "c13_tide_in_a_struct", "c26_alike_peak_load"]
)
def test_a_program_gives_its_row_again(name: str) -> None:
    pytest.importorskip("warp").config.quiet = True
    from tests.scenarios.on_warp import measure

    assert differences(measure(PROGRAMS[name])) == []
