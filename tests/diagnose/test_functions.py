"""Bugs in a function that kernels call, from another file: named at its line, with its text."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.report import _assets, report
from tests.report.pages import Page, bundle

Modules = tuple[ModuleType, Path]

HELPERS = """\
import tapedebug as wp



@wp.func
def energy(x: wp.array(dtype=float), i: int):
    return x[i] * x[i]

@wp.func
def refill(x: wp.array(dtype=float), i: int):
    x[i] = 1.0
"""
KERNELS = """\
import tapedebug as wp
from td_helpers import energy, refill

@wp.kernel
def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = energy(x, i)

@wp.kernel
def restart(x: wp.array(dtype=float)):
    refill(x, wp.tid())

@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    (tmp_path / "td_helpers.py").write_text(HELPERS)
    (tmp_path / "td_kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("td_kernels"), tmp_path
    for name in ("td_helpers", "td_kernels"):
        del sys.modules[name]


@pytest.fixture
def overwritten(modules: Modules) -> Any:
    kernels, _ = modules
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    w, y = wp.zeros_like(x), wp.zeros_like(x)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.copy(w, x)
        wp.launch(kernels.squares, dim=3, inputs=[w], outputs=[y])
        wp.launch(kernels.restart, dim=3, outputs=[w])
        wp.launch(kernels.total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    return wp.diagnose(tape, loss=loss, progress=False)


def test_a_trace_says_which_function_accesses_what(
    overwritten: Any, modules: tuple[ModuleType, Path]
) -> None:
    squares, restart, total = overwritten.trace.kernels
    helpers = str(modules[1] / "td_helpers.py")
    found = {(a.kind, a.file, a.function, a.line, a.needed) for a in squares.accesses}
    assert found == {("read", helpers, "energy", 7, True), ("write", "", "", 7, False)}
    assert [(f.name, f.file, f.line) for f in squares.functions] == [("energy", helpers, 5)]
    assert squares.text_at(helpers, 7) == "    return x[i] * x[i]"
    assert squares.text_at(squares.file, 7) == "    y[i] = energy(x, i)"
    assert restart.text_at(helpers, 7) is None
    assert total.functions == []


def test_the_finding_names_the_line_of_the_function(
    overwritten: Any, modules: tuple[ModuleType, Path]
) -> None:
    [finding] = [finding for finding in overwritten.findings if finding.severity == "error"]
    assert (
        "overwrites values of w (at td_helpers.py:11) that the adjoint of launch 1 (squares)"
        in finding.message
    )
    assert "needs (read at td_helpers.py:7)" in finding.message
    assert dict(finding.location) == {
        "file": str(modules[1] / "td_helpers.py"), "line": 11, "column": 4, "function": "refill",
    }  # fmt: skip
    assert "        x[i] = 1.0\n" in str(overwritten)
    assert "wp.atomic_add" not in str(overwritten), "line 11 of the kernels' own file is another"


def test_a_file_keeps_it_and_redaction_takes_it_out(
    overwritten: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_assets, "STATIC", bundle(tmp_path))
    overwritten.trace.save(tmp_path / "run.tapetrace")
    assert wp.trace.load_trace(tmp_path / "run.tapetrace").kernels == overwritten.trace.kernels
    page = Page(report(overwritten, tmp_path / "open.html").read_text("utf-8"))
    [squares, *_] = page.payload()["traces"][0]["kernels"]
    assert squares["functions"][0]["lines"][-1] == "    return x[i] * x[i]"
    text = report(overwritten, tmp_path / "closed.html", redact_source=True).read_text("utf-8")
    assert "x[i]" not in text
    assert str(tmp_path) not in text
    [squares, *_] = Page(text).payload()["traces"][0]["kernels"]
    assert [(f["name"], f["file"], f["lines"]) for f in squares["functions"]] == [
        ("energy", "td_helpers.py", [])
    ]
