"""The notebooks run from top to bottom, and print what their text says."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from scripts import run_notebooks
from tests.processes import ROOT


def words(page: str) -> str:
    """The text of HTML, a line for each of its lines that has any."""
    text = html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.S))
    return "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a notebook; gives all that its cells print, and the words of what they show if asked for.

    If `make docs` or an earlier test has run it with the same sources, its outputs are taken from there.
    """
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(name: str, *, shown: bool = False) -> str:
        book = run_notebooks.executed(ROOT / "notebooks" / name, ROOT / "docs" / "notebooks")
        outputs = [o for cell in book.cells if cell.cell_type == "code" for o in cell.outputs]
        return "".join(
            o.text
            if o.output_type == "stream"
            else words(o.get("data", {}).get("text/html", "") if shown else "")
            for o in outputs
        )

    return run


def test_the_notebook_about_kernels(printed) -> None:
    text = printed("kernels.ipynb")
    assert "gradient AGREE" in text and "no findings" in text
    losses = [float(number) for number in re.findall(r"^ *\d+  loss +([\d.]+)$", text, re.M)]
    assert len(losses) == 5 and losses[0] > 5.0 and losses[-1] < 0.05
    assert "second derivatives AGREE" in text
    assert "the index 4 is outside axis 0 of `x`, which has length 4, in thread 3" in text
    assert re.search(r"end_adj\[.*\] \+= adj_", text), "the adjoint of `missed`"


def test_the_notebook_about_root_causes(printed) -> None:
    text = printed("root-causes.ipynb")
    assert "error · overwrite · t, t_next" in text and "error · disconnected · smoothed, k" in text
    assert re.search(r"AGREE\n +coverage: 26 of 26 launches .*\n +no findings", text), "the overwrite, mended"
    assert "norm of the gradient: 0.0" in text and re.search(
        r"norm of the gradient: 0\.[1-9]\d+\nAGREE", text
    )
    assert re.search(r"launch 25 \(conduct\), thread 16, In \[2\]:6", text), "who wrote it"
    assert len(re.findall(r"before launch \d+: middle [01]\.\d+, its adjoint", text)) == 3
    assert re.search(r"WRONG\nerror on .*\nThe gradient of k was not zero when backward ran", text)
    assert text.rstrip().endswith("AGREE []")


def test_the_notebook_about_checks(printed) -> None:
    text = printed("gradchecks.ipynb", shown=True)
    assert "d force[4].y / d x[4].y: AD -0.692913, FD -24.6404 ±" in text
    assert "only the component .y of force is concerned" in text
    assert re.findall(r"^\('x.*\) (\w+)$", text, re.M) == ["AGREE", "WRONG", "AGREE"], "the masks"
    assert '"""kernel forces: WRONG"""' in text, "the script of the failure"
    assert "Gradient check for kernel forces passed" in text, "once it is mended"
    assert "{(0, 0): (24, 8), (1, 0): (24, 7)}" in text
    sparse = re.search(r"6000 × 6000 entries, (\d+) stored; (\d+) runs", text)
    assert sparse is not None and sparse[1] == "17994" and int(sparse[2]) == 8
    assert "each launch alone: AGREE\nend to end: WRONG" in text
    assert "values that the adjoint needs were overwritten before the reverse pass" in text
    assert "Gradient check for tape of 14 launches passed" in text, "with values preserved"
    assert "Gradient check for the gradient of kernel forces passed" in text
    assert text.rstrip().endswith("passed")


def test_the_notebook_about_overwrites(printed) -> None:
    text = printed("overwrites.ipynb")
    gradient = {
        mode: float(number)
        for mode, number in re.findall(r"^(preserve|ignore) +d loss / d hunger = +(-?[\d.]+)", text, re.M)
    }
    [difference] = re.findall(r"in NumPy, by differences: (-?[\d.]+)", text)
    assert abs(gradient["preserve"] - float(difference)) < 2e-3 < abs(gradient["ignore"] - float(difference))
    assert "OverwriteError: launch 0 (live" in text and "rabbits[i] = r + dt * (r - r * f)" in text
    assert len(re.findall("✕ error · overwrite", text)) == 2
    assert "AGREE [('info', 'overwrite', ['scratch'])]" in text, "the harmless one"
    assert "info stale-value · x was overwritten after the tape had recorded" in text
    assert "the same gradient: True" in text


