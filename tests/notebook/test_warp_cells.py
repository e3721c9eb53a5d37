"""Cells that launch kernels of NVIDIA Warp: magics and the record button watch it; no cell is changed.

Warp is the stand-in of `tests/stand_in_warp.py`; `test_cells_on_warp.py` has cells with Warp itself.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tapedebug._tape_observers import live_tapes, recorded_tape
from tapedebug.notebook.record_next_cell import next_cell
from tests import stand_in_warp

SET_UP = """
import warp as wp
from tests.reference_operations import scale, square, total
x = wp.array([0.5, -1.0, 2.0], requires_grad=True)
s, loss = wp.zeros(3, requires_grad=True), wp.zeros(1, requires_grad=True)
"""
CELL = """
wp.launch(square, [x, s])
wp.launch(total, [s, loss])
"""
WRONG = """
wp.launch(square, [x, s])
wp.launch(scale, [x, 3.0])
wp.launch(total, [s, loss])
"""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[stand_in_warp.Watched]:
    return stand_in_warp.install(monkeypatch)


@pytest.fixture
def run(front_end: Any) -> Any:
    """Run a cell. No frame has a variable with the shell in it, where arrays would get other names."""
    shells = [front_end]

    def run(code: str) -> Any:
        result = shells[0].run_cell(code, store_history=True)
        result.raise_error()
        return result.result

    run.names = front_end.user_ns
    run(SET_UP)
    return run


def test_a_cell_is_watched_and_its_findings_are_shown(watched, run, capsys, monkeypatch):
    monkeypatch.setattr("tapedebug._shell.in_notebook", lambda: False)
    run("%%tape --name tape --loss loss\n" + WRONG)
    out = capsys.readouterr().out
    assert "NVIDIA Warp 1.19.0, cpu · gradient WRONG" in out
    assert "error · overwrite · x" in out
    assert "- NVIDIA Warp ran the launches: 3 native" in out.replace("\n", " ").replace("    ", " ")
    assert watched.log == ["watching", "done"]
    assert isinstance(run.names["tape"], stand_in_warp.Tape)


def test_the_variable_is_the_tape_of_warp_which_functions_of_tapedebug_take_with_its_arrays(
    watched, run, capsys
):
    run("%%tape --no-panel --name tape\n" + WRONG)
    run("tape.backward(loss)\nimport tapedebug\nfound = tapedebug.diagnose(tape, loss, inputs=[x])")
    assert run.names["found"].verdict == "WRONG"
    run("result = tapedebug.autograd.end_to_end(tape, loss, [x])\nby_name = result.inputs[0].name")
    assert (run.names["result"].verdict, run.names["by_name"]) == ("WRONG", "x")
    run(
        "checked = tapedebug.autograd.gradcheck_tape("
        "tape, end_to_end=True, loss=loss, inputs=[x], raise_exception=False, show_summary=False)",
    )
    assert not run.names["checked"]
    run("dot = tapedebug.visualize.visualize(tape, array_labels={x: 'the input'})")
    assert "the input" in run.names["dot"]


def test_gradients_are_cleared_before_the_reverse_pass(watched, run, capsys):
    for _ in range(2):
        capsys.readouterr()
        run("%%tape --no-panel --loss loss\n" + CELL)
    assert capsys.readouterr().out.startswith("The gradient of x (norm 4.58) was not zero. %%tape cleared it")
    assert run.names["x"].grad.tolist() == [1.0, -2.0, 4.0]


def test_a_cell_with_its_own_tape_is_watched_and_not_reversed_again(watched, run, capsys):
    own = "with wp.Tape() as mine:\n" + CELL.replace("wp.", "    wp.") + "mine.backward(loss)\n"
    run("%%tape --no-panel --loss loss --name tape\n" + own)
    assert run.names["tape"] is run.names["mine"]
    assert len(recorded_tape(run.names["mine"]).reverse_passes) == 1


def test_warp_may_be_imported_in_the_cell_itself(watched, run, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "warp")
    run("%%tape --no-panel\nx = 1")
    assert watched.log == []


def test_a_loss_of_several_elements_is_one_message(watched, run, capsys):
    from IPython.core.error import UsageError

    with pytest.raises(UsageError, match=r"^%%tape: backward: Can only return gradients for scalar loss"):
        run("%%tape --no-panel --loss s\n" + CELL)


def test_a_failing_cell_ends_watching_and_keeps_its_tape(watched, run, capsys):
    with pytest.raises(ZeroDivisionError):
        run("%%tape --no-panel --name tape\n" + CELL + "1 / 0\n")
    assert watched.log[-1] == "done"
    assert len(recorded_tape(run.names["tape"]).operations) == 2


def test_checks_of_single_launches_work_in_a_cell(watched, run, capsys):
    assert run("%%gradcheck\n" + CELL).verdict == "AGREE"


def test_a_selection_in_the_panel_takes_an_array_of_warp(watched, run, capsys):
    pytest.importorskip("anywidget")
    run("%%tape --panel panel --name tape\n" + CELL)
    run("panel.select(array=x)")
    assert run.names["panel"].selection["array"] == "x"


# ------------------------------------------------------------------------------------------ the button


@pytest.fixture
def button():
    messages: list[tuple[str, str]] = []
    end = next_cell.listen(lambda change: messages.append((change["state"], change["message"])))
    yield messages
    end()
    next_cell.arm(False)


def test_the_next_cell_is_recorded_on_warp(watched, run, button, capsys):
    next_cell.arm(True)
    run(CELL)
    assert [state for state, _ in button] == ["armed", "recording", "off"]
    assert button[-1][1] == ""
    assert next_cell._kept.engine.name == "NVIDIA Warp"
    assert watched.log[-1] == "done"


def test_the_next_cell_may_make_a_tape_of_warp_itself(watched, run, button, capsys):
    next_cell.arm(True)
    run("with wp.Tape() as mine:\n" + CELL.replace("wp.", "    wp."))
    assert next_cell._kept is recorded_tape(run.names["mine"])
    assert "Warp tape" in capsys.readouterr().out


def test_a_warp_that_cannot_be_watched_is_named(watched, run, button, capsys):
    watched.refusal = "NVIDIA Warp 1.2 cannot be watched: 1.10 to 1.19 can"
    next_cell.arm(True)
    run(CELL)
    assert button[-1] == ("off", "NVIDIA Warp 1.2 cannot be watched: 1.10 to 1.19 can")


def test_a_cell_that_launches_nothing_on_warp_leaves_no_empty_tape_in_the_list(watched, run):
    before = live_tapes()
    run("import tapedebug\nx = tapedebug.zeros(3, requires_grad=True)\ny = tapedebug.zeros_like(x)")
    run("%%tape --no-panel --name tape\ntapedebug.copy(y, x)")
    assert [tape for tape in live_tapes() if tape not in before] == [run.names["tape"]]
