"""Programs that `tests.forked` runs do what they do when Python runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

PROGRAM = """
import atexit, random, sys

print(sys.argv, sys.path[:2], __name__, sys.modules["__main__"].__dict__ is globals())
atexit.register(print, "at the end")

def halve(x):
    if x == 1:
        sys.exit(7)
    return halve(x // 2) if x else 1 / x

halve(int(sys.argv[-1]))
"""


@pytest.mark.parametrize("number", ["0", "2"])
@pytest.mark.parametrize("how", ["script", "-m", "-c"])
def test_a_program_does_the_same_as_in_an_interpreter_of_its_own(
    how: str, number: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments = {"script": ["program.py"], "-m": ["-m", "program"], "-c": ["-c", PROGRAM]}[how]
    environment = {**os.environ, "PYTHONPATH": str(forked.ROOT)}
    wanted = subprocess.run(
        [sys.executable, *arguments, number],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = forked.run([*arguments, number], tmp_path, environment)
    assert (found.returncode, found.stdout, found.stderr) == (
        wanted.returncode,
        wanted.stdout,
        wanted.stderr,
    )
    assert "at the end" in found.stdout


def test_nothing_is_left_of_a_program_but_its_processor_time(tmp_path: Path) -> None:
    before = forked.Spent.seconds
    left = "import os, tapedebug; tapedebug.config.quiet = True; os.environ['LEFT'] = 'x'"
    assert forked.run(["-c", left]).returncode == 0
    asked = "import os, tapedebug; print(tapedebug.config.quiet, 'LEFT' in os.environ)"
    assert forked.run(["-c", asked], tmp_path).stdout == "False False\n"
    assert 0.0 < forked.Spent.seconds - before < 60.0
