"""Rule `accumulated`: sums of gradients that nobody meant, and those that somebody did."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.optim import SGD, Adam
from tests.diagnose.training_loop import Fit, N, alarms, descend, drag, found, line_of, misfit


def by_optimiser(fit: Fit) -> None:
    SGD([fit.w], lr=0.01).step([fit.w.grad])


def by_launch(fit: Fit) -> None:
    wp.launch(descend, dim=N, inputs=[fit.w, fit.w.grad, 0.01])


def by_assign(fit: Fit) -> None:
    fit.w.assign(fit.w.numpy() - 0.01 * fit.w.grad.numpy())


def through_numpy(fit: Fit) -> None:
    view = fit.w.numpy()
    view -= 0.01 * fit.w.grad.numpy()


def element_by_element(fit: Fit) -> None:
    for i in range(N):
        fit.w[i] = fit.w[i] - 0.01 * fit.w.grad[i]


def after_a_copy(fit: Fit) -> None:
    slope = wp.zeros(N, dtype=float)
    wp.copy(slope, fit.w.grad)
    wp.launch(descend, dim=N, inputs=[fit.w, slope, 0.01])


UPDATES = [by_optimiser, by_launch, by_assign, through_numpy, element_by_element, after_a_copy]


def test_an_update_without_zero_is_told_with_all_numbers() -> None:
    fit = Fit()
    first, loss = fit.record()
    first.backward(loss)
    by_launch(fit)
    tape, loss = fit.record()
    tape.backward(loss)
    (finding,) = found(tape, "accumulated")
    alone = finding.evidence["gradients"]["w"]
    after = np.linalg.norm(fit.w.grad.numpy())
    assert finding.message == (
        "The gradient of w was not zero when backward ran at "
        f"test_accumulated.py:{line_of('tape.backward(loss)', __file__)}: its norm was 3.66. w was updated "
        "since the pass before at "
        f"test_accumulated.py:{line_of('wp.launch(descend, dim=N, inputs=[fit.w, fit.w.grad', __file__)}, "
        "and nothing zeroed the gradient. The pass alone gives a norm of 3.3; with the leftover gradient it "
        "was 6.96, 2.11 times that."
    )
    assert alone["norm_after"] == pytest.approx(after, rel=1e-5)
    assert alone["norm_before"] + alone["norm_added"] == pytest.approx(after, rel=1e-3)
    assert alone["ratio"] == pytest.approx(after / alone["norm_added"], rel=1e-5)
    assert (finding.severity, finding.arrays, finding.launches) == ("error", ["w"], [0])
    assert finding.call_site.line == line_of("tape.backward(loss)", __file__)
    assert finding.fix.startswith(
        "call tape.zero() or w.grad.zero_() after the update at test_accumulated.py:"
    )


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("dropped", [False, True], ids=["kept", "dropped"])
def test_whatever_updates_and_whether_the_tape_lives(update: Any, dropped: bool) -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    if dropped:  # as where a function records, runs backward and returns
        del tape
        gc.collect()
    update(fit)
    tape, loss = fit.record()
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert [item.rule for item in diagnosis.findings if item.severity == "error"] == ["accumulated"]
    assert diagnosis.verdict == "WRONG"
    assert (
        "the reverse pass alone: AGREE; what was consumed is not what it gives: see accumulated"
        in diagnosis.coverage.notes
    )


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("zero", ["tape", "grad", "fill", "numpy", "new"])
def test_a_zero_in_any_form_is_enough(update: Any, zero: str) -> None:
    fit = Fit()
    for _ in range(3):
        tape, loss = fit.record()
        tape.backward(loss)
        update(fit)
        if zero == "tape":
            tape.zero()
        elif zero == "grad":
            fit.w.grad.zero_()
        elif zero == "fill":
            fit.w.grad.fill_(0.0)
        elif zero == "numpy":
            fit.w.grad.numpy()[:] = 0.0
        else:
            fit.w.grad = wp.zeros(N, dtype=float)
    last, loss = fit.record()
    last.backward(loss)
    assert alarms(last) == []


def test_each_parameter_has_its_own_story() -> None:
    flat = wp.array(np.full(2 * N, 0.5), dtype=float, requires_grad=True)
    fit, other = Fit(), Fit()
    fit.w, other.w = flat[:N], flat[N:]
    for _ in range(2):
        tape, loss = fit.record()
        tape.backward(loss)
        by_assign(fit)
        fit.w.grad.zero_()
        wrong, loss = other.record()
        wrong.backward(loss)
        by_assign(other)
    assert alarms(tape) == []
    (finding,) = found(wrong, "accumulated")
    assert finding.severity == "error"
    assert 1.5 < finding.evidence["gradients"][finding.arrays[0]]["ratio"] < 2.5


def test_a_buffer_of_many_parameters() -> None:
    flat = wp.array(np.full(40 * N, 0.5), dtype=float, requires_grad=True)
    parts = [flat[k * N : (k + 1) * N] for k in range(40)]
    fit = Fit()
    for _ in range(2):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        y = wp.zeros(N, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            for part in parts:
                wp.launch(drag, dim=N, inputs=[part, fit.x], outputs=[y])
                wp.launch(misfit, dim=N, inputs=[y, fit.t], outputs=[loss])
        tape.backward(loss)
        flat.assign(flat.numpy() - 0.01 * flat.grad.numpy())
    (finding,) = found(tape, "accumulated")
    assert finding.severity == "error"
    assert len(finding.arrays) == 40


def test_adding_up_on_purpose_is_no_finding() -> None:
    fit = Fit()
    for _ in range(4):
        tape, loss = fit.record()
        tape.backward(loss)
    by_optimiser(fit)
    assert found(tape, "accumulated") == []


def test_a_gradient_that_is_only_looked_at_is_a_note() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    print(fit.w.grad.numpy())
    tape, loss = fit.record()
    tape.backward(loss)  # after a look
    (finding,) = found(tape, "accumulated")
    assert (finding.severity, finding.evidence["kind"], finding.fix) == ("info", "read", "")
    assert finding.message == (
        f"The gradient of w was read at test_accumulated.py:{line_of('print(fit.w.grad', __file__)} and not "
        "zeroed before backward ran again at test_accumulated.py:"
        f"{line_of('tape.backward(loss)  # after a look', __file__)}: the pass added to a gradient of norm "
        "3.66. w was not updated in between, so this is assumed to be intended."
    )


def test_a_view_of_the_gradient_that_stays_open_counts_as_a_read() -> None:
    fit = Fit()
    slope, weights = fit.w.grad.numpy(), fit.w.numpy()
    for _ in range(3):
        tape, loss = fit.record()
        tape.backward(loss)
        weights -= 0.01 * slope
    (finding,) = found(tape, "accumulated")
    assert (finding.severity, finding.evidence["kind"]) == ("error", "updated")
    assert finding.evidence["read_at"] is None


def test_where_a_look_and_an_assignment_need_not_be_one_step_it_is_a_warning() -> None:
    fit = Fit()
    for _ in range(2):
        tape, loss = fit.record()
        tape.backward(loss)
        slope = fit.w.grad.numpy().copy()
        fit.w.assign(fit.w.numpy() - 0.01 * slope)
    (finding,) = found(tape, "accumulated")
    assert finding.severity == "warning"


def test_a_start_from_the_same_constant_is_no_update() -> None:
    fit = Fit()
    for _ in range(2):
        fit.w.fill_(0.5)
        tape, loss = fit.record()
        tape.backward(loss)
        print(fit.w.grad.numpy())
    assert alarms(tape) == []


def test_backward_twice_counts_twice() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    tape.backward(loss)  # again
    (unread,) = found(tape, "accumulated")
    assert (unread.severity, unread.evidence["kind"]) == ("warning", "again")
    by_optimiser(fit)
    (finding,) = found(tape, "accumulated")
    assert finding.severity == "error"
    assert finding.evidence["gradients"]["w"]["ratio"] == pytest.approx(2.0, rel=1e-5)
    assert finding.message == (
        "Backward ran again on this tape from the same loss at test_accumulated.py:"
        f"{line_of('tape.backward(loss)  # again', __file__)}, and nothing had zeroed the gradient of w: its "
        "norm was 3.66. The pass alone gives a norm of 3.66; with the leftover gradient it was 7.32, 2 times "
        "that."
    )
    assert finding.fix == "call backward once, or tape.zero() or w.grad.zero_() before it runs again"


def test_backward_twice_that_nobody_reads_is_a_note() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    tape.backward(loss)
    tape.zero()
    tape.backward(loss)
    by_optimiser(fit)
    assert alarms(tape) == []


def test_two_losses_and_other_seeds_are_not_the_same_pass() -> None:
    fit = Fit()
    tape, loss = fit.record()
    for seed in (1.0, 2.0):
        tape.backward(grads={loss: np.array([seed])})
    assert alarms(tape) == []


def test_momentum_of_optimisers_is_not_accumulation() -> None:
    fit = Fit()
    for optimiser in (SGD([fit.w], lr=0.01, momentum=0.9), Adam([fit.w])):
        for _ in range(3):
            tape, loss = fit.record()
            tape.backward(loss)
            optimiser.step([fit.w.grad])
            tape.zero()
    assert alarms(tape) == []


def test_a_loop_is_one_finding() -> None:
    fit, tapes = Fit(), []
    for _ in range(5):
        tape, loss = fit.record()
        tape.backward(loss)
        by_optimiser(fit)
        tapes.append(tape)
    diagnosis = wp.diagnose(tapes)
    (finding,) = [item for item in diagnosis.findings if item.rule == "accumulated"]
    assert finding.evidence["occurrences"] == 4
    assert [trace.verdict for trace in diagnosis.traces] == ["AGREE", "WRONG", "WRONG", "WRONG", "WRONG"]
    assert finding.message.endswith(" 3 more passes like it (×4).")
    assert finding.tape == 1


def test_a_tape_that_is_reset_and_used_again() -> None:
    fit, tape = Fit(), wp.Tape()
    for _ in range(3):
        y = wp.zeros(N, dtype=float, requires_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with tape:
            wp.launch(drag, dim=N, inputs=[fit.w, fit.x], outputs=[y])
            wp.launch(misfit, dim=N, inputs=[y, fit.t], outputs=[loss])
        tape.backward(loss)
        assert alarms(tape) == []
        by_optimiser(fit)
        tape.reset()


def test_a_gradient_that_was_filled_adds_to_the_pass() -> None:
    fit = Fit()
    first, loss = fit.record()
    first.backward(loss)
    by_launch(fit)
    fit.w.grad.fill_(1.0)
    tape, loss = fit.record()
    tape.backward(loss)
    fit.w.grad.numpy()
    (finding,) = found(tape, "accumulated")
    assert (finding.severity, finding.evidence["kind"]) == ("warning", "filled")
    assert finding.message.startswith(
        "The gradient of w was filled with a number other than 0 at "
        f"test_accumulated.py:{line_of('fit.w.grad.fill_(1.0)', __file__)}, and backward at "
    )
    assert finding.fix.startswith("call w.grad.zero_() in place of fill_; ")
