"""Rule `overwrite`: every way to write over what an adjoint needs, and beside each a look-alike that is "
"fine."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose import GradientError

HERE = Path(__file__)
NET = HERE.parents[2] / "notebooks" / "net.py"


def line_of(text: str, path: Path = HERE, occurrence: int = 0) -> int:
    """The line of a file that holds `text`, counted from 1; this function's own callers do not count."""
    lines = [
        number
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if text in line and "line_of(" not in line and '"""' not in line
    ]
    return lines[occurrence]


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    tid = wp.tid()
    y[tid] = x[tid] * x[tid]


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    tid = wp.tid()
    y[tid] = 2.0 * x[tid]


@wp.kernel
def put(z: wp.array(dtype=float), x: wp.array(dtype=float)):
    tid = wp.tid()
    x[tid] = z[tid]


@wp.kernel
def square_and_clear(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    tid = wp.tid()
    b[tid] = a[tid] * a[tid]
    a[tid] = 1.0


@wp.kernel
def increase(x: wp.array(dtype=float)):
    tid = wp.tid()
    x[tid] += 1.0


@wp.kernel
def first_half_to_second(x: wp.array(dtype=float), half: int):
    tid = wp.tid()
    x[tid + half] = x[tid] * x[tid]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=requires_grad)


def zeros(count: int) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=True)


def between_launches(mode: str) -> tuple[Any, Any, Any]:
    """The documents' example A, with the last launch reading `b`."""
    a, b, c, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(-1.0, -2.0, -3.0), zeros(1)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, a.shape, inputs=[a], outputs=[b])
        wp.launch(put, c.shape, inputs=[c], outputs=[a])
        wp.launch(total, b.shape, inputs=[b, loss])
    return tape, loss, a


def test_a_needed_value_that_is_lost_is_an_error_with_both_sides_and_numbers() -> None:
    tape, loss, a = between_launches("ignore")
    tape.backward(loss)
    assert a.grad.numpy().tolist() == [-2.0, -4.0, -6.0]
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    (finding,) = diagnosis.findings
    read, write = line_of("y[tid] = x[tid] * x[tid]"), line_of("x[tid] = z[tid]")
    assert (finding.rule, finding.severity, finding.launches, finding.arrays) == (
        "overwrite",
        "error",
        [0, 1],
        ["a"],
    )
    assert finding.location is not None
    assert finding.call_site is not None
    assert (finding.location.file, finding.location.line, finding.location.function) == (
        str(HERE),
        write,
        "put",
    )
    assert finding.call_site.line == line_of("wp.launch(put, c.shape, inputs=[c], outputs=[a])")
    assert finding.call_site.function == "between_launches"
    assert finding.message == (
        f"Launch 1 (put) overwrites values of a (at test_overwrite.py:{write}) that the adjoint of launch "
        "0 (square) "
        f"needs (read at test_overwrite.py:{read}): 3 of 3 elements changed value, by up to 6. "
        "That puts the gradient of a off by 200 %."
    )
    assert finding.fix == 'give put an array of its own for x, or record with on_overwrite="preserve"'
    evidence = finding.evidence
    assert evidence["relative_error"] == {"a": 2.0, "c": 0.0}
    assert (evidence["elements"], evidence["changed"], evidence["max_change"]) == (3, 3, 6.0)
    assert (evidence["needed"], evidence["preserved"], evidence["harmless"]) == (True, False, False)
    assert (evidence["occurrences"], evidence["pairs"]) == (1, [[0, 1]])
    assert evidence["reader"]["location"]["line"] == read
    assert evidence["reader"]["call_site"]["line"] == line_of(
        "wp.launch(square, a.shape, inputs=[a], outputs=[b])"
    )
    assert evidence["clobberer"]["kernel"] == "put"


