"""Rule `stale-gradient`: updates before backward and after zero; prints and checks are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.optim import SGD, Adam
from tests.diagnose.training_loop import Fit, N, alarms, descend, found, line_of


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
        f"test_stale_gradient.py:{zero} after backward at test_stale_gradient.py:{zero - 1} and before it "
        "was read: its norm was 0; the pass gives a norm of 3.66."
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


def taken_early(how: str, steps: int = 3, rate: Callable[[int], float] = lambda step: 0.01) -> list[Any]:
    """A loop whose gradients are copied and cleared before backward; the tapes of it."""
    fit, tapes = Fit(), []
    held = wp.zeros(N, dtype=float)
    for step in range(steps):
        tape, loss = fit.record()
        if how == "numpy":
            slope = fit.w.grad.numpy().copy()
        elif how == "list":
            slope = np.array(fit.w.grad.list())
        elif how == "clone":
            slope = wp.clone(fit.w.grad)
        else:
            wp.copy(held, fit.w.grad)
            slope = held
        fit.w.grad.zero_()
        tape.backward(loss)
        slope = slope if isinstance(slope, np.ndarray) else slope.numpy()
        fit.w.assign(fit.w.numpy() - rate(step) * slope)
        tapes.append(tape)
    return tapes


@pytest.mark.parametrize("how", ["numpy", "list", "clone", "copy"])
def test_a_gradient_that_is_copied_and_cleared_before_backward(how: str) -> None:
    diagnosis = wp.diagnose(taken_early(how))
    (finding,) = [item for item in diagnosis.findings if item.rule == "stale-gradient"]
    assert (finding.severity, finding.arrays) == ("error", ["w"])
    assert finding.evidence["kind"] == "copied before backward"
    assert finding.evidence["step"]["name"] == "multiple"
    assert finding.evidence["step"]["rate"] == pytest.approx(0.01, rel=1e-4)
    assert finding.evidence["step"]["rests"], "the first step read zeros"
    assert diagnosis.verdict == "WRONG"


def test_the_words_about_a_copy_name_each_line() -> None:
    tape = taken_early("numpy")[-1]
    (finding,) = found(tape, "stale-gradient")
    name = "test_stale_gradient.py"
    read = line_of("            slope = fit.w.grad.numpy().copy()", __file__)
    update = line_of("fit.w.assign(fit.w.numpy() - rate(step) * slope)", __file__)
    consumed, norm = (finding.evidence["gradients"]["w"][key] for key in ("norm_consumed", "norm"))
    assert consumed > norm > 1
    assert finding.message == (
        f"w was updated at {name}:{update}, after backward at {name}:{update - 2}, with a gradient that had "
        f"been read at {name}:{read}, before that pass wrote it: it was that of an earlier pass, of norm "
        f"{consumed:.3g}; the pass gives a norm of {norm:.3g}, which had not been read by then. Measured, "
        "each step is -0.01 times the gradient that was read, and where that was zero, nothing moved."
    )
    assert finding.call_site.line == read
    assert finding.fix == f"read (and clear) the gradient after backward, not before it at {name}:{read}"


def test_another_rate_at_each_step_is_allowed_for() -> None:
    tapes = taken_early("numpy", rate=lambda step: 0.02 / (1 + step))
    (finding,) = found(tapes, "stale-gradient")
    assert (finding.severity, finding.evidence["step"]["name"]) == ("error", "multiple")


@wp.kernel
def bowl(w: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, (w[0] - 2.0) * (w[0] - 2.0) * (1.0 + w[0] * w[0]))


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_one_number_is_known_by_several_steps(momentum: float) -> None:
    w, tapes, velocity = wp.array([0.5], dtype=float, requires_grad=True), [], 0.0
    for _ in range(6):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        slope = w.grad.numpy().copy()
        w.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(bowl, dim=1, inputs=[w], outputs=[loss])
        tape.backward(loss)
        velocity = momentum * velocity + slope
        w.assign(w.numpy() - 0.01 * velocity)
        tapes.append(tape)
    findings = found(tapes, "stale-gradient")
    assert [item.severity for item in findings] == (["error"] if momentum == 0.0 else [])


def test_a_sample_that_is_replaced_is_no_step() -> None:
    fit, rng, tapes = Fit(), np.random.default_rng(0), []
    fit.x.requires_grad = True
    for _ in range(4):
        tape, loss = fit.record()
        print(fit.x.grad.numpy())
        fit.x.grad.zero_()
        tape.backward(loss)
        fit.w.assign(fit.w.numpy() - 0.01 * fit.w.grad.numpy())
        fit.w.grad.zero_()
        fit.x.assign(rng.uniform(1.0, 2.0, N))
        tapes.append(tape)
    assert alarms(tapes) == []


def test_gradients_that_are_read_again_after_the_pass_are_not_stale() -> None:
    fit, tapes = Fit(), []
    for _ in range(3):
        tape, loss = fit.record()
        before = fit.w.grad.numpy().copy()
        fit.w.grad.zero_()
        tape.backward(loss)
        mean = 0.5 * (before + fit.w.grad.numpy())  # an average of two steps
        fit.w.assign(fit.w.numpy() - 0.01 * mean)
        tapes.append(tape)
    assert alarms(tapes) == []