def test_the_notebook_about_nan(printed) -> None:
    text = printed("nan-hunt.ipynb")
    assert "gradient [[nan nan nan]]" in text
    assert "d[2] * d[2]) at In [2]:5 has the operand 0: its slope is infinite at 0" in text
    assert "'cause': 'sqrt(0)'" in text and "'operands': [0.0]" in text
    assert "stretch_where [nan nan nan]" in text and "both operands of where are computed" in text
    assert re.search(r"stretch_inside \[0\.4\d+ ", text)
    assert re.search(r"^AGREE: 60 of 60 launches checked end to end", text, re.M), "the wind"
    assert re.search(r"^KINK · 60 of 60 launches .* KINK with respect to x", text, re.M)
    assert re.search(r"^KINK · d energy\[6\] / d x\[7\]\.x", text, re.M)


def test_the_notebook_about_dynamic_loops(printed) -> None:
    text = printed("dynamic-loops.ipynb")
    assert "[1.4641001 1.4641001 1.4641001 1.4641001 1.4641001]" in text
    assert "off by 30 % (2.36 in place of 1.46 for rate[2, 0])" in text, "what Warp gives"
    assert "Gradient check for kernel anomaly passed" in text
    [difference] = re.findall(r"largest difference: ([\d.e-]+)", text)
    assert float(difference) < 1e-5
    assert "adj_c_3 = v_11 * adj_c_2" in text, "the loop backward"


def test_the_notebook_about_custom_gradients(printed) -> None:
    text = printed("custom-gradients.ipynb", shown=True)
    assert "Gradient check for kernel activate passed" in text
    assert "adj_sharper, the gradient of sharper, is not the derivative by x." in text
    assert "UNDECIDABLE" in text and "the gradient of levels is meant to differ" in text
    assert "Gradient check for kernel solve passed" in text


def test_the_notebook_about_jacobians_and_masks(printed) -> None:
    text = printed("jacobians-and-masks.ipynb")
    misses = [float(number) for number in re.findall(r"misses by ([\d.e+-]+) m", text)]
    assert len(misses) == 8 and misses[0] > 0.5 and misses[-1] < 1e-6
    assert re.findall(r"AGREE (\d+) entries", text) == ["96", "32", "3"]
    assert re.search(r"^0 angles → hand AGREE", text, re.M)
    assert re.search(r"^None lengths → loss AGREE", text, re.M)
    assert "observed: [[[0, 'angles', 'hand'], [None, 'lengths', 'loss']]]" in text
    assert text.rstrip().endswith("[[None, 'angles', 'loss'], [None, 'lengths', 'loss']]")


def test_the_notebook_about_reports(printed) -> None:
    text = printed("reading-a-report.ipynb")
    assert "WRONG\n121 of 121 launches checked end to end" in text
    assert re.search(r"error · overwrite · surface\n +Launch 1 \(rise\) overwrites values of surface", text)
    assert re.search(r"canal.html +has the line of the kernel in it: True", text)
    assert re.search(r"redacted.html +has the line of the kernel in it: False", text)
    assert "60 versions lost, the first of surface by launch 1" in text


def test_the_notebook_about_before_and_after(printed) -> None:
    text = printed("before-after.ipynb")
    assert "gradient of the doses: [0. 0. 0.]" in text
    assert "WRONG [('error', 'disconnected'), ('error', 'overwrite'), ('info', 'overwrite')]" in text
    assert re.findall(r"verdict +(\w+ → \w+)", text) == ["WRONG → WRONG", "WRONG → AGREE"]
    assert re.findall(r"findings +(.+)", text) == [
        "2 gone, 0 new, 1 still there",
        "3 gone, 0 new, 0 still there",
    ]
    assert re.search(r"^\d{3,} kB$", text, re.M), "the file"