def test_a_needed_value_that_was_preserved_is_a_note_that_says_what_it_saved() -> None:
    tape, loss, a = between_launches("preserve")
    tape.backward(loss)
    assert a.grad.numpy().tolist() == [2.0, 4.0, 6.0]
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    (finding,) = diagnosis.findings
    read, write = line_of("y[tid] = x[tid] * x[tid]"), line_of("x[tid] = z[tid]")
    assert finding.severity == "info"
    assert finding.message == (
        f"Launch 1 (put) overwrites values of a (at test_overwrite.py:{write}) that the adjoint of launch "
        "0 (square) "
        f"needs (read at test_overwrite.py:{read}): 3 of 3 elements changed value, by up to 6. "
        "The tape kept a copy of a for the adjoint, so the gradient is right; "
        "without it the gradient of a would be off by 200 %."
    )
    assert finding.fix == "nothing has to change; to save the copies, give put an array of its own for x"
    assert finding.evidence["preserved"] is True
    diagnosis.raise_if_wrong()


def test_warn_mode_consumes_what_ignore_does_and_says_so() -> None:
    with pytest.warns(wp.OverwriteWarning):
        tape, loss, a = between_launches("warn")
    tape.backward(loss)
    (finding,) = wp.diagnose(tape).findings
    assert (finding.severity, finding.evidence["preserved"]) == ("error", True)
    assert a.grad.numpy().tolist() == [-2.0, -4.0, -6.0]


def test_raise_if_wrong_raises_with_the_diagnosis_as_its_message() -> None:
    tape, loss, _ = between_launches("ignore")
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    with pytest.raises(GradientError) as caught:
        diagnosis.raise_if_wrong()
    assert str(caught.value) == str(diagnosis)
    assert isinstance(caught.value, AssertionError)


def in_place(mode: str) -> tuple[Any, Any]:
    """The documents' example B."""
    a, b, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square_and_clear, dim=a.shape, inputs=[a, b])
        wp.launch(total, a.shape, inputs=[b, loss])
    tape.backward(loss)
    return tape, a


def test_a_launch_that_overwrites_what_its_own_adjoint_needs() -> None:
    tape, a = in_place("ignore")
    assert a.grad.numpy().tolist() == [2.0, 2.0, 2.0]
    (finding,) = wp.diagnose(tape).findings
    read, write = line_of("b[tid] = a[tid] * a[tid]"), line_of("a[tid] = 1.0")
    assert (finding.severity, finding.launches, finding.arrays) == ("error", [0], ["a"])
    right, wrong = np.array([2.0, 4.0, 6.0]), np.array([2.0, 2.0, 2.0])
    expected = float(np.linalg.norm(wrong - right) / np.linalg.norm(right))
    assert finding.evidence["relative_error"]["a"] == pytest.approx(expected, rel=1e-6)
    assert finding.message == (
        f"Launch 0 (square_and_clear) overwrites a in place (at test_overwrite.py:{write}), and its own "
        "adjoint needs "
        f"the old values (read at test_overwrite.py:{read}): 2 of 3 elements changed value, by up to 2. "
        "That puts the gradient of a off by 60 %."
    )


def test_the_same_launch_is_right_where_the_tape_preserves() -> None:
    tape, a = in_place("preserve")
    assert a.grad.numpy().tolist() == [2.0, 4.0, 6.0]
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert [finding.severity for finding in diagnosis.findings] == ["info"]


def chain(kernel: Any, mode: str, second: Any) -> Any:
    """x → kernel → y, then `second` writes x again, and the loss is the sum of y."""
    x, y, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(4), zeros(1)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(kernel, dim=4, inputs=[x], outputs=[y])
        second(x, y)
        wp.launch(total, dim=4, inputs=[y], outputs=[loss])
    tape.backward(loss)
    return tape


