"""Every example of the documents, with only its import changed; `docs/documents.md` shows the outcome.

`python -m tests.seeds.test_documents` writes that page anew.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes import ROOT
from tests.seeds import independent
from tests.seeds.table import EXAMPLES, WRONG, Example

PAGE = ROOT / "docs" / "documents.md"
TABLE = re.compile(r"(<!-- table.*?-->\n).*?(\n<!-- end of table -->)", re.DOTALL)
RAN = [e for e in EXAMPLES if not e.refused]


def run(source: str, name: str, folder: Path) -> dict[str, Any]:
    """Run a program from a file of its own, in `folder`; its variables."""
    path = folder / f"{name}_program.py"
    path.write_text(source, encoding="utf-8")
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), variables)
    return variables


def ours(example: Example) -> str:
    """The program with only its import changed."""
    return re.sub(r"^import warp\b", "import tapedebug", example.source, flags=re.M)


def _value(variables: dict[str, Any], name: str) -> Any:
    """A variable, or the gradient of one."""
    found, *rest = name.split(".")
    return variables[found] if not rest else getattr(variables[found], *rest)


def held(variables: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
    """Return what a variable, or the gradient of one, holds."""
    value = _value(variables, name)
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value, dtype=np.float64)


def numbers(printed: str) -> np.ndarray[Any, Any]:
    """The numbers that a document prints."""
    return np.array([float(n) for n in printed.strip("[]").split()])


def shown(value: Any) -> str:
    """Numbers as the documents print them, to six digits: the last may be another on another machine."""
    values = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    text = np.array2string(values, precision=6, max_line_width=10**6, threshold=20, edgeitems=2)
    return " ".join(text.replace("[ ", "[").replace(" ]", "]").replace("\n", "").split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("example", RAN, ids=lambda e: e.name)
def test_what_is_printed_is_right(example: Example, folder: Path) -> None:
    variables = run(ours(example), example.name, folder)
    right = example.right()
    for name, expected in right.items():
        np.testing.assert_allclose(held(variables, name), expected, rtol=2e-6, atol=1e-6, err_msg=name)
    for name, printed in example.document.items():
        agrees = np.allclose(held(variables, name), numbers(printed), rtol=2e-2, atol=1e-6)
        assert name in right, "each number of the documents is calculated here, too"
        assert agrees or example.why, f"{name} is not what the document prints, and nobody says why"


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.ignore], ids=lambda e: e.name)
def test_ignored_overwrites_give_the_numbers_of_the_documents(example: Example, folder: Path) -> None:
    source = ours(example).replace("wp.Tape()", 'wp.Tape(on_overwrite="ignore")')
    variables = run(source, example.name, folder)
    for name, printed in example.document.items():
        assert held(variables, name).tolist() == numbers(printed).tolist()


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.refused], ids=lambda e: e.name)
def test_refused_programs_say_why(example: Example, folder: Path) -> None:
    import tapedebug as wp
    from tapedebug._errors import TapedebugError

    with pytest.raises(TapedebugError, match=re.escape(example.refused)):
        run(ours(example), example.name, folder)
    assert wp.ones(1).numpy().tolist() == [1.0], "the process goes on"


@pytest.mark.peer
@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.peer is not None], ids=lambda e: e.name)
def test_warp_prints_what_the_documents_print(example: Example, folder: Path) -> None:
    """Programs that print something else today are in the table."""
    pytest.importorskip("warp")
    variables = run(example.source, example.name, folder)
    right, peer = example.right(), example.peer or {}
    for name, expected in right.items():
        found = held(variables, name)
        if peer.get(name) == WRONG:
            assert not np.allclose(found, expected, rtol=1e-2), name
            continue
        printed = peer.get(name) or example.document.get(name)
        wanted = expected if printed is None else numbers(printed)
        np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=1e-6, err_msg=name)


def test_the_kernel_of_the_gradient_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variables = run(ours(next(e for e in EXAMPLES if e.name == "jacobian")), "jacobian", folder)
    known = independent.jacobians()
    jacs, subset = variables["jacs"], variables["subset"]
    assert set(jacs) == set(known)
    for key, expected in known.items():
        np.testing.assert_allclose(jacs[key].numpy().reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
    assert set(subset) == {(0, 0), (1, 1)}
    rows = subset[1, 1].numpy().reshape(8, 6)
    evaluated = ~np.isnan(rows).any(1)
    assert evaluated.sum() == 5
    np.testing.assert_allclose(rows[evaluated], known[1, 1][evaluated], rtol=1e-5, atol=1e-6)
    assert variables["passed"].verdict == "AGREE"
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("out1", "out2"))
    assert "Gradient check for kernel my_kernel passed" in printed


def test_the_graph(folder: Path) -> None:
    run(ours(next(e for e in EXAMPLES if e.name == "visualize")), "visualize", folder)
    dot = (folder / "tape.dot").read_text()
    assert dot.count("add") >= 3
    for label in ("a", "b", "c", "e", "result", "Adder", "Custom Scope"):
        assert re.search(rf'label="?<?{label}\b|>{label}<|"{label}', dot), label


def table(folder: Path) -> str:
    """The table of the page: what the programs give now."""
    lines = [
        "| Example | Variable | The document prints | tapedebug prints | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for example in EXAMPLES:
        where, remark = example.where, _remark(example)
        variables = {} if example.refused else run(ours(example), example.name, folder)
        names = list(example.right()) or [""]
        for name in names:
            document = example.document.get(name, "")
            here = shown(_value(variables, name)) if name else ("refused" if example.refused else "runs")
            variable = f"`{name}`" if name else ""
            last = remark if _differs(example, name) or name == names[-1] else ""
            remark = "" if last else remark
            lines.append(f"| {where} | {variable} | {document} | {here} | {last} |")
            where = ""
    return "\n".join(lines)


def _differs(example: Example, name: str) -> bool:
    document = example.document.get(name)
    return document is not None and not np.allclose(numbers(document), example.right()[name], rtol=2e-2)


def _remark(example: Example) -> str:
    differing = any(_differs(example, name) for name in example.document)
    ignored = ' With `on_overwrite="ignore"`: the document\'s numbers.' if example.ignore else ""
    why = f"{example.why[:1].upper()}{example.why[1:]}." if example.why else ""
    return f"{'**Differs.** ' if differing else ''}{why}{ignored}"


def test_the_page_shows_the_table(folder: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == TABLE.sub(lambda m: m[1] + table(folder) + m[2], page), (
        "python -m tests.seeds.test_documents"
    )


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
        text = TABLE.sub(lambda m: m[1] + table(Path(temporary)) + m[2], text)
    PAGE.write_text(text, encoding="utf-8")
