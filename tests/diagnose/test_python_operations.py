"""Python operations on a tape: faults in and around them are found, like those of launches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._source import site_span
from tapedebug.autograd import end_to_end, gradcheck, gradcheck_tape, hvp, jvp
from tapedebug.contract import GradientStop, HandWrittenAdjoint
from tapedebug.report import report
from tapedebug.runtime.launch.launch_python import run_operation
from tapedebug.runtime.launch.python_operation import PythonOperation
from tapedebug.runtime.tape.record import call_site
from tests.runtime.kernels import square, total

MATRIX = np.array([[4.0, 1.0, 0.5], [0.2, 5.0, 1.0], [0.3, 0.4, 6.0]])


def solve(b):
    return np.linalg.solve(MATRIX.astype(b.dtype), b)


def transposed(values, adjoints):
    return np.linalg.solve(MATRIX.T.astype(adjoints[0].dtype), adjoints[0])


def not_transposed(values, adjoints):
    return np.linalg.solve(MATRIX.astype(adjoints[0].dtype), adjoints[0])


def cube(b):
    return b**3


def cube_backward(values, adjoints):
    return 3 * values[0] ** 2 * adjoints[0]


def root(b):
    with np.errstate(all="ignore"):
        return np.sqrt(b)


def root_backward(values, adjoints):
    with np.errstate(all="ignore"):
        return adjoints[0] / (2 * np.sqrt(values[0]))


def program(
    forward=solve, backward=transposed, *, mode="preserve", grad=True, again=False, jvp=None, at=(1, 2, 3)
):
    """Record the loss Σ forward(x²)²; with `again` a launch overwrites what the operation read."""
    x, b = wp.array(at, dtype=float, requires_grad=True), wp.zeros(3, requires_grad=True)
    y, z = wp.zeros(3, requires_grad=grad), wp.zeros(3, requires_grad=True)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape(mode) as tape:
        wp.launch(square, 3, inputs=[x], outputs=[b])
        wp.launch_python(forward, backward, reads=[b], writes=[y], jvp=jvp)
        wp.launch(square, 3, inputs=[y], outputs=[z])
        if again:
            wp.launch(square, 3, inputs=[z], outputs=[b])
        wp.launch(total, 3, inputs=[z, loss])
    tape.backward(loss)
    return tape


def line_of(text):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(text))


def test_a_right_operation_agrees_and_the_coverage_says_what_it_lacks():
    diagnosis = wp.diagnose(program())
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])
    note = "no dot-product test: record 1 is a Python operation without jvp (solve)"
    assert note in diagnosis.trace.coverage.notes
    whole = end_to_end(program(jvp=lambda values, tangents: solve(tangents[0])))
    assert whole.verdict == "AGREE"
    assert whole.dot_product.agrees
    assert not [text for text in whole.coverage.notes if "jvp" in text]


def test_a_wrong_backward_is_named_with_its_line():
    diagnosis = wp.diagnose(program(backward=not_transposed))
    [finding] = diagnosis.findings
    assert (finding.rule, finding.severity, finding.launches) == ("wrong-adjoint", "error", [1])
    assert (finding.location.line, finding.location.function) == (
        line_of("def not_transposed"),
        "not_transposed",
    )
    assert finding.fix == (
        "look at the backward of solve, which was given to launch_python: it does not compute the transpose "
        "of the derivative of forward"
    )
    with pytest.raises(wp.GradcheckError, match="the whole tape"):
        gradcheck_tape(program(backward=not_transposed), end_to_end=True, show_summary=False)
    checked = gradcheck_tape(
        program(backward=not_transposed), end_to_end=True, show_summary=False, raise_exception=False
    )
    wrong = [pair for pair in checked.pairs if pair.launch is not None and pair.verdict == "WRONG"]
    assert [(pair.subject, pair.input) for pair in wrong] == [("launch 1 (solve)", "b")]
    assert wrong[0].message.startswith("its adjoint is wrong, for the adjoints that arrive: b[")
    checked = gradcheck_tape(program(), end_to_end=True, show_summary=False)
    assert [pair.verdict for pair in checked.pairs if pair.launch == 1] == ["AGREE"]
    alone = gradcheck_tape(program(), show_summary=False)
    assert "not checked: launch 1: a Python operation, which gradcheck_tape(end_to_end=True) checks" in (
        alone.coverage.notes
    )


def test_an_overwrite_of_what_it_read_is_found_and_measured():
    diagnosis = wp.diagnose(program(cube, cube_backward, mode="ignore", again=True))
    [finding] = diagnosis.by_rule("overwrite")
    assert (diagnosis.verdict, finding.severity, finding.launches) == ("WRONG", "error", [1, 3])
    assert finding.message.startswith("Launch 3 (square) overwrites values of b")
    assert "that the adjoint of launch 1 (cube) needs" in finding.message
    assert wp.diagnose(program(cube, cube_backward, again=True)).verdict == "AGREE"


def test_an_output_without_a_gradient_is_disconnected():
    diagnosis = wp.diagnose(program(grad=False))
    [finding] = diagnosis.by_rule("disconnected")
    assert finding.severity == "error"
    assert "y" in finding.message
    assert 1 in finding.launches


def test_a_backward_that_gives_no_gradient_is_wrong():
    diagnosis = wp.diagnose(program(backward=lambda values, adjoints: None))
    assert diagnosis.verdict == "WRONG"
    assert [finding.launches for finding in diagnosis.findings if finding.severity == "error"] == [[1]]


def test_adjoints_that_are_not_finite_begin_in_it():
    diagnosis = wp.diagnose(program(root, root_backward, at=(0, 2, 3)))
    [finding] = diagnosis.by_rule("nonfinite")
    assert finding.launches[0] == 1
    assert "launch 1 (root)" in finding.message


def test_an_operation_whose_runs_differ_is_nondeterministic():
    random = np.random.default_rng(0)
    diagnosis = wp.diagnose(program(lambda b: solve(b) * (1 + random.uniform()), transposed))
    assert diagnosis.verdict == "NONDETERMINISTIC"


def test_an_operation_in_float32_is_said_to_be_one():
    diagnosis = wp.diagnose(program(lambda b: solve(b).astype(np.float32), transposed))
    assert diagnosis.trace.coverage.notes[0] == (
        "the float64 reference is not entirely float64: record 1 (<lambda>) computes in float32: forward "
        "returns float32, given float64"
    )


def bent(b):
    if b.dtype != np.float32:
        raise TypeError("float32 only")
    return np.tanh(b) * b


def bent_backward(values, adjoints):
    t = np.tanh(values[0])
    return adjoints[0] * (t + values[0] * (1 - t * t))


@pytest.mark.parametrize("at", [(0.4, 0.9, 1.3), (0.011, 0.7, 1.6)])
def test_an_operation_that_refuses_float64_is_judged_with_larger_steps(at):
    tape = program(bent, bent_backward, at=at)
    assert wp.diagnose(tape).verdict == "AGREE"
    checked = gradcheck_tape(tape, end_to_end=True, show_summary=False)
    assert [pair.verdict for pair in checked.pairs] == ["AGREE"] * 5
    assert any("forward raises TypeError if it is given float64" in note for note in checked.coverage.notes)
    wrong = program(bent, lambda values, adjoints: 1.02 * bent_backward(values, adjoints), at=at)
    checked = gradcheck_tape(wrong, end_to_end=True, show_summary=False, raise_exception=False)
    assert {pair.launch for pair in checked.pairs if pair.verdict == "WRONG"} == {None, 1}
    assert wp.diagnose(wrong).verdict == "WRONG"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "AGREE"), (1.02, "WRONG")])
def test_a_function_with_an_operation_that_refuses_float64_is_judged_with_larger_steps(factor, verdict):
    def backward(values, adjoints):
        return factor * bent_backward(values, adjoints)

    def function(x):
        y = wp.zeros(3, requires_grad=True)
        wp.launch_python(bent, backward, reads=[x], writes=[y])
        return y

    x = wp.array((0.4, 0.9, 1.3), dtype=float, requires_grad=True)
    checked = gradcheck(function, inputs=[x], show_summary=False, raise_exception=False)
    assert checked.verdict == verdict
    assert (
        "record 0 (bent) computes in float32: forward raises TypeError if it is given float64: its "
        "derivative is compared with differences of larger steps, which have larger error bars"
    ) in checked.coverage.notes


def test_a_trace_shows_its_source_names_and_call_site(tmp_path):
    trace = wp.trace.record(program(jvp=lambda values, tangents: solve(tangents[0])))
    launch = trace.launches[1]
    assert (launch.kind, launch.name, launch.dim) == ("python", "solve", [])
    kernel = trace.kernels[launch.kernel]
    assert (kernel.line, kernel.lines[0]) == (line_of("def solve"), "def solve(b):")
    assert kernel.adjoint.startswith("def transposed(values, adjoints):")
    places = [(a.param, a.kind, a.line - kernel.line, a.needed) for a in kernel.accesses]
    assert places == [(0, "read", 0, True), (1, "write", 1, False)]
    assert kernel.lines[1][kernel.accesses[1].column : kernel.accesses[1].end_column] == "return"
    assert [(arg.name, trace.arrays[arg.array].label) for arg in launch.args] == [
        ("b", "b"),
        ("writes[0]", "y"),
    ]
    assert launch.call_site.line == line_of("        wp.launch_python(")
    trace.save(tmp_path / "it.trace")
    again = wp.trace.load_trace(tmp_path / "it.trace")
    assert again.launches[1].kind == "python"
    assert again.to_json() == trace.to_json()
    assert "solve" in program().visualize()


def test_names_come_from_the_call():
    weights, mean = wp.ones(3, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_python(lambda a: a + 1, lambda v, a: a[0], [weights[1:]], [mean[:2]], name="shift")
    assert [info.label for info in wp.trace.record(tape).arrays] == ["weights[1:3]", "mean[0:2]"]


def outer(x, backward=transposed, tangent=None):
    y, loss = wp.zeros(3, requires_grad=True), wp.zeros(1, requires_grad=True)
    wp.launch_python(solve, backward, [x], [y], jvp=tangent)
    wp.launch(total, 3, inputs=[y, loss])
    return loss


def test_functions_that_use_one_are_checked():
    x = wp.array([1, 2, 3], dtype=float, requires_grad=True)
    assert gradcheck(outer, inputs=[x], show_summary=False)
    wrong = gradcheck(
        lambda x: outer(x, not_transposed), inputs=[x], show_summary=False, raise_exception=False
    )
    assert wrong.verdict == "WRONG"
    with pytest.raises(wp.GradcheckError, match=r"record 0 is a Python operation without jvp \(solve\)"):
        jvp(outer, inputs=[x], tangents={x: np.ones(3)})
    [tangent] = jvp(with_tangents, inputs=[x], tangents={x: np.ones(3)}).values()
    np.testing.assert_allclose(tangent, [solve(np.ones(3)).sum()], rtol=1e-6)


def with_tangents(x):
    return outer(x, tangent=lambda values, tangents: solve(tangents[0]))


def test_second_derivatives_are_refused():
    x = wp.array([1, 2, 3], dtype=float, requires_grad=True)
    with pytest.raises(wp.TapedebugError, match="which has no second derivative"):
        hvp(with_tangents, inputs=[x], tangents={x: np.ones(3)})


def test_the_panel_runs_checks_of_the_whole_tape_and_says_what_it_leaves_out():
    tape = program()
    panel = wp.TapeDebugger(tape, mask=[[1, "b", "writes[0]"], [None, "x", "loss"]])
    panel.run()
    checks = {check["launch"]: check for check in panel.checks if check["verdict"]}
    assert checks[None]["verdict"] == "AGREE"
    messages = "not checked: a Python operation, which gradcheck_tape(end_to_end=True) checks"
    assert checks[1]["message"] == messages


def test_a_report_shows_it(tmp_path):
    tape = program(backward=not_transposed)
    path = tmp_path / "solver.html"
    report(tape, path)
    assert path.stat().st_size > 100_000


def test_rows_of_a_batch_run_one_by_one():
    from tapedebug.runtime.replay.batch import BatchedReplay

    replay = program().new_replay()
    reason = "record 1 (solve) is a Python operation, which runs row by row"
    assert BatchedReplay(replay).obstacle() == reason
    assert BatchedReplay(replay).obstacle(back=True) == reason


class Library:
    """A library whose adjoint of `solve` is wrong, and says where the gradient ends."""

    library = "Lib"

    def stops(self):
        place = site_span((not_transposed.__code__, 0))
        return [GradientStop(".constant()", place)]


def test_calls_that_end_a_gradient_in_a_library_explain_a_wrong_one():
    x, loss = wp.array([1, 2, 3], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    y = wp.zeros(3, requires_grad=True)
    for backward, count in ((not_transposed, 1), (transposed, 0)):
        operation = PythonOperation(
            solve, backward, None, "solve", [x], [y], ["x", "y"], "lib.function", Library()
        )
        loss.zero_()
        with wp.Tape() as tape:
            for _ in range(2):
                run_operation(operation, call_site(1))
            wp.launch(total, 3, inputs=[y, loss])
        tape.backward(loss)
        findings = [f for f in wp.diagnose(tape).findings if f.severity == "error"]
        assert len(findings) == count
    tape.reset()
    with wp.Tape() as tape:
        run_operation(
            PythonOperation(solve, not_transposed, None, "solve", [x], [y], library=Library()), call_site(1)
        )
        wp.launch(total, 3, inputs=[y, loss])
    tape.backward(loss)
    [finding] = wp.diagnose(tape).findings
    line = line_of("def not_transposed")
    assert (finding.rule, finding.location.line, finding.inputs) == ("disconnected", line, ["x"])
    assert finding.message == (
        f"The gradient ends in launch 0 (solve), at test_python_operations.py:{line}: .constant() returns "
        "values that Lib does not differentiate, and the results depend on them. The loss depends on x "
        "through that line, and its gradient lacks this part."
    )
    assert tape.operations[0].capability(HandWrittenAdjoint) is None