def test_writing_over_what_was_read_linearly_is_harmless_and_says_why() -> None:
    tape = chain(
        double, "ignore", lambda x, y: wp.launch(put, dim=4, inputs=[floats(5.0, 6.0, 7.0, 8.0)], outputs=[x])
    )
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    (finding,) = diagnosis.findings
    assert (finding.severity, finding.fix, finding.evidence["harmless"]) == ("info", "", True)
    assert finding.message == (
        "Launch 1 (put) overwrites x after launch 0 (double) read it: harmless, double is linear in x: its "
        "adjoint does not read the values. 4 of 4 elements changed value, by up to 4; measured: with NaN "
        "in x "
        "the gradient of x and z is the same to the bit."
    )
    assert finding.evidence["relative_error"]["x"] == 0.0


def test_writing_the_same_values_again_is_harmless() -> None:
    tape = chain(
        square, "ignore", lambda x, y: wp.launch(put, dim=4, inputs=[floats(1.0, 2.0, 3.0, 4.0)], outputs=[x])
    )
    (finding,) = wp.diagnose(tape).findings
    assert (finding.severity, finding.evidence["changed"], finding.evidence["harmless"]) == ("info", 0, True)
    assert "none of 4 elements changed value. Harmless: the values are the same" in finding.message


@pytest.mark.parametrize("mode", ["ignore", "preserve"])
def test_copies_and_fills_clobber_too(mode: str) -> None:
    for clobber, name, text in (
        (lambda x, y: wp.copy(x, y), "copy", "wp.copy(x, y)"),
        (lambda x, y: x.zero_(), "fill", "x.zero_()"),
    ):
        tape = chain(square, mode, clobber)
        findings = [finding for finding in wp.diagnose(tape).findings if finding.evidence["needed"]]
        (finding,) = findings
        assert finding.severity == ("error" if mode == "ignore" else "info")
        assert finding.evidence["clobberer"]["kernel"] == name
        assert finding.call_site is not None
        assert finding.call_site.line == line_of(f'"{name}", "{text}"')
        assert finding.location == finding.call_site


def test_disjoint_slices_are_not_overwrites() -> None:
    x, y, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(2), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=2, inputs=[x[0:2]], outputs=[y])
        wp.launch(put, dim=2, inputs=[y], outputs=[x[2:4]])
        wp.launch(total, dim=4, inputs=[x], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_a_write_through_a_view_after_the_parent_was_read_is_an_overwrite() -> None:
    x, y, c, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(4), floats(9.0, 9.0), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=4, inputs=[x], outputs=[y])
        wp.launch(put, dim=2, inputs=[c], outputs=[x[1:3]])
        wp.launch(total, dim=4, inputs=[y], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    (finding,) = [finding for finding in diagnosis.findings if finding.severity == "error"]
    assert (finding.launches, finding.arrays) == ([0, 1], ["x"])
    assert (finding.evidence["changed"], finding.evidence["elements"]) == (2, 4)
    assert diagnosis.verdict == "WRONG"


def test_overlapping_slices_are_an_overwrite() -> None:
    x, y, c, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(3), floats(9.0, 9.0), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=3, inputs=[x[0:3]], outputs=[y])
        wp.launch(put, dim=2, inputs=[c], outputs=[x[2:4]])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    (finding,) = [finding for finding in wp.diagnose(tape).findings if finding.severity == "error"]
    assert finding.arrays == ["x[0:3]"]
    assert (finding.evidence["changed"], finding.evidence["elements"]) == (1, 3)


def test_numbers_of_a_group_are_those_of_the_overwrite_that_is_named() -> None:
    loss = zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        for size in (1, 3):
            x, y = floats(*range(1, size + 1)), zeros(size)
            wp.launch(square, dim=size, inputs=[x], outputs=[y])
            wp.launch(increase, dim=size, inputs=[x])
            wp.launch(total, dim=size, inputs=[y], outputs=[loss])
    tape.backward(loss)
    (finding,) = [finding for finding in wp.diagnose(tape).findings if finding.severity == "error"]
    assert finding.launches[:2] == [0, 1]
    assert "1 of 1 elements changed value" in finding.message


