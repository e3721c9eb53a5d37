"""Launches and copies that no tape of Warp records, between launches that one records."""

from __future__ import annotations

import inspect
from contextlib import nullcontext

import numpy as np
import pytest

import tapedebug as td

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


def ones(count, grad=True):
    return wp.full(count, 2.0, dtype=float, requires_grad=grad)


def zeros(count, grad=True):
    return wp.zeros(count, dtype=float, requires_grad=grad)


def chain(between, z_grad=True):
    """`y = x²` on a tape, `z` from `y` in a pause of the tape, and `loss = sum(z)` on the tape again."""
    x, y, z, loss = ones(3), zeros(3), zeros(3, z_grad), zeros(1)
    tape = wp.Tape()
    with tape:
        wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
    between(y, z)
    with tape:
        wp.launch(programs.total, dim=3, inputs=[z], outputs=[loss])
    tape.backward(loss)
    return x


def launched(y, z):
    wp.launch(programs.square, dim=3, inputs=[y], outputs=[z])


def copied(y, z):
    wp.copy(z, y)


def through_another(y, z):
    between = zeros(3)
    wp.launch(programs.square, dim=3, inputs=[y], outputs=[between])
    wp.launch(programs.square, dim=3, inputs=[between], outputs=[z])


def messages(session):
    (tape,) = session.tapes
    found = td.diagnose(tape, progress=False)
    return found, [item for item in found.findings if item.severity != "info"]


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + max(number for number, line in enumerate(lines) if text in line and "line_of" not in line)


@pytest.mark.parametrize(
    ("between", "what"), [(launched, "launch"), (copied, "copy"), (through_another, "launch")]
)
def test_what_a_pause_of_the_tape_computes_is_named_with_its_line(between, what):
    with td.watch_warp() as session:
        x = chain(between)
    assert not x.grad.numpy().any()
    found, (finding,) = messages(session)
    line = line_of(between, f"wp.{what}(")
    assert (finding.rule, finding.arrays, finding.call_site.line) == ("disconnected", ["z", "y", "x"], line)
    assert "while the tape did not record, computes z from y" in finding.message
    assert "The gradient of x is exactly 0" in finding.message
    assert finding.fix.startswith(f"{what} ")
    (note,) = [note for note in found.coverage.notes if "did not record" in note]
    assert "taken as constant here: z (at " in note
    assert f":{line})" in note


def test_a_constant_on_purpose_is_only_a_note():
    with td.watch_warp() as session:
        chain(launched, z_grad=False)
    found, loud = messages(session)
    assert "while the tape did not record" not in str(loud)
    assert any(
        "while the tape did not record, and taken as constant here: z" in n for n in found.coverage.notes
    )


def test_a_part_of_a_gradient_that_is_lost_is_named():
    with td.watch_warp() as session:
        x, y, z, loss = ones(3), zeros(3), zeros(3), zeros(1)
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
            wp.launch(programs.square, dim=3, inputs=[y], outputs=[z], record_tape=False)
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
            wp.launch(programs.total, dim=3, inputs=[z], outputs=[loss])
        tape.backward(loss)
    assert x.grad.numpy().tolist() == [4.0, 4.0, 4.0]
    _, (finding,) = messages(session)
    assert "The gradient of x misses what flows through z" in finding.message
    assert "which record_tape=False kept off the tape" in finding.message


def test_launches_that_only_look_are_no_finding():
    with td.watch_warp() as session:
        x, y, loss, shown = ones(3), zeros(3), zeros(1), zeros(1)
        tape = wp.Tape()
        with tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        wp.launch(programs.total, dim=3, inputs=[y], outputs=[shown])
        with tape:
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)
    found, loud = messages(session)
    assert (found.verdict, loud) == ("AGREE", [])
    assert not any("did not record" in note for note in found.coverage.notes)


def test_a_write_of_another_tape_is_named_with_its_line():
    with td.watch_warp() as session:
        x, y, z, loss, other = ones(3), zeros(3), zeros(3), zeros(1), zeros(1)
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
            wp.launch(programs.square, dim=3, inputs=[y], outputs=[z])
            wp.launch(programs.total, dim=3, inputs=[z], outputs=[loss])
        with wp.Tape():
            wp.launch(programs.scale, dim=3, inputs=[y, 5.0])
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[other])
        tape.backward(loss)
    found = td.diagnose(session.tapes[0], progress=False)
    (finding,) = [item for item in found.findings if item.severity == "error"]
    line = line_of(test_a_write_of_another_tape_is_named_with_its_line, "programs.scale")
    assert (found.verdict, finding.rule, finding.call_site.line) == ("WRONG", "stale-value", line)
    assert f"by a launch at test_off_tape_launches.py:{line}" in finding.message.replace("tests/watch/", "")


