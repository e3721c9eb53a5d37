"""`diagnose` on tapes of the reference engine: findings, their measured effect, and stated gaps."""

from __future__ import annotations

import numpy as np
import pytest

from tapedebug import contract
from tapedebug._progress import OutOfTime
from tapedebug.diagnose import _diagnose, diagnose
from tapedebug.diagnose.experiments import launch_check
from tapedebug.diagnose.experiments.stale_replay import StaleReplays
from tapedebug.diagnose.registry import OURS
from tests.contract.test_operations import layers
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import (
    axpy,
    cube_with_wrong_adjoint,
    detached,
    matmul,
    root,
    scale,
    square,
    total,
)


def one(function, values=(1.0, 2.0)):
    """A tape of one operation, summed."""
    x, y, loss = array(list(values)), zeros(len(values)), zeros(1)
    with Tape() as tape:
        function(x, y)
        total(y, loss)
    tape.backward(loss)
    return tape, x, loss


def messages(found):
    assert not [note for note in found.coverage.notes if OURS in note]
    return [(item.severity, item.rule) for item in found.findings if item.severity != "info"]


def test_a_clean_tape_is_clean_and_the_coverage_says_what_the_engine_lacks():
    tape, *_, loss = layers()
    tape.backward(loss)
    found = diagnose(tape)
    assert (found.verdict, messages(found)) == ("AGREE", [])
    assert (
        f"out-of-bounds, uninitialised-read, race were not looked for: {tape.engine.name} does not track the "
        "accesses of threads" in found.coverage.notes
    )
    assert (
        f"not-reset was not looked for: {tape.engine.name} keeps no record of earlier recordings"
        in found.coverage.notes
    )


def test_a_loss_that_is_not_on_the_tape_is_found():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
    loss.values[0] = y.values.sum()
    tape.backward(loss)
    found = diagnose(tape)
    assert (found.verdict, messages(found)) == ("WRONG", [("error", "seed")])
    assert "no loss is known: backward started from an array that is not on the tape (scalar" in str(found)
    message = found.findings[0].message
    assert message.endswith(
        "from an array of shape (1,), which no launch of the tape uses. So it added 0 to every gradient."
    )
    with tape.reverse_pass({y: np.ones(2), loss: np.ones(1)}):
        pass
    found = diagnose(tape)
    assert found.findings[0].message.endswith("Its seed has no effect: the gradients are those of y alone.")
    assert messages(found) == [("error", "seed")]


def test_an_overwrite_of_an_array_that_a_launch_got_twice_is_measured():
    a, product, loss = array([[1.0, 2.0], [3.0, 4.0]]), zeros(2, 2), zeros(1)
    with Tape() as tape:
        matmul(a, a, product)
        scale(a, 3.0)
        total(product, loss)
    tape.backward(loss)
    found = diagnose(tape)
    assert (found.verdict, messages(found)) == ("WRONG", [("error", "overwrite")])
    (finding,) = [item for item in found.findings if item.severity == "error"]
    assert finding.message.endswith("That puts the gradient of a off by 200 %.")


def test_an_overwrite_is_found_with_its_effect_on_the_gradients():
    tape, x, w, loss = layers(overwrite=True)
    tape.backward(loss)
    found = diagnose(tape)
    assert (found.verdict, messages(found)) == ("WRONG", [("error", "overwrite")])
    (finding,) = [item for item in found.findings if item.severity == "error"]
    assert finding.message.startswith("Launch 4 (scale) overwrites values of a ")
    right = tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds)
    for name, a in (("x", x), ("w", w)):
        good = right.gradient(a)
        wrong = np.linalg.norm(a.grad - good) / np.linalg.norm(good)
        assert finding.evidence["relative_error"][name] == pytest.approx(wrong, rel=1e-5)


def test_stale_reads_over_the_contract_are_those_of_an_engine_without_copies():
    tape, x, w, loss = layers(overwrite=True)
    tape.backward(loss)
    seeds, stale = tape.reverse_passes[-1].seeds, StaleReplays(tape)
    replay = stale.new_replay().forward()
    square_needs = (2, 0)
    for now, left, same in (([square_needs], [], True), ([], [square_needs], False), ([], [], False)):
        stale.see(replay, now, left)
        replay.backward(seeds)
        assert np.allclose(replay.gradient(x), x.grad) is same
        assert np.allclose(replay.gradient(w), w.grad) is same
    right = tape.new_replay().forward().backward(seeds)
    np.testing.assert_array_equal(replay.gradient(x), right.gradient(x), "values are as they were")


def test_an_operation_that_passes_no_gradient_is_found():
    found = diagnose(one(detached)[0])
    assert (found.verdict, messages(found)) == ("WRONG", [("error", "disconnected")])
    (finding,) = found.findings
    assert (finding.launches, finding.arrays) == ([0], ["x"])


