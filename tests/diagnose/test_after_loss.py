"""Rule `after-loss`: what is recorded behind the loss, and whether that changes the gradient."""

from __future__ import annotations

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
def energy(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


@wp.kernel
def speed(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sqrt(x[i])


@wp.kernel
def double(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = 2.0 * x[i]


@wp.kernel
def clear(loss: wp.array(dtype=float)):
    loss[0] = 0.0


@wp.kernel
def hold_ends(y: wp.array(dtype=float)):
    if wp.tid() == 0:
        y[0] = 1.0


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=requires_grad)


def zeros(count: int) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=True)


def found(tape: Any, **options: Any) -> list[Any]:
    return [item for item in wp.diagnose(tape, **options).findings if item.rule == "after-loss"]


def alarms(tape: Any, **options: Any) -> list[Any]:
    return [item for item in wp.diagnose(tape, **options).findings if item.severity != "info"]


def test_a_reset_of_the_loss_on_the_tape_makes_every_gradient_zero() -> None:
    x, loss = floats(1.0, 2.0, 2.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
        loss.zero_()
    tape.backward(loss)
    assert not x.grad.numpy().any()
    (finding,) = found(tape)
    here = line_of("loss.zero_()")
    assert finding.message == (
        "Launch 1 (fill) was recorded after launch 0 (energy), the last that loss depends on. It overwrites "
        "loss after it was computed, which changes the gradient: that of x is exactly 0, without it its norm "
        "is 6."
    )
    assert finding.fix == (
        f"move test_after_loss.py:{here} after backward and out of the `with` block, or reset loss at its "
        "start"
    )
    assert (finding.severity, finding.launches, finding.arrays) == ("error", [1], ["loss"])
    assert finding.call_site.line == here
    assert finding.evidence["relative_error"] == {"x": 1.0}
    assert finding.evidence["last"] == 0


def test_a_kernel_that_clears_a_scalar_loss_is_only_a_warning() -> None:
    x, loss = floats(1.0, 2.0, 2.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
        wp.launch(clear, dim=1, inputs=[loss])
    tape.backward(loss)
    (finding,) = found(tape)
    assert (finding.severity, finding.launches) == ("warning", [1])
    assert finding.location.line == line_of("loss[0] = 0.0")


def test_boundary_values_in_a_part_of_a_seeded_result_are_no_reset() -> None:
    x, y = floats(1.0, 2.0, 2.0), zeros(3)
    with wp.Tape() as tape:
        wp.launch(double, dim=3, inputs=[x], outputs=[y])
        wp.launch(hold_ends, dim=3, inputs=[y])
        y[1:2].fill_(0.5)
    tape.backward(grads={y: np.ones(3, np.float32)})
    assert x.grad.numpy().tolist() == [0.0, 0.0, 2.0]
    assert wp.diagnose(tape).findings == []


def test_zero_times_an_infinite_slope() -> None:
    x, out, loss = floats(0.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
        wp.launch(speed, dim=3, inputs=[x], outputs=[out])
    tape.backward(loss)
    assert np.isnan(x.grad.numpy()[0])
    first, second = wp.diagnose(tape).findings
    assert (first.rule, first.severity, first.launches, first.arrays) == ("after-loss", "error", [1], ["out"])
    assert first.message == (
        "Launch 1 (speed) was recorded after launch 0 (energy), the last that loss depends on. The reverse "
        "pass runs its adjoint nevertheless, which changes the gradient: that of x has 1 of 3 values that "
        "are not finite, without it none."
    )
    line = line_of("wp.launch(speed, dim=3, inputs=[x]")
    assert first.fix == (
        f"move test_after_loss.py:{line} out of the `with` block: launches after the loss need no adjoint"
    )
    assert first.location.line == line_of("out[i] = wp.sqrt(x[i])")
    assert (second.rule, second.severity) == ("nonfinite", "info")
    assert second.message.endswith("It was recorded after the loss: see after-loss, which says what to move.")
    assert second.evidence["explained_by"] == "after-loss"


@pytest.mark.parametrize("mode", ["ignore", "warn"])
@pytest.mark.filterwarnings("ignore::tapedebug.TapedebugWarning")
def test_a_copy_back_loses_what_an_adjoint_needs(mode: str) -> None:
    x, other, loss = floats(1.0, 2.0, 3.0), floats(4.0, 4.0, 4.0), zeros(1)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
        wp.copy(x, other)
    tape.backward(loss)
    errors = alarms(tape)
    assert [item.rule for item in errors] == ["after-loss"], "one bug, one main finding"
    (finding,) = errors
    assert finding.message.startswith(
        "Launch 1 (copy) was recorded after launch 0 (energy), the last that loss depends on. It overwrites "
        "values of x that adjoints need, which changes the gradient: that of x is off by "
    )
    assert finding.fix == (
        f"move test_after_loss.py:{line_of('wp.copy(x, other)')} after backward: before it, the values "
        "would be lost just the same"
    )
    assert finding.evidence["overwrites_needed"] == [["x", 1]]


def test_where_values_are_kept_the_same_copy_is_a_note_that_says_what_it_costs() -> None:
    x, other, loss = floats(1.0, 2.0, 3.0), floats(4.0, 4.0, 4.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
        wp.copy(x, other)
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 4.0, 6.0]
    (finding,) = found(tape)
    share = finding.evidence["share_of_reverse_seconds"]
    assert 0 < share < 1
    assert finding.evidence["kept_bytes"] == 12
    assert finding.severity == "info"
    assert finding.message == (
        "Launch 1 (copy) was recorded after launch 0 (energy), the last that loss depends on. What it writes "
        f"(x) does not reach the gradient; measured: {100 * share:.0f} % of the time of the reverse pass and "
        "12 bytes kept for the reverse pass because of what it overwrites."
    )


def test_a_considerable_part_of_the_tape_behind_the_loss_is_a_warning() -> None:
    x, loss = floats(1.0, 2.0, 3.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
        for _ in range(12):
            out = zeros(3)
            wp.launch(double, dim=3, inputs=[x], outputs=[out])
            x = out
    tape.backward(loss)
    (finding,) = found(tape)
    assert finding.severity == "warning"
    assert finding.launches == list(range(1, 13))
    assert "; they are 12 of 13 launches; measured: " in finding.message


def test_what_is_part_of_the_loss_is_none_of_it() -> None:
    x, loss = floats(1.0, 2.0, 3.0), zeros(1)
    with wp.Tape() as tape:
        loss.zero_()
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
    tape.backward(loss)
    assert wp.diagnose(tape).findings == []


def test_two_of_them_are_told_apart() -> None:
    x, other, out, loss = floats(0.0, 2.0, 3.0), floats(4.0, 4.0, 4.0), zeros(3), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[loss])
        wp.launch(speed, dim=3, inputs=[x], outputs=[out])
        wp.launch(double, dim=3, inputs=[other], outputs=[out])
        wp.copy(x, other)
    tape.backward(loss)
    messages = {tuple(item.launches): item.severity for item in found(tape)}
    assert messages == {(1,): "error", (2,): "info", (3,): "error"}


def test_a_tape_with_two_losses_has_nothing_after_the_first() -> None:
    x, one, two = floats(1.0, 2.0, 3.0), zeros(1), zeros(1)
    with wp.Tape() as tape:
        wp.launch(energy, dim=3, inputs=[x], outputs=[one])
        for _ in range(12):
            out = zeros(3)
            wp.launch(double, dim=3, inputs=[x], outputs=[out])
            x = out
        wp.launch(energy, dim=3, inputs=[x], outputs=[two])
    tape.backward(two)
    tape.zero()
    tape.backward(one)
    assert found(tape) == []
