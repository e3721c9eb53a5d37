"""The front end stays small: reports are mailed, and every notebook with a panel carries the widget."""

import json
from pathlib import Path

import pytest

from tests._processes import ROOT

STATIC = ROOT / "tapedebug" / "static"


def budgets() -> list[tuple[list[str], int]]:
    read = json.loads((ROOT / "js" / "budgets.json").read_text(encoding="utf-8"))
    return [(entry["files"], entry["bytes"]) for entry in read["budgets"]]


def over_budget(folder: Path) -> list[str]:
    found = []
    for files, most in budgets():
        size = sum((folder / name).stat().st_size for name in files)
        if size > most:
            found.append(f"{' + '.join(files)}: {size:,} bytes, {size - most:,} over the budget of {most:,}")
    return found


def test_no_bundle_is_over_its_budget() -> None:
    if not STATIC.exists():
        pytest.skip("the front end is not built")
    assert sorted(name for files, _ in budgets() for name in files) == sorted(
        p.name for p in STATIC.iterdir()
    )
    assert over_budget(STATIC) == []


def test_a_bundle_over_its_budget_is_found(tmp_path: Path) -> None:
    for files, _ in budgets():
        for name in files:
            (tmp_path / name).write_bytes(b"")
    (tmp_path / "report.js").write_bytes(b"x" * 300_000)
    (tmp_path / "report.css").write_bytes(b"x" * 30_000)
    assert over_budget(tmp_path) == [
        "report.js + report.css: 330,000 bytes, 10,000 over the budget of 320,000"
    ]