def test_the_operation_that_makes_a_gradient_infinite_is_found():
    found = diagnose(one(root, [0.0, 4.0])[0])
    assert messages(found) == [("error", "nonfinite")]
    assert found.findings[0].message.startswith(
        "The adjoint of launch 0 (root) makes the gradient of x[0] inf: the adjoints that come in are finite."
    )


def test_an_adjoint_that_is_not_the_transpose_is_found():
    found = diagnose(one(cube_with_wrong_adjoint)[0])
    assert (found.verdict, messages(found)) == ("WRONG", [("error", "wrong-adjoint")])
    (finding,) = found.findings
    assert finding.launches == [0]
    given, right = (finding.evidence["along"]["x"][key] for key in ("adjoint", "difference"))
    assert given / right == pytest.approx(2 / 3, rel=0.2)


def test_a_direction_that_refutes_an_adjoint_is_the_last_one(monkeypatch):
    directions = []
    plain = launch_check._Point.difference

    def difference(self, array, direction):
        directions.append(self.record.name)
        return plain(self, array, direction)

    monkeypatch.setattr(launch_check._Point, "difference", difference)
    diagnose(one(cube_with_wrong_adjoint)[0])
    assert directions == ["total", "total", "cube_with_wrong_adjoint"]


def test_a_pass_that_adds_to_the_one_before_is_found():
    tape, _, loss = one(square)
    assert messages(diagnose(tape)) == []
    tape.backward(loss)
    found = diagnose(tape)
    assert messages(found) == [("warning", "accumulated")]
    assert found.findings[0].evidence["gradients"]["x"]["ratio"] == pytest.approx(2.0)


def test_gradients_that_were_zeroed_between_passes_are_no_finding():
    tape, _, loss = one(square)
    tape.zero()
    tape.backward(loss)
    assert messages(diagnose(tape)) == []


def test_values_overwritten_before_the_reverse_pass_are_found():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        total(y, loss)
    x.values[:] = 5
    tape.backward(loss)
    found = next(item for item in diagnose(tape).findings if item.rule == "stale-value")
    assert found.severity == "error"
    assert found.message.startswith(
        "x was overwritten after the tape had recorded and before backward, by NumPy or another library that "
        "shares its memory. The adjoint of launch 0 (square)"
    )


def test_values_written_between_operations_without_a_call_are_found():
    x, y, z, loss = array([1.0, 2.0]), zeros(2), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        y.values[:] = 7
        square(y, z)
        total(z, loss)
    tape.backward(loss)
    found = next(item for item in diagnose(tape).findings if item.rule == "stale-value")
    assert found.message.startswith(
        "y was written by NumPy or another library that shares its memory between launch 0 (square) and "
        "launch 1 (square), which reads it"
    )


def test_several_tapes_are_diagnosed_together():
    found = diagnose([one(square)[0], one(square, [3.0, 4.0])[0]])
    assert (found.verdict, messages(found)) == ("AGREE", [])


def test_a_tape_that_was_too_short_of_time_gets_what_the_others_have_left(monkeypatch):
    own, tried = _diagnose.end_to_end, []

    def slow_at_first(tape, *args, **options):
        tried.append(tape.id)
        if len(tried) == 1:
            raise OutOfTime("time was up")
        return own(tape, *args, **options)

    monkeypatch.setattr(_diagnose, "end_to_end", slow_at_first)
    tapes = [one(square)[0], one(square)[0]]
    found = diagnose(tapes, max_seconds=60.0)
    assert (found.verdict, messages(found)) == ("AGREE", [])
    assert tried == [tapes[0].id, tapes[1].id, tapes[0].id]


def test_an_operation_in_place_whose_adjoint_needs_no_values_is_harmless():
    x, loss = array([1.0, 2.0]), zeros(1)
    with Tape() as tape:
        scale(x, 3.0)
        total(x, loss)
    tape.backward(loss)
    found = diagnose(tape)
    assert (found.verdict, messages(found)) == ("AGREE", [])
    assert tape.operations[0].capability(contract.Threads) is None


def test_a_bug_behind_an_infinite_gradient_is_found_with_the_numbers_made_finite():
    x, v = array([1.0, 2.0]), array([1.0, 2.0])
    y, w, z, loss = zeros(2), zeros(2), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        scale(x, 3.0)
        square(v, w)
        axpy(-1.0, y, w)
        root(w, z)  # at 0
        total(z, loss)
    tape.backward(loss)
    found = diagnose(tape)
    behind = {item.rule: item.evidence["behind"] for item in found.findings if "behind" in item.evidence}
    assert ("error", "nonfinite") in messages(found)
    assert behind == {"overwrite": "nonfinite"}


