"""Rule `disconnected`: the first place where a gradient ends, told apart from flat and truly zero slopes."""

from __future__ import annotations

import warnings
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
def drag(wind: wp.array(dtype=float), v: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] = (wind[i] - v[i]) * (wind[i] - v[i])


@wp.kernel(enable_backward=False)
def drag_without_adjoint(wind: wp.array(dtype=float), v: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] = (wind[i] - v[i]) * (wind[i] - v[i])


@wp.kernel
def push(v: wp.array(dtype=float), force: wp.array(dtype=float), v_next: wp.array(dtype=float)):
    i = wp.tid()
    v_next[i] = v[i] + 0.1 * force[i]


@wp.kernel
def quantise(v: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.floor(3.0 * v[i])


@wp.kernel
def ignore(v: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = 0.0 * v[i]


@wp.kernel
def pick(
    v: wp.array(dtype=float),
    index: wp.array(dtype=int),
    scale: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    i = wp.tid()
    out[i] = scale[0] * v[index[i]]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=requires_grad)


def zeros(count: int, *, requires_grad: bool = True) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=requires_grad)


def blow(kernel: Any, *, force_has_gradient: bool, rounds: int = 1) -> tuple[Any, Any]:
    """Wind pushes: `force` is an intermediate between `wind` and the loss."""
    wind, v, loss = floats(3.0, 2.0, 5.0), floats(1.0, 1.5, 2.0), zeros(1)
    with wp.Tape() as tape:
        for _ in range(rounds):
            force = zeros(3, requires_grad=force_has_gradient)
            v_next = zeros(3)
            wp.launch(kernel, dim=3, inputs=[wind, v], outputs=[force])
            wp.launch(push, dim=3, inputs=[v, force], outputs=[v_next])
            v = v_next
        wp.launch(total, dim=3, inputs=[v], outputs=[loss])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wp.TapedebugWarning)
        tape.backward(loss)
    return tape, wind


def test_an_intermediate_without_requires_grad_is_named() -> None:
    tape, wind = blow(drag, force_has_gradient=False)
    assert not wind.grad.numpy().any()
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    (finding,) = diagnosis.findings
    assert (finding.rule, finding.severity, finding.launches) == ("disconnected", "error", [0, 1])
    assert finding.arrays[0] == "force"
    assert finding.location is not None
    assert finding.call_site is not None
    assert finding.location.line == line_of("force[i] = (wind[i] - v[i])")
    assert finding.location.function == "drag"
    assert finding.call_site.line == line_of("wp.launch(kernel, dim=3, inputs=[wind, v]")
    moved = finding.evidence["loss_moves"]
    assert moved > 1e-5
    assert finding.message == (
        "force has no requires_grad: launch 0 (drag) writes it and launch 1 (push) reads it. The gradient of "
        "wind and v ends there. The loss does depend on that: perturbing force by 0.1% moves the loss by "
        f"{moved:.3g}; yet the gradient of wind is exactly 0 and the gradient of v misses what flows "
        "through force."
    )
    assert finding.fix == "create force with requires_grad=True"
    assert finding.evidence["kind"] == "no requires_grad"
    assert finding.evidence["gradient_is_zero"]["wind"] is True


def test_the_fixed_program_has_nothing_to_say() -> None:
    tape, wind = blow(drag, force_has_gradient=True)
    assert wind.grad.numpy().all()
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_a_time_loop_of_dead_arrays_is_one_finding_nearest_to_the_loss() -> None:
    tape, _ = blow(drag, force_has_gradient=False, rounds=5)
    (finding,) = [item for item in wp.diagnose(tape).findings if item.rule == "disconnected"]
    assert finding.launches == [8, 9]
    assert finding.evidence["occurrences"] == 5
    assert finding.message.endswith("4 more like it (×5).")


def test_a_kernel_without_an_adjoint_is_named_at_its_definition() -> None:
    tape, _ = blow(drag_without_adjoint, force_has_gradient=True)
    (finding,) = wp.diagnose(tape).findings
    assert finding.evidence["kind"] == "backward disabled"
    assert (finding.severity, finding.launches) == ("error", [0])
    assert finding.message.startswith(
        "Launch 0 (drag_without_adjoint) passes no gradient on: drag_without_adjoint has "
        "enable_backward=False. "
        "The gradient of wind and v ends there."
    )
    assert finding.location is not None
    assert finding.location.line == line_of("@wp.kernel(enable_backward=False)")
    assert finding.fix == "remove enable_backward=False from drag_without_adjoint"


