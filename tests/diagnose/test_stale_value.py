"""Rule `stale-value`: every way to write behind the tape's back, and look-alikes that are fine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.optim import SGD
from tests.diagnose.training_loop import Fit, N, alarms, descend, drag, found, line_of, misfit, noise


def through_numpy(fit: Fit) -> None:
    fit.x.numpy()[:] += 1.0


def through_an_open_view(fit: Fit) -> None:
    fit.view[:] += 1.0


def by_assign(fit: Fit) -> None:
    fit.x.assign(np.zeros(N))


def by_fill(fit: Fit) -> None:
    fit.x.fill_(0.25)


def by_copy(fit: Fit) -> None:
    wp.copy(fit.x, wp.ones(N, dtype=float))


def by_launch(fit: Fit) -> None:
    wp.launch(noise, dim=N, inputs=[fit.x])


def through_a_pointer(fit: Fit) -> None:
    wp.array(ptr=fit.x.ptr, shape=N, dtype=float).fill_(3.0)


def of_a_slice(fit: Fit) -> None:
    fit.x[2:4].fill_(3.0)


def of_an_element(fit: Fit) -> None:
    fit.x[3] = 7.0


WRITES = [
    through_numpy,
    through_an_open_view,
    by_assign,
    by_fill,
    by_copy,
    by_launch,
    through_a_pointer,
    of_a_slice,
    of_an_element,
]


def recorded(mode: str, write: Any) -> tuple[Fit, Any, Any]:
    fit = Fit(mode)
    if write is through_an_open_view:
        fit.view = fit.x.numpy()
    tape, loss = fit.record()
    write(fit)
    return fit, tape, loss


@pytest.mark.parametrize("write", WRITES)
def test_where_the_tape_keeps_nothing_the_gradient_is_measured_wrong(write: Any) -> None:
    fit, tape, loss = recorded("ignore", write)
    tape.backward(loss)
    (finding,) = found(tape, "stale-value")
    assert finding.severity == "error"
    assert finding.arrays == ["x"]
    assert finding.location.function == "drag"
    consumed, right = fit.w.grad.numpy(), right_gradient()
    error = np.linalg.norm(consumed - right) / np.linalg.norm(right)
    assert finding.evidence["relative_error"]["w"] == pytest.approx(error, rel=1e-4)
    assert finding.fix == 'write to x after backward, or record with on_overwrite="preserve"'
    assert wp.diagnose(tape).verdict == "WRONG"


def right_gradient() -> np.ndarray[Any, Any]:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    return fit.w.grad.numpy().copy()


@pytest.mark.parametrize("write", WRITES)
def test_where_the_tape_keeps_a_copy_it_is_a_note(write: Any) -> None:
    fit, tape, loss = recorded("preserve", write)
    tape.backward(loss)
    (finding,) = found(tape, "stale-value")
    assert finding.severity == "info"
    assert finding.evidence["relative_error"]["w"] > 0.01
    np.testing.assert_array_equal(fit.w.grad.numpy(), right_gradient())
    assert wp.diagnose(tape).verdict == "AGREE"
    (as_warp,) = found(tape, "stale-value", as_warp=True)
    assert (as_warp.severity, as_warp.fix) == ("error", "write to x after backward")


def test_the_whole_message() -> None:
    fit = Fit("ignore")
    tape, loss = fit.record()
    fit.x.assign(np.full(N, 1.5))
    tape.backward(loss)
    (finding,) = found(tape, "stale-value")
    written = line_of("fit.x.assign(np.full(N, 1.5))", __file__)
    read = finding.location.line
    assert finding.message == (
        "x was overwritten after the tape had recorded and before backward, by assign at "
        f"test_stale_value.py:{written}, which is not on the tape. The adjoint of launch 0 (drag) needs the "
        f"values that it read at training_loop.py:{read}: 8 of 8 elements changed value, by up to 0.5. The "
        "reverse pass sees the new ones: that puts the gradient of w off by 47 %."
    )
    assert finding.call_site.line == written
    evidence = finding.evidence
    assert (evidence["how"], evidence["records"], evidence["changed"]) == ("assign", 2, N)
    assert evidence["written_at"]["line"] == written


def test_a_write_in_the_middle_of_recording_names_the_launch_before_which_it_came() -> None:
    fit = Fit("ignore")
    y, loss = wp.zeros(N, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(drag, dim=N, inputs=[fit.w, fit.x], outputs=[y])
        wp.launch(noise, dim=N, inputs=[fit.x], record_tape=False)
        wp.launch(misfit, dim=N, inputs=[y, fit.t], outputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape, "stale-value")
    assert finding.severity == "error"
    assert finding.message.startswith(
        "fit.x was overwritten before launch 1 (misfit) was recorded, by a launch at "
    )


def test_an_optimiser_is_none() -> None:
    for mode in ("ignore", "warn", "preserve"):
        fit = Fit(mode)
        tape, loss = fit.record()
        tape.backward(loss)
        SGD([fit.w, fit.x]).step([fit.w.grad, fit.w.grad])
        wp.launch(descend, dim=N, inputs=[fit.x, fit.w.grad, 0.1])
        assert found(tape, "stale-value") == []


def test_what_no_adjoint_needs_and_what_was_the_same_is_none() -> None:
    fit = Fit("ignore")
    tape, loss = fit.record()
    fit.w.fill_(9.0)  # drag is linear in w
    fit.x.numpy()
    tape.backward(loss)
    assert found(tape, "stale-value") == []
    same = Fit("ignore")
    tape, loss = same.record()
    same.x.assign(same.x.numpy())
    tape.backward(loss)
    assert alarms(tape) == []
    assert all("Harmless" in item.message for item in found(tape, "stale-value"))


def test_many_places_are_measured_up_to_a_bound_and_the_rest_is_said() -> None:
    fit = Fit("ignore")
    arrays = [wp.array(np.linspace(1.0, 2.0, N), dtype=float) for _ in range(10)]
    y, loss = wp.zeros(N, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        for x in arrays:
            wp.launch(drag, dim=N, inputs=[fit.w, x], outputs=[y])
            wp.launch(misfit, dim=N, inputs=[y, fit.t], outputs=[loss])
    for x in arrays:
        x.fill_(0.5)
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    stale = [item for item in diagnosis.findings if item.rule == "stale-value"]
    assert len(stale) == 10
    assert sum(item.severity == "error" for item in stale) == 8
    assert "stale-value: of 10 places that write outside the tape 8 were measured" in diagnosis.coverage.notes
