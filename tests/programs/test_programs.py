"""The page of watched programs is that of the stored measurements, and each loud finding is judged."""

from __future__ import annotations

import pytest

from tests.programs import differences
from tests.programs.catalog import BY_NAME, DRIVERS, PACKAGES, PROGRAMS, REQUIREMENTS
from tests.programs.judgements import JUDGEMENTS
from tests.programs.one import engine_of
from tests.programs.process import ROOT, result_of, stored
from tests.programs.table import PAGE, judgement, load, loud, measure, page, shorter

RESULTS = load()["programs"]


def test_the_page_shows_the_stored_measurements():
    assert PAGE.read_text(encoding="utf-8") == page(load()), "python -m tests.programs --write"


def test_twenty_programs_of_five_packages_are_listed():
    assert len(BY_NAME) == len(PROGRAMS) >= 20
    assert {program.package for program in PROGRAMS} == set(PACKAGES) <= set(REQUIREMENTS)
    assert set(RESULTS) <= set(BY_NAME)


def test_every_driver_is_the_program_of_a_row_or_imported_by_one():
    files = {program.file for program in PROGRAMS if program.file is not None}
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    for file in DRIVERS.glob("*.py"):
        assert file in files or f"from {file.stem} import" in text, file


def test_every_loud_finding_is_judged_and_every_judgement_is_of_one():
    judged = set()
    for name, found in RESULTS.items():
        for finding in loud(found):
            text = judgement(name, finding)
            assert text is not None, (name, finding)
            assert text.startswith(("True: ", "False: "))
            judged.add(text)
    assert judged == set(JUDGEMENTS.values())


def test_errors_of_the_table_are_on_the_page_of_errors():
    text = (ROOT / "docs" / "found-in-the-wild.md").read_text(encoding="utf-8")
    for name, found in RESULTS.items():
        for finding in loud(found):
            if finding["severity"] == "error" and (judgement(name, finding) or "").startswith("True: "):
                assert f"`{finding['rule']}`" in text


def test_operations_that_are_no_launches_are_counted_apart():
    assert engine_of(object()) == "other"


def test_each_difference_between_the_engines_has_a_limitation_of_warp_by_name():
    known = stored(differences.RESULTS)
    assert set(known) <= set(BY_NAME)
    for name, found in known.items():
        assert not found.get("forward"), (name, found["forward"])
        for kernel, item in found.get("adjoint", {}).items():
            assert item["limits"], (name, kernel)
            assert {kind for kind, _ in item["limits"]} <= set(differences.KINDS) - {"adjoint"}, (
                name,
                kernel,
            )


def test_the_page_names_differences_with_their_lines():
    limits = [("loop", 12), ("loop", 15), ("function", 20)]
    kernels = {
        "k": {
            "launches": 2,
            "mirrored": 2,
            "reason": "",
            "forward": "",
            "compared": 1,
            "adjoint": 0.25,
            "array": "x",
            "limits": limits,
        },
        "native": {
            "launches": 1,
            "mirrored": 0,
            "reason": "tiles",
            "forward": "",
            "compared": 0,
            "adjoint": 0.0,
            "limits": [],
        },
    }
    lines = differences.section({"ball": differences.row(kernels)})
    assert "| ball | 2 | 1 | 0 | 1 | 1 |" in lines
    assert lines[-1] == (
        "| ball | `k` | the adjoint of `x`, by 25 % | values of a loop (lines 12, 15); functions without an "
        "adjoint in Warp (line 20) |"
    )


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("name", ["warp_surface_cubes", "warp_nn_conv", "sph_crk"])
def test_a_program_gives_its_row_again(name):
    for needed in ("warp", PACKAGES[BY_NAME[name].package]):
        pytest.importorskip(needed)
    found = measure(BY_NAME[name], watched=True)
    assert "failed" not in found, found
    assert found["verdict"] == RESULTS[name]["verdict"]
    assert {finding["rule"] for finding in found["findings"] if finding["severity"] != "info"} == {
        finding["rule"] for finding in loud(RESULTS[name])
    }


def test_the_time_of_two_runs_is_the_shorter_one_and_failures_stay():
    one, other = {"seconds": 2.0, "verdict": "AGREE"}, {"seconds": 3.0, "verdict": "WRONG"}
    assert shorter(one, other) == {"seconds": 2.0, "verdict": "WRONG"}
    assert (
        shorter(one, {"failed": "no mesh"}) == shorter({"failed": "no mesh"}, other) == {"failed": "no mesh"}
    )


def test_a_process_without_a_result_has_the_last_line_of_its_error():
    assert result_of("tests.programs.one", ["no_such_program"]) == {"failed": "KeyError: 'no_such_program'"}
