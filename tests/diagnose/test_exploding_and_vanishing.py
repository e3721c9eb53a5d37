"""Rules `exploding` and `vanishing`: loops, jumps at one launch, and what is right though large or small."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def logistic(x: wp.array(dtype=float), rate: float, x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = rate * x[i] * (1.0 - x[i])


@wp.kernel
def scale(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = factor * x[i]


@wp.func
def twice(x: float):
    return 1.0 * x


@wp.func_grad(twice)
def adj_twice(x: float, adj_ret: float):
    wp.adjoint[x] += 4.0 * adj_ret


@wp.kernel
def hold(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = twice(x[i])


@wp.kernel
def squash(x: wp.array(dtype=float), gain: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.tanh(gain * x[i])


@wp.kernel
def towards(x: wp.array(dtype=float), softening: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] / (wp.abs(x[i]) + softening) + 0.1 * x[i]


@wp.kernel
def limit(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.clamp(x[i], -1.0, 1.0)


@wp.kernel
def penalty(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0e6 * (x[i] - 1.0)


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


@wp.kernel
def squares(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i] * y[i])


@wp.kernel
def logistic64(x: wp.array(dtype=wp.float64), x_next: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x_next[i] = wp.float64(3.9) * x[i] * (wp.float64(1.0) - x[i])


@wp.kernel
def total64(y: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    wp.atomic_add(loss, 0, y[wp.tid()])


@wp.kernel
def running(x: wp.array(dtype=float), x_next: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = x[i] + 0.01
    wp.atomic_add(loss, 0, x[i])


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def loop(kernel: Any, start: Any, rounds: int, *args: Any, end: Any = total) -> Any:
    x, loss = start, floats(0.0)
    with wp.Tape() as tape:
        for _ in range(rounds):
            x_next = wp.zeros_like(x)
            wp.launch(kernel, x.size, [x, *args], [x_next])
            x = x_next
        wp.launch(end, x.size, [x], [loss])
    tape.backward(loss)
    return tape


def once(kernel: Any, start: Any, *args: Any, end: Any = squares) -> Any:
    y, loss = wp.zeros_like(start), floats(0.0)
    with wp.Tape() as tape:
        wp.launch(kernel, start.size, [start, *args], [y])
        wp.launch(end, start.size, [y], [loss])
    tape.backward(loss)
    return tape


def messages(diagnosis: Any, rule: str) -> list[Any]:
    return [finding for finding in diagnosis.findings if finding.rule == rule]


# ------------------------------------------------------------------------------------------------- exploding


def test_chaos_is_right_and_of_no_use() -> None:
    x = floats(0.2, 0.3, 0.4)
    diagnosis = wp.diagnose(loop(logistic, x, 30, 3.9))
    (finding,) = messages(diagnosis, "exploding")
    evidence = finding.evidence
    assert finding.severity == "warning"
    assert finding.launches == [29, 0]
    assert (finding.location.line, finding.location.function) == (
        line_of("x_next[i] = rate * x[i]"),
        "logistic",
    )
    assert finding.call_site.line == line_of("wp.launch(kernel, x.size, [x, *args], [x_next])")
    assert evidence["rate"] == pytest.approx(1.7, abs=0.2)  # e to the Lyapunov exponent, 0.5
    assert evidence["tangent_rate"] == pytest.approx(evidence["rate"], rel=0.2)
    assert evidence["adjoint_is_right"] is True
    assert evidence["relative_amplification"] > 1e6
    assert len(evidence["log10_norms"]) == 31
    assert "The gradient is right; the system amplifies a change of " in finding.message
    assert finding.message.endswith(
        "the last digit of a float32 decides about the loss, and the gradient says nothing about a step of "
        "any "
        "length."
    )
    assert finding.fix == (
        "take the gradient over fewer rounds, or damp what amplifies; a smaller learning rate does not help"
    )


def test_the_whole_message_of_a_loop_that_amplifies() -> None:
    x = floats(1.0)
    (finding,) = messages(wp.diagnose(loop(scale, x, 20, 2.0)), "exploding")
    assert finding.severity == "info"
    assert finding.message == (
        f"The adjoint of {finding.arrays[0]} grows by 2 a round on its way back through 20 rounds of "
        "scale: its "
        "norm is 1 after launch 19 (scale) and 5.24e+05 after launch 0 (scale). The gradient is right; the "
        "system "
        f"amplifies a change of {finding.arrays[0]} by 2 a round, and its values grow with it."
    )
    assert finding.fix == ""
    assert finding.evidence["relative_amplification"] == pytest.approx(1.0)


def test_a_step_beyond_stability_is_told_by_its_alternating_sign() -> None:
    (finding,) = messages(wp.diagnose(loop(scale, floats(1.0), 20, -3.0)), "exploding")
    assert (finding.severity, finding.evidence["alternates"]) == ("warning", True)
    assert "its sign changes from round to round, as with a time step beyond the limit of stability" in (
        finding.message
    )
    assert finding.fix == "take a smaller time step, or an implicit one"


def test_an_adjoint_that_grows_alone_is_an_error() -> None:
    diagnosis = wp.diagnose(loop(hold, floats(1.0), 10))
    (finding,) = messages(diagnosis, "exploding")
    assert (diagnosis.verdict, finding.severity) == ("WRONG", "error")
    assert finding.message.endswith(
        "A change of the inputs grows by 1 a round only: the adjoint is not that of the program."
    )
    assert finding.fix.startswith("look for the launch whose adjoint is wrong")


def test_a_jump_is_named_at_its_operation() -> None:
    x = floats(1.0, 3.0e-8, -2.0)
    (finding,) = messages(wp.diagnose(once(towards, x, 1e-8)), "exploding")
    assert finding.severity == "warning"
    assert finding.location.line == line_of("y[i] = x[i] / (wp.abs(x[i]) + softening)")
    assert finding.evidence["operation"] == "x[i] / (wp.abs(x[i]) + softening)"
    assert finding.evidence["operands"] == pytest.approx([3e-8, 4e-8])
    gradient = float(np.linalg.norm(once_gradient(towards, [1.0, 3.0e-8, -2.0], 1e-8)))
    slope = finding.evidence["slope"]
    assert slope == pytest.approx(2.5e7)
    assert finding.message == (
        f"The gradient of start is {gradient:.3g}, and relative to its size a change of start is amplified "
        f"{finding.evidence['relative_amplification']:.3g} times. The adjoint jumps in launch 0 (towards): "
        "from "
        f"{finding.evidence['arrives']:.3g} that arrives to {finding.evidence['leaves']:.3g} for start, by "
        "x[i] / (wp.abs(x[i]) + softening) with a slope of 2.5e+07 (operands 3e-08 and 4e-08). The "
        "gradient is "
        "right, and holds only for changes that float32 cannot resolve."
    )


@wp.kernel
def iterate(x: wp.array(dtype=float), turns: int, y: wp.array(dtype=float)):
    i = wp.tid()
    value = x[i]
    for _ in range(turns):
        value = 3.9 * value * (1.0 - value)
    y[i] = value


def test_a_loop_inside_a_kernel_amplifies_in_one_launch() -> None:
    (finding,) = messages(wp.diagnose(once(iterate, floats(0.2, 0.3), 30)), "exploding")
    assert finding.severity == "warning"
    assert "in 30 turns of a loop of its kernel" in finding.message
    assert finding.fix == "take fewer turns of the loop, or damp what amplifies"


def once_gradient(kernel: Any, values: list[float], *args: Any) -> Any:
    x = floats(*values)
    once(kernel, x, *args)
    return x.grad.numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda: once(scale, floats(1.0, 2.0), 1e9),
        lambda: once(penalty, floats(1.000001, 0.999999)),
        lambda: running_sum(),
        lambda: loop(scale, floats(1.0), 300, 1.01),
        lambda: once(scale, floats(*np.ones(100_000)), 1.0),
    ],
    ids=["large units", "a stiff penalty", "a running sum", "slow growth", "many elements"],
)
def test_large_is_not_exploding(make: Any) -> None:
    assert [item for item in wp.diagnose(make()).findings if item.severity != "info"] == []


def test_a_large_cost_on_an_early_state_is_no_growth() -> None:
    x, loss = floats(1.0, 2.0), floats(0.0)
    with wp.Tape() as tape:
        for number in range(12):
            x_next = wp.zeros_like(x)
            wp.launch(scale, 2, [x, 1.0], [x_next])
            if number == 1:
                dear = wp.zeros_like(x)
                wp.launch(scale, 2, [x_next, 1e6], [dear])
            x = x_next
        wp.launch(total, 2, [dear], [loss])
        wp.launch(total, 2, [x], [loss])
    tape.backward(loss)
    assert messages(wp.diagnose(tape), "exploding") == []


def running_sum() -> Any:
    x, loss = floats(*np.linspace(1.0, 2.0, 9)), floats(0.0)
    with wp.Tape() as tape:
        for _ in range(300):
            x_next = wp.zeros_like(x)
            wp.launch(running, x.size, [x], [x_next, loss])
            x = x_next
    tape.backward(loss)
    return tape


# ------------------------------------------------------------------------------------------------- vanishing


def test_a_saturated_loop_is_a_warning() -> None:
    x = floats(0.5, 0.7)
    diagnosis = wp.diagnose(loop(squash, x, 8, 3.0))
    (finding,) = messages(diagnosis, "vanishing")
    evidence = finding.evidence
    assert (diagnosis.verdict, finding.severity) == ("AGREE", "warning")
    assert finding.location.line == line_of("y[i] = wp.tanh(gain * x[i])")
    assert (evidence["operation"], evidence["rounds"]) == ("wp.tanh(gain * x[i])", 8)
    fixed = 0.99490  # tanh(3 fixed): the rounds converge to it, and their slope to 3 (1 - fixed²)
    assert evidence["slope"] == pytest.approx(1 - fixed**2, rel=0.02)
    assert evidence["operands"] == pytest.approx([3 * fixed], rel=1e-3)
    last, first = (10.0 ** evidence["log10_norms"][place][1] for place in (-2, 0))
    assert evidence["rate"] == pytest.approx((first / last) ** (1 / 7), rel=0.01)
    name = finding.arrays[0]
    shrunk = finding.message.partition("from 1.41 to ")[2].partition(". ")[0]
    assert float(shrunk) == pytest.approx(first, rel=0.01)
    assert finding.message == (
        f"The gradient of {name} has vanished: its norm is {np.linalg.norm(x.grad.numpy()):.3g}, and "
        "changing "
        f"{name} by 100 % moves the loss by a relative {evidence['left']:.1g}. The adjoint shrinks to "
        f"{evidence['rate']:.3g} of itself in each of 8 rounds, from 1.41 to {shrunk}. wp.tanh(gain * "
        "x[i]) has "
        f"reached its flat part: its slope is {evidence['slope']:.3g} (operands 2.98)."
    )
    assert finding.fix == (
        "keep the operands of wp.tanh(gain * x[i]) where its slope is not 0: scale them down, or begin nearer"
    )


def test_a_gradient_that_is_too_small_for_float32() -> None:
    x = floats(1.0)
    diagnosis = wp.diagnose(loop(scale, x, 80, 0.2))
    assert x.grad.numpy().tolist() == [0.0]
    (finding,) = diagnosis.findings
    assert (diagnosis.verdict, finding.rule, finding.severity) == ("UNDECIDABLE", "vanishing", "info")
    assert finding.message == (
        f"The gradient of {finding.arrays[0]} has vanished: it is exactly 0, as its largest entry, "
        "1.21e-56 in "
        "float64, is too small for float32. The adjoint shrinks to 0.199 of itself in each of "
        f"{finding.evidence['rounds']} rounds, from 1 to {10 ** finding.evidence['log10_norms'][0][1]:.3g}."
    )
    assert 60 < finding.evidence["rounds"] < 70


def test_damping_is_right() -> None:
    diagnosis = wp.diagnose(loop(scale, floats(1.0, 2.0), 40, 0.5, end=squares))
    assert [item.severity for item in diagnosis.findings] in ([], ["info"])


def test_a_clamp_beyond_its_limits_is_a_warning_where_nothing_else_has_a_gradient() -> None:
    (finding,) = wp.diagnose(once(limit, floats(3.0, -2.0))).findings
    assert (finding.rule, finding.severity, finding.launches) == ("vanishing", "warning", [0])
    assert finding.message == (
        "The gradient of start is exactly 0: wp.clamp(x[i], -1.0, 1.0) in launch 0 (limit) has slope 0 "
        f"(operands {operands(finding)}). Perturbing start by 100 % moves the loss by "
        f"{finding.evidence['loss_moves']:.3g}."
    )
    assert finding.fix == "start from values at which the slope of wp.clamp(x[i], -1.0, 1.0) is not 0"


@wp.kernel
def hinge(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.max(1.0 - x[i], 0.0) + 0.5


def test_a_hinge_that_is_satisfied_is_at_its_minimum() -> None:
    (finding,) = wp.diagnose(once(hinge, floats(3.0, 4.0), end=total)).findings
    assert (finding.rule, finding.severity) == ("vanishing", "info")


def test_chaos_in_float64_is_of_use_for_longer() -> None:
    x = wp.array([0.2, 0.3], dtype=wp.float64, requires_grad=True)
    loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(30):
            x_next = wp.zeros_like(x)
            wp.launch(logistic64, 2, [x], [x_next])
            x = x_next
        wp.launch(total64, 2, [x], [loss])
    tape.backward(loss)
    (finding,) = messages(wp.diagnose(tape), "exploding")
    assert (finding.severity, finding.evidence["relative_amplification"] > 1e6) == ("info", True)


def operands(finding: Any) -> str:
    *first, last = [f"{value:.3g}" for value in finding.evidence["operands"]]
    return f"{', '.join(first)} and {last}" if first else last


def test_a_clamp_is_only_a_note_where_another_input_has_a_gradient() -> None:
    x, y, z, loss = floats(3.0, -2.0), floats(0.0, 0.0), floats(1.0, 2.0), floats(0.0)
    with wp.Tape() as tape:
        wp.launch(limit, 2, [x], [y])
        wp.launch(squares, 2, [y], [loss])
        wp.launch(squares, 2, [z], [loss])
    tape.backward(loss)
    (finding,) = wp.diagnose(tape).findings
    assert (finding.rule, finding.severity, finding.fix) == ("vanishing", "info", "")


def test_norms_of_a_long_tape_are_sampled() -> None:
    (finding,) = messages(wp.diagnose(loop(scale, floats(1.0), 500, 1.05)), "exploding")
    assert len(finding.evidence["log10_norms"]) == 200
    assert finding.evidence["log10_norms"][0][0] == 0
    assert finding.evidence["log10_norms"][-1][0] == 500
    assert math.isclose(finding.evidence["rate"], 1.05, rel_tol=1e-4)


# -- growth until the adjoint overflows --------------------------------------------------------------


@wp.kernel
def slide(q: wp.array(dtype=float), v: wp.array(dtype=float), mu: wp.array(dtype=float), slope: float):
    i = wp.tid()
    f = -mu[0] * wp.tanh(v[i] * slope) - 0.01 * q[i]
    v[i] = v[i] + f
    q[i] = q[i] + v[i] / 60.0


def friction(steps: int, slope: float = 100.0) -> Any:
    q, v = (wp.zeros(3, dtype=float, requires_grad=True) for _ in range(2))
    mu, loss = wp.array([0.8], dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(steps):
            wp.launch(slide, 3, [q, v, mu, slope])
        wp.launch(miss, 3, [q, loss])
    tape.backward(loss)
    return wp.diagnose(tape, loss=loss)


@wp.kernel
def miss(q: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = q[wp.tid()] - 0.5
    wp.atomic_add(loss, 0, d * d)


@pytest.mark.parametrize("steps", [15, 300])
def test_growth_is_told_before_and_after_it_overflows(steps: int) -> None:
    diagnosis = friction(steps)
    (growth,) = diagnosis.by_rule("exploding")
    assert growth.severity == "warning"
    assert growth.fix == "take a smaller time step, or an implicit one"
    assert growth.evidence["overflows"] == (steps == 300)
    assert growth.evidence["adjoint_is_right"]
    assert 50 < growth.evidence["rate"] < 90
    assert 70 < growth.evidence["tangent_rate"] < 90
    assert ("and not finite further back" in growth.message) == (steps == 300)


def test_a_smaller_loss_is_no_advice_where_the_adjoint_grows() -> None:
    diagnosis = friction(300)
    (overflow,) = [item for item in diagnosis.by_rule("nonfinite") if item.severity == "error"]
    assert "The adjoint grows by 65 a round on its way back, over 22 rounds" in overflow.message
    assert overflow.fix == (
        "take a smaller time step, or the gradient over fewer rounds; damp what amplifies"
    )
    assert "rescale" not in str(diagnosis)


def test_a_stable_loop_of_the_same_kernel_is_quiet() -> None:
    diagnosis = friction(300, slope=1.0)
    assert not diagnosis.by_rule("exploding")
    assert not diagnosis.by_rule("nonfinite")