def test_what_numpy_writes_after_another_tape_is_not_attributed_to_that():
    with td.watch_warp() as session:
        x, y, loss, other = ones(3), zeros(3), zeros(1), zeros(1)
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
            wp.launch(programs.square, dim=3, inputs=[y], outputs=[y])
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        with wp.Tape():
            wp.launch(programs.scale, dim=3, inputs=[x, 5.0])
            wp.launch(programs.total, dim=3, inputs=[x], outputs=[other])
        x.numpy()[:] = 7.0
        tape.backward(loss)
    found = td.diagnose(session.tapes[0], progress=False)
    findings = [item for item in found.findings if item.rule == "stale-value"]
    assert findings
    assert all("NumPy" in item.message for item in findings)


def test_a_part_of_an_input_that_is_copied_has_its_gradient():
    with td.watch_warp() as session:
        x, y, z, loss = ones(4), zeros(4), zeros(4), zeros(1)
        with wp.Tape() as tape:
            wp.copy(y, x, dest_offset=1, src_offset=0, count=2)
            wp.launch(programs.square, dim=4, inputs=[y], outputs=[z])
            wp.launch(programs.total, dim=4, inputs=[z], outputs=[loss])
        tape.backward(loss)
    assert session.not_covered == []
    (tape,) = session.tapes
    (part,) = [a.array for a in tape.operations[0].accesses if a.param == 1]
    found, loud = messages(session)
    if not programs.REVERSES_PARTS:
        np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 4.0, 0.0])
        assert (found.verdict, [item.rule for item in loud]) == ("WRONG", ["wrong-adjoint"])
        assert any("exchanges dest_offset and src_offset" in note for note in found.coverage.notes)
        return
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 4.0, 0.0, 0.0])
    np.testing.assert_array_equal(part.current_gradient(), [4.0, 4.0])
    assert (found.verdict, loud, len(found.coverage.notes) > 0) == ("AGREE", [], True)


def summed(y, z):
    wp.utils.array_sum(y, out=z)


def inner_product(y, z):
    wp.utils.array_inner(y, y, out=z)


@pytest.mark.parametrize("reduce", [summed, inner_product])
def test_a_sum_that_no_tape_records_is_named_with_its_line(reduce):
    with td.watch_warp() as session:
        x, y, z, scaled, loss = ones(3), zeros(3), zeros(1), zeros(1), zeros(1)
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
            reduce(y, z)
            wp.launch(programs.square, dim=1, inputs=[z], outputs=[scaled])
            wp.launch(programs.total, dim=1, inputs=[scaled], outputs=[loss])
        tape.backward(loss)
    assert not x.grad.numpy().any()
    assert loss.numpy()[0] > 0
    found, (finding,) = messages(session)
    assert (finding.rule, finding.arrays) == ("disconnected", ["z", "y", "x"])
    assert finding.call_site.line == line_of(reduce, "wp.utils.")
    assert "which no tape records, computes z from y" in finding.message
    assert finding.fix.startswith("compute z in a kernel")
    assert any("which no tape records, and taken as constant here: z" in n for n in found.coverage.notes)


@pytest.mark.parametrize("written", [[12345], [0, 199_999], range(0, 200_000, 7)])
def test_single_numbers_that_numpy_writes_into_a_large_input_are_found_before_the_reverse_pass(written):
    with td.watch_warp() as session:
        x, y, loss = ones(200_000), zeros(200_000), zeros(1)
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=200_000, inputs=[x], outputs=[y])
            wp.launch(programs.total, dim=200_000, inputs=[y], outputs=[loss])
        x.numpy()[list(written)] = 100.0
        tape.backward(loss)
    found, (finding,) = messages(session)
    assert (found.verdict, finding.rule) == ("WRONG", "stale-value")
    assert f"{len(written)} of 200000 elements changed value" in finding.message


