"""`make check` runs the tests near a change, and says what it leaves out."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts import check
from scripts.near_tests import ImportGraph, near_tests
from tests.processes import ROOT

FILES = {
    "tapedebug/__init__.py": """
        from tapedebug.runtime import launch as launch
        _LAZY = {"report": ("tapedebug.report", None)}
    """,
    "tapedebug/_errors.py": "",
    "tapedebug/runtime/__init__.py": "from tapedebug.runtime.launch import launch as launch",
    "tapedebug/runtime/launch.py": "from tapedebug.runtime.plan import Plan",
    "tapedebug/runtime/plan.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from tapedebug._errors import Wrong
    """,
    "tapedebug/report/__init__.py": "",
    "tests/helper.py": "def made():\n    from tapedebug.runtime.plan import Plan",
    "tests/runtime/test_plans.py": "from tests.helper import made",
    "tests/runtime/test_launch.py": "import tapedebug as wp\nwp.launch(1)",
    "tests/runtime/test_launch_dims.py": "",
    "tests/report/test_report.py": "import tapedebug as wp\nwp.report",
    "tests/report/test_pages.py": 'from pathlib import Path\nPATH = Path("docs/page.md")',
    "tests/scenarios/test_programs.py": "",
    "tests/scenarios/programs/bug.py": "",
    "tests/test_imports.py": "",
}


@pytest.fixture
def graph(tmp_path: Path) -> ImportGraph:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
        path.write_text("\n".join(line[indent:] for line in lines))
    return ImportGraph(tmp_path)


def near(graph: ImportGraph, *changed: str, **limits: int) -> dict[str, int]:
    found = near_tests(graph, changed, **limits).near
    return {path: far for path, far in found.items() if path != "tests/test_imports.py"}


def test_a_changed_test_comes_first_then_the_rules_for_all_files(graph: ImportGraph) -> None:
    found = near_tests(graph, ["tests/runtime/test_plans.py"]).near
    assert list(found) == ["tests/runtime/test_plans.py", "tests/test_imports.py"]


def test_names_lead_to_the_module_that_defines_them(graph: ImportGraph) -> None:
    assert graph.imports["tests.runtime.test_launch"] == {"tapedebug.runtime.launch"}
    assert graph.imports["tests.report.test_report"] == {"tapedebug.report"}
    assert graph.imports["tests.helper"] == {"tapedebug.runtime.plan"}


def test_imports_for_type_checkers_do_not_count(graph: ImportGraph) -> None:
    assert near(graph, "tapedebug/_errors.py") == {}


def test_distance_is_counted_in_imports(graph: ImportGraph) -> None:
    through_launch_and_helper = {"tests/runtime/test_launch.py": 2, "tests/runtime/test_plans.py": 2}
    assert near(graph, "tapedebug/runtime/plan.py") == through_launch_and_helper
    assert near(graph, "tapedebug/runtime/plan.py", rings=1) == {}


def test_tests_named_after_a_module_are_near(graph: ImportGraph) -> None:
    assert near(graph, "tapedebug/runtime/launch.py") == {
        "tests/runtime/test_launch_dims.py": 1,
        "tests/runtime/test_launch.py": 1,
    }


def test_a_hub_leads_to_tests_of_the_room_that_changed(graph: ImportGraph) -> None:
    selection = near_tests(graph, ["tapedebug/_errors.py"], hub=1)
    assert selection.hubs == {}
    selection = near_tests(graph, ["tapedebug/runtime/plan.py"], hub=1)
    assert selection.near.keys() >= {"tests/runtime/test_launch.py", "tests/runtime/test_plans.py"}
    assert selection.hubs == {"tapedebug.runtime.launch": 0, "tests.helper": 0}
    graph.importers["tapedebug.runtime.launch"].add("tests.report.test_report")
    selection = near_tests(graph, ["tapedebug/runtime/plan.py"], hub=1)
    assert "tests/report/test_report.py" not in selection.near
    assert selection.hubs["tapedebug.runtime.launch"] == 1


def test_files_that_are_not_imported(graph: ImportGraph) -> None:
    assert near(graph, "docs/page.md") == {"tests/report/test_pages.py": 1}
    assert near(graph, "tests/scenarios/programs/bug.py") == {"tests/scenarios/test_programs.py": 1}
    assert near_tests(graph, ["docs/page.md", "LICENSE"]).unread == ["LICENSE"]


def test_every_test_module_is_near_itself() -> None:
    graph = ImportGraph(ROOT, ["tapedebug/runtime", "tests/runtime"])
    paths = [graph.paths[module] for module in graph.tests]
    assert "tests/runtime/test_launch.py" in paths
    assert all(near_tests(graph, [path]).near[path] == 0 for path in paths)


@pytest.mark.parametrize(
    ("head", "fork", "dirty", "base"),
    [("b", "a", False, "a"), ("b", "a", True, "a"), ("b", "b", True, "HEAD"), ("b", "", False, "HEAD~1")],
)
def test_the_commit_that_is_compared_with(head: str, fork: str, dirty: bool, base: str) -> None:
    assert check.base_of(head, fork, dirty) == base


def test_what_was_left_out_is_said(graph: ImportGraph) -> None:
    graph.importers["tapedebug.runtime.launch"].add("tests.report.test_report")
    selection = near_tests(graph, ["tapedebug/runtime/plan.py", "LICENSE"], hub=1)
    chosen = list(selection.near)[:2]
    assert check.left_out(selection, chosen, len(graph.tests)) == [
        "test modules near, but not among the 2 nearest: 1",
        "test modules more than 2 imports away: 4",
        "of these, 1 import tapedebug.runtime.launch, which imports what changed, as nearly everything does",
        "files that no Python test imports or names: LICENSE",
        "browser tests, documentation, packaging",
    ]


def test_no_test_begins_when_the_time_is_over(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text("def test_a(): pass\ndef test_b(): pass\n")

    def run(until: float) -> str:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "scripts.time_limit",
                f"--until={until}",
                str(tmp_path),
            ],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "2 passed" in run(time.time() + 600)
    late = run(time.time() - 1)
    assert "2 skipped" in late
    assert "     2 tests of test_two.py" in late
