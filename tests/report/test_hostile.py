"""Traces made to do harm, on the way into a report: refused with the place, or cut and said to be."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tapedebug.report import _assets, _size_limits, diff, report
from tapedebug.trace import TraceError
from tests.report.pages import Page, bundle

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
NET = json.loads((ROOT / "js" / "tests" / "fixtures" / "net.trace.json").read_text("utf-8"))


@pytest.fixture
def net() -> Json:
    return copy.deepcopy(NET)


@pytest.fixture(autouse=True)
def front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_assets, "STATIC", bundle(tmp_path))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(name="x" * 10_000_000), r"name: text of 10,000,000 characters"),
        (lambda t: t["arrays"][0].update(shape=[-1]), r"arrays\[0\]\.shape: -1 is no size"),
        (lambda t: t["arrays"][0].update(shape=["nan"]), r"arrays\[0\]\.shape\[0\]: expected a whole number"),
        (lambda t: t["findings"][0].update(launches=[99]), r"findings\[0\]\.launches"),
        (lambda t: t["findings"][0].update(evidence={"deep": nested(100)}), "nested more than 32 levels"),
        (lambda t: t["scopes"][1].update(parent=2), r"scopes\[1\]"),
        (lambda t: t["arrays"][1].update(parent=1), r"arrays\[1\]"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(
    net: Json, tmp_path: Path, change: Any, message: str
) -> None:
    change(net)
    start = time.process_time()
    for work in (lambda: report(net, tmp_path / "out.html"), lambda: diff(net, NET)):
        with pytest.raises(TraceError, match=message):
            work()
    assert time.process_time() - start < 5
    assert not (tmp_path / "out.html").exists()


def test_names_of_prototypes_and_marks_that_turn_text_stay_what_they_are(net: Json, tmp_path: Path) -> None:
    names = ["__proto__", "constructor", "toString", "\u202egnp.exe", "</script>"]
    for array, name in zip(net["arrays"], names, strict=False):
        array["label"] = name
    page = Page(report(net, tmp_path / "out.html").read_text("utf-8"))
    (trace,) = page.payload()["traces"]
    assert [array["label"] for array in trace["arrays"][:5]] == names
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2


def test_more_findings_than_anybody_reads_are_cut_to_the_worst(
    net: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_size_limits.MOST_ROWS, "findings", 10)
    error, note = net["findings"]
    net["findings"] = [{**note, "id": i} for i in range(100_000)] + [{**error, "id": 100_000}]
    path = report(net, tmp_path / "out.html")
    assert path.stat().st_size < 300_000
    payload = Page(path.read_text("utf-8")).payload()
    found = payload["traces"][0]["findings"]
    assert [finding["id"] for finding in found] == [*range(9), 100_000]
    assert "Of 100,001 findings this file has the worst 10." in payload["notes"]
