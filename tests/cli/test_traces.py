"""`tapedebug report` and `tapedebug diff`: trace files in, a page or words out, and an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapedebug.cli import main
from tapedebug.report import _assets
from tapedebug.trace import trace_from_json
from tests.report.pages import Page, bundle

FIXTURES = Path(__file__).parents[2] / "js" / "tests" / "fixtures"
WRONG = FIXTURES / "recorded-ignore.trace.json"
RIGHT = FIXTURES / "recorded-preserve.trace.json"


@pytest.fixture(autouse=True)
def front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_assets, "STATIC", bundle(tmp_path))


def test_a_trace_file_becomes_a_report_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "run.tapetrace"
    trace_from_json(json.loads(WRONG.read_text("utf-8"))).save(trace)
    assert main(["report", str(trace)]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'run.html'}\n"
    payload = Page((tmp_path / "run.html").read_text("utf-8")).payload()
    assert len(payload["traces"]) == 1


def test_several_in_one_without_their_source(tmp_path: Path) -> None:
    out = tmp_path / "both.html"
    assert main(["report", str(WRONG), str(RIGHT), "--out", str(out), "--redact-source"]) == 0
    text = out.read_text("utf-8")
    assert len(Page(text).payload()["traces"]) == 2
    assert "wp.tid()" not in text


def test_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "diff.html"
    assert main(["diff", str(WRONG), str(RIGHT), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "verdict    WRONG → AGREE" in printed
    assert printed.endswith(f"wrote {out}\n")
    assert "diff" in Page(out.read_text("utf-8")).payload()
    assert main(["diff", str(RIGHT), str(WRONG)]) == 1
    assert "verdict    AGREE → WRONG" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["report", "{}"], ["diff", "{}", str(RIGHT)]])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.tapetrace", None, "the trace file {} does not exist"),
        ("folder", "", "{} is a folder, not a trace file"),
        (
            "net.py",
            "import tapedebug",
            "{} is a script, not a trace: `tapedebug run --report FILE.html {}` runs it",
        ),
        ("net.html", "<html>", "{} is a report, not a trace: open it in a browser"),
        ("notes.txt", "hello", "{}: the JSON is damaged"),
        ("other.json", "{}", "{}: this is not a tapedebug trace"),
    ],
)
def test_what_is_no_trace_is_refused(
    command: list[str],
    name: str,
    content: str | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if content == "":
        path.mkdir()
    elif content is not None:
        path.write_text(content, "utf-8")
    assert main([part.format(path) for part in command]) == 2
    assert message.format(path, path) in capsys.readouterr().err
    assert {item.name for item in tmp_path.glob("*.html")} <= {name}


def test_where_nothing_can_be_written_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(WRONG), "--out", str(tmp_path / "no" / "out.html")]) == 2
    assert f"--out: the folder {tmp_path / 'no'} does not exist" in capsys.readouterr().err
    assert main(["diff", str(WRONG), str(RIGHT), "--out", str(tmp_path)]) == 2
    assert f"--out: {tmp_path} is a folder" in capsys.readouterr().err