def test_the_notebook_about_diffusion(printed) -> None:
    text = printed("diffusion.ipynb")
    found = re.findall(r"^(\w+) ([\w-]+) (.*) at In \[3\]:(\d+)\n +fix: (.*)$", text, re.M)
    own = "give {} an array of its own for {} in each round instead of using the same ones again, or record "
    keep = 'with on_overwrite="preserve"'
    assert found == [
        ("error", "disconnected", "source, power", "14", "create source with requires_grad=True"),
        ("error", "overwrite", "k", "16", own.format("conduct", "k") + keep),
        ("error", "overwrite", "start, u_next", "17", own.format("diffuse", "u_next") + keep),
        ("error", "overwrite", "start, u_next", "17", own.format("diffuse", "u_next") + keep),
    ]
    powers = [float(power) for power in re.findall(r"^gradient of power: \[(.*)\]$", text, re.M)]
    assert powers == [0.0, pytest.approx(39.8759, rel=1e-6)]  # float32 sums in no fixed order
    assert re.findall(r"verdict +(\w+ → \w+)", text) == ["WRONG → AGREE"]
    assert re.findall(r"findings +(.+)", text) == ["4 gone, 0 new, 0 still there"]


def test_a_notebook_runs_again_only_if_its_sources_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    class Client:
        def __init__(self, book: nbformat.NotebookNode, **options: object) -> None:
            self.book = book

        def execute(self) -> None:
            runs.append(self.book)
            self.book.cells[0].outputs = [nbformat.v4.new_output("stream", text=f"run {len(runs)}")]

    monkeypatch.setattr(run_notebooks, "NotebookClient", Client)
    monkeypatch.setattr(run_notebooks, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tapedebug").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "notebooks").mkdir()
    package = tmp_path / "tapedebug" / "kernel.py"
    book, beside = tmp_path / "notebooks" / "a.ipynb", tmp_path / "notebooks" / "net.py"

    def printed() -> str:
        by_a_test = run_notebooks.executed(book, tmp_path / "docs")
        run_notebooks.run(Path("notebooks", "a.ipynb"), Path("docs"))  # as make does
        written = nbformat.read(tmp_path / "docs" / "a.ipynb", as_version=4)
        assert written.cells[0].outputs == by_a_test.cells[0].outputs
        return by_a_test.cells[0].outputs[0].text

    package.write_text("a = 1")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(a)")]), book)
    assert [printed(), printed()] == ["run 1", "run 1"]
    package.write_text("a = 2")
    assert [printed(), printed()] == ["run 2", "run 2"]
    beside.write_text("b = 1")
    assert printed() == "run 3"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(-a)")]), book)
    assert printed() == "run 4"


def test_html_of_nbconvert_shows_the_static_report_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbconvert import HTMLExporter

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(
                "import tapedebug as wp\n"
                "%load_ext tapedebug\n"
                "@wp.kernel\n"
                "def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n"
                "    y[0] = x[0] * x[0]\n"
                "x = wp.array([3.0], dtype=float, requires_grad=True)\n"
                "y = wp.zeros(1, dtype=float, requires_grad=True)"
            ),
            nbformat.v4.new_code_cell(
                "%%tape --loss y --panel panel --on-overwrite ignore\n"
                "wp.launch(square, dim=1, inputs=[x], outputs=[y])\n"
                "x.fill_(5.0)"
            ),
            nbformat.v4.new_code_cell("panel"),
        ]
    )
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    page, _ = HTMLExporter().from_notebook_node(book)
    assert page.count('<div class="tapedebug-static">') == 2
    assert "<strong>Fix:</strong>" in page and "gradient WRONG" in page
    assert '<script type="application/vnd.jupyter.widget-view+json">' not in page


@pytest.mark.peer
def test_the_notebook_about_watching_warp(printed) -> None:
    pytest.importorskip("warp")
    text = printed("watch_warp.ipynb", shown=True)
    wrong, right = map(float, re.findall(r"^Warp's gradient of length\[40\]: (-?[\d.]+)$", text, re.M))
    [difference] = re.findall(r"^finite difference in NumPy: +(-?[\d.]+)$", text, re.M)
    assert abs(right - float(difference)) < 1e-5 < abs(wrong - float(difference))
    assert "whole tape, length: WRONG" in text and "last swing alone:   WRONG" in text
    assert "Launch 1 (swing) overwrites angle in place" in text
    assert re.search(r"NVIDIA Warp ran the launches: \d+ ", text)
    assert re.search(r"^ +verdict +WRONG → AGREE$", text, re.M)
