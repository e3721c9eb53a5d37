"""Rule `nonfinite`: the operation, thread and operands that gave birth to NaN or Inf; and safe "
"look-alikes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

HERE = Path(__file__)

STRONG_ZERO = ", or set config.strong_zero = True: then an adjoint of 0 stays 0"


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


@wp.kernel
def root_then_where(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    r = wp.sqrt(x[i])
    y[i] = wp.where(x[i] > 0.0, r, 0.0)


@wp.kernel
def where_then_root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    safe = wp.where(x[i] > 0.0, x[i], 1.0)
    y[i] = wp.where(x[i] > 0.0, wp.sqrt(safe), 0.0)


@wp.kernel
def root_in_branch(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    r = 0.0
    if x[i] > 0.0:
        r = wp.sqrt(x[i])
    y[i] = r


@wp.kernel
def inverse(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0 / x[i]


@wp.kernel
def powers(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    total = 1.0
    for k in range(n):
        total = total * wp.pow(x[i], 0.5 * float(k + 1))
    y[i] = total


@wp.kernel
def overlap(a: wp.array2d(dtype=wp.vec3), b: wp.array2d(dtype=wp.vec3), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = wp.sqrt(wp.dot(a[i, j], b[i, j]))


@wp.kernel
def gather_root(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[index[i]])


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


@wp.kernel
def total2(y: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, y[i, j])


def run(kernel: Any, values: list[float], *others: Any) -> tuple[Any, Any]:
    """x → double → a → kernel → b → sum."""
    x = wp.array(values, dtype=float, requires_grad=True)
    a, b = wp.zeros_like(x), wp.zeros_like(x)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(double, dim=len(values), inputs=[x], outputs=[a])
        wp.launch(kernel, dim=len(values), inputs=[a, b, *others])
        wp.launch(total, dim=len(values), inputs=[b], outputs=[loss])
    tape.backward(loss)
    return tape, x


def test_the_slope_of_a_square_root_at_zero() -> None:
    tape, x = run(root, [1.0, 4.0, 0.0, 9.0])
    assert not np.isfinite(x.grad.numpy()[2])
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    (finding,) = diagnosis.findings
    line = line_of("y[i] = wp.sqrt(x[i])")
    assert (finding.rule, finding.severity) == ("nonfinite", "error")
    assert (finding.launches, finding.arrays) == ([1], ["a"])
    assert finding.message == (
        "The adjoint of launch 1 (root) makes the gradient of a[2] inf: the adjoints that come in are "
        "finite. "
        f"In thread 2, wp.sqrt(x[i]) at test_nonfinite.py:{line} has the operand 0: its slope is infinite "
        "at 0. "
        "1 of 4 values of the gradient of x is not finite."
    )
    assert finding.location is not None
    assert finding.call_site is not None
    assert (finding.location.line, finding.location.function) == (line, "root")
    assert finding.call_site.line == line_of("wp.launch(kernel, dim=len(values)")
    assert finding.fix == "keep the operand away from 0, for example by adding 1e-12"
    assert finding.evidence == {
        "cause": "sqrt(0)",
        "pass": "backward",
        "consume": "versions",
        "thread": 2,
        "element": [2],
        "value": math.inf,
        "operands": [0.0],
        "adjoint": 1.0,
        "expression": "wp.sqrt(x[i])",
        "where": None,
        "gradients": {"x": 1},
    }


def test_the_unselected_operand_of_where_is_its_own_cause() -> None:
    tape, x = run(root_then_where, [1.0, 0.0])
    assert math.isnan(x.grad.numpy()[1])
    (finding,) = wp.diagnose(tape).findings
    root_line, where_line = line_of("r = wp.sqrt(x[i])"), line_of("y[i] = wp.where(x[i] > 0.0, r, 0.0)")
    assert finding.evidence["cause"] == "where"
    assert finding.evidence["where"]["line"] == where_line
    assert finding.message == (
        "The adjoint of launch 1 (root_then_where) makes the gradient of a[1] nan: the adjoints that come "
        "in are finite. "
        f"In thread 1, wp.sqrt(x[i]) at test_nonfinite.py:{root_line} has the operand 0: its slope is "
        "infinite at 0. "
        "The result is not even selected by wp.where(x[i] > 0.0, r, 0.0) at "
        f"test_nonfinite.py:{where_line}, but both "
        "operands of where are computed, and an adjoint of 0 times an infinite slope is nan. "
        "1 of 2 values of the gradient of x is not finite."
    )
    assert finding.fix == (
        "make the operand safe before the operation, not its result after it: put the where inside, "
        f"as in sqrt(where(x > 0.0, x, 1.0)){STRONG_ZERO}"
    )


def test_following_the_other_fix_leaves_nothing_to_find() -> None:
    wp.config.strong_zero = True
    try:
        tape, x = run(root_then_where, [4.0, 0.0])
        assert np.isfinite(x.grad.numpy()).all()
        assert not wp.diagnose(tape).findings
    finally:
        wp.config.strong_zero = False


@pytest.mark.parametrize("kernel", [where_then_root, root_in_branch])
def test_following_the_fix_leaves_nothing_to_find(kernel: Any) -> None:
    tape, x = run(kernel, [1.0, 0.0])
    assert np.isfinite(x.grad.numpy()).all()
    diagnosis = wp.diagnose(tape)
    assert [finding for finding in diagnosis.findings if finding.rule == "nonfinite"] == []


def test_a_square_root_away_from_zero_is_no_finding() -> None:
    tape, _ = run(root, [1.0, 4.0, 1e-6])
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_a_division_by_zero_is_found_in_the_forward_pass_where_it_begins() -> None:
    tape, _ = run(inverse, [1.0, 2.0, 0.0])
    (finding,) = wp.diagnose(tape).findings
    assert finding.message.startswith(
        "Launch 1 (inverse) writes inf to b[2]: what it reads is finite. In thread 2, 1.0 / x[i] at"
    )
    assert finding.message.endswith(
        "has the operands 1, 0: it divides by 0. 1 of 3 values of the gradient of x is not finite. "
        "The loss is infinite."
    )
    assert (finding.evidence["pass"], finding.evidence["cause"], finding.severity) == (
        "forward",
        "x/0",
        "error",
    )


def test_inside_a_loop_the_iteration_that_did_it_gives_the_operands() -> None:
    tape, _ = run(powers, [1.0, 0.0], 2)
    (finding,) = [item for item in wp.diagnose(tape).findings if item.rule == "nonfinite"]
    assert finding.evidence["thread"] == 1
    assert finding.evidence["operands"] == [0.0, 0.5]
    assert finding.evidence["cause"] == "pow(0)"
    assert finding.location is not None
    assert finding.location.line == line_of("total = total * wp.pow(x[i], 0.5 * float(k + 1))")


def test_two_axes_and_vectors_are_named_by_element() -> None:
    same = np.zeros((2, 3, 3), dtype=np.float32)
    same[:, :, 0] = 1.0
    other = same.copy()
    other[:, :, 0], other[:, :, 1] = 0.6, 0.8
    other[1, 2] = [0.0, 1.0, 0.0]
    a = wp.array(same, dtype=wp.vec3, requires_grad=True)
    b = wp.array(other, dtype=wp.vec3, requires_grad=True)
    y = wp.zeros((2, 3), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(overlap, dim=(2, 3), inputs=[a, b], outputs=[y])
        wp.launch(total2, dim=(2, 3), inputs=[y], outputs=[loss])
    tape.backward(loss)
    (finding,) = wp.diagnose(tape).findings
    assert finding.evidence["element"] == [1, 2]
    assert finding.evidence["thread"] == 5
    assert finding.evidence["cause"] == "sqrt(0)"
    assert finding.evidence["operands"] == [0.0]


def test_the_thread_is_found_where_it_is_not_the_element() -> None:
    x = wp.array([1.0, 0.0, 3.0, 4.0], dtype=float, requires_grad=True)
    index = wp.array([3, 2, 0, 1], dtype=int)
    y = wp.zeros_like(x)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(gather_root, dim=4, inputs=[x, index], outputs=[y])
        wp.launch(total, dim=4, inputs=[y], outputs=[loss])
    tape.backward(loss)
    (finding,) = wp.diagnose(tape).findings
    assert (finding.evidence["thread"], finding.evidence["element"]) == (3, [1])


def test_an_input_that_was_not_finite_before_is_named_as_such() -> None:
    tape, _ = run(double, [1.0, math.nan])
    (finding,) = wp.diagnose(tape).findings
    assert finding.message == (
        "1 of 2 values of x are not finite before the tape begins; launch 0 (double) reads them. "
        "No requested gradient is affected. The loss is nan."
    )
    assert (finding.severity, finding.evidence["cause"]) == ("error", "input")


def test_a_nan_that_does_not_matter_does_not_hide_one_that_does() -> None:
    x = wp.array([1.0, 0.0, math.nan], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(root, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=2, inputs=[y], outputs=[loss])
    tape.backward(loss)
    findings = wp.diagnose(tape).findings
    assert [(item.severity, item.evidence["cause"]) for item in findings] == [
        ("error", "sqrt(0)"),
        ("info", "input"),
    ]
    assert findings[0].evidence["thread"] == 1


@wp.kernel
def inverse_unless_zero(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.where(x[i] != 0.0, 1.0 / x[i], 0.0)


def test_a_division_that_where_does_not_select_is_found_in_the_reverse_pass() -> None:
    tape, x = run(inverse_unless_zero, [1.0, 0.0])
    assert not np.isfinite(x.grad.numpy()[1])
    (finding,) = wp.diagnose(tape).findings
    assert (finding.evidence["cause"], finding.evidence["pass"]) == ("where", "backward")
    assert finding.evidence["expression"] == "1.0 / x[i]"
    assert finding.fix.endswith(f"as in x / where(y != 0.0, y, 1.0){STRONG_ZERO}")


@wp.kernel
def grow(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.exp(x[i])


def test_an_overflow_is_named() -> None:
    tape, _ = run(grow, [1.0, 100.0])
    (finding,) = wp.diagnose(tape).findings
    assert finding.evidence["cause"] == "exp overflows"
    assert finding.evidence["operands"] == [200.0]
    assert finding.message.endswith(
        "has the operand 200: the result is beyond the largest number of its type. 1 of 2 values of the "
        "gradient of x "
        "is not finite. The loss is infinite."
    )


def test_a_value_that_was_overwritten_with_zero_is_bad_only_for_a_tape_that_consumes_it() -> None:
    def recorded(mode: str) -> Any:
        x = wp.array([1.0, 4.0], dtype=float, requires_grad=True)
        y, loss = wp.zeros_like(x), wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape(on_overwrite=mode) as tape:
            wp.launch(root, dim=2, inputs=[x], outputs=[y])
            x.zero_()
            wp.launch(total, dim=2, inputs=[y], outputs=[loss])
        tape.backward(loss)
        return tape

    found = [item for item in wp.diagnose(recorded("ignore")).findings if item.rule == "nonfinite"]
    (finding,) = found
    assert (finding.severity, finding.evidence["consume"], finding.evidence["cause"]) == (
        "error",
        "current",
        "sqrt(0)",
    )
    assert finding.message.startswith(
        "The adjoint of launch 0 (root) makes the gradient of x[0] inf: the adjoints that come in are "
        "finite, and so "
        "is what it read, but that was overwritten and its adjoint sees the new values. In thread 0, "
        "wp.sqrt(x[i])"
    )
    assert [item.rule for item in wp.diagnose(recorded("preserve")).findings] == ["overwrite"]


@wp.kernel
def root_of_less(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i] - 2.0)


def test_a_loss_of_nan_whose_gradient_is_zero_is_diagnosed() -> None:
    """All of the gradient is cut off, and the loss is no number: both happen before anything is compared."""
    x = wp.array([1.0, 1.0], dtype=float, requires_grad=True)
    y, loss = wp.zeros(2, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(root_of_less, dim=2, inputs=[x], outputs=[y])
        wp.launch(total, dim=2, inputs=[y], outputs=[loss])
    tape.backward(loss)
    first = wp.diagnose(tape).findings[0]
    assert (first.rule, first.severity, first.evidence["cause"]) == ("nonfinite", "error", "sqrt(<0)")
    assert first.fix.startswith("keep the operand at 0 or above, for example with max")


@wp.kernel
def square_of_mean(x: wp.array(dtype=float), count: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    mean = x[i] / count[i]
    y[i] = mean * mean


def test_what_the_reverse_pass_makes_of_a_bad_value_is_no_finding_of_its_own() -> None:
    x = wp.array([0.0, 1.0], dtype=float, requires_grad=True)
    count = wp.array([0.0, 2.0], dtype=float, requires_grad=True)
    y, loss = wp.zeros(2, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square_of_mean, dim=2, inputs=[x, count], outputs=[y])
        wp.launch(total, dim=2, inputs=[y], outputs=[loss])
    tape.backward(loss)
    (finding,) = [item for item in wp.diagnose(tape).findings if item.rule == "nonfinite"]
    assert (finding.evidence["cause"], finding.evidence["pass"]) == ("x/0", "forward")


@wp.kernel
def inverse_of_the_next(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0 / x[i + 1]


def test_what_is_read_beside_an_array_is_told_by_the_rule_that_explains_it() -> None:
    x, y = (wp.zeros(3, dtype=float, requires_grad=True) for _ in range(2))
    x.assign([1.0, 2.0, 3.0])
    with wp.Tape() as tape:
        wp.launch(inverse_of_the_next, 3, [x, y])
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    diagnosis = wp.diagnose(tape)
    assert [item.rule for item in diagnosis.findings if item.severity == "error"] == ["out-of-bounds"]
    (note,) = diagnosis.by_rule("nonfinite")
    assert note.severity == "info"
    assert note.evidence["explained_by"] == "out-of-bounds"
    assert note.message.endswith("See out-of-bounds: the launch reads memory that is not the array's.")
    assert "perhaps" not in str(diagnosis)
