"""Rule `unused`: crossed arguments, results that nobody reads, inputs without use; and what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose.trace_analysis.argument_names import meaning, means

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def push(
    position: wp.array(dtype=float),
    vel: wp.array(dtype=float),
    dt: float,
    position_next: wp.array(dtype=float),
):
    i = wp.tid()
    position_next[i] = position[i] * (1.0 + dt * vel[i] * vel[i])


@wp.kernel
def product(mass: wp.array(dtype=float), speed: wp.array(dtype=float), momentum: wp.array(dtype=float)):
    i = wp.tid()
    momentum[i] = mass[i] * speed[i]


@wp.kernel
def springs(x: wp.array(dtype=float), stiffness: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] = -stiffness[i] * x[i]


@wp.kernel
def move(x: wp.array(dtype=float), force: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = x[i] * x[i] + 0.1 * force[i]


@wp.kernel
def move_without(x: wp.array(dtype=float), drag: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = 0.5 * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def zeros(count: int) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=True)


def found(tape: Any, **options: Any) -> list[Any]:
    return [item for item in wp.diagnose(tape, **options).findings if item.rule == "unused"]


def test_crossed_names_are_a_warning_where_the_exchange_makes_a_difference() -> None:
    positions, velocity = [floats(1.0, 2.0), zeros(2)], floats(0.5, 0.25)
    loss = zeros(1)
    with wp.Tape() as tape:
        wp.launch(push, dim=2, inputs=[velocity, positions[0], 0.1], outputs=[positions[1]])
        wp.launch(total, dim=2, inputs=[positions[1]], outputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape)
    change = finding.evidence["change_if_exchanged"]
    straight = np.array([0.5 * (1 + 0.1 * 1.0), 0.25 * (1 + 0.1 * 4.0)])
    swapped = np.array([1.0 * (1 + 0.1 * 0.25), 2.0 * (1 + 0.1 * 0.0625)])
    assert change == pytest.approx(np.linalg.norm(swapped - straight) / np.linalg.norm(straight), rel=1e-5)
    assert (finding.severity, finding.launches) == ("warning", [0])
    assert finding.arrays == ["positions[0]", "velocity"] or finding.arrays == ["velocity", "positions[0]"]
    assert finding.message == (
        "Launch 0 (push) is given (velocity, positions[0]) for the parameters (position, vel): the names are "
        f"swapped. With the two exchanged, what push writes differs by {100 * change:.0f} %."
    )
    assert finding.fix == "pass positions[0] as position and velocity as vel"
    assert finding.location.function == "push"
    assert finding.call_site.line == line_of("inputs=[velocity, positions[0], 0.1]")


def test_crossed_names_that_make_no_difference_are_none() -> None:
    mass, speed, momentum, loss = floats(1.0, 2.0), floats(0.5, 0.25), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(product, dim=2, inputs=[speed, mass], outputs=[momentum])
        wp.launch(total, dim=2, inputs=[momentum], outputs=[loss])
    tape.backward(loss)
    assert found(tape) == []


def test_both_ways_round_is_meant() -> None:
    position, vel, one, two, loss = floats(1.0, 2.0), floats(0.5, 0.25), zeros(2), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(push, dim=2, inputs=[vel, position, 0.1], outputs=[one])
        wp.launch(push, dim=2, inputs=[position, vel, 0.1], outputs=[two])
        wp.launch(total, dim=2, inputs=[one], outputs=[loss])
        wp.launch(total, dim=2, inputs=[two], outputs=[loss])
    tape.backward(loss)
    assert found(tape) == []


def test_a_result_written_over_the_data_and_read_from_zeros() -> None:
    mass, speed, momentum, loss = floats(1.0, 2.0), floats(0.5, 0.25), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(product, dim=2, inputs=[mass, momentum], outputs=[speed])
        wp.launch(total, dim=2, inputs=[speed], outputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape)
    assert finding.severity == "warning"
    assert finding.message == (
        "Launch 0 (product) is given (momentum, speed) for the parameters (speed, momentum): the names are "
        "swapped. speed is written, and momentum, which was never written, is read."
    )


@wp.kernel
def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def crossed_values(x: Any, y: Any, *, before: Any = None) -> list[Any]:
    loss = zeros(1)
    with wp.Tape() as tape:
        if before is not None:
            wp.launch(squares, dim=3, inputs=[x], outputs=[before])
        wp.launch(squares, dim=3, inputs=[y], outputs=[x])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    return found(tape)


def test_values_that_are_overwritten_before_they_are_read_beside_zeros_look_crossed() -> None:
    x, y = floats(1.0, 2.0, 3.5), zeros(3)
    (finding,) = crossed_values(x, y)
    assert (finding.severity, finding.evidence["kind"]) == ("warning", "crossed values")
    assert finding.message == (
        "Launch 0 (squares) reads y, which holds zeros and was never written, and overwrites x, whose "
        "initial values were never read: input and output look swapped. The initial values of x get no "
        "gradient."
    )
    assert finding.fix == "pass x as x and y as y"
    assert finding.call_site.line == line_of("wp.launch(squares, dim=3, inputs=[y], outputs=[x])")


def test_arguments_that_are_called_like_their_parameters_are_not_crossed() -> None:
    y, out = zeros(3), floats(1.0, 2.0, 3.5)

    @wp.kernel
    def sines(y: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = wp.sin(y[i])

    with wp.Tape() as tape:
        wp.launch(sines, dim=3, inputs=[y], outputs=[out])
    tape.backward(grads={out: floats(1.0, 1.0, 1.0)})
    assert found(tape) == []


def test_results_of_other_steps_constants_and_values_that_were_read_are_not_crossed() -> None:
    used = floats(1.0, 2.0, 3.5)
    wp.launch(squares, dim=3, inputs=[floats(3.0, 4.0, 5.0)], outputs=[used])
    assert crossed_values(used, zeros(3)) == []  # as in the second round of a training loop
    assert crossed_values(floats(1.0, 1.0, 1.0), zeros(3)) == []
    assert crossed_values(floats(1.0, 2.0, 3.5), zeros(3), before=zeros(3)) == []
    assert crossed_values(floats(1.0, 2.0, 3.5), floats(0.5, 0.25, 0.125)) == []
    assert crossed_values(wp.array([1.0, 2.0, 3.5], dtype=float), zeros(3)) == []  # no gradient was asked for


def test_ping_pong_by_hand_is_none_of_it() -> None:
    mass, speed, momentum, loss = floats(1.0, 2.0), floats(0.5, 0.25), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(product, dim=2, inputs=[mass, speed], outputs=[momentum])
        wp.launch(product, dim=2, inputs=[mass, momentum], outputs=[speed])
        wp.launch(total, dim=2, inputs=[speed], outputs=[loss])
    tape.backward(loss)
    assert found(tape) == []


def pulled(spring_force: Any, force: Any) -> tuple[Any, Any, Any]:
    """The result is written as `spring_force`, and read as `force`."""
    x, stiffness, x_next, loss = floats(1.0, 2.0), floats(3.0, 4.0), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(springs, dim=2, inputs=[x, stiffness], outputs=[spring_force])
        wp.launch(move, dim=2, inputs=[x, force], outputs=[x_next])
        wp.launch(total, dim=2, inputs=[x_next], outputs=[loss])
    tape.backward(loss)
    return tape, loss, stiffness


def test_a_result_that_nobody_reads_beside_zeros_that_nothing_wrote() -> None:
    tape, _, stiffness = pulled(zeros(2), zeros(2))
    assert not stiffness.grad.numpy().any()
    (finding,) = found(tape)
    moves, norm = finding.evidence["loss_moves"], finding.evidence["gradient_norm"]["stiffness"]
    x_next = np.array([1.0 - 0.3, 4.0 - 0.8])
    assert moves == pytest.approx(17.0 - float(x_next @ x_next), rel=1e-5)
    assert norm == pytest.approx(np.linalg.norm(2 * x_next * 0.1 * np.array([1.0, 2.0])), rel=1e-5)
    assert (finding.severity, finding.launches) == ("warning", [0, 1])
    assert finding.arrays == ["spring_force", "force", "stiffness"]
    assert finding.message == (
        "Launch 0 (springs) writes its force to spring_force, which is never read, and launch 1 (move) "
        "reads its force from force, which holds zeros and was never written. The gradient of stiffness is "
        f"exactly 0 because of that. Had move read spring_force, the loss would change by {moves:.3g}, and "
        f"the norm of the gradient would be {norm:.3g} for stiffness."
    )
    assert finding.fix == "pass force to springs, or spring_force to move"
    assert finding.location.line == line_of("force[i] = -stiffness[i]")


def test_where_both_are_one_array_or_the_other_was_filled_there_is_nothing_to_say() -> None:
    same = zeros(2)
    tape, *_ = pulled(same, same)
    assert found(tape) == []
    tape, *_ = pulled(zeros(2), floats(0.5, 0.5))
    assert found(tape) == []


def test_an_input_that_no_kernel_touches_is_a_warning_where_it_was_asked_for() -> None:
    x, drag, x_next, loss = floats(1.0, 2.0), floats(3.0, 4.0), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(move_without, dim=2, inputs=[x, drag], outputs=[x_next])
        wp.launch(total, dim=2, inputs=[x_next], outputs=[loss])
    tape.backward(loss)
    (note,) = found(tape)
    assert (note.severity, note.fix) == ("info", "")
    diagnosis = wp.diagnose(tape, inputs=[x, drag])
    (finding,) = [item for item in diagnosis.findings if item.rule == "unused"]
    assert finding.severity == "warning"
    assert finding.message == (
        "move_without never uses its parameter drag, and nothing else on the tape uses drag: its gradient is "
        "0, although it was requested."
    )
    assert finding.fix == "use drag in move_without, or leave drag out"
    assert finding.location.line == line_of("def move_without(")
    assert [item.severity for item in diagnosis.findings if item.rule == "disconnected"] == ["info"]
    assert diagnosis.verdict == "AGREE", "the other input was checked"
    assert "not checked: no launch uses drag, although one is given it" in diagnosis.coverage.notes


def test_an_output_that_is_only_read_is_a_note() -> None:
    x, force, x_next, loss = floats(1.0, 2.0), floats(3.0, 4.0), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(move, dim=2, inputs=[x], outputs=[force, x_next])
        wp.launch(total, dim=2, inputs=[x_next, loss])
    tape.backward(loss)
    (finding,) = found(tape)
    assert (finding.severity, finding.message) == (
        "info",
        "force is among the outputs of launch 0 (move) and only read.",
    )


@pytest.mark.parametrize(
    ("text", "name", "same"),
    [
        ("self.velocities[t + 1]", "vel", True),
        ("state.q", "q", True),
        ("q_next", "q", True),
        ("x", "x_next", True),
        ("pos0", "position", True),
        ("v0", "velocity", False),
        ("mass", "masses", True),
        ("bodies", "body", True),
        ("tmp", "mass", False),
        ("force", "mass", False),
    ],
)
def test_what_names_mean(text: str, name: str, same: bool) -> None:
    assert means(text, name) is same, (meaning(text), meaning(name))


def test_elements_of_one_list_are_not_alike_for_that() -> None:
    a = [floats(1.0, 2.0), floats(3.0, 4.0), zeros(2), zeros(2), zeros(2)]
    loss = zeros(1)
    with wp.Tape() as tape:
        wp.launch(product, dim=2, inputs=[a[0], a[1]], outputs=[a[2]])
        wp.launch(total, dim=2, inputs=[a[3]], outputs=[loss])
    tape.backward(loss)
    assert found(tape) == []