def test_a_kernel_that_reads_one_half_and_writes_the_other_is_harmless() -> None:
    x, loss = floats(1.0, 2.0, 0.0, 0.0), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(first_half_to_second, dim=2, inputs=[x, 2])
        wp.launch(total, dim=4, inputs=[x], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert [finding.severity for finding in diagnosis.findings] == ["info"]
    assert "2 of 4 elements changed value" in diagnosis.findings[0].message
    assert diagnosis.findings[0].message.endswith(
        "Harmless: none of the 2 elements that were written are among the 2 that launch 0 "
        "(first_half_to_second) read; measured, the gradient is the same to the bit."
    )
    evidence = diagnosis.findings[0].evidence
    assert (evidence["read"], evidence["written"], evidence["both"]) == (2, 2, 0)


@wp.kernel
def put_every(z: wp.array(dtype=float), first: int, step: int, x: wp.array(dtype=float)):
    tid = wp.tid()
    x[first + step * tid] = z[tid]


@wp.kernel
def square_every(x: wp.array(dtype=float), first: int, step: int, y: wp.array(dtype=float)):
    tid = wp.tid()
    y[tid] = x[first + step * tid] * x[first + step * tid]


@pytest.mark.parametrize(
    ("first", "severity", "both"), [(1, "info", 0), (0, "warning", 3), (3, "warning", 1)]
)
def test_without_a_loss_elements_say_whether_an_overwrite_can_matter(
    first: int, severity: str, both: int
) -> None:
    """Even and odd elements, and threes among twos: no array is a range here."""
    x, z, y = floats(*range(1, 11)), floats(-1.0, -2.0, -3.0), zeros(4)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square_every, dim=4, inputs=[x, 0, 2], outputs=[y])
        wp.launch(put_every, dim=3, inputs=[z, first, 3 if first == 3 else 2], outputs=[x])
    (finding,) = [item for item in wp.diagnose(tape).findings if item.rule == "overwrite"]
    assert (finding.severity, finding.evidence["both"]) == (severity, both)
    if not both:
        assert finding.message.endswith(
            "3 of 10 elements changed value, by up to 9. Harmless: none of the 3 elements that were written "
            "are among the 4 that launch 0 (square_every) read."
        )


def test_in_place_addition_is_no_finding() -> None:
    tape = chain(square, "ignore", lambda x, y: wp.launch(increase, dim=4, inputs=[y]))
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_in_place_addition_to_what_an_adjoint_needs_is_an_overwrite() -> None:
    tape = chain(square, "ignore", lambda x, y: wp.launch(increase, dim=4, inputs=[x]))
    (finding,) = wp.diagnose(tape).findings
    assert (finding.severity, finding.launches, finding.arrays) == ("error", [0, 1], ["x"])
    assert finding.location is not None
    assert finding.location.line == line_of("x[tid] += 1.0")


# ------------------------------------------------------------------ the net


@pytest.fixture(scope="module")
def net() -> dict[str, Any]:
    return runpy.run_path(str(NET))


def throw_net(net: dict[str, Any], buffers: str, mode: str) -> tuple[Any, Any]:
    throw = wp.array([net["FIRST_THROW"]], dtype=wp.vec3, requires_grad=True)
    tape, loss = net["record"](net["make_net"](), throw, buffers, on_overwrite=mode)
    tape.backward(loss)
    return tape, throw


