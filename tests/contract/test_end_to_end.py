"""The end-to-end check of gradients on tapes of another engine."""

from __future__ import annotations

import numpy as np
import pytest

from tapedebug import GradcheckError
from tapedebug._processor_limit import ProcessorLimit
from tapedebug._progress import OutOfTime, Progress
from tapedebug._time_limit import enforced
from tapedebug.autograd import end_to_end
from tapedebug.operations import OperationReplay
from tests.reference_engine import Tape, array, operation, zeros


@operation(writes="y", needs=["x"])
def square(x):
    return x * x


@square.adjoint
def _(g, x):
    return 2 * x * g


@operation(writes="y", needs=["x"])
def wrong_cube(x):
    return x**3


@wrong_cube.adjoint
def _(g, x):
    return 2 * x**2 * g


@operation(writes="y")
def negate(x):
    return -x


@negate.adjoint
def _(g, x):
    return -g


@operation(writes="loss")
def total(x):
    return x.sum(keepdims=True)


@total.adjoint
def _(g, x):
    return np.broadcast_to(g, x.shape)


def recorded(first=square, overwrite=False):
    x, y, z, loss = array([1.0, 2.0, 3.0]), zeros(3), zeros(3), zeros(1)
    z = x if overwrite else z
    with Tape() as tape:
        first(x, y)
        negate(y, z)
        total(z, loss)
    tape.backward(loss)
    return tape, x, loss


@operation(writes="loss")
def add_up(a, b):
    return np.array([np.sum(a) + np.sum(b)])


@add_up.adjoint
def _(g, a, b):
    return np.full_like(a, g[0]), np.full_like(b, g[0])


def test_a_right_gradient_agrees_and_the_coverage_says_what_was_not_tested() -> None:
    tape, x, _ = recorded()
    found = end_to_end(tape)
    assert np.array_equal(x.grad, [-2, -4, -6])
    assert (found.verdict, [check.name for check in found.inputs]) == ("AGREE", ["x"])
    assert found.coverage.summary.startswith("3 of 3 launches checked end to end; agrees to ")
    assert found.coverage.notes == ("no dot-product test: the engine has no tangents",)
    assert found.loss == found.loss64 == -14


def test_an_overwrite_is_wrong_by_as_much_as_the_program_was_off() -> None:
    tape, x, _ = recorded(overwrite=True)
    found = end_to_end(tape)
    assert np.array_equal(x.grad, [2, 8, 18])  # 2 x g, with x = -x² by then
    assert found.verdict == "WRONG"
    assert found.inputs[0].reason == (
        "values that the adjoint needs were overwritten before the reverse pass"
    )
    right = np.array([-2.0, -4, -6])
    assert found.rel_error == pytest.approx(np.linalg.norm(x.grad - right) / np.linalg.norm(right))


def test_an_adjoint_that_is_no_transpose_is_wrong() -> None:
    found = end_to_end(recorded(wrong_cube)[0])
    assert found.verdict == "WRONG"
    assert found.rel_error == pytest.approx(1 / 3)  # 2 x² for 3 x²


def test_a_loss_of_another_tape_is_refused() -> None:
    tape, *_ = recorded()
    with pytest.raises(GradcheckError, match="is not on the tape") as error:
        end_to_end(tape, zeros(1))
    assert error.value.hint == "pass the array that a launch of this tape wrote"


def test_results_until_the_time_limit_are_returned_and_the_rest_is_named() -> None:
    x, y, first, second, loss = array([1.0, 2.0]), array([3.0, 4.0]), zeros(2), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, first)
        square(y, second)
        add_up(first, second, loss)
    tape.backward(loss)
    found: list[object] = []

    def expire() -> None:
        if found:
            raise OutOfTime("time was up")

    result = end_to_end(tape, loss, [x, y], labels={x: "x", y: "y"}, checkpoint=expire, each=found.append)
    assert [check.name for check in result.inputs] == ["x"]
    assert (result.verdict, result.left_out) == ("AGREE", ("y",))
    assert not result
    assert "not compared, as time was up: y" in result.coverage.notes
    found.append("before the first result")
    with pytest.raises(OutOfTime):
        end_to_end(tape, loss, [x, y], checkpoint=expire)


@pytest.mark.parametrize("changed", [False, True])
def test_under_a_time_limit_a_tape_runs_forward_once_in_each_precision_before_its_gradients(
    changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, x, loss = recorded()
    if changed:  # the run of the program cannot be compared with that of the replay
        loss.values[:] = 7.0
    events: list[str] = []
    plain_forward, plain_backward = OperationReplay.forward, OperationReplay.backward

    def forward(self, start=0, stop=None, *given, **named):
        events.extend([f"forward {8 * (1 + self.is_float64)}"] * (stop != 0))
        return plain_forward(self, start, stop, *given, **named)

    def backward(self, *given, **named):
        events.append(f"backward {8 * (1 + self.is_float64)}")
        return plain_backward(self, *given, **named)

    monkeypatch.setattr(OperationReplay, "forward", forward)
    monkeypatch.setattr(OperationReplay, "backward", backward)
    with enforced(Progress(False, ProcessorLimit(60.0, 60.0))):
        found = end_to_end(tape, loss, [x])
    assert found.verdict == "AGREE"
    before = events[: events.index("backward 16")]
    again = ["forward 8"] * changed
    assert before == ["forward 8", *again, "backward 8", "forward 16"]
