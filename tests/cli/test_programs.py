"""`tapedebug run` with other programs than scripts: notebooks, modules, standard input, programs for Warp."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapedebug.cli import main
from tapedebug.diagnose.formatting import wants_colour
from tests.cli.test_run import HEAD, command
from tests.processes import ROOT


def write_notebook(path: Path, *cells: str, language: str = "python") -> None:
    made = [{"cell_type": "markdown", "source": ["# A title"]}]
    made += [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    data = {"cells": made, "metadata": {"kernelspec": {"language": language}}, "nbformat": 4}
    path.write_text(json.dumps(data), encoding="utf-8")


def without_ipython(folder: Path) -> None:
    (folder / "IPython.py").write_text("raise ImportError('not here')\n", encoding="utf-8")


def test_a_notebook_is_run_cell_by_cell_with_its_magics(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "values.txt").write_text("beside the notebook", encoding="utf-8")
    write_notebook(
        tmp_path / "sub" / "study.ipynb",
        "%load_ext tapedebug\n" + HEAD,
        "   ",
        "tape, x = record(True, on_overwrite='ignore')",
        "print(open('values.txt').read(), __name__, sys.argv)",
    )
    done = command(tmp_path, "run", "sub/study.ipynb", "--steps", "3")
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "beside the notebook __main__ ['sub/study.ipynb', '--steps', '3']"
    assert "study.ipynb · tape 1 · 3 launches · on_overwrite='ignore' · gradient WRONG" in lines
    number = HEAD.splitlines().index("    x[i] = z[i]") + 2
    assert f"    kernel at In [1]:{number}, in put" in lines
    assert "        x[i] = z[i]" in lines
    number = HEAD.splitlines().index("            wp.launch(put, dim=3, inputs=[z], outputs=[x])") + 2
    assert f"    launched at In [1]:{number}, in record" in lines
    assert "        wp.launch(put, dim=3, inputs=[z], outputs=[x])" in lines


@pytest.mark.parametrize("ipython", [True, False])
def test_a_cell_that_fails_is_named_and_ends_the_notebook(tmp_path: Path, ipython: bool) -> None:
    if not ipython:
        without_ipython(tmp_path)
    write_notebook(
        tmp_path / "study.ipynb", HEAD, "record(False)\ndef f():\n    return 1 / 0", "f()", "print(7)"
    )
    done = command(tmp_path, "run", "study.ipynb")
    assert done.returncode == 2
    assert done.stderr == (
        "Traceback (most recent call last):\n"
        '  File "In [3]", line 1, in <module>\n'
        "    f()\n"
        '  File "In [2]", line 3, in f\n'
        "    return 1 / 0\n"
        "           ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )
    assert "gradient AGREE" in done.stdout
    assert done.stdout.endswith("; the script failed (ZeroDivisionError in cell 3)\n")


@pytest.mark.parametrize("ipython", [True, False])
def test_a_notebook_that_ends_itself(tmp_path: Path, ipython: bool) -> None:
    if not ipython:
        without_ipython(tmp_path)
    write_notebook(tmp_path / "study.ipynb", "import sys\nsys.exit(0)", "print('not reached')")
    done = command(tmp_path, "run", "study.ipynb")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("\nno tape was recorded: nothing to check\n")


def test_a_panel_that_later_cells_use(tmp_path: Path) -> None:
    write_notebook(
        tmp_path / "study.ipynb",
        "%load_ext tapedebug\n" + HEAD,
        "x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)\ny = wp.zeros_like(x)",
        "%%tape --panel panel\nwp.launch(square, dim=2, inputs=[x], outputs=[y])",
        "print(type(panel).__name__, panel.mask)",
    )
    done = command(tmp_path, "run", "study.ipynb")
    assert (done.returncode, done.stderr) == (0, "")
    assert "TapeDebugger []" in done.stdout.splitlines()


@pytest.mark.parametrize("options", ["", " --loss loss"])
def test_the_tape_of_a_cell_is_printed_once(tmp_path: Path, options: str) -> None:
    write_notebook(
        tmp_path / "study.ipynb",
        "%load_ext tapedebug\n" + HEAD,
        "x = wp.array([2.0], dtype=float, requires_grad=True)\nloss = wp.zeros_like(x)",
        f"%%tape{options}\nwp.launch(square, dim=1, inputs=[x], outputs=[loss])",
        "print('ran')",
    )
    done = command(tmp_path, "run", "study.ipynb")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split(" · ")[:2] for line in lines if " launch · " in line] == [["study.ipynb", "tape 1"]]
    assert lines[0] == "ran"


COUNTED = """
from importlib import import_module
from tapedebug.autograd import end_to_end

def counted(*args, **options):
    print("compared with differences", flush=True)
    return end_to_end(*args, **options)

