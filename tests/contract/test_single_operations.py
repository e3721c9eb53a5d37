"""`gradcheck_tape` and checks of single pairs on tapes of another engine: its operations one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tapedebug import GradcheckError
from tapedebug.autograd import GradcheckFailure, gradcheck_tape, hvp, hvp_check
from tapedebug.autograd.pair_check import check_pairs, pair_script
from tapedebug.autograd.subjects.whole_tape import whole_tape
from tapedebug.autograd.tapes.lockstep import Steps, lockstep
from tapedebug.contract import LocalReplays
from tests.reference_engine import Tape, array, operation, zeros


@operation(writes="y", needs=["x"])
def square(x):
    return x * x


@square.adjoint
def _(g, x):
    return 2 * x * g


@operation(writes="y", needs=["x"])
def cube(x):
    return x**3


@cube.adjoint
def _(g, x):
    return 2 * x**2 * g  # 3 would be right


@operation(writes="x")
def scale_in_place(x, factor):
    return x * np.asarray(factor, x.dtype)


@scale_in_place.adjoint
def _(g, x, factor):
    return factor * g, None


@operation(writes="y")
def no_adjoint(x):
    return -x


def recorded(*steps):
    x, y = array([1.0, -2.0, 3.0]), zeros(3)
    with Tape() as tape:
        for step in steps:
            if step is scale_in_place:
                step(x, 2.0)
            else:
                step(x, y)
    return tape, x, y


def test_right_operations_agree_and_the_coverage_says_what_was_not_tested() -> None:
    tape, x, y = recorded(square, scale_in_place)
    found = gradcheck_tape(tape, show_summary=False)
    assert found and found.verdict == "AGREE"
    assert [(p.launch, p.input, p.output, p.entries) for p in found.pairs] == [
        (0, "x", "y", 9),
        (1, "x", "x", 9),
    ]
    assert found.coverage.summary == (
        "2 of 2 launches checked one by one: 2 input-output pairs, 18 of 18 entries"
    )
    notes = "\n".join(found.coverage.notes)
    assert "the dot product of tangents and adjoints: NumPy has no tangents" in notes
    assert "NumPy runs its reverse pass on the program's own arrays only" in notes
    assert np.array_equal(x.current(), [2, -4, 6]) and np.array_equal(y.current(), [1, 4, 9])


def test_a_wrong_adjoint_is_named_with_its_launch_and_the_place_that_called_it() -> None:
    tape, _, _ = recorded(square, cube)
    found = gradcheck_tape(tape, raise_exception=False, show_summary=False)
    (wrong,) = [pair for pair in found.pairs if pair.verdict == "WRONG"]
    assert (wrong.subject, wrong.input, wrong.output) == ("launch 1 (cube)", "x", "y")
    assert (wrong.worst.ad, wrong.worst.fd) == (18, pytest.approx(27))
    assert wrong.written.called.file.endswith("test_single_operations.py")
    with pytest.raises(GradcheckFailure, match=r"launch 1 \(cube\)"):
        gradcheck_tape(tape, show_summary=False)
    with pytest.raises(GradcheckError, match="no script can be written for operations of NumPy"):
        found.reproduce(wrong)


def test_each_operation_is_checked_at_the_values_that_it_ran_on() -> None:
    tape, x, _ = recorded(cube, scale_in_place)
    x.values[...] = 7.0
    found = gradcheck_tape(tape, raise_exception=False, show_summary=False)
    assert [pair.verdict for pair in found.pairs] == ["WRONG", "AGREE"]
    assert found.pairs[0].worst.fd == pytest.approx(27)


def test_masks_lists_and_operations_without_an_adjoint() -> None:
    tape, _, _ = recorded(square, no_adjoint, cube)
    found = gradcheck_tape(tape, blacklist_kernels=["cube"], raise_exception=False, show_summary=False)
    assert [pair.launch for pair in found.pairs] == [0]
    notes = "\n".join(found.coverage.notes)
    assert "launch 2: cube is on the blacklist" in notes and "it has no adjoint" in notes
    masked = gradcheck_tape(tape, input_output_masks={"square": [("x[1]", "y")], "cube": []},
                            raise_exception=False, show_summary=False)  # fmt: skip
    assert [(pair.input, pair.evaluated) for pair in masked.pairs] == [("x[1]", 3)]


def test_options_that_need_more_of_the_engine_say_so() -> None:
    tape, _, _ = recorded(square)
    found = gradcheck_tape(
        tape, check_forward_ad=True, check_batched_grad=True, raise_exception=False, show_summary=False
    )
    by_check = {pair.check: pair for pair in found.pairs}
    assert by_check["adjoint"].verdict == by_check["batched adjoint"].verdict == "AGREE"
    assert by_check["tangent"].verdict == "UNDECIDABLE"
    assert "NumPy has no tangents" in by_check["tangent"].message


def test_an_engine_without_local_replays_is_not_checked_operation_by_operation(monkeypatch) -> None:
    tape, _, _ = recorded(square)
    known = Tape.capability
    monkeypatch.setattr(
        Tape, "capability", lambda self, kind: None if kind is LocalReplays else known(self, kind)
    )
    found = gradcheck_tape(tape, raise_exception=False, show_summary=False)
    assert not found.pairs
    assert "not checked: launch 0: NumPy cannot replay an operation alone" in found.coverage.notes


def test_pairs_of_single_operations() -> None:
    tape, _, _ = recorded(square, cube)
    entries = [{"launch": launch, "input": "x", "output": "y"} for launch in (0, 1)]
    right, wrong = check_pairs(tape, entries)
    assert (right.verdict, wrong.verdict) == ("AGREE", "WRONG")
    with pytest.raises(GradcheckError, match="no script can be written for operations of NumPy"):
        pair_script(tape, wrong)


def test_end_to_end_of_another_engine_says_that_lockstep_is_missing() -> None:
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(2)
    with Tape() as tape:
        square(x, y)
        square(y, loss)
    tape.backward(loss)
    found = gradcheck_tape(tape, end_to_end=True, loss={loss: np.ones(2)}, show_summary=False)
    assert found and [pair.input for pair in found.pairs] == ["x"]
    assert "not checked in lockstep: operations of NumPy" in found.coverage.notes


def test_second_derivatives_of_an_engine_that_has_none_are_refused() -> None:
    tape, x, y = recorded(square)
    with pytest.raises(GradcheckError, match="hvp: NumPy has no second derivatives"):
        hvp(tape, loss={y: np.ones(3)}, tangents={x: np.ones(3)})
    with pytest.raises(GradcheckError, match="hvp_check: NumPy has no second derivatives"):
        hvp_check(tape, loss={y: np.ones(3)})


def test_the_lockstep_names_an_engine_that_it_cannot_follow() -> None:
    tape, x, y = recorded(square)
    program = whole_tape(tape, {y: np.ones(3)}, [x], {x: "x"})
    with pytest.raises(GradcheckError) as error:
        lockstep(program, tape, 1e-3, [0], Steps())
    assert str(error.value) == (
        "the reverse pass of NumPy does not run beside a reference, launch by launch\n"
        "  = hint: check launches alone: gradcheck_tape(tape)"
    )