class LeftInMemory:
    """The capability `ConsumedGradients` for a program whose reverse pass left these gradients."""

    def __init__(self, gradients):
        self.gradients = gradients

    def consumed(self, array):
        return self.gradients.get(array)


def tape_that_left(values):
    tape, x, loss = one(square)
    if values is not None:
        tape.capabilities[contract.ConsumedGradients] = LeftInMemory({x: np.array(values, np.float32)})
    return tape, x, loss


@pytest.mark.parametrize("values", [None, [2, 4], [2.0001, 4]])
def test_a_gradient_that_the_pass_left_as_its_replay_gives_it_is_right(values):
    found = diagnose(tape_that_left(values)[0])
    assert (found.verdict, messages(found)) == ("AGREE", [])
    assert not [note for note in found.coverage.notes if "another gradient" in note]


@pytest.mark.parametrize(
    ("values", "off", "place"),
    [
        ([102, 4], "22.4 times its size", "102 in place of 2 for x[0]"),
        ([0, 0], "100 %", "0 in place of 4 for x[1]"),
        ([2, np.nan], "beyond measure (zero or not finite)", "nan in place of 4 for x[1]"),
    ],
)
def test_a_gradient_that_something_outside_of_the_tape_changed_is_wrong(values, off, place):
    found = diagnose(tape_that_left(values)[0])
    assert (found.verdict, messages(found)) == ("WRONG", [("error", "wrong-adjoint")])
    note = (
        f"x: backward left another gradient than its replay gives, off by {off}: what changed it is not on "
    )
    assert [each for each in found.coverage.notes if each.startswith(note)]
    (finding,) = found.findings
    assert finding.message.startswith("Backward at test_diagnose.py:")
    assert finding.message.endswith(
        f" left another gradient than the adjoints of the tape give: x is off by {off} ({place}). "
        "Differences of the loss confirm what a replay of the pass gives: something that is not on the tape "
        "changed the gradient while backward ran."
    )
    assert finding.evidence["kind"] == "changed in backward"
    assert finding.call_site.function == "one"


def test_a_changed_gradient_that_differences_do_not_confirm_is_only_a_note():
    tape, x, _ = one(cube_with_wrong_adjoint)
    right = [(item.severity, item.rule) for item in diagnose(tape).findings]
    tape.capabilities[contract.ConsumedGradients] = LeftInMemory({x: np.array([7, 7], np.float32)})
    found = diagnose(tape)
    assert [(item.severity, item.rule) for item in found.findings] == right
    assert [note for note in found.coverage.notes if note.startswith("x: backward left another gradient")]


def test_a_named_loss_or_later_operations_are_not_compared_with_what_the_pass_left():
    tape, x, loss = tape_that_left([102, 4])
    assert (diagnose(tape, loss).verdict, messages(diagnose(tape, loss))) == ("AGREE", [])
    with tape:
        square(x, zeros(2))
    assert messages(diagnose(tape)) == []


def test_an_update_after_backward_inside_the_block_is_no_overwrite():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        total(y, loss)
        tape.backward(loss)
        scale(x, 0.5)
    found = diagnose(tape)
    assert (found.verdict, messages(found)) == ("AGREE", [])


def test_an_input_that_is_updated_between_two_passes_of_one_tape_is_displaced_in_all_its_values():
    x = array([1.0, 2.0])
    tape = Tape()
    for _ in range(3):
        y, loss = zeros(2), zeros(1)
        with tape:
            square(x, y)
            total(y, loss)
        tape.backward(loss)
        x.values[...] -= 0.25
        tape.note_outside(x, "assign", None)
        tape.zero()
    found = diagnose(tape)
    assert (found.verdict, messages(found)) == ("AGREE", [])
    replay = tape.new_replay()
    replay.set(x, np.array([2.0, 2.0], np.float32))
    assert replay.forward(stop=4).values(x).tolist() == [1.75, 1.75]
    assert replay.forward(start=4).values(x).tolist() == [1.5, 1.5]
    wide = tape.new_replay(float64=True)
    wide.set(x, np.array([2.0, 2.0]))
    assert wide.forward().values(x).tolist() == [1.5, 1.5]
    assert wide.reset().forward().values(x).tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.0000001, []), (1.000003, ["info"]), (1.0001, ["warning"])]
)
def test_an_overwrite_that_changes_gradients_by_rounding_is_not_reported(factor, expected):
    x, y, loss = array([1.1, 2.3]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        scale(x, factor)
        total(y, loss)
    tape.backward(loss)
    found = diagnose(tape)
    assert [item.severity for item in found.findings if item.rule == "overwrite"] == expected
