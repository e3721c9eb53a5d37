"""Rule `stale-gradient`: updates before backward and after zero; prints and checks are none."""

from __future__ import annotations

import pytest

import tapedebug as wp
from tapedebug.optim import SGD, Adam
from tests.diagnose.looping import Fit, N, alarms, descend, found, line_of


def test_a_step_before_backward_takes_zeros_first() -> None:
    fit = Fit()
    tape, loss = fit.record()
    SGD([fit.w]).step([fit.w.grad])
    tape.backward(loss)
    (finding,) = found(tape, "stale-gradient")
    step = line_of("SGD([fit.w]).step([fit.w.grad])", __file__)
    assert finding.message == (
        f"w was updated at test_stale_gradient.py:{step} with a gradient that backward at "
        f"test_stale_gradient.py:{step + 1} had not written yet: it was zero; the pass gives a norm of 3.66."
    )
    assert (finding.severity, finding.arrays) == ("error", ["w"])
    assert finding.call_site.line == step
    assert finding.fix == f"call backward before the update at test_stale_gradient.py:{step}"
    assert wp.diagnose(tape).verdict == "WRONG"


@pytest.mark.parametrize("step", ["optimiser", "launch", "line"])
def test_a_step_before_backward_takes_the_gradient_of_the_pass_before(step: str) -> None:
    fit = Fit()
    sgd = SGD([fit.w], lr=0.01)
    for _ in range(3):
        tape, loss = fit.record()
        if step == "optimiser":
            sgd.step([fit.w.grad])
        elif step == "launch":
            wp.launch(descend, dim=N, inputs=[fit.w, fit.w.grad, 0.01])
        else:
            fit.w.assign(fit.w.numpy() - 0.01 * fit.w.grad.numpy())
        tape.zero()
        tape.backward(loss)
    (finding,) = found(tape, "stale-gradient")
    assert finding.severity == "error"
    assert finding.evidence["kind"] == "before backward"
    assert finding.evidence["gradients"]["w"]["norm_consumed"] > 1
    assert "it was that of an earlier pass, of norm " in finding.message


def test_a_gradient_that_is_zeroed_before_the_step() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    tape.zero()
    Adam([fit.w]).step([fit.w.grad])
    (finding,) = found(tape, "stale-gradient")
    zero = line_of("    tape.zero()", __file__, 1)
    assert finding.message == (
        f"w was updated at test_stale_gradient.py:{zero + 1} with a gradient that had been zeroed at "
        f"test_stale_gradient.py:{zero} after backward at test_stale_gradient.py:{zero - 1} and before "
        "anybody read it: its norm was 0; the pass gives a norm of 3.66."
    )
    assert finding.severity == "error"
    assert (
        finding.fix == f"zero the gradient after the update, not before it at test_stale_gradient.py:{zero}"
    )
    assert finding.evidence["zeroed_at"]["line"] == zero


def test_where_reading_and_writing_may_be_two_things_it_is_a_warning() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    fit.w.grad.zero_()
    slope = fit.w.grad.numpy().copy()
    fit.w.assign(fit.w.numpy() - slope)
    (finding,) = found(tape, "stale-gradient")
    assert finding.severity == "warning"


def test_prints_checks_and_copies_are_no_updates() -> None:
    fit = Fit()
    for _ in range(3):
        tape, loss = fit.record()
        print(fit.w.grad.numpy())
        tape.backward(loss)
        slope = fit.w.grad.numpy().copy()
        tape.zero()
        assert not fit.w.grad.numpy().any()
        fit.w.assign(fit.w.numpy() - 0.01 * slope)
    assert alarms(tape) == []


def test_a_view_of_the_gradient_that_was_taken_once_is_no_stale_read() -> None:
    fit = Fit()
    slope, weights = fit.w.grad.numpy(), fit.w.numpy()
    for _ in range(3):
        tape, loss = fit.record()
        tape.backward(loss)
        weights -= 0.01 * slope
        slope[:] = 0.0
    assert alarms(tape) == []


def test_a_gradient_that_is_zero_anyway_is_no_finding() -> None:
    fit = Fit()
    fit.x.fill_(1.0)
    fit.t.fill_(0.5)
    tape, loss = fit.record()
    SGD([fit.w]).step([fit.w.grad])
    tape.backward(loss)
    assert not fit.w.grad.numpy().any()
    assert alarms(tape) == []


def test_several_parameters_of_one_step_are_one_finding() -> None:
    fit = Fit()
    fit.x.requires_grad = True
    tape, loss = fit.record()
    SGD([fit.w, fit.x]).step([fit.w.grad, fit.x.grad])
    tape.backward(loss)
    (finding,) = found(tape, "stale-gradient")
    assert sorted(finding.arrays) == ["w", "x"]
    assert " Likewise x." in finding.message
