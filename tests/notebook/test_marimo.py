"""In marimo a tape shows its panel, an array its values, and arrays are called as their variables are."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

if importlib.util.find_spec("marimo") is None:  # to import it takes 2 seconds, and only its processes need it
    pytest.skip("marimo is not installed", allow_module_level=True)

BOOK = """
import marimo
app = marimo.App()

@app.cell
def _():
    import numpy as np
    import tapedebug as wp
    return np, wp

@app.cell
def _(wp):
    @wp.kernel
    def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    @wp.kernel
    def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
        wp.atomic_add(loss, 0, x[wp.tid()])
    return square, total

@app.cell
def _(np, wp, square, total):
    x = wp.array(np.array([1.0, 2.0, 3.0]), dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as curve:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    curve.backward(loss)
    found = wp.diagnose(curve, loss=loss)
    names = "; ".join(["arrays", *(info.label for info in found.trace.arrays), found.trace.name])
    return curve, found, names, x

@app.cell
def _(names):
    names
    return

@app.cell
def _(found):
    found
    return

@app.cell
def _(x):
    x
    return

@app.cell
def _(curve):
    curve
    return
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The notebook as marimo exports it, run from top to bottom."""
    folder: Path = tmp_path_factory.mktemp("marimo")
    book, out = folder / "curve.py", folder / "curve.html"
    book.write_text(BOOK)
    command = [
        sys.executable,
        "-m",
        "marimo",
        "-q",
        "export",
        "html",
        str(book),
        "-o",
        str(out),
        "--no-include-code",
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert out.is_file(), done.stderr
    return out.read_text()


def test_a_tape_and_a_diagnosis_show_the_panel(page: str) -> None:
    assert len(re.findall(r"marimo-anywidget", page)) >= 2


def test_an_array_shows_its_values(page: str) -> None:
    assert "application/vnd.marimo+mimebundle" in page
    assert "td-array" in page


def test_arrays_and_tapes_are_called_as_their_variables(page: str) -> None:
    assert re.findall(r"arrays; [\w; ]+", page) == ["arrays; x; y; loss; curve"]
