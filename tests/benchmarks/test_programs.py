"""The benchmark of real programs: its runs, its goals, the programs of the notebooks, and the page."""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks import notebook_programs, page, programs
from tests.benchmarks.engines import ROOT
from tests.benchmarks.programs import DIAGNOSED, HERE, WARP, WATCHED, Notebook

SCRIPT = """
import sys
import numpy as np
import warp as wp

@wp.kernel
def square(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])

x = wp.array(np.arange(4.0), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(square, dim=4, inputs=[x], outputs=[loss])
tape.backward(loss)
assert sys.argv[1:] == ["--steps", "3"], sys.argv
"""


@dataclass(frozen=True)
class Script:
    """A program of the test."""

    text: str
    arguments: str = "--steps 3"
    name: str = "script"
    package: str = "test"

    def script(self, folder: Path) -> Path:
        """Write the program."""
        path = folder / "script.py"
        path.write_text(self.text, encoding="utf-8")
        return path


def test_a_program_runs_cold_and_warm_with_its_arguments() -> None:
    found = programs.measure(Script(SCRIPT), 1, (HERE, DIAGNOSED))
    assert found["failed"] == {}
    assert found["verdict"] == {DIAGNOSED: "AGREE"}
    for part in ("used", "wall"):
        assert set(found[part]) == {HERE, DIAGNOSED}
        assert all(set(states) == {"cold", "warm"} for states in found[part].values())
    assert found["used"][DIAGNOSED]["cold"] > found["used"][DIAGNOSED]["warm"] > found["used"][HERE]["warm"]


def test_a_program_that_fails_is_told_and_not_run_again() -> None:
    found = programs.measure(Script("import warp\nraise ValueError('no such mesh')", ""), 1, (HERE,))
    assert found["failed"] == {HERE: "ValueError: no such mesh"}
    assert found["used"] == {HERE: {}}
    assert next(programs.rows({"mesh": found}))[3] == "fails"


def test_a_diagnosis_that_writes_no_result_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "raise RuntimeError('no verdict')"]
    monkeypatch.setattr(programs, "command", lambda *_: command)
    found = programs.measure(Script(SCRIPT), 0, (DIAGNOSED,))
    assert found["failed"] == {DIAGNOSED: "RuntimeError: no verdict"}


def times(warp: float, diagnosed: float) -> dict:
    """Measurements of a program, of which only two ways are known."""
    used = {WARP: {"warm": warp, "cold": 9.0}, DIAGNOSED: {"warm": diagnosed, "cold": 3.0}}
    return {"package": "test", "failed": {}, "verdict": {DIAGNOSED: "AGREE"}, "used": used, "wall": used}


def test_goals_are_the_worst_and_the_middle_row() -> None:
    found = programs.goals({"a": times(1.0, 1.1), "b": times(1.0, 3.2), "c": times(2.0, 1.0)})
    assert [(round(value, 3), holds) for _, value, _, holds in found] == [(3.2, False), (1.1, True)]
    assert "(b)" in found[0][0]
    assert programs.goals({}) == []
    row = next(programs.rows({"b": times(1.0, 3.2)}))
    assert row == (
        "b",
        "test",
        "1.00 s",
        "",
        "",
        "3.20 s",
        "3.20",
        "",
        "",
        "9.00 s",
        "3.00 s",
        "0.33",
        "AGREE",
    )


def test_a_diagnosis_that_fails_misses_a_goal_and_its_times_do_not_count() -> None:
    failed = {**times(1.0, 9.0), "failed": {DIAGNOSED: "MemoryError"}}
    found = programs.goals({"a": times(1.0, 1.1), "b": failed})
    assert [(name, round(value, 3), holds) for name, value, _, holds in found] == [
        ("with its diagnosis ÷ Warp, warm: worst (a)", 1.1, True),
        ("with its diagnosis ÷ Warp, warm: median", 1.1, True),
        ("diagnoses that fail (b)", 1, False),
    ]


def test_fifteen_programs_or_more_are_measured_and_shown() -> None:
    assert len(programs.ROWS) >= 15
    kept = programs.stored()
    assert set(kept["programs"]) <= set(programs.ROWS)
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.replaced(text, programs.section(kept), page.markers("programs")) == text


@pytest.mark.parametrize("row", [row for row in programs.ROWS.values() if isinstance(row, Notebook)])
def test_programs_of_notebooks_are_for_warp(row: Notebook, tmp_path: Path) -> None:
    text = row.script(tmp_path).read_text(encoding="utf-8")
    names = {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert "warp" in names and not names & {"tapedebug", "IPython", "matplotlib.pyplot"}
    assert "wp.Tape()" in text or "wp.Tape(**options)" in text
    assert "diagnose" not in text and "on_overwrite" not in text


def test_statements_that_need_a_missing_name_are_left_out(tmp_path: Path) -> None:
    cells = [
        "import tapedebug as wp\nfrom tapedebug.autograd import gradcheck\n%load_ext tapedebug",
        "check = gradcheck(f, 1)\nprint(check)\nfor check in (1, 2):\n    print(check)",
        "%%tape --on-overwrite ignore --name t --loss loss\nlaunch(a, on_overwrite='warn')",
        "def train():\n    tape = record()\n    print(wp.diagnose(tape))\n    return tape",
        "try:\n    shown = wp.visualize.render(t)\nexcept RuntimeError:\n    shown = t\nshown",
        "panel.run()\noptions = {'x': 1, 'on_overwrite': 'ignore'}",
    ]
    path = tmp_path / "n.ipynb"
    data = {"cells": [{"cell_type": "code", "source": cell} for cell in cells]}
    path.write_text(json.dumps(data), encoding="utf-8")
    assert notebook_programs.program(path).split("\n") == [
        "import warp as wp",
        "import warp.optim",
        "for check in (1, 2):",
        "    print(check)",
        "with wp.Tape() as t:",
        "    launch(a)",
        "t.backward(loss)",
        "",
        "def train():",
        "    tape = record()",
        "    return tape",
        "options = {'x': 1}",
        "",
    ]


def test_a_notebook_computes_on_this_engine_what_it_shows() -> None:
    found = programs.measure(programs.ROWS["dynamic-loops"], 0, (HERE, DIAGNOSED))
    assert found["failed"] == {}
    assert found["verdict"][DIAGNOSED] == "AGREE"


def test_ways_name_the_program_last() -> None:
    for way in (WARP, HERE, DIAGNOSED, WATCHED):
        words = programs.command(way, ROOT / "net.py", ["--steps", "3"], Path("x.json"))
        assert words[-3:] == [str(ROOT / "net.py"), "--steps", "3"]
        assert ("--as-warp" in words) is (way == DIAGNOSED)
