"""`tapedebug run` on a program that records with the reference engine."""

from __future__ import annotations

from tapedebug.cli import main
from tests.processes import ROOT

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import scale, square, total

x, h, s, loss = array([0.5, -1.0, 2.0]), array([1.0, 2.0, 3.0]), zeros(3), zeros(1)
with Tape() as tape:
    square(x, s)
    {overwrite}
    total(s, loss)
tape.backward(loss)
"""


def run(tmp_path, capsys, overwrite):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(root=str(ROOT), overwrite=overwrite))
    status = main(["run", str(path)])
    return status, capsys.readouterr().out


def test_a_wrong_gradient_is_found(tmp_path, capsys):
    status, out = run(tmp_path, capsys, "scale(x, 3.0)")
    assert status == 1
    assert "WRONG" in out
    assert "overwrite" in out


def test_a_right_gradient_agrees(tmp_path, capsys):
    status, out = run(tmp_path, capsys, "scale(h, 3.0)")
    assert status == 0
    assert "AGREE" in out


def test_the_line_of_the_engine_counts_launches_on_the_tapes_that_were_kept(tmp_path, capsys):
    path = tmp_path / "program.py"
    once = PROGRAM.format(root=str(ROOT), overwrite="scale(h, 3.0)")
    path.write_text(once)
    main(["run", str(path)])
    assert ": 3 launches watched\n" in capsys.readouterr().out
    path.write_text(
        once.replace("with Tape()", "for _ in range(9):\n  with Tape()").replace("\n    ", "\n      ")
    )
    main(["run", str(path)])
    assert ": 12 launches watched on the tapes that were kept\n" in capsys.readouterr().out
