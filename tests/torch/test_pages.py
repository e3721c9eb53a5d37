"""The programs on the pages about PyTorch and JAX print what they promise."""

from __future__ import annotations

import pytest

from tests.processes import run_python
from tests.test_documentation import blocks, promised


@pytest.mark.parametrize(("library", "count"), [("torch", 5), ("jax", 4)])
def test_the_page_prints_what_it_promises(library, count, tmp_path):
    pytest.importorskip(library)
    script = blocks(f"docs/{library}.md")
    path = tmp_path / "example.py"
    path.write_text(script, encoding="utf-8")
    done = run_python(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')")
    assert (done.returncode, done.stderr) == (0, "")
    wanted = promised(script)
    assert len(wanted) == count
    assert [line for line in done.stdout.splitlines() if line in wanted] == wanted, done.stdout
    assert library == "jax" or "gradient AGREE" in done.stdout