def test_the_net_loses_its_positions_and_the_reuse_of_force_is_harmless(net: dict[str, Any]) -> None:
    tape, wrong = throw_net(net, "pingpong", "ignore")
    _, right = throw_net(net, "pingpong", "preserve")
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    positions = [finding for finding in diagnosis.findings if finding.severity == "error"]
    assert [finding.evidence["reader"]["kernel"] for finding in positions] == [
        "spring_forces",
        "shear_forces",
    ]
    for finding in positions:
        assert finding.arrays == ["x", "x_next"]
        assert finding.location is not None
        assert finding.call_site is not None
        assert finding.location.line == line_of("x_next[i] = x[i] + moved * dt", NET)
        assert finding.call_site.line == line_of("wp.launch(integrate,", NET)
        assert finding.evidence["occurrences"] == 39
        assert finding.message.endswith("38 more like it (×39).")
        assert finding.fix.startswith("give integrate an array of its own for x_next in each round")
    springs = positions[0]
    assert springs.launches[:2] == [2, 7]
    assert springs.evidence["reader"]["location"]["line"] == line_of("xi = x[i]", NET)
    expected = np.linalg.norm(wrong.grad.numpy() - right.grad.numpy()) / np.linalg.norm(right.grad.numpy())
    assert springs.evidence["relative_error_all"]["throw"] == pytest.approx(float(expected), rel=1e-5)
    assert expected > 0.1
    notes = {finding.arrays[0]: finding for finding in diagnosis.findings if finding.severity == "info"}
    assert set(notes) == {"force", "v"}
    force = notes["force"]
    assert (force.evidence["harmless"], force.evidence["occurrences"]) == (True, 39)
    assert "harmless, integrate is linear in force: its adjoint does not read the values." in force.message
    assert "measured: with NaN in force the gradient of throw is the same to the bit" in force.message
    assert "spring_forces is linear in v and integrate is linear in v" in notes["v"].message


def test_the_net_is_right_by_default_and_the_fixed_version_has_nothing_to_say(net: dict[str, Any]) -> None:
    tape, _ = throw_net(net, "pingpong", "preserve")
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert {finding.severity for finding in diagnosis.findings} == {"info"}
    assert diagnosis.coverage.checked == diagnosis.coverage.launches == 123
    tape, _ = throw_net(net, "distinct", "ignore")
    fixed = wp.diagnose(tape)
    assert (fixed.verdict, fixed.findings) == ("AGREE", [])


def test_diagnosing_changes_nothing(net: dict[str, Any]) -> None:
    tape, _ = throw_net(net, "pingpong", "preserve")
    arrays = list(tape.gradients)
    before = [(array.numpy().copy(), array.grad.numpy().copy()) for array in arrays]
    kept = (tape.preserved_bytes, tape.livein_bytes, len(tape.records), len(tape.backward_calls))
    wp.diagnose(tape)
    for array, (values, gradient) in zip(arrays, before, strict=True):
        assert np.array_equal(array.numpy(), values)
        assert np.array_equal(array.grad.numpy(), gradient)
    assert kept == (tape.preserved_bytes, tape.livein_bytes, len(tape.records), len(tape.backward_calls))


@wp.kernel
def halve(x: wp.array(dtype=float)):
    tid = wp.tid()
    x[tid] = 0.5 * x[tid]


def test_a_linear_update_in_place_is_harmless() -> None:
    x, loss = floats(1.0, 2.0), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        for _ in range(3):
            wp.launch(halve, dim=2, inputs=[x])
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    (finding,) = diagnosis.findings
    assert finding.message == (
        "Launch 0 (halve) overwrites x in place: harmless, halve is linear in x: its adjoint does not read "
        "the "
        "values. 2 of 2 elements changed value, by up to 1; measured: with NaN in x the gradient of x is "
        "the same to "
        "the bit. 2 more like it (×3)."
    )


