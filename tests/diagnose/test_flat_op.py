"""Rule `flat-op`: gradients of exactly 0 by rounding, casts and comparisons; kinks with both their slopes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.contract import Threads
from tapedebug.diagnose.experiments.kinks import find_kink
from tapedebug.diagnose.rule_context import RuleContext

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def by_floor(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[i] * wp.floor(3.0 * v[i])


@wp.kernel
def by_cast(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[i] * float(int(2.0 * v[i]))


@wp.kernel
def by_sign(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[i] * wp.sign(v[i] - 1.5)


@wp.kernel
def by_step(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[i] * wp.step(v[i] - 1.5)


@wp.kernel
def by_branch(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    gear = 1.0
    if v[i] > 1.5:
        gear = 2.0
    out[i] = w[i] * gear


@wp.kernel
def by_where(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.where(v[i] < 1.5, w[i], 2.0 * w[i])


@wp.kernel
def by_index(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[int(v[i])]


@wp.func
def nearest(x: float):
    return wp.round(x)


@wp.kernel
def in_a_function(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[i] * nearest(v[i])


@wp.kernel
def hinge(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[i]
    if v[i] > 3.5:
        out[i] = w[i] + v[i]


@wp.kernel
def part(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    cell = wp.floor(v[i])
    out[i] = w[i] * (v[i] - cell)


@wp.kernel
def distance(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.abs(v[i] - w[i])


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=requires_grad)


def run(kernel: Any, v: Any = None, w: Any = None) -> Any:
    v = v or floats(1.1, 2.2, 2.65)
    w = w or floats(1.0, 2.0, 3.0)
    out, loss = floats(0.0, 0.0, 0.0), floats(0.0)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[v, w], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    return wp.diagnose(tape)


@pytest.mark.parametrize(
    ("kernel", "operation"),
    [
        (by_floor, "wp.floor(3.0 * v[i])"),
        (by_cast, "int(2.0 * v[i])"),
        (by_sign, "wp.sign(v[i] - 1.5)"),
        (by_step, "wp.step(v[i] - 1.5)"),
        (by_branch, "v[i] > 1.5"),
        (by_where, "v[i] < 1.5"),
        (by_index, "int(v[i])"),
        (in_a_function, "wp.round(x)"),
    ],
    ids=lambda item: getattr(item, "key", ""),
)
def test_the_operation_is_named_at_its_line(kernel: Any, operation: str) -> None:
    diagnosis = run(kernel)
    (finding,) = diagnosis.findings
    assert (diagnosis.verdict, finding.rule, finding.severity) == ("AGREE", "flat-op", "warning")
    assert (finding.launches, finding.arrays) == ([0], ["v"])
    assert finding.location.line == line_of(operation)
    assert finding.call_site.line == line_of("wp.launch(kernel, dim=3, inputs=[v, w]")
    evidence = finding.evidence
    assert (evidence["operation"], evidence["loss_moves_tiny"]) == (operation, 0.0)
    assert evidence["loss_moves"] > 0
    scale = f"{100 * evidence['perturbation']:g} %"
    assert finding.message == (
        f"The gradient of v is exactly 0, because {operation} in launch 0 ({kernel.key}) is flat: its slope "
        f"is 0 wherever it exists. Perturbing v by a relative 1e-09 does not move the loss, and by {scale} "
        f"moves it by {evidence['loss_moves']:.3g}."
    )
    assert finding.fix == (
        f"replace {operation} with a smooth function, or give it a custom gradient (wp.func_grad)"
    )


def test_a_branch_that_was_not_taken_is_no_flat_operation() -> None:
    """Beyond its threshold there is a slope: the optimiser may come there by other ways."""
    (finding,) = run(hinge).findings
    assert (finding.rule, finding.severity, finding.evidence["operation"]) == (
        "vanishing",
        "info",
        "v[i] > 3.5",
    )


def test_a_flat_part_beside_a_smooth_one_is_none() -> None:
    assert run(part).findings == []


def test_a_kink_is_told_with_both_slopes() -> None:
    diagnosis = run(distance, floats(1.0, 2.0, 3.0), floats(1.0, 2.0, 3.0, requires_grad=False))
    (finding,) = diagnosis.findings
    (check,) = diagnosis.checks
    assert (diagnosis.verdict, finding.rule, finding.severity) == ("KINK", "flat-op", "info")
    assert (check.verdict, check.left, check.right) == ("KINK", pytest.approx(-1.0), pytest.approx(1.0))
    assert finding.location.line == line_of("out[i] = wp.abs(v[i] - w[i])")
    assert finding.message == (
        "The loss has a kink in v: its slope is -1 on the left and 1 on the right. "
        "wp.abs(v[i] - w[i]) in launch 0 (distance) is at its kink (operands 0). The gradient is "
        "that of one "
        "of the sides, or lies between."
    )
    assert (finding.evidence["left"], finding.evidence["right"]) == (check.left, check.right)
    assert "the slope is -1 on the left and 1 on the right" in str(diagnosis)


@wp.kernel
def interpolated(place: wp.array(dtype=float), table: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    cell = int(wp.floor(place[i]))
    part = place[i] - float(cell)
    out[i] = (1.0 - part) * table[cell] + part * table[cell + 1]


def test_an_interpolation_at_a_grid_point_is_told_with_its_floor() -> None:
    table = floats(1.0, 2.0, 5.0, 6.0, requires_grad=False)
    (finding,) = run(interpolated, floats(0.5, 1.0, 1.5), table).findings
    assert finding.location.line == line_of("cell = int(wp.floor(place[i]))")
    assert "wp.floor(place[i]) in launch 0 (interpolated) is at its kink (operands 1)" in finding.message
    assert (finding.evidence["left"], finding.evidence["right"]) == (pytest.approx(1.0), pytest.approx(3.0))


@pytest.mark.parametrize(
    ("operation", "jumps", "others"),
    [
        (wp.floor, (-1.0, 0.0, 2.0), (0.5, 1.9)),
        (wp.ceil, (-1.0, 0.0, 2.0), (0.5, 1.9)),
        (wp.trunc, (-1.0, 2.0), (0.0, 0.5)),
        (wp.int32, (-1.0, 2.0), (0.0, 0.5)),
        (wp.round, (-1.5, 0.5, 2.5), (0.0, 1.0, 2.0)),
        (wp.rint, (-1.5, 0.5, 2.5), (0.0, 1.0, 2.0)),
    ],
)
def test_steps_are_at_a_kink_only_where_their_result_changes(
    operation: Any, jumps: tuple[float, ...], others: tuple[float, ...]
) -> None:
    @wp.kernel
    def stepped(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i] * float(operation(x[i]))

    for values, at_a_jump in ((jumps, True), (others, False)):
        x, out = floats(*values), wp.zeros(len(values), dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(stepped, dim=len(values), inputs=[x], outputs=[out])
        threads = tape.operations[0].capability(Threads)
        for number in range(len(values)):
            thread = threads.follow(number, {0: x.numpy(), 1: out.numpy()})
            thread.run()
            assert (thread.corner() is not None) is at_a_jump


def test_the_operation_at_a_kink_is_looked_for_once_a_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(
        sys.modules[RuleContext.__module__], "find_kink", lambda case: calls.append(case) or find_kink(case)
    )
    found = run(distance, floats(1.0, 2.0, 3.0), floats(1.0, 2.0, 3.0)).findings
    assert [finding.inputs for finding in found] == [["v"], ["w"]]
    assert len(calls) == 1


@wp.kernel
def add_squares(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def test_a_square_at_zero_that_is_added_up_is_no_flat_operation() -> None:
    x, loss = floats(0.0, 0.0, 0.0), floats(1.0)
    with wp.Tape() as tape:
        wp.launch(add_squares, dim=3, inputs=[x], outputs=[loss])
    tape.backward(loss)
    assert [item for item in wp.diagnose(tape, inputs=[x]).findings if item.severity != "info"] == []
