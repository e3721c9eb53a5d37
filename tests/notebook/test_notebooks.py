"""The notebooks run from top to bottom, and print what their text says."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests._processes import ROOT


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a notebook; gives all that its cells print."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(name: str) -> str:
        book = nbformat.read(ROOT / "notebooks" / name, as_version=4)
        NotebookClient(book, timeout=300, resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
        outputs = [o for cell in book.cells if cell.cell_type == "code" for o in cell.outputs]
        return "".join(o.text for o in outputs if o.output_type == "stream")

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