@wp.kernel
def gather(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    tid = wp.tid()
    y[tid] = 3.0 * x[index[tid]]


def test_indices_are_needed_values_too() -> None:
    """The adjoint of a gather scatters to the indices: rebuilt neighbour lists must not reach it."""
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    index = wp.array([0, 0, 1], dtype=int)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(gather, dim=3, inputs=[x, index], outputs=[y])
        index.assign(np.array([2, 2, 2], dtype=np.int32))
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [0.0, 0.0, 9.0]
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    (finding,) = diagnosis.findings
    assert (finding.severity, finding.arrays, finding.evidence["changed"]) == ("error", ["index"], 3)


@wp.kernel
def smooth(u: wp.array(dtype=float), k: wp.array(dtype=float), out: wp.array(dtype=float), last: int):
    tid = wp.tid()
    if tid == 0 or tid == last:
        out[tid] = u[tid]
        return
    out[tid] = u[tid] + k[0] * (u[tid - 1] - 2.0 * u[tid] + u[tid + 1])


def test_of_several_writes_the_one_that_changed_something_is_named() -> None:
    """The boundary keeps its values; the line inside is the one that clobbers."""
    start, k, loss = floats(1.0, 5.0, 2.0, 7.0), floats(0.1), zeros(1)
    u, v = zeros(4), zeros(4)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.copy(u, start)
        for _ in range(4):
            wp.launch(smooth, dim=4, inputs=[u, k, v, 3])
            u, v = v, u
        wp.launch(total, dim=4, inputs=[u], outputs=[loss])
    tape.backward(loss)
    (finding,) = [item for item in wp.diagnose(tape).findings if item.severity == "error"]
    assert finding.location is not None
    assert finding.location.line == line_of("out[tid] = u[tid] + k[0]")
    assert (finding.evidence["changed"], finding.evidence["elements"]) == (2, 4)
    assert finding.evidence["occurrences"] == 3
    assert set(finding.evidence["relative_error"]) == {"start", "k"}
    assert finding.evidence["relative_error"]["start"] == 0.0, "the scheme is linear in u: only k suffers"


def test_a_reader_that_no_gradient_comes_back_to_is_not_called_linear() -> None:
    x, y, loss = floats(1.0, 2.0), wp.zeros(2, dtype=float), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        wp.launch(halve, dim=2, inputs=[x])
        wp.launch(total, dim=2, inputs=[x], outputs=[loss])
    tape.backward(loss)
    messages = [finding.message for finding in wp.diagnose(tape).findings]
    assert any(
        "harmless, nothing that square writes has requires_grad, so no gradient comes back to it" in message
        for message in messages
    )


def budgeted(budget: int | None) -> wp.Diagnosis:
    """Fifty steps in place, of 256 bytes each."""
    x = wp.array(np.linspace(0.1, 1.0, 64, dtype=np.float32), requires_grad=True)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape(memory_budget=budget) as tape:
        for _ in range(50):
            wp.launch(relax, 64, [x])
        wp.launch(square_sum, 64, [x, loss])
    tape.backward(loss)
    return wp.diagnose(tape, loss=loss)


@wp.kernel
def relax(x: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    x[i] = v - 0.01 * v * v


@wp.kernel
def square_sum(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def test_a_budget_of_memory_is_told() -> None:
    (kept,) = budgeted(None).findings
    assert "The tape kept a copy of x for the adjoint, so the gradient is right;" in kept.message
    diagnosis = budgeted(2000)
    (again,) = diagnosis.findings
    reported = (
        "The tape kept a copy of x, or, to keep to its memory_budget, computes it again for the adjoint, so"
    )
    assert reported in again.message
    versions = [item for item in diagnosis.trace.versions if item.status == "preserved"]
    assert sum(item.recomputed for item in versions) > 10
    assert all(item.preserved is not item.recomputed for item in versions)


@wp.kernel
def make_positive(x: wp.array(dtype=float)):
    tid = wp.tid()
    x[tid] = wp.abs(x[tid])


@pytest.mark.parametrize(("first", "severity"), [(1.0, "info"), (-1.0, "warning")])
def test_an_overwrite_that_changes_no_value_is_harmless_though_nothing_can_be_measured(
    first: float, severity: str
) -> None:
    x = wp.array([first, 2.0, 3.0], dtype=float, requires_grad=True)
    y, loss = wp.zeros(3, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, 3, [x], [y])
        tape.record_func(lambda: None, [y])  # no experiment can run it again
        wp.launch(make_positive, 3, [x])
        wp.launch(total, 3, [y, loss])
    tape.backward(loss)
    found = [item for item in wp.diagnose(tape, loss, progress=False).findings if item.rule == "overwrite"]
    assert {item.severity for item in found} == {severity}
    harmless = "none of 3 elements changed value. Harmless: the values are the same."
    assert all((harmless in item.message) is (severity == "info") for item in found)
