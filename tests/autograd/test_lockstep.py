"""`gradcheck_tape(end_to_end=True)`: the whole tape, and launch by launch which one is to blame."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckFailure, GradcheckResult, PairResult, gradcheck_tape
from tests.autograd import kernels as k

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
import net

QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False, "progress": False}


def chain(*steps: Any, mode: str = "preserve", dark: int = -1, values: Any = (1.0, 2.0, 3.0)) -> Any:
    """Kernels from x to y one after the other, and the sum; the result of step `dark` has no gradient."""
    x = k.vector(values)
    state, loss = x, k.vector([0.0])
    with wp.Tape(on_overwrite=mode) as tape:
        for number, kernel in enumerate(steps):
            following = k.vector(np.zeros(len(values)), grad=number != dark)
            wp.launch(kernel, len(values), [state, following])
            state = following
        wp.launch(k.total, len(values), [state, loss])
    return tape, loss, x


def check(tape: Any, loss: Any, **options: Any) -> GradcheckResult:
    return gradcheck_tape(tape, end_to_end=True, loss=loss, **{**QUIET, **options})


def wrong(result: GradcheckResult) -> list[str]:
    return [pair.subject for pair in result.pairs if pair.verdict == "WRONG"]


def pair_of(result: GradcheckResult, launch: int) -> PairResult:
    [pair] = [pair for pair in result.pairs if pair.launch == launch]
    return pair


def test_all_is_right() -> None:
    tape, loss, x = chain(k.square, k.cube)
    before = x.numpy().copy(), len(tape.records)
    result = check(tape, loss)
    assert (result.verdict, bool(result)) == ("AGREE", True)
    assert [(p.launch, p.subject, p.input, p.output, p.check) for p in result.pairs] == [
        (None, "the whole tape", "x", "loss", "adjoint"),
        (0, "launch 0 (square)", "x", "y", "in lockstep"),
        (1, "launch 1 (cube)", "x", "y", "in lockstep"),
        (2, "launch 2 (total)", "x", "loss", "in lockstep"),
    ]
    assert re.fullmatch(
        r"3 of 3 launches checked end to end; agrees to \de-1\d; 3 launches in lockstep", str(result.coverage)
    )
    assert all(p.max_rel_error < 1e-9 for p in result.pairs)
    np.testing.assert_array_equal(x.numpy(), before[0])


def test_two_wrong_launches_are_both_named_and_no_other() -> None:
    tape, loss, _ = chain(
        k.with_adjoint_of(k.square, k.doubled), k.cube, k.with_adjoint_of(k.cube, k.negated), k.square,
        values=[0.5, 1.0, 1.2],
    )  # fmt: skip
    result = check(tape, loss)
    assert wrong(result) == ["the whole tape", "launch 0 (square)", "launch 2 (cube)"]
    assert pair_of(result, 0).message.startswith("its adjoint is wrong, for the adjoints that arrive: x[")
    assert pair_of(result, 0).message.endswith("2 of 3 entries differ; AD is 2 × FD in each")
    assert result.coverage.notes[-1] == (
        "end to end the gradient with respect to x is WRONG: see launches 0, 2, whose own adjoint is wrong"
    )
    script = result.reproduce()
    assert "def square(" in script
    assert "input_output_mask=[('x', 'y')]" in script
    with pytest.raises(GradcheckFailure, match="the whole tape, loss with respect to x"):
        check(tape, loss, raise_exception=True)


def test_what_comes_behind_an_adjoint_of_zero_is_checked_all_the_same() -> None:
    tape, loss, _ = chain(k.with_adjoint_of(k.square, k.doubled), k.with_adjoint_of(k.cube, k.constant))
    result = check(tape, loss)
    assert wrong(result)[1:] == ["launch 0 (square)", "launch 1 (cube)"]
    worst = pair_of(result, 0).worst
    assert worst is not None
    assert (worst.input_index, worst.ad) == ((2,), pytest.approx(2 * worst.fd, rel=1e-6))
    assert worst.fd == pytest.approx(6 * 3.0**5, rel=1e-6), "the adjoint that arrives is the right one"


def test_values_that_were_overwritten() -> None:
    """Example A of the documents, "Inter-Kernel Overwrite"."""
    a, c = k.vector([1.0, 2.0, 3.0]), k.vector([-1.0, -2.0, -3.0])
    b, loss = wp.zeros_like(a), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(k.square, 3, [a], [b])
        wp.launch(k.identity, 3, [c], [a])
        wp.launch(k.total, 3, [b, loss])
    assert gradcheck_tape(tape, **QUIET), "one by one each launch is right"
    result = check(tape, loss)
    assert wrong(result) == ["the whole tape", "launch 0 (square)"]
    assert pair_of(result, 0).message == (
        "alone the launch is right; in the reverse pass of the tape it is not, as launch 1 (identity) "
        "overwrote values that its adjoint needs (on_overwrite='ignore'): x[2]: AD -6, FD 6 ± "
        f"{pair_of(result, 0).worst.bar:.1g}; 3 of 3 entries differ; AD is -1 × FD in each"  # type: ignore[union-attr]
    )
    assert result.coverage.notes[-2:] == (
        "not checked in lockstep: launch 1: no adjoint arrives: the loss does not depend on it",
        "each launch alone is right; end to end the gradient with respect to x is WRONG: see launch 0",
    )


def test_a_forgotten_requires_grad_and_what_lies_behind_it() -> None:
    tape, loss, _ = chain(k.square, k.cube, dark=0)
    assert gradcheck_tape(tape, **QUIET).verdict == "AGREE", "one by one nothing is wrong"
    result = check(tape, loss)
    assert wrong(result) == ["the whole tape", "launch 1 (cube)"]
    assert pair_of(result, 1).message.startswith(
        "alone the launch is right, but the chain is severed here: x has requires_grad=False, so that no "
        "gradient goes on to what it was computed from: x[2]: AD 0, FD 243 ± "
    )
    assert pair_of(result, 0).verdict == "AGREE", "checked with the adjoint that would arrive"
    broken, loss, _ = chain(k.with_adjoint_of(k.square, k.doubled), k.cube, dark=0)
    result = check(broken, loss)
    assert wrong(result)[1:] == ["launch 0 (square)", "launch 1 (cube)"]
    assert result.coverage.notes[-1] == (
        "end to end the gradient with respect to x is WRONG: see launch 0, whose own adjoint is wrong, and "
        "launch 1, right when alone"
    )


def test_a_launch_without_an_adjoint_and_a_copy_without_a_gradient() -> None:
    tape, loss, _ = chain(k.no_adjoint, k.square)
    result = check(tape, loss)
    assert wrong(result)[1:] == ["launch 0 (no_adjoint)"]
    assert pair_of(result, 0).message.startswith("the chain is severed here: the kernel has enable_backward=")
    x, held, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0], grad=False), k.vector([0.0])
    with wp.Tape() as tape:
        wp.copy(held, x)
        wp.launch(k.total, 2, [held, loss])
    result = check(tape, loss)
    assert result.verdict == "WRONG"
    assert "launch 1 (total)" in wrong(result)


@wp.func
def guarded(x: float, y: float):  # type: ignore[no-untyped-def]
    return wp.sqrt(x) * y


@wp.func_grad(guarded)
def adj_guarded(x: float, y: float, adj_ret: float):  # type: ignore[no-untyped-def]
    wp.adjoint[x] += adj_ret * y / wp.sqrt(x)
    wp.adjoint[y] += adj_ret * wp.sqrt(x)


@wp.kernel
def roots(x: wp.array(dtype=float), y: wp.array(dtype=float)):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = guarded(x[i], 3.0)


@wp.func
def rounded(x: float):  # type: ignore[no-untyped-def]
    return wp.round(x)


@wp.func_grad(rounded, differs=True)
def adj_rounded(x: float, adj_ret: float):  # type: ignore[no-untyped-def]
    wp.adjoint[x] += adj_ret


@wp.kernel
def straight_through(x: wp.array(dtype=float), y: wp.array(dtype=float)):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = rounded(x[i])


def test_a_function_with_a_gradient_of_its_own_is_checked_alone() -> None:
    tape, loss, _ = chain(k.square, roots)
    result = check(tape, loss)
    assert wrong(result) == ["the whole tape", "launch 1 (roots)", "function guarded in launch 1 (roots)"]
    own = [p for p in result.pairs if p.check == "func_grad alone"]
    assert [(p.input, p.verdict) for p in own] == [("x", "WRONG")]
    assert own[0].message == (
        "adj_guarded is not the derivative: in thread 0, at x = 1, the derivative by x is 1.5, and 3 is "
        "given; 3 of 3 calls that were checked are off"
    )
    assert pair_of_lockstep(result, 0).verdict == "AGREE"


def pair_of_lockstep(result: GradcheckResult, launch: int) -> PairResult:
    [pair] = [p for p in result.pairs if p.launch == launch and p.check == "in lockstep"]
    return pair


def test_gradients_that_are_meant_to_differ_are_left_alone() -> None:
    tape, loss, _ = chain(k.square, straight_through)
    result = check(tape, loss)
    assert wrong(result) == []
    assert (
        "not checked in lockstep: launch 1: the gradient of rounded is meant to differ"
        in result.coverage.notes
    )


@wp.kernel
def scaled(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = x[i] * wp.dot(x[i], x[i])


@wp.kernel
def shrink(y: wp.array(dtype=wp.vec3), loss: wp.array(dtype=wp.float64)):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = y[i] * 0.5
    wp.atomic_add(loss, 0, wp.float64(wp.length(y[i])))


def test_vectors_double_precision_in_place_and_no_outputs_named() -> None:
    x = wp.array(np.arange(1.0, 13.0).reshape(4, 3) / 7, dtype=wp.vec3, requires_grad=True)
    y, loss = wp.zeros_like(x), wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scaled, 4, [x, y])
        wp.launch(shrink, 4, [y, loss])
        wp.launch(shrink, 4, [y, loss])
    result = check(tape, loss)
    assert result.verdict == "AGREE", str(result)
    assert [(p.launch, p.input) for p in result.pairs[1:]] == [(0, "x"), (1, "y"), (2, "y")]


@wp.kernel
def weighted(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = x[i] * x[i] * w[i]


def test_what_numpy_wrote_between_launches_counts_from_the_next_one_on() -> None:
    x, w, loss = k.vector([1.0, 2.0]), k.vector([3.0, 4.0], grad=False), k.vector([0.0])
    y, z = k.vector([0.0, 0.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(weighted, 2, [x, w, y])
        w.numpy()[:] = [-5.0, 6.0]
        wp.launch(weighted, 2, [y, w, z])
        wp.launch(k.total, 2, [z, loss])
    result = check(tape, loss)
    assert [(p.launch, p.verdict) for p in result.pairs] == [(at, "AGREE") for at in (None, 0, 1, 2)], str(
        result
    )


def test_a_large_array_is_put_right_well_enough() -> None:
    n = 3000
    tape, loss, _ = chain(
        k.with_adjoint_of(k.square, k.negated), k.cube, k.with_adjoint_of(k.square, k.constant),
        values=np.linspace(0.5, 1.5, n),
    )  # fmt: skip
    result = check(tape, loss)
    assert wrong(result)[1:] == ["launch 0 (square)", "launch 2 (square)"]
    assert pair_of(result, 1).verdict == "AGREE"
    assert "a random direction in x: AD " in pair_of(result, 2).message


def test_adjoints_that_are_not_finite() -> None:
    tape, loss, _ = chain(k.square, k.root, values=[0.0, 1.0, 4.0])
    result = check(tape, loss)
    assert wrong(result)[0] == "the whole tape"
    assert (pair_of(result, 1).verdict, pair_of(result, 1).message) == (
        "UNDECIDABLE",
        "the adjoint of x that leaves is not finite, and differences cannot decide",
    )
    assert pair_of(result, 0).verdict == "AGREE", "checked with the adjoints that are finite"


def test_what_can_not_be_replayed_is_said() -> None:
    x, y, loss = k.vector([1.0]), k.vector([0.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 1, [x], [y])
        tape.record_func(lambda: None, [y])
        wp.launch(k.total, 1, [y, loss])
    result = check(tape, loss)
    assert result.verdict == "UNDECIDABLE"
    assert (
        "not checked in lockstep: record_func (record 1) is not replayed, and may take part in the gradient "
        "(launch_python is replayed)" in result.coverage.notes
    )
    noisy, loss, _ = chain(k.with_noise(k.square, 3))
    result = check(noisy, loss)
    assert result.verdict == "NONDETERMINISTIC"
    assert "not checked in lockstep: two forward runs differ" in result.coverage.notes


def test_lists_choose_the_launches_and_say_so() -> None:
    tape, loss, _ = chain(k.square, k.with_adjoint_of(k.cube, k.constant), k.square)
    result = check(tape, loss, blacklist_kernels=["cube"], skip_to_launch_index=1)
    assert [p.launch for p in result.pairs] == [None, 2, 3]
    assert result.coverage.notes[-3:-1] == (
        "not checked: launch 0: skip_to_launch_index=1",
        "not checked: launch 1: cube is on the blacklist",
    )


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"loss": 1, "inputs": 2},
            "gradcheck_tape: loss and inputs without end_to_end=True: launches are checked one by one, with "
            "all that they read and write",
        ),
        (
            {"end_to_end": True, "input_output_masks": {"square": [("x", "y")]}},
            "gradcheck_tape: input_output_masks and end_to_end=True do not go together",
        ),
        ({"end_to_end": True}, "end_to_end: no loss is known: backward has not been called on this tape"),
    ],
)
def test_arguments_that_do_not_fit(options: Any, message: str) -> None:
    tape, _, _ = chain(k.square)
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, **options, **QUIET)
    assert caught.value.message == message


def test_without_time_the_rest_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, loss, _ = chain(*[k.square, k.root] * 20)
    assert check(tape, loss)
    ticks = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: 0.0003 * next(ticks))  # 0.3 ms for each look
    result = check(tape, loss, max_seconds=0.1)
    assert result.verdict == "UNDECIDABLE"
    late = [p for p in result.pairs if p.verdict == "UNDECIDABLE"]
    assert 0 < len(late) < len(result.pairs), "some are checked in time"
    assert all(p.message == "not checked: time was up (max_seconds=0.1)" for p in late)
    assert any("time was up (max_seconds=0.1)" in note for note in result.coverage.notes)


# ------------------------------------------------------------------ the net


@pytest.mark.parametrize("mode, verdict", [("preserve", "AGREE"), ("ignore", "WRONG")])
def test_the_net(mode: str, verdict: str) -> None:
    throw = wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(6), throw, on_overwrite=mode)
    result = check(tape, loss)
    assert result.verdict == verdict
    assert gradcheck_tape(tape, max_inputs_per_var=3, max_outputs_per_var=3, **QUIET)
    off = [p for p in result.pairs if p.launch is not None and p.verdict == "WRONG"]
    blamed = {p.subject.partition("(")[2].strip(")") for p in off}
    assert blamed == (set() if mode == "preserve" else {"spring_forces", "shear_forces"})
    assert all("(integrate) overwrote" in p.message for p in off)


def test_entries_have_names() -> None:
    tape, loss, _ = chain(k.square, k.with_adjoint_of(k.cube, k.negated))
    result = check(tape, loss)
    pair = pair_of(result, 1)
    assert pair.worst is not None
    assert (pair.worst.output, pair.worst.input) == ("y", f"x[{pair.worst.input_index[0]}]")
    assert pair.worst.describe().startswith(f"d y / d {pair.worst.input}: AD ")
    whole = result.pairs[0]
    assert whole.worst is not None
    assert whole.worst.describe().startswith(f"d loss / d x[{whole.worst.input_index[0]}]: AD ")


def test_what_record_func_hides_is_not_mended_by_tolerances() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x, y])
        tape.record_func(lambda: None, [x, y])
        wp.launch(k.total, 2, [y, loss])
    with pytest.raises(GradcheckFailure) as caught:
        check(tape, loss, raise_exception=True)
    assert str(caught.value).endswith(
        "  = hint: compute in kernels what record_func stands for, or check launches one by one"
    )
