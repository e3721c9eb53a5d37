"""Rule `unconverged`: a solve that was stopped too early, told from simulations and solves that arrived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose.experiments import fixed_point

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def jacobi(x: wp.array(dtype=float), b: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    x_next[i] = 0.4 * (x[(i + 1) % n] + x[(i + n - 1) % n]) + b[i]


@wp.kernel
def mix(x: wp.array(dtype=float), b: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    x_next[i] = 0.4 * (x[(i + 1) % n] + x[(i + n - 1) % n]) + b[i]


@wp.kernel
def mix_dt(x: wp.array(dtype=float), b: wp.array(dtype=float), dt: float, x_next: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    x_next[i] = dt * (x[(i + 1) % n] + x[(i + n - 1) % n]) + b[i]


@wp.kernel
def layer(x: wp.array(dtype=float), b: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    x_next[i] = wp.tanh(0.8 * x[(i + 1) % n] - 0.6 * x[(i + 2) % n] + 0.5 * b[i])


@wp.kernel
def shrink(x: wp.array(dtype=float), b: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = 0.2 * x[i] * b[0]


@wp.kernel
def relax(x: wp.array(dtype=float), b: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = 0.9 * x[i] + b[i]


@wp.kernel
def jacobi_in_place(x: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 0.5 * x[i] + b[i]


@wp.kernel
def forced_jacobi(
    x: wp.array(dtype=float), b: wp.array(dtype=float), time: float, x_next: wp.array(dtype=float)
):
    i = wp.tid()
    x_next[i] = 0.5 * x[i] + b[i] + 0.01 * time


@wp.kernel
def move(x: wp.array(dtype=float), force: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = x[i] + 0.1 * force[i]


@wp.kernel
def squares(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def loop_of(kernel: Any, rounds: int, *args: Any, start: Any = None, fresh: bool = False) -> Any:
    """`rounds` of a kernel, between two arrays or with a fresh one each; `start` is zero by default."""
    b, loss = floats(1.0, 2.0, -1.0, 0.5, 3.0), floats(0.0)
    x = floats(*np.zeros(5)) if start is None else start
    other = wp.zeros_like(x)
    with wp.Tape() as tape:
        for _ in range(rounds):
            wp.launch(kernel, 5, [x, b, *args], [other])
            x, other = other, wp.zeros_like(x) if fresh else x
        wp.launch(squares, 5, [x], [loss])
    tape.backward(loss)
    return tape


def messages(tape: Any) -> Any:
    return [finding for finding in wp.diagnose(tape).findings if finding.rule == "unconverged"]


RIGHT = np.array([1.0, 2.0, -1.0, 0.5, 3.0])
MATRIX = 0.4 * (np.roll(np.eye(5), 1, axis=1) + np.roll(np.eye(5), -1, axis=1))


def exact(rounds: int) -> tuple[float, np.ndarray[Any, Any]]:
    """Loss and gradient by `b` after so many rounds, by NumPy."""
    total = sum(np.linalg.matrix_power(MATRIX, k) for k in range(rounds))
    x = total @ RIGHT
    return float(x @ x), 2 * total.T @ x


@pytest.mark.parametrize("fresh", [False, True], ids=["two arrays", "an array for each round"])
def test_a_solve_that_was_stopped_early(fresh: bool) -> None:
    (finding,) = messages(loop_of(jacobi, 6, fresh=fresh))
    evidence = finding.evidence
    assert (finding.severity, evidence["rounds"], evidence["tried_rounds"]) == ("warning", 6, [6, 12, 24])
    assert evidence["losses"] == pytest.approx([exact(n)[0] for n in (6, 12, 24)], rel=1e-6)
    before, after = exact(6)[1], exact(24)[1]
    change = np.linalg.norm(after - before) / np.linalg.norm(after)
    assert evidence["gradient_changes"]["b"][-1] == pytest.approx(change, rel=1e-6)
    moves = [np.linalg.norm(np.linalg.matrix_power(MATRIX, k) @ RIGHT) for k in range(1, 6)]
    assert evidence["rate"] == pytest.approx((moves[-1] / moves[0]) ** 0.25, rel=1e-6)
    assert finding.location.line == line_of("x_next[i] = 0.4 * (x[(i + 1) % n]")
    assert finding.call_site.line == line_of("wp.launch(kernel, 5, [x, b, *args], [other])")
    assert finding.launches == [5, 0]
    label = finding.arrays[0]
    half = np.linalg.norm(exact(12)[1] - before) / np.linalg.norm(exact(12)[1])
    assert finding.message == (
        "Launch 5 (jacobi) ends a solve of 6 rounds that has not converged (it is called jacobi): its last "
        "round "
        f"still moves {label} by {100 * evidence['last_change']:.2g} %, {evidence['rate']:.3g} of the "
        "round before, "
        f"so that about {100 * evidence['distance']:.0f} % is left to go. Tried out: the loss is "
        f"{exact(6)[0]:.4g}; with 12 rounds the loss is {exact(12)[0]:.4g} and the gradient of b changes by "
        f"{100 * half:.0f} %, with 24 rounds the loss is {exact(24)[0]:.4g} and the gradient of b changes by "
        f"{100 * change:.0f} %. The gradient is that of 6 rounds, not of the solution."
    )
    assert finding.fix == (
        f"let it run until a round moves {label} by less than 0.1 %, at least {evidence['rounds_wanted']} "
        "rounds"
    )
    assert messages(loop_of(jacobi, 2 * evidence["rounds_wanted"])) == []


def test_an_iteration_from_nothing_is_known_without_a_name() -> None:
    (finding,) = messages(loop_of(mix, 6))
    assert finding.severity == "warning"
    assert finding.evidence["why"] == [
        "it is linear, starts from the same number everywhere",
        "only 0% of a value goes into its next one",
    ]


def test_a_recurrent_layer_may_be_meant_so() -> None:
    """Nothing but its name tells it from a fixed-point iteration: a note, no alarm."""
    (finding,) = messages(loop_of(layer, 4))
    assert finding.severity == "info"
    assert finding.evidence["why"][0] == "it starts from the same number everywhere"


def test_what_decays_to_nothing_has_arrived() -> None:
    b, x, loss = floats(1.0, 2.0), floats(1.0, 1.0), floats(0.0)
    with wp.Tape() as tape:
        for _ in range(12):
            x_next = wp.zeros_like(x)
            wp.launch(shrink, 2, [x, b], [x_next])
            x = x_next
        wp.launch(squares, 2, [x], [loss])
    tape.backward(loss)
    assert messages(tape) == []


def test_a_solve_in_place() -> None:
    b, x, loss = floats(1.0, 2.0), floats(0.0, 0.0), floats(0.0)
    with wp.Tape() as tape:
        for _ in range(4):
            wp.launch(jacobi_in_place, 2, [x, b])
        wp.launch(squares, 2, [x], [loss])
    tape.backward(loss)
    (finding,) = messages(tape)
    x4, x8, x16 = (2 * (1 - 0.5**n) for n in (4, 8, 16))
    assert finding.evidence["losses"] == pytest.approx([5 * x * x for x in (x4, x8, x16)], rel=1e-6)


def test_a_solve_in_each_step_of_a_simulation_goes_on_in_all_of_them() -> None:
    b, x, loss = floats(1.0, 2.0), floats(0.5, 0.5), floats(0.0)
    with wp.Tape() as tape:
        for _ in range(5):
            force = floats(0.0, 0.0)
            for _ in range(4):
                wp.launch(jacobi_in_place, 2, [force, b])
            x_next = wp.zeros_like(x)
            wp.launch(move, 2, [x, force], [x_next])
            x = x_next
        wp.launch(squares, 2, [x], [loss])
    tape.backward(loss)
    (finding,) = messages(tape)
    assert (finding.evidence["occurrences"], finding.launches) == (5, [23, 20])
    ends = [0.5 + 5 * 0.1 * 2 * (1 - 0.5**n) * np.array([1.0, 2.0]) for n in (4, 8, 16)]
    assert finding.evidence["losses"] == pytest.approx([float(end @ end) for end in ends], rel=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: loop_of(jacobi, 60),
        lambda: loop_of(relax, 6),
        lambda: loop_of(mix, 6, start=floats(1.0, 4.0, 2.0, 8.0, 3.0)),
        lambda: loop_of(mix_dt, 6, 0.4),
    ],
    ids=["it arrived", "a value stays what it was", "from a state that means something", "with a time step"],
)
def test_no_solve_or_one_that_arrived(make: Any) -> None:
    assert messages(make()) == []


@pytest.mark.parametrize(("rounds", "pushed"), [(6, 2), (60, 0)])
def test_only_a_loop_that_has_not_arrived_is_run_with_tangents(
    rounds: int, pushed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, found = loop_of(jacobi, rounds), []
    push = fixed_point._pushed

    def counted(*args: Any) -> Any:
        found.append(args)
        return push(*args)

    monkeypatch.setattr(fixed_point, "_pushed", counted)
    assert bool(messages(tape)) is bool(pushed)
    assert len(found) == pushed


def test_inputs_that_change_from_round_to_round_have_no_fixed_point() -> None:
    b, x, loss = floats(1.0, 2.0), floats(0.0, 0.0), floats(0.0)
    with wp.Tape() as tape:
        for k in range(6):
            x_next = wp.zeros_like(x)
            wp.launch(forced_jacobi, 2, [x, b, float(k)], [x_next])
            x = x_next
        wp.launch(squares, 2, [x], [loss])
    tape.backward(loss)
    assert messages(tape) == []


@wp.kernel
def sor(x: wp.array(dtype=float), b: wp.array(dtype=float), colour: int):
    k = 2 * wp.tid() + colour
    n = x.shape[0]
    mean = 0.4 * (x[(k + 1) % n] + x[(k + n - 1) % n])
    x[k] = x[k] + 1.1 * (mean + b[k] - x[k])


def test_two_colours_make_one_round() -> None:
    b, x, loss = floats(1.0, 2.0, -1.0, 0.5), floats(0.0, 0.0, 0.0, 0.0), floats(0.0)
    with wp.Tape() as tape:
        for _ in range(5):
            wp.launch(sor, 2, [x, b, 0])
            wp.launch(sor, 2, [x, b, 1])
        wp.launch(squares, 4, [x], [loss])
    tape.backward(loss)
    (finding,) = messages(tape)
    assert (finding.severity, finding.evidence["rounds"], finding.evidence["launches_per_round"]) == (
        "warning",
        5,
        2,
    )
    values, losses = np.zeros(4), {}
    for number in range(1, 21):
        for colour in (0, 1):
            for k in (colour, 2 + colour):
                mean = 0.4 * (values[(k + 1) % 4] + values[k - 1])
                values[k] += 1.1 * (mean + [1.0, 2.0, -1.0, 0.5][k] - values[k])
        losses[number] = float(values @ values)
    assert finding.evidence["losses"] == pytest.approx([losses[5], losses[10], losses[20]], rel=1e-5)


def test_arrays_are_as_they_were() -> None:
    tape = loop_of(jacobi, 6)
    before = [(a, a.numpy().copy(), a.grad.numpy().copy()) for a in tape.gradients]
    wp.diagnose(tape)
    assert all(np.array_equal(a.numpy(), v) and np.array_equal(a.grad.numpy(), g) for a, v, g in before)
