"""The front end stays small: reports are mailed, and every notebook with a panel carries the widget."""

import json
import re
from pathlib import Path

import pytest

import tapedebug as wp
from tests.processes import ROOT

STATIC = ROOT / "tapedebug" / "static"


def read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def size(folder: Path, *names: str) -> int:
    return sum((folder / name).stat().st_size for name in names)


def budgets(folder: Path) -> list[tuple[list[str], int]]:
    """Return files and the most bytes that they may have together."""
    bytes_of = read_json(ROOT / "js" / "budgets.json")
    chunks = [f"{name}.js" for name in read_json(folder / "manifest.json")["chunks"]]
    report = bytes_of["report"] + size(folder, *chunks)
    alone = {**{name: bytes_of["chunks"] for name in chunks}, **bytes_of}
    files = [name for name in alone if name.endswith((".js", ".css"))]
    return [(["report.js", "report.css"], report), *(([name], alone[name]) for name in files)]


def over_budget(folder: Path) -> list[str]:
    found = []
    for files, most in budgets(folder):
        bytes_used = size(folder, *files)
        if bytes_used > most:
            over = bytes_used - most
            found.append(f"{' + '.join(files)}: {bytes_used:,} bytes, {over:,} over the budget of {most:,}")
    return found


def test_no_bundle_is_over_its_budget() -> None:
    if not STATIC.exists():
        pytest.skip("the front end is not built")
    files = [name for files, _ in budgets(STATIC) for name in files]
    assert sorted([*files, "manifest.json"]) == sorted(path.name for path in STATIC.iterdir())
    assert over_budget(STATIC) == []


def test_the_page_about_reports_says_how_large_one_is(tmp_path: Path) -> None:
    if not STATIC.exists():
        pytest.skip("the front end is not built")
    with wp.Tape() as tape:
        wp.copy(wp.zeros(3, dtype=float), wp.ones(3, dtype=float))
    path = wp.report(tape, tmp_path / "report.html", diagnose=False)
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"A file takes (\d+) kB without data", page)
    assert path.stat().st_size / 1000 == pytest.approx(int(said), rel=0.05)


def test_a_bundle_over_its_budget_is_found(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"chunks": ["graph", "new"], "files": []}', encoding="utf-8")
    for name in ("widget.js", "widget.css", "graph.js"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "new.js").write_bytes(b"x" * 41_000)
    (tmp_path / "report.js").write_bytes(b"x" * 241_000)
    (tmp_path / "report.css").write_bytes(b"x" * 10_000)
    assert over_budget(tmp_path) == [
        "report.js + report.css: 251,000 bytes, 10,000 over the budget of 241,000",
        "new.js: 41,000 bytes, 1,000 over the budget of 40,000",
    ]
