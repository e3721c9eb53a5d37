"""`%%gradcheck` and `%%jacobian`: cells that check themselves."""

from types import SimpleNamespace

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime import live_tapes
from tests.notebook.test_magics import CELL, run

CUBE = """\
@wp.kernel
def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]
x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y = wp.zeros(3, dtype=float, requires_grad=True)
wp.launch(cube, dim=3, inputs=[x], outputs=[y])
"""
BENT = """\
@wp.func
def twice(x: float):
    return 2.0 * x
@wp.func_grad(twice)
def adj_twice(x: float, adj: float):
    wp.adjoint[x] += 3.0 * adj
@wp.kernel
def bent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = twice(x[i])
x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
y = wp.zeros(2, dtype=float, requires_grad=True)
wp.launch(bent, dim=2, inputs=[x], outputs=[y])
"""


def refused(shell, cell):
    from IPython.core.error import UsageError

    with pytest.raises(UsageError) as caught:
        run(shell, cell)
    return str(caught.value)


def test_a_kernel_of_the_cell_is_checked(shell):
    result = run(shell, "%%gradcheck\n" + CUBE)
    assert result.verdict == "AGREE"
    assert [(pair.input, pair.output) for pair in result.pairs] == [("x", "y")]
    assert shell.user_ns["y"].numpy().tolist() == [1, 8, 27]
    assert shell.user_ns["x"].grad.numpy().tolist() == [0, 0, 0]


def test_a_wrong_gradient_shows_itself_and_raises_only_where_asked(shell):
    result = run(shell, "%%gradcheck --result found\n" + BENT)
    assert result.verdict == "WRONG"
    assert shell.user_ns["found"] is result
    said = refused(shell, "%%gradcheck --raise-exception\n" + BENT)
    assert said.startswith("%%gradcheck: Gradient check for tape of 1 launch failed: WRONG: launch 0 ")


def test_a_result_keeps_no_tape_and_says_so_where_a_script_needs_one(shell):
    before = set(live_tapes())
    run(shell, "%%gradcheck --result lost\n" + BENT)
    run(shell, "%%gradcheck --result found --name kept\n" + BENT)
    assert [tape for tape in live_tapes() if tape not in before] == [shell.user_ns["kept"]]
    assert "wp.autograd.gradcheck(" in shell.user_ns["found"].reproduce()
    with pytest.raises(wp.GradcheckError) as caught:
        shell.user_ns["lost"].reproduce()
    assert str(caught.value) == (
        "no script can be written: the tape with the values of this launch is gone; "
        "keep it in a variable (%%gradcheck --name VAR)"
    )


def test_options_are_handed_on(shell, monkeypatch):
    from tapedebug.notebook import magics

    asked = {}

    def check(tape, **options):
        asked.update(options)
        return SimpleNamespace(summary=str, scripts={})

    monkeypatch.setattr(magics, "gradcheck_tape", check)
    run(
        shell,
        "%%gradcheck --eps 0.01 --max-inputs-per-var 5 --sample first --no-check-undefined-grad --fast-mode "
        "--whitelist-kernels square total --end-to-end --loss loss --inputs x y --max-seconds 3\n" + CELL,
    )
    user = shell.user_ns
    assert asked["loss"] is user["loss"]
    assert asked["inputs"] == [user["x"], user["y"]]
    assert asked["whitelist_kernels"] == ["square", "total"]
    plain = (
        "eps",
        "max_inputs_per_var",
        "sample",
        "check_undefined_grad",
        "fast_mode",
        "end_to_end",
        "max_seconds",
    )
    assert [asked[name] for name in plain] == [0.01, 5, "first", False, True, True, 3.0]
    assert (asked["atol"], asked["masked"], asked["input_output_masks"]) == (1e-3, None, None)


def test_an_expression_of_the_user_is_a_mask(shell):
    shell.user_ns["chosen"] = {"square": [("x", "y")]}
    result = run(shell, "%%gradcheck --input-output-masks chosen\n" + CELL)
    assert [(pair.input, pair.output) for pair in result.pairs][:1] == [("x", "y")]
    said = refused(shell, "%%gradcheck --input-output-masks chosn\n" + CELL)
    assert said == "%%gradcheck: --input-output-masks chosn: NameError: name 'chosn' is not defined"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "--whitelist-kernels cubes",
            "%%gradcheck: gradcheck_tape: whitelist_kernels names the kernel 'cubes'; the ",
        ),
        ("--loss y", "%%gradcheck: gradcheck_tape: loss without end_to_end=True: "),
        ("--eps -1", "%%gradcheck: eps, the largest step, must be positive; got -1.0"),
        ("--reference float16", "%%gradcheck: argument --reference: invalid choice: 'float16' (choose from "),
        ("--result 1", "%%gradcheck: '1' is not the name of a variable"),
    ],
)
def test_what_does_not_fit_is_a_message(shell, line, message):
    assert refused(shell, f"%%gradcheck {line}\n{CUBE}").startswith(message)


def test_what_the_cell_itself_does_wrong_has_its_traceback(shell, capsys):
    with pytest.raises(wp.LaunchError):
        run(shell, "%%gradcheck\nwp.launch(square, dim=3, inputs=[1.0])")
    said = capsys.readouterr()
    shown = said.out + said.err
    assert "wp.launch(square, dim=3, inputs=[1.0])" in shown
    assert "magics.py" not in shown


