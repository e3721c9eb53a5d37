"""Two bugs in one program: both are told, also where one hides the symptom of the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose.experiments.experiment import relative_errors


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


@wp.kernel
def drag(wind: wp.array(dtype=float), v: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] = wind[i] * wind[i] - v[i]


@wp.kernel
def push(v: wp.array(dtype=float), force: wp.array(dtype=float), v_next: wp.array(dtype=float)):
    i = wp.tid()
    v_next[i] = v[i] * (1.0 + 0.1 * force[i])


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def zeros(count: int, *, requires_grad: bool = True) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=requires_grad)


def test_an_overwrite_is_measured_beside_a_gradient_that_is_not_finite() -> None:
    x, squares, roots, loss = floats(1.0, 2.0, 0.0), zeros(3), zeros(3), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[squares])
        wp.launch(root, dim=3, inputs=[x], outputs=[roots])
        x.fill_(4.0)
        wp.launch(total, dim=3, inputs=[squares], outputs=[loss])
        wp.launch(total, dim=3, inputs=[roots], outputs=[loss])
    tape.backward(loss)
    findings = wp.diagnose(tape).findings
    errors = {
        (item.rule, item.evidence.get("reader", {}).get("kernel", ""))
        for item in findings
        if item.severity == "error"
    }
    assert ("nonfinite", "") in errors
    assert ("overwrite", "square") in errors
    (measured,) = [item for item in findings if item.evidence.get("reader", {}).get("kernel") == "square"]
    assert 0.1 < measured.evidence["relative_error"]["x"] < 10


def test_a_cut_and_an_overwrite_are_both_told() -> None:
    wind, v, v_next, loss = floats(3.0, 2.0, 4.0), zeros(3), zeros(3), zeros(1)
    start, force = floats(1.0, 2.0, 1.5), zeros(3, requires_grad=False)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.copy(v, start)
        for _ in range(4):
            wp.launch(drag, dim=3, inputs=[wind, v], outputs=[force])
            wp.launch(push, dim=3, inputs=[v, force], outputs=[v_next])
            v, v_next = v_next, v
        wp.launch(total, dim=3, inputs=[v], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    errors = [item for item in diagnosis.findings if item.severity == "error"]
    assert {item.rule for item in errors} == {"disconnected", "overwrite"}
    (cut,) = [item for item in errors if item.rule == "disconnected"]
    assert cut.arrays[0] == "force"
    lost, hidden = [item for item in errors if item.rule == "overwrite"]
    assert lost.arrays == ["force"], "the adjoint of push needs the force that is written anew"
    assert hidden.arrays == ["v", "v_next"], "and once force has a gradient, the v that force goes with"
    assert hidden.evidence["behind"] == "disconnected"
    assert hidden.message.endswith("It is hidden by what disconnected says, and was seen with that fixed.")
    assert diagnosis.verdict == "WRONG"


def test_after_both_fixes_nothing_is_left() -> None:
    wind, loss = floats(3.0, 2.0, 4.0), zeros(1)
    v = floats(1.0, 2.0, 1.5)
    with wp.Tape() as tape:
        for _ in range(4):
            force, v_next = zeros(3), zeros(3)
            wp.launch(drag, dim=3, inputs=[wind, v], outputs=[force])
            wp.launch(push, dim=3, inputs=[v, force], outputs=[v_next])
            v = v_next
        wp.launch(total, dim=3, inputs=[v], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_relative_errors_leave_out_what_was_not_finite_before() -> None:
    right = np.array([3.0, math.nan, 4.0])
    assert relative_errors({0: right}, {0: right}) == {0: 0.0}
    assert relative_errors({0: right}, {0: np.array([3.0, 7.0, 4.0])}) == {0: 0.0}
    assert relative_errors({0: right}, {0: np.array([3.0, math.nan, 9.0])}) == {0: 1.0}
    assert relative_errors({0: right}, {0: np.array([math.inf, math.nan, 4.0])}) == {0: math.inf}
    assert relative_errors({0: np.zeros(2)}, {0: np.ones(2)}) == {0: math.inf}


def written_while_it_recorded(change: Any) -> Any:
    x, y, z, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    other = floats(0.5, 0.5, 3.0)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        change(x, other)
        wp.launch(square, dim=3, inputs=[x], outputs=[z])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
        wp.launch(total, dim=3, inputs=[z], outputs=[loss])
    tape.backward(loss)
    return wp.diagnose(tape)


def half_of_it(x: Any, other: Any) -> None:
    x.numpy()[:2] = 0.5


def test_what_was_written_off_the_tape_while_it_recorded_is_told_and_no_adjoint_blamed() -> None:
    diagnosis = written_while_it_recorded(half_of_it)
    assert diagnosis.verdict == "WRONG", "differences of the values that it had first say otherwise"
    (finding,) = [item for item in diagnosis.findings if item.severity != "info"]
    # consumed: 2 x of the first square and of the second; right: of the second only where x is what it was
    error = np.sqrt(2.0) / np.linalg.norm([2.0, 4.0, 12.0])
    assert finding.evidence["relative_error"]["x"] == pytest.approx(error, rel=1e-6)
    assert finding.message == (
        "x was written through NumPy between launch 0 (square) and launch 1 (square), which reads it, and "
        "that is not on the tape. The reverse pass goes on through it, as if the values were those from "
        f"before: measured, that puts the gradient of x off by {100 * error:.0f} %."
    )
    assert finding.rule == "stale-value"
    assert finding.fix == (
        "write to x on the tape, by assign, copy or a launch, or use another array from there on"
    )


def test_what_is_copied_on_the_tape_is_none_of_it() -> None:
    diagnosis = written_while_it_recorded(lambda x, other: wp.copy(x, other))
    assert diagnosis.verdict == "AGREE"
    assert [item for item in diagnosis.findings if item.severity != "info"] == []


def test_the_same_values_in_two_arrays_are_no_duplicate() -> None:
    diagnosis = written_while_it_recorded(lambda x, other: None)
    assert [item for item in diagnosis.findings if item.severity != "info"] == []
