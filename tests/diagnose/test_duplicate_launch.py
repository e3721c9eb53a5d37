"""Rule `duplicate-launch`: what is added twice, told apart from loops and from writing the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.diagnose.trace_analysis.value_numbering import ValueNumbers

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def weigh(mass: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] += -9.81 * mass[i]


@wp.kernel
def stretch(x: wp.array(dtype=float), k: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] += -k[i] * x[i]


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


@wp.kernel
def add_first(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    loss[0] = loss[0] + x[0] * x[0]


@wp.kernel
def relax(x: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 0.5 * x[i] + b[i]


@wp.kernel
def kick(force: wp.array(dtype=float), dt: float, v: wp.array(dtype=float)):
    i = wp.tid()
    v[i] += dt * force[i]


@wp.kernel
def drift(v: wp.array(dtype=float), dt: float, x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] += dt * v[i]


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def zeros(count: int) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=True)


def found(tape: Any) -> list[Any]:
    return [item for item in wp.diagnose(tape).findings if item.rule == "duplicate-launch"]


def test_a_copied_line_counts_its_contribution_twice() -> None:
    mass, x, k = floats(1.0, 2.0), floats(0.3, 0.4), floats(5.0, 6.0)
    force, loss = zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(weigh, dim=2, inputs=[mass], outputs=[force])  # the first
        wp.launch(stretch, dim=2, inputs=[x, k], outputs=[force])
        wp.launch(weigh, dim=2, inputs=[mass], outputs=[force])  # the copy
        wp.launch(total, dim=2, inputs=[force], outputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape)
    first, again = line_of("# the first"), line_of("# the copy")
    assert (finding.severity, finding.launches, finding.arrays) == ("warning", [0, 2], ["force"])
    errors = finding.evidence["relative_error"]
    assert set(errors) == {"mass", "x", "k"}
    assert "mass" not in finding.evidence["factor"]
    order = sorted(errors, key=lambda label: -errors[label])
    parts = [f"that of {label} differs by {100 * errors[label]:.0f} % from" for label in order[1:]]
    assert order[0] == "mass"
    assert finding.message == (
        "Launch 2 (weigh) adds to force what launch 0 (weigh) has added, which counts it twice (same kernel, "
        f"same arguments, same values): it is launched at test_duplicate_launch.py:{first} and "
        f"test_duplicate_launch.py:{again}. Measured gradient: that of mass differs by "
        f"{100 * errors['mass']:.0f} % from, {' and '.join(parts)} what it is without launch 2."
    )
    assert finding.fix == (
        f"remove the second launch at test_duplicate_launch.py:{again}, or give it an output of its own"
    )
    assert finding.location.line == line_of("force[i] += -9.81")
    assert finding.call_site.line == again
    one, other = finding.evidence["contributions"]
    assert one == pytest.approx(other, rel=1e-6)


def test_a_loss_that_is_added_twice_has_twice_the_gradient() -> None:
    x, loss = floats(1.0, 2.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(add_first, dim=1, inputs=[x, loss])
        wp.launch(add_first, dim=1, inputs=[x, loss])
    tape.backward(loss)
    (finding,) = found(tape)
    assert finding.severity == "warning"
    assert finding.evidence["factor"] == {"x": 2.0}
    assert finding.message.endswith("that of x is 2 times what it is without launch 1.")


def test_record_launch_after_a_launch_that_recorded_itself() -> None:
    x, loss = floats(1.0, 2.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
        tape.record_launch(total, 2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    assert loss.numpy()[0] == 5.0
    assert x.grad.numpy().tolist() == [4.0, 8.0]
    (finding,) = found(tape)
    place = f"test_duplicate_launch.py:{line_of('tape.record_launch(total')}"
    assert finding.severity == "error"
    assert finding.message == (
        "Launch 1 (total) adds to loss what launch 0 (total) has added, which counts it twice (same kernel, "
        f"same arguments, same values): record_launch at {place} recorded a launch that did not run (what "
        "loss holds is what one of them gives): launch records itself while a tape is active. Measured "
        "gradient: that of x is 2 times what it is without launch 1."
    )
    assert finding.fix == f"remove the record_launch at {place}, or launch with record_tape=False"
    assert finding.evidence["recorded_without_running"] == [1]


def test_record_launch_as_it_is_meant() -> None:
    x, loss = floats(1.0, 2.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(total, dim=2, inputs=[x], outputs=[loss], record_tape=False)
        tape.record_launch(total, 2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    assert found(tape) == []


def forward(x: Any, y: Any, loss: Any) -> None:
    wp.launch(square, dim=2, inputs=[x], outputs=[y])
    wp.launch(total, dim=2, inputs=[y], outputs=[loss])
    wp.launch(total, dim=2, inputs=[x], outputs=[loss])


def test_a_forward_function_called_twice_is_one_finding() -> None:
    for fresh in (False, True):
        x, y, loss = floats(1.0, 2.0), zeros(2), zeros(1)
        with wp.Tape() as tape:
            forward(x, y, loss)
            forward(x, zeros(2) if fresh else y, loss)
        tape.backward(loss)
        first, *rest = found(tape)
        assert (first.severity, first.launches, first.arrays) == ("warning", [1, 2, 4, 5], ["loss"])
        assert first.message == (
            "Launch 4 (total) and launch 5 (total) add to loss what launch 1 (total) and launch 2 (total) "
            "have added, which counts it twice (same kernel, same arguments, same values): all launches "
            "between them repeat what was computed already, so a forward function was called twice while the "
            "tape recorded. Measured gradient: that of x is 2 times what it is without the repeats."
        )
        assert first.fix == "call it once inside the `with` block"
        assert [item.severity for item in rest] == ([] if fresh else ["info"])


def test_the_same_values_again_only_cost_time() -> None:
    x, y, loss = floats(1.0, 2.0), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        for _ in range(3):
            wp.launch(square, dim=2, inputs=[x], outputs=[y])
        wp.launch(total, dim=2, inputs=[y], outputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape)
    assert (finding.severity, finding.launches) == ("info", [1, 2, 3])
    assert finding.message == (
        "Launch 1 (square) writes to y what is there already (same kernel, same arguments, same values). The "
        "gradient is the same; the launch only costs time. 2 more like it (×3)."
    )
    assert finding.fix == ""


def test_a_constant_cost_in_a_time_loop_is_a_note() -> None:
    u, x, loss = floats(1.0, 2.0), floats(0.5, 0.5), zeros(1)
    with wp.Tape() as tape:
        for _ in range(3):
            x_next = zeros(2)
            wp.launch(stretch, dim=2, inputs=[x, u], outputs=[x_next])
            wp.launch(total, dim=2, inputs=[u], outputs=[loss])
            x = x_next
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape)
    assert (finding.severity, finding.launches, finding.fix) == ("info", [1, 3, 5], "")
    assert "a loop at test_duplicate_launch.py:" in finding.message


def test_half_steps_of_a_leapfrog_are_no_duplicates() -> None:
    for first in (kick, drift):
        force, v, x, loss = floats(1.0, 2.0), zeros(2), zeros(2), zeros(1)
        arguments = {kick: (force, v), drift: (v, x)}
        other = drift if first is kick else kick
        with wp.Tape() as tape:
            for _ in range(3):
                wp.launch(first, dim=2, inputs=[arguments[first][0], 0.5, arguments[first][1]])
                wp.launch(other, dim=2, inputs=[arguments[other][0], 1.0, arguments[other][1]])
                wp.launch(first, dim=2, inputs=[arguments[first][0], 0.5, arguments[first][1]])
            wp.launch(total, dim=2, inputs=[x], outputs=[loss])
        tape.backward(loss)
        assert [item for item in found(tape) if item.severity != "info"] == []


def test_relaxation_in_place_does_not_add() -> None:
    b, x, loss = floats(1.0, 2.0), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(relax, dim=2, inputs=[x, b])
        wp.launch(relax, dim=2, inputs=[x, b])
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    assert found(tape) == []


def test_what_is_reset_in_between_is_not_counted_twice() -> None:
    mass, force, loss = floats(1.0, 2.0), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(weigh, dim=2, inputs=[mass], outputs=[force])
        wp.launch(total, dim=2, inputs=[force], outputs=[loss])
        force.zero_()
        wp.launch(weigh, dim=2, inputs=[mass], outputs=[force])
        wp.launch(total, dim=2, inputs=[force], outputs=[loss])
    tape.backward(loss)
    alarms = [item for item in found(tape) if item.severity != "info"]
    assert alarms == []


def test_other_inputs_other_scalars_other_losses() -> None:
    a, b, force, one, two = floats(1.0, 2.0), floats(1.0, 2.0), zeros(2), zeros(1), zeros(1)
    with wp.Tape() as tape:
        wp.launch(weigh, dim=2, inputs=[a], outputs=[force])
        wp.launch(weigh, dim=2, inputs=[b], outputs=[force])
        wp.launch(kick, dim=2, inputs=[a, 0.5], outputs=[force])
        wp.launch(kick, dim=2, inputs=[a, 0.25], outputs=[force])
        wp.launch(total, dim=2, inputs=[force], outputs=[one])
        wp.launch(total, dim=2, inputs=[force], outputs=[two])
    tape.backward(grads={one: one.numpy() * 0 + 1, two: two.numpy() * 0 + 1})
    assert found(tape) == []


def test_a_copied_line_in_a_time_loop_is_one_finding() -> None:
    mass, x, loss = floats(1.0, 2.0), floats(0.5, 0.5), zeros(1)
    with wp.Tape() as tape:
        for _ in range(4):
            force = zeros(2)
            wp.launch(weigh, dim=2, inputs=[mass], outputs=[force])
            wp.launch(weigh, dim=2, inputs=[mass], outputs=[force])
            wp.launch(drift, dim=2, inputs=[force, 0.1, x])
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape)
    assert (finding.severity, finding.launches) == ("warning", [0, 1, 3, 4, 6, 7, 9, 10])
    assert finding.evidence["occurrences"] == 4
    assert finding.message.endswith("what it is without the repeats. 3 more like it (×4).")


def test_ten_thousand_launches_in_place_are_numbered_without_recursion() -> None:
    x, loss = floats(0.5, 0.5), zeros(1)
    v = floats(1.0, 2.0)
    with wp.Tape() as tape:
        for _ in range(10_000):
            wp.launch(drift, dim=2, inputs=[v, 1e-4, x])
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
    numbers = ValueNumbers(tape.trace())
    assert [len(item.launches) for item in numbers.sums] == [10_000]


# -- a mean over samples that are the same -----------------------------------------------------------


@wp.kernel
def add_share(x: wp.array(dtype=float), n: float, mean: wp.array(dtype=float)):
    i = wp.tid()
    mean[i] += x[i] / n


@wp.kernel
def add_weighted(x: wp.array(dtype=float), weight: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, weight * x[i] * x[i])


@pytest.mark.parametrize("samples", [1, 2, 3, 8])
@pytest.mark.parametrize("inside", [False, True], ids=["clones before the loop", "clones in the loop"])
def test_a_mean_over_equal_samples_counts_nothing_twice(samples: int, inside: bool) -> None:
    base, mean, loss = floats(0.0, 0.5, 1.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        copies = [None if inside else wp.clone(base) for _ in range(samples)]
        for given in copies:
            x, y = wp.clone(base) if given is None else given, zeros(3)
            wp.launch(square, 3, [x, y])
            wp.launch(add_share, 3, [y, float(samples), mean])
        wp.launch(total, 3, [mean, loss])
    tape.backward(loss)
    assert not [item for item in found(tape) if item.severity != "info"]


def test_a_mean_of_losses_with_weights_of_one_over_n() -> None:
    x, loss = floats(0.5, 1.0), zeros(1)
    with wp.Tape() as tape:
        for _sample in range(4):
            y = zeros(2)
            wp.launch(square, 2, [x, y])
            wp.launch(add_weighted, 2, [y, 0.25, loss])
    tape.backward(loss)
    assert not [item for item in found(tape) if item.severity != "info"]


@pytest.mark.parametrize("weight", [0.5, 2.0, 0.3])
def test_a_weight_is_no_mean_of_two(weight: float) -> None:
    x, loss = floats(0.5, 1.0), zeros(1)

    def forward() -> None:
        y = zeros(2)
        wp.launch(square, 2, [x, y])
        wp.launch(add_weighted, 2, [y, weight, loss])

    with wp.Tape() as tape:
        forward()
        forward()
    tape.backward(loss)
    (finding,) = [item for item in found(tape) if item.severity == "warning"]
    assert "a forward function was called twice" in finding.message