def test_an_interrupt_leaves_arrays_as_they_were(shell, monkeypatch):
    from tapedebug.autograd.checks import adjoint_check as checks

    run(shell, "x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)\nx.grad.fill_(7.0)")
    launch = "wp.launch(square, dim=3, inputs=[x], outputs=[y])\n"
    run(shell, "y = wp.zeros(3, dtype=float, requires_grad=True)\n")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tapedebug.autograd.tape_check.check_in_sight", interrupted)
    result = shell.run_cell("%%gradcheck\n" + launch)
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    user = shell.user_ns
    assert user["x"].numpy().tolist() == [1, 2, 3]
    assert user["x"].grad.numpy().tolist() == [7, 7, 7]
    assert user["y"].numpy().tolist() == [1, 4, 9]
    assert user["y"].grad.numpy().tolist() == [0, 0, 0]
    assert checks is not None
    run(shell, "%%tape --no-panel\n" + launch)  # nothing is recording any more


def test_the_jacobian_of_the_last_launch(shell):
    found = run(shell, "%%jacobian --result J\n" + CUBE)
    assert shell.user_ns["J"] is found
    assert np.allclose(found["x", "y"], np.diag([3, 12, 27]))
    assert shell.user_ns["x"].grad.numpy().tolist() == [0, 0, 0]


def test_the_jacobian_of_a_launch_whose_input_was_overwritten_since(shell):
    found = run(shell, "%%jacobian --launch 0\n" + CUBE + "x.fill_(9.0)\n")
    assert np.allclose(found["x", "y"], np.diag([3, 12, 27]))


def test_jacobians_by_tangents_of_some_rows(shell):
    found = run(shell, "%%jacobian --mode tangent --max-outputs-per-var 2 --sample first\n" + CUBE)
    assert found["x", "y"].shape == (3, 3)


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        (
            "",
            "x = 1",
            "%%jacobian: this cell launched no kernel, and there is nothing to show\n  = hint: ",
        ),
        ("--launch 7", CUBE, "%%jacobian: launch 7 is no kernel launch of this cell; there are 0 (cube)"),
        ("--launch x", CUBE, "%%jacobian: argument --launch: invalid int value: 'x'"),
        ("--mode sideways", CUBE, "%%jacobian: argument --mode: invalid choice: 'sideways'"),
        (
            "",
            CUBE.replace(", requires_grad=True", ""),
            "%%jacobian: none of the 1 kernel launches of this cell has",
        ),
        ("--input-output-mask [('x','z')]", CUBE, "%%jacobian: "),
    ],
)
def test_what_has_no_jacobian_says_so(shell, head, body, message):
    assert refused(shell, f"%%jacobian {head}\n{body}").startswith(message)


NOTHING = (
    "{0}: this cell launched no kernel, and there is nothing to show\n"
    "  = hint: call wp.launch in this cell, or a function that does; other cells are not recorded"
)


@pytest.mark.parametrize("magic", ["%%gradcheck", "%%jacobian"])
@pytest.mark.parametrize("body", ["x = 1", "x = wp.ones(3, requires_grad=True)\ny = wp.clone(x)"])
def test_a_cell_without_a_kernel_launch_has_nothing_to_check(shell, magic, body):
    assert refused(shell, f"{magic}\n{body}") == NOTHING.format(magic)


def test_a_cell_without_launches_has_no_tape_to_show(front_end, capsys):
    from tests.notebook.test_magics import run as run_cell

    assert run_cell(front_end, "%%tape --name tape --panel panel\n40 + 2") == 42
    assert capsys.readouterr().out.splitlines() == [*NOTHING.format("%%tape").splitlines(), "Out[1]: 42"]
    assert front_end.user_ns["tape"].records == []
    assert "panel" not in front_end.user_ns
    loss = "loss = wp.zeros(1, dtype=float, requires_grad=True)"
    assert refused(front_end, f"%%tape --loss loss\n{loss}") == NOTHING.format("%%tape")


@pytest.mark.parametrize(
    ("cell", "messages"),
    [
        (
            "%%gradcheck --end-to-end\n" + CUBE,
            "%%gradcheck: end_to_end: no loss is known: backward has not been called on this tape\n"
            "  = hint: pass --loss ARRAY",
        ),
        (
            "%%gradcheck --loss y\n" + CUBE,
            "%%gradcheck: gradcheck_tape: loss without end_to_end=True: launches are checked one by one, "
            "with all that they read and write\n  = hint: pass --end-to-end",
        ),
        (
            "%%tape --loss other\nother = wp.zeros(1, requires_grad=True)\n" + CUBE,
            "%%tape: backward: the loss, an array(shape=(1,), dtype=float32), is not on this tape: "
            "none of its 1 records uses it\n  = hint: launch what computes it in this cell",
        ),
        (
            "%%tape --loss y --inputs x,y\n" + CUBE,
            "%%tape: --inputs x,y: there is no variable 'x,y'; separate names by spaces: --inputs x y",
        ),
        (
            "%%jacobian --input-output-mask [('x',\n" + CUBE,
            "%%jacobian: --input-output-mask [('x',: this is not a Python expression: '(' was never closed",
        ),
        (
            "%%tape --help\n" + CUBE,
            "%%tape: unrecognized arguments: --help\n   | %%tape --help\n   |        ^^^^^^\n"
            "  = hint: %%tape? shows the options",
        ),
    ],
)
def test_hints_of_magics_speak_of_options(shell, cell, messages):
    assert refused(shell, cell) == messages
