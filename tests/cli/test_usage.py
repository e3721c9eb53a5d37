"""Mistakes of newcomers on the command line, and the whole message that each gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapedebug.cli import main


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n", encoding="utf-8")
    (tmp_path / "careful.py").write_text(
        "import argparse\nargparse.ArgumentParser(prog='careful.py', usage='').parse_args()\n",
        encoding="utf-8",
    )
    (tmp_path / "page.html").write_text("<html>", encoding="utf-8")
    (tmp_path / "run.tapetrace").write_bytes(b"")
    (tmp_path / "binary.py").write_bytes(b"x = '\x80'\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "trian.py"], "the script trian.py does not exist"),
        (["run", "train"], "the script train does not exist; did you mean train.py?"),
        (["run", "package"], "the script package is a folder; to run the package: tapedebug run -m package"),
        (["run", "page.html"], "page.html is a page, not a program: open it in a browser"),
        (
            ["run", "run.tapetrace"],
            "run.tapetrace is a trace, not a program: `tapedebug report run.tapetrace` shows it",
        ),
        (
            ["run", "-m", "train.py"],
            "-m takes the name of a module; leave -m out to run the file train.py",
        ),
        (["run", "/dev/null"], "/dev/null is no regular file; to run standard input: tapedebug run -"),
    ],
)
def test_what_is_no_program(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"tapedebug: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "tapedebug run: error: the following arguments are required: SCRIPT\n"),
        (
            ["run", "--repot", "x.html", "train.py"],
            "tapedebug run: error: unrecognized arguments: --repot\n  = hint: did you mean --report?\n",
        ),
        (
            ["report", "--ot", "x.html", "run.tapetrace"],
            "tapedebug report: error: unrecognized arguments: --ot\n  = hint: did you mean --out?\n",
        ),
        (["run", "--nothing-like-it", "train.py"], "error: unrecognized arguments: --nothing-like-it\n"),
    ],
)
def test_options_that_do_not_exist(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["runn", "train.py"], "run"), (["run", "--on-overwrite", "wran", "train.py"], "warn")],
)
def test_choices_that_do_not_exist(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    error = capsys.readouterr().err
    assert "invalid choice: " in error
    assert error.endswith(f")\n  = hint: did you mean {meant}?\n")


def test_an_option_of_ours_after_a_script_that_reads_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "train.py", "--report", "x.html"]) == 0
    assert capsys.readouterr().err == (
        "  = hint: --report was passed to train.py; options of tapedebug stand before it: "
        "tapedebug run --report … train.py\n"
    )
    assert main(["run", "train.py", "--steps", "3"]) == 0
    assert capsys.readouterr().err == "", "arguments of the script's own"


def test_an_option_of_ours_that_a_script_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "careful.py", "--fail-on=warning"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "careful.py: error: unrecognized arguments: --fail-on=warning",
        "  = hint: --fail-on was passed to careful.py; options of tapedebug stand before it: "
        "tapedebug run --fail-on … careful.py",
    ]


def test_a_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "binary.py"]) == 2
    assert capsys.readouterr().err == (
        f"SyntaxError: invalid or missing encoding declaration for {str(tmp_path / 'binary.py')!r}\n"
    )