def one_step(kernel: Any) -> Any:
    v, out, loss = floats(1.1, 2.2, 3.15), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[v], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    return tape


def test_a_flat_operation_is_told_by_another_rule() -> None:
    (finding,) = wp.diagnose(one_step(quantise)).findings
    assert finding.rule == "flat-op"


def test_a_slope_that_is_truly_zero_is_only_a_note() -> None:
    (finding,) = wp.diagnose(one_step(ignore)).findings
    assert finding.severity == "info"
    assert finding.evidence["kind"] == "zero slope"
    assert finding.evidence["loss_moves"] == [0.0] * 5
    assert finding.message == (
        "The gradient of v is exactly 0: it becomes 0 in the adjoint of launch 0 (ignore), and that is "
        "right: displacing it by 0.01 % to 100 % does not change the loss."
    )


def test_constants_are_no_finding() -> None:
    v, out, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    index, scale = wp.array([2, 0, 1], dtype=int), floats(2.0, requires_grad=False)
    with wp.Tape() as tape:
        wp.launch(pick, dim=3, inputs=[v, index, scale], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_an_array_that_depends_on_an_input_but_does_not_matter_is_no_finding() -> None:
    """A metric without requires_grad, computed on the tape and not part of the loss."""
    v, out, metric, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1, requires_grad=False), zeros(1)
    with wp.Tape() as tape:
        wp.launch(push, dim=3, inputs=[v, v], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[metric])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_what_was_detached_on_purpose_is_only_a_note() -> None:
    v, out, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        held = wp.clone(v, requires_grad=False)
        wp.launch(push, dim=3, inputs=[v, held], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "UNDECIDABLE"
    assert not diagnosis.wrong
    (finding,) = diagnosis.findings
    assert (finding.severity, finding.evidence["detached"], finding.fix) == ("info", True, "")
    assert finding.call_site is not None
    assert finding.call_site.line == line_of("held = wp.clone(v, requires_grad=False)")
    assert diagnosis.coverage.notes == [
        "v: differences of the loss see through what was detached with requires_grad=False, so they cannot "
        "confirm the gradient"
    ]


def through_numpy() -> tuple[Any, Any]:
    v, out, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(push, dim=3, inputs=[v, v], outputs=[out])
        copied = wp.array(out.numpy(), dtype=float, requires_grad=True)
        wp.launch(total, dim=3, inputs=[copied], outputs=[loss])
    tape.backward(loss)
    return tape, v


def test_an_input_whose_values_were_read_through_numpy_is_told_with_the_line() -> None:
    tape, v = through_numpy()
    for inputs in (None, [v]):
        diagnosis = wp.diagnose(tape, inputs=inputs)
        assert (diagnosis.verdict, diagnosis.level) == ("AGREE", "warning")
        (finding,) = diagnosis.findings
        assert (finding.severity, finding.evidence["kind"]) == ("warning", "through NumPy")
        line = line_of("copied = wp.array(out.numpy()")
        assert finding.message == (
            f"The gradient of v is exactly 0: out, which launch 0 (push) writes, left the tape at "
            f"test_disconnected.py:{line} (numpy), and came back as copied at test_disconnected.py:{line} "
            "(array), which launch 1 (total) reads. The values of copied are those of out (3 values, the "
            "same to the bit). No gradient follows through NumPy. The loss does depend on that: perturbing "
            "copied by 0.1% moves the loss by 0.00243."
        )
        assert (finding.location, finding.launches) == (None, [0, 1])
        assert finding.arrays == ["copied", "out", "v"]
        assert finding.call_site is not None
        assert finding.call_site.line == line
        assert finding.fix == "pass out to total"


def test_an_input_without_requires_grad_that_was_asked_for_is_told() -> None:
    scale, v, out, loss = floats(2.0, requires_grad=False), floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    index = wp.array([2, 0, 1], dtype=int)
    with wp.Tape() as tape:
        wp.launch(pick, dim=3, inputs=[v, index, scale], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    (finding,) = wp.diagnose(tape, inputs=scale).findings
    assert (finding.severity, finding.arrays, finding.launches) == ("warning", ["scale"], [0])
    assert finding.message.startswith("scale has no requires_grad, and launch 0 (pick) reads it.")


def test_bad_arguments_are_refused_by_name() -> None:
    tape, _ = through_numpy()
    with pytest.raises(TypeError, match=r"^diagnose takes a Tape or a list of tapes, not 3 \(of type int\)$"):
        wp.diagnose(3)
    with pytest.raises(TypeError, match=r"^diagnose: the list of tapes is empty$"):
        wp.diagnose([])
    with pytest.raises(wp.TapedebugError) as caught:
        wp.diagnose(tape, loss=zeros(1))
    assert str(caught.value) == (
        "diagnose: the loss, an array(shape=(1,), dtype=float32), is not on this tape\n"
        "  = hint: pass the array that a recorded launch writes the loss to"
    )
    with pytest.raises(wp.TapedebugError) as caught:
        wp.diagnose(tape, inputs=[zeros(2)])
    assert str(caught.value) == (
        "diagnose: the input array(shape=(2,), dtype=float32) is not on this tape\n"
        "  = hint: pass arrays that a recorded launch uses"
    )


@wp.kernel
def grid_product(v: wp.array(dtype=float), out: wp.array(dtype=float), side: int):
    i = wp.tid()
    row = i // side
    out[i] = float(row) * 0.0 * v[i]


@wp.kernel
def snap(v: wp.array(dtype=float), out: wp.array(dtype=float), side: int):
    i = wp.tid()
    scaled = 4.0 * v[i // side * side]
    nearest = wp.round(scaled)
    out[i] = nearest / 4.0


def test_only_operations_on_values_count_as_flat() -> None:
    for kernel, kind, text in (
        (grid_product, "zero slope", ""),
        (snap, "flat operation", "wp.round(scaled)"),
    ):
        v, out, loss = floats(1.1, 2.2, 3.15), zeros(3), zeros(1)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=3, inputs=[v, out, 2])
            wp.launch(total, dim=3, inputs=[out, loss])
        tape.backward(loss)
        (finding,) = wp.diagnose(tape).findings
        assert (finding.evidence["kind"], finding.evidence.get("operation", "")) == (kind, text)


def by_way_of_numpy(change: Any, *, assign: bool = False) -> tuple[Any, Any, Any]:
    """`v` is squared, goes through NumPy and `change`, and is summed."""
    v = floats(1.1, 2.2, 3.15, 0.7, 1.9, 2.6, 0.1, 4.3, 1.3)
    zero, squares, loss = zeros(9, requires_grad=False), zeros(9), zeros(1)
    seen = zeros(9)
    with wp.Tape() as tape:
        wp.launch(drag, dim=9, inputs=[v, zero], outputs=[squares])
        changed = change(squares.numpy()).astype("f4")
        if assign:
            seen.assign(changed)
        else:
            seen = wp.array(changed, dtype=float, requires_grad=True)
        wp.launch(total, dim=9, inputs=[seen], outputs=[loss])
    tape.backward(loss)
    return tape, v, seen


def alarms(tape: Any) -> list[Any]:
    return [item for item in wp.diagnose(tape).findings if item.severity != "info"]


def test_values_that_went_through_numpy_and_came_back() -> None:
    tape, v, _ = by_way_of_numpy(lambda values: values)
    assert not v.grad.numpy().any()
    (finding,) = alarms(tape)
    assert (finding.rule, finding.severity, finding.launches) == ("disconnected", "warning", [0, 1])
    assert finding.arrays == ["seen", "squares", "v"]
    left, back = line_of("changed = change(squares.numpy())"), line_of("seen = wp.array(changed, dtype")
    assert finding.message.startswith(
        "The gradient of v is exactly 0: squares, which launch 0 (drag) writes, left the tape at "
        f"test_disconnected.py:{left} (numpy), and came back as seen at test_disconnected.py:{back} (array), "
        "which launch 1 (total) reads. The values of seen are those of squares (9 values, the same to the "
        "bit). No gradient follows through NumPy. The loss does depend on that: perturbing seen by 0.1% "
    )
    assert finding.fix == "pass squares to total"
    assert finding.call_site.line == left
    assert finding.evidence["came_in_at"]["line"] == back


def test_values_that_numpy_changed_by_a_factor_are_known_again() -> None:
    tape, *_ = by_way_of_numpy(lambda values: values / values.max() - 0.5)
    (finding,) = alarms(tape)
    assert finding.evidence["kind"] == "through NumPy"
    assert finding.evidence["factor"] == pytest.approx(1 / 4.3**2, rel=1e-4)
    assert "(9 values, times 0.0541, plus -0.5)" in finding.message
    assert finding.fix == "compute seen from squares in a kernel"


def test_assigning_what_numpy_saw_is_the_same() -> None:
    tape, *_ = by_way_of_numpy(lambda values: values, assign=True)
    (finding,) = alarms(tape)
    assert finding.evidence["kind"] == "through NumPy"


def test_values_that_numpy_changed_in_another_way_are_told_by_both_lines() -> None:
    tape, *_ = by_way_of_numpy(lambda values: values**2)
    (finding,) = alarms(tape)
    left, back = line_of("changed = change(squares.numpy())"), line_of("seen = wp.array(changed, dtype")
    assert (
        f"left the tape at test_disconnected.py:{left} (numpy), and came back as seen at "
        f"test_disconnected.py:{back} (array), which launch 1 (total) reads. The code passes what was read "
        "to a function whose result goes into seen. No gradient follows through NumPy."
    ) in finding.message
    assert finding.fix == "compute seen from squares in a kernel"


def test_assigning_what_numpy_changed_names_the_array_that_it_was_assigned_to() -> None:
    tape, *_ = by_way_of_numpy(lambda values: values**2, assign=True)
    (finding,) = alarms(tape)
    line = line_of("seen.assign(changed)")
    assert f"and came back as seen at test_disconnected.py:{line} (assign). The code" in finding.message
    assert finding.fix == "compute seen from squares in a kernel"


def test_an_array_that_numpy_changed_and_assigned_back() -> None:
    v, out, loss = floats(1.1, 2.2, 3.15), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(push, dim=3, inputs=[v, v], outputs=[out])
        out.assign(np.sqrt(out.numpy()))
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    (finding,) = alarms(tape)
    assert finding.call_site is not None
    assert finding.call_site.line == line_of("out.assign(np.sqrt(out.numpy()))")
    line = finding.call_site.line
    assert f"came back as out at test_disconnected.py:{line} (assign)." in finding.message
    assert "The code computes out from what was read." in finding.message
    assert finding.fix == "change out in a kernel"


@wp.kernel
def scale(x: wp.array(dtype=float), y: wp.array(dtype=float), factor: float):
    i = wp.tid()
    y[i] = factor * x[i]


def test_a_sum_that_is_given_to_a_launch_as_a_number() -> None:
    v, mean, w, out, loss = floats(1.1, 2.2, 3.15), zeros(1), floats(0.5, 0.25, 0.125), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(total, dim=3, inputs=[v], outputs=[mean])
        wp.launch(scale, dim=3, inputs=[w, out, float(mean.numpy()[0])])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    (finding,) = alarms(tape)
    line = line_of("wp.launch(scale, dim=3, inputs=[w, out, float(mean.numpy()[0])])")
    assert finding.message == (
        f"The gradient of v is exactly 0: mean, which launch 0 (total) writes, left the tape at "
        f"test_disconnected.py:{line} (numpy), and came back as the number factor that launch 1 (scale) is "
        f"given at test_disconnected.py:{line}. The code computes factor from what was read. No gradient "
        "follows through NumPy. The loss does depend on that: perturbing factor by 0.1% moves the loss by "
        "0.00564."
    )
    assert finding.fix == "give scale the array mean in place of the number factor"


def two_chains(*, look: bool = False, second: int = 3) -> Any:
    """`w` leads to the loss, `v` to `other`."""
    v, other, w, loss = floats(1.1, 2.2, 3.15), zeros(second), floats(0.5, 0.25, 0.125), zeros(1)
    with wp.Tape() as tape:
        if second == 1:
            wp.launch(total, dim=3, inputs=[v], outputs=[other])
        else:
            wp.launch(push, dim=3, inputs=[v, v], outputs=[other])
        wp.launch(total, dim=3, inputs=[w], outputs=[loss])
    tape.backward(loss)
    if look:
        other.numpy()
    return tape


def test_a_result_that_is_never_read_is_where_the_gradient_ends() -> None:
    (finding,) = alarms(two_chains())
    assert (finding.rule, finding.severity) == ("disconnected", "warning")
    assert finding.message == (
        "The gradient of v is exactly 0: its data ends at other, which launch 0 (push) writes and no launch "
        "reads. No launch on the tape leads from v to loss."
    )
    assert finding.location is not None
    assert finding.location.line == line_of("v_next[i] = v[i] + 0.1 * force[i]")
    assert finding.fix == (
        "pass other to the launch that should read it; if the gradient of v is not wanted, create it without "
        "requires_grad"
    )


@pytest.mark.parametrize("change", [{"look": True}, {"second": 1}])
def test_a_result_of_its_own_is_none(change: Any) -> None:
    """It was looked at afterwards, or is another objective."""
    diagnosis = wp.diagnose(two_chains(**change))
    assert (diagnosis.level, diagnosis.findings) == ("good", [])
    line = line_of("other.numpy()")
    use = f"was read at test_disconnected.py:{line}" if "look" in change else "is another scalar result"
    assert diagnosis.coverage.notes == [
        "exactly zero: the gradient with respect to v, which leads to other and not to loss: launch 0 "
        f"({'push' if 'look' in change else 'total'}) writes other, which {use}"
    ]


def test_the_last_values_of_a_state_are_a_result_of_their_own() -> None:
    x, y, c, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(4.0, 5.0, 6.0), zeros(1)
    with wp.Tape() as tape:
        wp.launch(squares_of, dim=3, inputs=[x], outputs=[y])
        wp.launch(squares_of, dim=3, inputs=[c], outputs=[x])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert [item.rule for item in diagnosis.findings] == ["overwrite"]
    assert diagnosis.level == "good"
    assert diagnosis.coverage.notes == [
        "exactly zero: the gradient with respect to c, which leads to x and not to loss: launch 1 "
        "(squares_of) writes x, which launches read before that"
    ]


def test_a_result_of_its_own_is_told_where_its_input_was_asked_for() -> None:
    tape = two_chains(look=True)
    diagnosis = wp.diagnose(tape, inputs=[tape.records[0].args[0]])
    assert [item.severity for item in diagnosis.findings] == ["warning"]


def test_a_ramp_is_known_by_no_other() -> None:
    ramp, x, y, loss = floats(*range(9)), floats(*range(1, 19, 2)), zeros(9), zeros(1)
    with wp.Tape() as tape:
        wp.launch(push, dim=9, inputs=[ramp, zeros(9)], outputs=[y])
        wp.launch(total, dim=9, inputs=[x], outputs=[loss])
    tape.backward(loss)
    y.numpy()
    assert alarms(tape) == []


# ------------------------------------------------------------------------------------- zeros that are right


@wp.kernel
def squares_of(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def difference(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a[i] - b[i]


def flat(kernel: Any, *values: float, twice: bool = False) -> Any:
    x, y, loss = floats(*values), zeros(3), zeros(1)
    with wp.Tape() as tape:
        if twice:
            wp.launch(kernel, dim=3, inputs=[x, x], outputs=[y])
        else:
            wp.launch(kernel, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    (finding,) = diagnosis.findings
    return diagnosis, finding


def test_a_minimum_is_right_and_told_with_its_curvature() -> None:
    diagnosis, finding = flat(squares_of, 0.0, 0.0, 0.0)
    assert (diagnosis.verdict, diagnosis.level, finding.severity) == ("AGREE", "good", "info")
    moves = finding.evidence["loss_moves"]
    assert finding.evidence["response"] == "stationary"
    assert moves[2] == pytest.approx(100 * moves[1], rel=0.02)
    assert finding.message == (
        "The gradient of x is exactly 0: it becomes 0 in the adjoint of launch 0 (squares_of), and that is "
        f"right: the loss is stationary there: displacing it by 0.1 % changes the loss by {moves[1]:.3g}, "
        "and by 1 % 100 times as much, where a slope gives 10 times."
    )


def test_a_symmetry_is_right() -> None:
    diagnosis, finding = flat(difference, 1.0, 2.0, 3.5, twice=True)
    assert (diagnosis.level, finding.severity, finding.evidence["response"]) == ("good", "info", "none")


@wp.kernel
def up_and_down(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = x[0]
    y[1] = -x[0]


@pytest.mark.parametrize("seed", [(1.0, 1.0), (0.0, 0.0)])
def test_outputs_that_move_while_their_weighted_sum_does_not(seed: tuple[float, float]) -> None:
    x, y = floats(3.0), zeros(2)
    with wp.Tape() as tape:
        wp.launch(up_and_down, dim=1, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.array(seed, dtype=float)})
    assert alarms(tape) == []


def test_many_inputs_without_effect_are_displaced_together() -> None:
    xs = [floats(1.0, 2.0, 3.5) for _ in range(15)]
    y, loss = zeros(3), zeros(1)
    with wp.Tape() as tape:
        for x in xs:
            wp.launch(add_nothing, dim=3, inputs=[x, y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert {item.evidence["response"] for item in diagnosis.findings} == {"none"}
    assert (len(diagnosis.findings), diagnosis.level) == (15, "good")


@wp.kernel
def add_nothing(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, 0.0 * x[i])


# -------------------------------------------------------------------------------------------------- integers


@wp.kernel
def count(x: wp.array(dtype=float), n: wp.array(dtype=int)):
    i = wp.tid()
    n[i] = int(100.0 * x[i])


@wp.kernel
def weigh(n: wp.array(dtype=int), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, float(n[i]) * float(n[i]))


def test_a_gradient_ends_at_an_array_of_integers() -> None:
    x, n, loss = floats(1.2, 2.2, 3.3), wp.zeros(3, dtype=int), zeros(1)
    with wp.Tape() as tape:
        wp.launch(count, dim=3, inputs=[x], outputs=[n])
        wp.launch(weigh, dim=3, inputs=[n], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.level) == ("AGREE", "warning")
    (finding,) = diagnosis.findings
    moved = finding.evidence["loss_moves"][1]
    assert finding.message == (
        "The gradient of x is exactly 0: it ends at n, an array of int32, as integers carry no gradient: "
        "launch 0 (count) writes it and launch 1 (weigh) reads it. Yet the loss depends on x: displacing it "
        f"by 0.1 % changes the loss by {moved:.3g}."
    )
    assert finding.location is not None
    assert finding.location.line == line_of("n[i] = int(100.0 * x[i])")
    assert finding.fix == "keep floats in n: round or cast to integers only what indexes an array"


@pytest.mark.filterwarnings("ignore:an array of int32 with requires_grad")
def test_integers_that_are_to_have_a_gradient() -> None:
    n, loss = wp.array([1, 2, 3], dtype=int, requires_grad=True), zeros(1)
    with wp.Tape() as tape:
        wp.launch(weigh, dim=3, inputs=[n], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.level) == ("NOT CHECKED", "warning")
    (finding,) = diagnosis.findings
    assert finding.message == (
        "n gets no gradient: it is an array of int32, and integers have no derivative. Launch 0 (weigh) "
        "reads it."
    )
    assert finding.fix == ("create n with dtype=float; if its gradient is not wanted, without requires_grad")


def test_a_tape_of_which_no_input_has_a_gradient() -> None:
    x, y, loss = floats(1.2, 2.2, 3.3, requires_grad=False), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(squares_of, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    assert wp.diagnose(tape).findings == []
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.level) == ("NOT CHECKED", "warning")
    (finding,) = diagnosis.findings
    assert finding.message == (
        "The reverse pass gives no gradient of an input: the loss depends on x, and it has no requires_grad."
    )
    assert finding.fix == "create x with requires_grad=True"


def test_an_input_that_is_overwritten_first_is_none() -> None:
    x, y, loss = floats(1.2, 2.2, 3.3), floats(0.5, 0.25, 0.125), zeros(1)
    with wp.Tape() as tape:
        wp.launch(squares_of, dim=3, inputs=[y], outputs=[x])
        wp.launch(total, dim=3, inputs=[x], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape, inputs=[x])
    assert (diagnosis.verdict, diagnosis.level) == ("NOT CHECKED", "warning")
    assert diagnosis.coverage.summary == (
        "0 of 2 launches checked end to end: none of the inputs can be checked"
    )
    (finding,) = diagnosis.findings
    assert finding.severity == "warning"
    assert finding.message == (
        "The gradient of x is exactly 0: launch 0 (squares_of) overwrites x before any launch reads it. On "
        "this tape it is a result, not an input."
    )
    assert finding.fix == "pass x as an input of squares_of, and another array as its output"


def test_a_target_that_went_through_numpy_on_purpose_is_none_of_it() -> None:
    v, zero, target, now, loss = (
        floats(1.1, 2.2, 3.15, 0.7),
        zeros(4, requires_grad=False),
        zeros(4),
        zeros(4),
        zeros(1),
    )
    with wp.Tape() as tape:
        wp.launch(drag, dim=4, inputs=[v, zero], outputs=[target])
        fixed = wp.array(target.numpy(), dtype=float)
        wp.launch(drag, dim=4, inputs=[v, fixed], outputs=[now])
        wp.launch(total, dim=4, inputs=[now], outputs=[loss])
    tape.backward(loss)
    assert alarms(tape) == []


@wp.kernel
def add_squares(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def test_a_gradient_of_zero_that_an_overwrite_spoils_is_the_overwrites() -> None:
    x, loss = floats(0.0, 0.0), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(add_squares, dim=2, inputs=[x], outputs=[loss])
        wp.copy(x, floats(1.0, 2.0))
        wp.launch(add_squares, dim=2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    assert [item.rule for item in alarms(tape)] == ["overwrite"]


@wp.kernel
def symplectic(
    x: wp.array(dtype=float),
    v: wp.array(dtype=float),
    x_next: wp.array(dtype=float),
    v_next: wp.array(dtype=float),
):
    i = wp.tid()
    v_next[i] = v[i] - 0.1 * wp.sin(x[i])
    x_next[i] = x[i] + 0.1 * v_next[i]


@pytest.mark.parametrize("rounds", [1, 2])
def test_velocities_that_each_thread_writes_before_it_reads_them_are_no_inputs(rounds: int) -> None:
    x = [wp.ones(3, dtype=float, requires_grad=True) for _ in range(6)]
    v = [wp.ones(3, dtype=float, requires_grad=True) for _ in range(6)]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    for _ in range(rounds):
        tape.reset()
        loss.zero_()
        with tape:
            for step in range(5):
                launched = [x[step], v[step], x[step + 1], v[step + 1]]
                wp.launch(symplectic, dim=3, inputs=launched)
            wp.launch(ignore_none, dim=3, inputs=[x[5]], outputs=[loss])
        tape.backward(loss)
        tape.zero()
    diagnosis = wp.diagnose(tape, loss=loss)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])
    assert diagnosis.coverage.notes == []


@wp.kernel
def ignore_none(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()] * x[wp.tid()])


# -- launches that the user left off the tape ---------------------------------------------------------


def notes_of(record: Any) -> list[str]:
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y, loss = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    tape = record(x, y, loss)
    tape.backward(loss)
    diagnosis = wp.diagnose(tape, loss=loss, progress=False)
    assert not diagnosis.findings
    return [note for note in str(diagnosis).replace("\n    ", " ").splitlines() if "record_tape" in note]


def test_the_coverage_says_what_a_launch_off_the_tape_computed() -> None:
    def off(x: Any, y: Any, loss: Any) -> Any:
        with wp.Tape() as tape:
            wp.launch(squares_of, 3, inputs=[x], outputs=[y], record_tape=False)
            wp.launch(total, 3, inputs=[y], outputs=[loss])
        return tape

    def command(x: Any, y: Any, loss: Any) -> Any:
        prepared = wp.launch(squares_of, 3, inputs=[x, y], record_cmd=True, record_tape=False)
        with wp.Tape() as tape:
            prepared.launch()
            wp.launch(total, 3, inputs=[y], outputs=[loss])
        return tape

    for record in (off, command):
        (note,) = notes_of(record)
        assert "computed by a launch with record_tape=False, and taken as constant here: y (at " in note
        assert "test_disconnected.py:" in note


def test_it_says_nothing_of_launches_that_matter_to_no_gradient() -> None:
    def of_constants(x: Any, y: Any, loss: Any) -> Any:
        weights, doubled = wp.ones(3, dtype=float), wp.zeros(3, dtype=float)
        with wp.Tape() as tape:
            wp.launch(squares_of, 3, inputs=[weights], outputs=[doubled], record_tape=False)
            wp.launch(squares_of, 3, inputs=[x], outputs=[y])
            wp.launch(total, 3, inputs=[y], outputs=[loss])
        return tape

    def unused(x: Any, y: Any, loss: Any) -> Any:
        shown = wp.zeros(3, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(squares_of, 3, inputs=[x], outputs=[shown], record_tape=False)
            wp.launch(squares_of, 3, inputs=[x], outputs=[y])
            wp.launch(total, 3, inputs=[y], outputs=[loss])
        return tape

    def afterwards(x: Any, y: Any, loss: Any) -> Any:
        with wp.Tape() as tape:
            wp.launch(squares_of, 3, inputs=[x], outputs=[y])
            wp.launch(total, 3, inputs=[y], outputs=[loss])
        wp.launch(squares_of, 3, inputs=[x], outputs=[wp.zeros(3, dtype=float, requires_grad=True)])
        return tape

    for record in (of_constants, unused, afterwards):
        assert notes_of(record) == []


@wp.kernel
def bits(a: wp.array(dtype=wp.int32), b: wp.array(dtype=wp.int32)):
    i = wp.tid()
    b[i] = a[i]


def test_floats_that_are_copied_as_integers() -> None:
    x, y, z = (wp.zeros(3, dtype=float, requires_grad=True) for _ in range(3))
    x.assign([1.0, 2.0, 3.0])
    with wp.Tape() as tape:
        wp.launch(squares_of, 3, inputs=[x, y])
        wp.launch(bits, 3, inputs=[y.view(wp.int32), z.view(wp.int32)])
    tape.backward(grads={z: wp.ones(3, dtype=float)})
    (finding,) = wp.diagnose(tape).findings
    assert (finding.rule, finding.severity) == ("disconnected", "warning")
    assert finding.message.startswith(
        "The gradient of x is exactly 0: launch 1 (bits) reads y through a view of int32, and integers "
        "carry no gradient, whatever their bits mean. Yet the loss depends on x: displacing it by "
    )
    assert finding.fix == "read y as the floats that it holds: pass it without the view"
    assert finding.location is not None
    assert finding.location.function == "bits"


@wp.kernel
def contact(q: wp.array(dtype=float), stiffness: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    if q[i] > 1e6:
        wp.atomic_add(force, i, stiffness[0] * q[i])


@wp.kernel
def damped(q: wp.array(dtype=float), rate: wp.array(dtype=float), then: wp.array(dtype=float)):
    i = wp.tid()
    then[i] = q[i] - rate[0] * q[i]


@pytest.mark.parametrize("bodies", [0, 3])
@pytest.mark.unoptimized
def test_an_input_of_launches_that_write_nothing_has_a_gradient_of_zero(bodies: int) -> None:
    q, then, loss = floats(1.0, 2.0, 0.5), zeros(3), zeros(1)
    stiffness, rate, force = floats(0.3), floats(0.7), zeros(bodies)
    with wp.Tape() as tape:
        wp.launch(contact, 3, inputs=[q, stiffness, force])
        wp.launch(damped, 3, inputs=[q, rate, then])
        wp.launch(total, 3, inputs=[then, loss])
    tape.backward(loss)
    found = wp.diagnose(tape, loss)
    ends = [item.message for item in found.findings if item.rule == "disconnected"]
    note = (
        "exactly zero: the gradient with respect to stiffness: only launches of contact read it, and they "
        "write no array with elements"
    )
    assert (note in found.coverage.notes) is (bodies == 0)
    assert len(ends) == (1 if bodies else 0)
    named = wp.diagnose(tape, loss, inputs=[stiffness])
    assert [item.rule for item in named.findings if item.severity == "warning"] == ["disconnected"]


def test_a_launch_off_the_tape_between_two_on_it_is_a_finding_with_its_line() -> None:
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y, z = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares_of, 3, inputs=[x], outputs=[y])
        wp.launch(squares_of, 3, inputs=[y], outputs=[z], record_tape=False)
        wp.launch(total, 3, inputs=[z], outputs=[loss])
    tape.backward(loss)
    (finding,) = wp.diagnose(tape, loss=loss, progress=False).findings
    assert (finding.rule, finding.severity, finding.arrays) == ("disconnected", "warning", ["z", "y", "x"])
    assert (
        finding.call_site.function
        == "test_a_launch_off_the_tape_between_two_on_it_is_a_finding_with_its_line"
    )
    assert "which record_tape=False kept off the tape, computes z from y" in finding.message


def test_requires_grad_that_is_dropped_after_the_launches_cuts_nothing() -> None:
    v, force = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, float, requires_grad=True)
    wind, out = wp.array([3.0, 5.0], dtype=float), wp.zeros(2, float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(drag, dim=2, inputs=[wind, v], outputs=[force])
        wp.launch(push, dim=2, inputs=[v, force], outputs=[out])
    force.requires_grad = False
    tape.backward(grads={out: wp.ones(2, dtype=float)})
    np.testing.assert_allclose(v.grad.numpy(), [1.0 - 0.2 * 2.0, 1.0 - 0.2 * 3.0], rtol=1e-6)
    found = wp.diagnose(tape)
    assert (found.verdict, found.findings) == ("AGREE", [])