def forgotten(before, *, shared=False, between=None):
    """`y = x²` before the tape, and `loss = sum(y)`, if wanted also of x, on it."""
    x, y, loss = ones(3), zeros(3), zeros(1)
    before(x, y)
    if between is not None:
        between(x, y)
    with wp.Tape() as tape:
        wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        if shared:
            wp.launch(programs.total, dim=3, inputs=[x], outputs=[loss])
    tape.backward(loss)
    return x


@pytest.mark.parametrize(
    ("before", "what"), [(launched, "launch"), (copied, "copy"), (through_another, "launch")]
)
def test_what_is_computed_before_the_tape_is_named_if_its_gradient_is_read(before, what):
    with td.watch_warp() as session:
        x = forgotten(before)
        assert not x.grad.numpy().any()
    found, (finding,) = messages(session)
    assert (finding.rule, finding.severity, finding.arrays) == ("disconnected", "warning", ["y"])
    assert finding.call_site.line == line_of(before, f"wp.{what}(")
    assert finding.message.startswith(
        "The gradient of x, which the program read after the reverse pass, is exactly 0: "
    )
    assert "before the tape began to record, computes y from it. The tape takes y as a const" in str(finding)
    assert finding.fix.startswith(f"{what} ")
    (note,) = [note for note in found.coverage.notes if "before the tape began" in note]
    assert note.startswith(f"computed by a {what} before the tape began to record, and taken as constant ")


def test_what_is_computed_before_the_tape_from_an_input_of_it_is_named():
    with td.watch_warp() as session:
        forgotten(launched, shared=True)
    _, (finding,) = messages(session)
    assert (finding.rule, finding.arrays) == ("disconnected", ["y", "x"])
    assert finding.message.startswith("The gradient of x misses what flows through y: the launch of square ")


@pytest.mark.parametrize("case", ["gradient is not read", "overwritten", "reversed by the program", "copied"])
def test_what_is_computed_before_the_tape_on_purpose_is_at_most_a_note(case):
    def filled(x, y):
        y.fill_(2.0)

    with td.watch_warp() as session:
        between = filled if case == "overwritten" else None
        x = forgotten(copied if case == "copied" else launched, shared=case == "copied", between=between)
        if case == "reversed by the program":
            y, adj_y = zeros(3), ones(3, False)
            wp.launch(programs.square, 3, [x], [y], adj_inputs=[x.grad], adj_outputs=[adj_y], adjoint=True)
        if case != "gradient is not read":
            x.grad.numpy()
    found, loud = messages(session)
    assert (found.verdict, loud) == ("AGREE", [])
    noted = any("before the tape began" in note for note in found.coverage.notes)
    assert noted == (case != "overwritten")


def overwritten_by_a_launch(x, y):
    wp.launch(programs.square, dim=3, inputs=[ones(3, grad=False)], outputs=[y])


def overwritten_through_numpy(x, y):
    y.numpy()[:] = 3.0


@pytest.mark.parametrize("between", [overwritten_by_a_launch, overwritten_through_numpy])
@pytest.mark.parametrize("live", [False, True])
def test_what_is_overwritten_with_constants_before_the_tape_is_not_named(between, live):
    with td.watch_warp() as session:
        with wp.Tape() if live else nullcontext() as other:
            wp.launch(programs.square, dim=3, inputs=[ones(3)], outputs=[zeros(3)])
        x = forgotten(launched, between=between)
        assert not x.grad.numpy().any()
    assert live == (other is not None)
    found = td.diagnose(session.tapes[-1], progress=False)
    assert found.findings == []
    assert not any("before the tape began" in note for note in found.coverage.notes)


def launched_again(y):
    wp.launch(programs.total, dim=3, inputs=[y], outputs=[zeros(1)])


@pytest.mark.parametrize("again", [launched_again, lambda y: y.numpy(), lambda y: None])
def test_what_a_view_made_before_overwrites_before_the_tape_is_not_named(again):
    with td.watch_warp() as session:
        x, y, loss = ones(3), zeros(3), zeros(1)
        view = y.numpy()
        wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        view[:] = 3.0
        again(y)
        with wp.Tape() as tape:
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)
        assert not x.grad.numpy().any()
    assert td.diagnose(session.tapes[-1], progress=False).findings == []


def test_what_is_computed_anew_after_a_view_was_made_is_named():
    with td.watch_warp() as session:
        x, y, loss = ones(3), zeros(3), zeros(1)
        view = y.numpy()
        for _ in range(2):
            view[:] = 3.0
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        with wp.Tape() as tape:
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)
        assert not x.grad.numpy().any()
    _, (finding,) = messages(session)
    assert (finding.rule, finding.arrays) == ("disconnected", ["y"])


