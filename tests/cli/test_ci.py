"""The documented workflow for CI, and completion in a shell."""

from __future__ import annotations

import builtins
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tapedebug.cli import main, parser
from tests.processes import ROOT

WORKFLOW = ROOT / "docs" / "examples" / "gradients.yml"
PAGE = ROOT / "docs" / "command-line.md"


def steps() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def test_the_commands_of_the_workflow_are_understood() -> None:
    commands = [shlex.split(step["run"], comments=True) for step in steps() if "run" in step]
    (run,) = [command for command in commands if command[0] == "tapedebug"]
    options = parser().parse_args(run[1:])
    assert (options.script, options.args) == ("train.py", ["--steps", "3"])
    (upload,) = [step for step in steps() if "upload-sarif" in step.get("uses", "")]
    assert upload["with"]["sarif_file"] == options.sarif
    kept = next(step for step in steps() if "upload-artifact" in step.get("uses", ""))["with"]["path"].split()
    assert all(any(Path(path).match(pattern) for pattern in kept) for path in (options.junit, options.report))


def test_the_workflow_installs_a_wheel() -> None:
    assert any("vendor/tapedebug-*.whl" in step.get("run", "") for step in steps())
    assert re.search(r"pip install tapedebug\b", WORKFLOW.read_text(encoding="utf-8")) is None


def test_every_option_is_in_the_table_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    command = next(action for action in parser()._actions if action.dest == "command")
    assert command.choices is not None
    run: Any = dict(command.choices)["run"]  # type: ignore[call-overload]
    options = {name for action in run._actions for name in action.option_strings if name.startswith("--")}
    assert {name for name in options if f"`{name}" not in page} == {"--help", "--module"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--print-completion", shell])
    assert stop.value.code == 0
    script = capsys.readouterr().out
    assert "--on-overwrite" in script or "on-overwrite" in script
    program = shutil.which(shell)
    if program is not None and shell != "tcsh":
        path = tmp_path / "script"
        path.write_text(script, encoding="utf-8")
        subprocess.run([program, "-n", str(path)], check=True)


def test_completion_in_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    with pytest.raises(SystemExit):
        main(["--print-completion", "bash"])
    asked = 'COMP_WORDS=(tapedebug run --fail-on w); COMP_CWORD=3; _shtab_tapedebug; echo "${COMPREPLY[*]}"\n'
    (tmp_path / "script").write_text(capsys.readouterr().out + asked, encoding="utf-8")
    done = subprocess.run([bash, tmp_path / "script"], capture_output=True, text=True, check=True)
    assert done.stdout == "warning wrong\n"


def test_completion_without_shtab(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "shtab":
            raise ImportError(name)
        return theirs(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SystemExit) as stop:
        main(["--print-completion", "bash"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(
        "tapedebug: error: --print-completion needs shtab, which the extra `completion` installs\n"
    )
