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