def changed_in_place(x, y):
    wp.launch(programs.scale, dim=3, inputs=[y, 2.0])


def changed_in_place_with_a_view(x, y):
    y.numpy()
    changed_in_place(x, y)


def changed_in_part(x, y):
    wp.launch(programs.square, dim=1, inputs=[ones(1, grad=False)], outputs=[y])


def looked_at(x, y):
    assert y.numpy().tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize(
    "between",
    [changed_in_place, changed_in_place_with_a_view, changed_in_part, looked_at],
)
def test_what_is_changed_but_not_overwritten_before_the_tape_is_named(between):
    with td.watch_warp() as session:
        x = forgotten(launched, between=between)
        assert not x.grad.numpy().any()
    _, (finding,) = messages(session)
    assert (finding.rule, finding.arrays) == ("disconnected", ["y"])
    assert finding.call_site.line == line_of(launched, "wp.launch(")


def test_a_launch_before_the_tape_that_warp_refuses_is_refused_by_warp():
    def launch():
        wp.launch(programs.square, dim="many", inputs=[ones(3)], outputs=[zeros(3)])

    with pytest.raises(Exception, match=".") as plain:
        launch()
    with td.watch_warp(), pytest.raises(plain.type) as watched:
        launch()
    assert str(watched.value) == str(plain.value)


def test_steps_before_the_tape_that_it_continues_are_only_information():
    with td.watch_warp() as session:
        x, y, z, loss = ones(3), zeros(3), zeros(3), zeros(1)
        wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[y], outputs=[z])
            wp.launch(programs.total, dim=3, inputs=[z], outputs=[loss])
            wp.launch(programs.total, dim=3, inputs=[x], outputs=[loss])
        tape.backward(loss)
    found, loud = messages(session)
    assert (found.verdict, loud) == ("AGREE", [])
    assert any("misses what flows through y" in finding.message for finding in found.findings)


def test_an_array_that_another_tape_wrote_meanwhile_comes_from_there():
    with td.watch_warp() as session:
        x, y, loss = ones(3), zeros(3), zeros(1)
        wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        with wp.Tape() as earlier:
            wp.launch(programs.square, dim=3, inputs=[loss], outputs=[y])
        with wp.Tape() as tape:
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)
        x.grad.numpy()
    assert earlier.launches
    found = td.diagnose(session.tapes[-1], progress=False)
    assert not any("before the tape began" in note for note in found.coverage.notes)


def test_an_adjoint_that_the_program_runs_itself_is_not_covered():
    with td.watch_warp() as session:
        x, y, z, loss = ones(3), zeros(3), zeros(3), zeros(1)
        wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[y], outputs=[z])
            wp.launch(programs.total, dim=3, inputs=[z], outputs=[loss])
            wp.launch(programs.total, dim=3, inputs=[x], outputs=[loss])
        tape.backward(loss)
        arguments = {"adj_inputs": [x.grad], "adj_outputs": [y.grad], "adjoint": True}
        wp.launch(programs.square, 3, [x], [y], **arguments)
        assert x.grad.numpy().tolist() == [33.0, 33.0, 33.0]
    found, loud = messages(session)
    assert (found.verdict, loud, found.findings) == ("AGREE", [], [])
    line = line_of(test_an_adjoint_that_the_program_runs_itself_is_not_covered, "**arguments")
    (gap,) = [note for note in found.coverage.notes if "adjoint=True" in note]
    assert gap.startswith("launch(adjoint=True) of square at ")
    assert gap.endswith(f":{line} is not covered: what it adds to the gradient of x, y was not checked")


def test_a_sum_that_comes_back_as_a_number_is_named():
    with td.watch_warp() as session:
        x, y, loss = ones(3), zeros(3), zeros(1)
        with wp.Tape() as tape:
            wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
            total = wp.utils.array_sum(y)
            z = wp.array([total], dtype=float, requires_grad=True)
            wp.launch(programs.total, dim=1, inputs=[z], outputs=[loss])
        tape.backward(loss)
    _, (finding,) = messages(session)
    assert (finding.rule, finding.arrays[:2]) == ("disconnected", ["z", "y"])
    assert f":{line_of(test_a_sum_that_comes_back_as_a_number_is_named, 'array_sum(')} " in finding.message
    assert "(array_sum), and came back as z" in finding.message