import_module("tapedebug.diagnose._diagnose").end_to_end = counted
"""
ARRAYS = "x = wp.array([2.0], dtype=float, requires_grad=True)\nloss = wp.zeros_like(x)"
SQUARED = "wp.launch(square, dim=1, inputs=[x], outputs=[loss])"


@pytest.mark.parametrize(
    ("cells", "count"),
    [
        ([f"%%tape --loss loss\n{SQUARED}"], 1),
        ([f"%%tape --loss loss --as-warp --max-seconds 9\n{SQUARED}"], 1),
        ([f"%%tape --loss loss --name one\n{SQUARED}", f"%%tape --loss loss\nloss.zero_()\n{SQUARED}"], 2),
        ([f"%%tape --loss loss --inputs x\n{SQUARED}"], 1),
        # A cell that asks for the result has its own diagnosis, at the time of the cell.
        ([f"%%tape --loss loss\n{SQUARED}", "%tape_report tape.html"], 2),
        ([f"%%tape --loss loss --inputs x\n{SQUARED}", "%tape_report tape.html"], 2),
        ([f"%%tape --loss loss --panel shown\n{SQUARED}", "print('seen', shown.verdict)"], 2),
        ([f"%%tape --loss loss --name tape\n{SQUARED}", "print('own', wp.diagnose(tape, loss).verdict)"], 2),
    ],
)
def test_the_tape_of_a_cell_is_diagnosed_once(tmp_path: Path, cells: list[str], count: int) -> None:
    write_notebook(tmp_path / "study.ipynb", "%load_ext tapedebug\n" + HEAD + COUNTED, ARRAYS, *cells)
    done = command(tmp_path, "run", "study.ipynb")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines.count("compared with differences") == count
    tapes = sum(cell.startswith("%%tape") for cell in cells)
    assert lines[-1].startswith(f"tapedebug: {tapes} tape{'s' * (tapes > 1)} diagnosed: 0 errors, 0 warnings")
    printed = [line for line in lines if line.startswith("study.ipynb · tape ")]
    assert len(printed) == tapes and all("gradient AGREE" in line for line in printed)
    assert all(line.endswith(" AGREE") for line in lines if line.startswith(("own", "seen")))


ON_WARP = """
import pytest
from tests import stand_in_warp
stand_in_warp.install(pytest.MonkeyPatch())
import warp as wp
from tests.reference_operations import square, total
x = wp.array([0.5, -1.0, 2.0], requires_grad=True)
s, loss = wp.zeros(3, requires_grad=True), wp.zeros(1, requires_grad=True)
"""
REVERSED = """%%tape --loss loss
tape = wp.Tape()
with tape:
    wp.launch(square, [x, s])
    wp.launch(total, [s, loss])
tape.backward(loss)
"""


@pytest.mark.parametrize(("later", "count"), [([], 1), (["%tape_report tape.html"], 2)])
def test_a_tape_of_warp_that_its_cell_reverses_is_diagnosed_once(
    tmp_path: Path, later: list[str], count: int
) -> None:
    write_notebook(tmp_path / "study.ipynb", "%load_ext tapedebug\n" + COUNTED, ON_WARP, REVERSED, *later)
    done = command(tmp_path, "run", "study.ipynb")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines.count("compared with differences") == count
    assert "study.ipynb · tape 1 · 2 launches · NVIDIA Warp 1.19.0, cpu · gradient AGREE" in lines


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (f"%%tape --loss missing\n{SQUARED}", "UsageError: %%tape: --loss"),
        (f"%%tape --loss loss --inputs missing\n{SQUARED}", "UsageError: %%tape: --inputs"),
        (
            f"%%tape --loss loss --inputs y\ny = wp.zeros_like(x)\n{SQUARED}",
            "UsageError: %%tape: diagnose: the input array(shape=(1,), dtype=float32) is not on this tape",
        ),
        (f"%%tape --loss x\nx.requires_grad = False\n{SQUARED}", "UsageError: %%tape: "),
        (f"%%tape --loss loss\n{SQUARED}\n1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_cell_that_cannot_be_diagnosed_fails_where_it_stands(
    tmp_path: Path, cell: str, message: str
) -> None:
    write_notebook(tmp_path / "study.ipynb", "%load_ext tapedebug\n" + HEAD, ARRAYS, cell, "print('later')")
    done = command(tmp_path, "run", "study.ipynb")
    assert done.returncode == 2
    assert message in done.stderr
    assert "later" not in done.stdout
    assert "1 tape diagnosed" in done.stdout


def test_magics_need_ipython(tmp_path: Path) -> None:
    without_ipython(tmp_path)
    write_notebook(tmp_path / "study.ipynb", "%load_ext tapedebug")
    done = command(tmp_path, "run", "study.ipynb")
    assert done.returncode == 2
    assert done.stderr == (
        '  File "In [1]", line 1\n    %load_ext tapedebug\n    ^\nSyntaxError: invalid syntax\n'
        "  = hint: the cell has magics of IPython, which is not installed\n"
    )


def test_what_a_magic_refuses_is_one_line(tmp_path: Path) -> None:
    write_notebook(tmp_path / "study.ipynb", "%load_ext tapedebug", "%%tape --loss loss --no-panel\nloss = 1")
    done = command(tmp_path, "run", "study.ipynb")
    assert done.returncode == 2
    assert done.stderr.startswith("UsageError: %%tape: "), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": null}', "is no notebook that can be read (KeyError: 'cells')"),
        (
            "print(1)",
            "is no notebook that can be read (JSONDecodeError: Expecting value: line 1 column 1 (char 0))",
        ),
    ],
)
def test_files_that_are_no_notebook(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.ipynb"
    path.write_text(content, encoding="utf-8")
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err == f"tapedebug: {path} {message}\n"


def test_a_notebook_of_another_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.ipynb"
    write_notebook(path, "x <- 1", language="R")
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err == f"tapedebug: {path} is a notebook of R, not of Python\n"


@pytest.mark.parametrize("name", ["study", "study.fit"])
def test_a_module(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "helper.py").write_text("VALUE = 7\n", encoding="utf-8")
    body = (
        HEAD + "\nfrom .helper import VALUE\nrecord(False)\nprint(VALUE, __name__, __package__, sys.argv)\n"
    )
    path = folder / ("fit.py" if name == "study.fit" else "__main__.py")
    path.write_text(body, encoding="utf-8")
    done = command(tmp_path, "run", "-m", name, "--steps")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"7 __main__ study ['{path}', '--steps']"
    assert f"{name} · tape 1 · 2 launches · on_overwrite='preserve' · gradient AGREE" in done.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module", "there is no module named no_such_module"),
        (
            "no_such_package.fit",
            "the module no_such_package.fit cannot be found: No module named 'no_such_package'",
        ),
        ("sys", "the module sys is not written in Python"),
        ("math", "the module math is not written in Python"),
    ],
)
def test_modules_that_cannot_be_run(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.path[:]
    assert main(["run", "-m", name]) == 2
    assert capsys.readouterr().err == f"tapedebug: {message}\n"
    assert sys.path == before


def test_standard_input(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tapedebug", "run", "-", "7"],
        input=HEAD + "\nrecord(True, on_overwrite='ignore')\nprint(sys.argv)\n",
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "['-', '7']"
    assert "<stdin> · tape 1 · 3 launches · on_overwrite='ignore' · gradient WRONG" in lines
    assert f"    kernel at <stdin>:{HEAD.splitlines().index('    x[i] = z[i]') + 1}, in put" in lines


@pytest.mark.skipif(importlib.util.find_spec("warp") is not None, reason="Warp is installed")
@pytest.mark.parametrize("statement", ["import warp as wp", "from warp.sim import Model"])
def test_a_program_for_warp_that_is_not_installed(
    statement: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{statement}\n", encoding="utf-8")
    assert main(["run", str(script)]) == 2
    assert capsys.readouterr().err == (
        f'Traceback (most recent call last):\n  File "{script}", line 1, in <module>\n    {statement}\n'
        "ModuleNotFoundError: No module named 'warp'\n"
        "  = hint: NVIDIA Warp is not installed: `pip install warp-lang`; or "
        f"`tapedebug run --as-warp {script}` runs the program on this engine\n"
    )


def test_a_program_that_ran_on_warp_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys, types\nsys.modules['warp'] = types.ModuleType('warp')\n", encoding="utf-8")
    installed = sys.modules.pop("warp", None)
    try:
        assert main(["run", str(script)]) == 0
    finally:
        del sys.modules["warp"]
        if installed is not None:  # imported anew beside its submodules, it would be half another one
            sys.modules["warp"] = installed
    assert capsys.readouterr().err == (
        "  = hint: launches of NVIDIA Warp are not recorded; "
        f"`tapedebug run --as-warp {script}` runs the program on this engine\n"
    )


PIPED = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-m", "tapedebug", *sys.argv[1:]], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
child.stdout.read(1)
child.stdout.close()
sys.stderr.buffer.write(child.stderr.read())
sys.exit(child.wait())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pipes that break")
@pytest.mark.parametrize(
    ("ending", "status"),
    [("", 1), ("for n in range(100_000): print(n)", 2)],
)
def test_output_whose_reader_has_ended(ending: str, status: int, tmp_path: Path) -> None:
    body = "\nsys.stdout.write('-\\n')\nsys.stdout.flush()\nrecord(True, on_overwrite='ignore')\n"
    body += "import time\ntime.sleep(0.3)\n"
    (tmp_path / "script.py").write_text(HEAD + body + ending, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PIPED, "run", "--json", "out.json", "script.py"],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, "")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["verdict"] == "WRONG"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("value", "colour"), [(None, True), ("", True), ("1", False), ("0", False)])
def test_no_color_counts_if_it_is_not_empty(
    value: str | None, colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if value is not None:
        monkeypatch.setenv("NO_COLOR", value)
    assert wants_colour(Terminal()) is colour
