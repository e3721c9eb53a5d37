"""`end_to_end`: the gradient of a whole tape, right, wrong, and undecidable, in numbers."""

import ctypes
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import EndToEnd, end_to_end, gradcheck_tape
from tapedebug.autograd.subjects.long_vectors import BLOCK
from tapedebug.autograd.tapes.end_to_end import _inputs
from tapedebug.runtime.replay.shadow import Shadow
from tests.autograd import kernels as k

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
import net


@wp.kernel
def step(x: wp.array(dtype=float), y: wp.array(dtype=float), rate: float):
    i = wp.tid()
    y[i] = rate * x[i] * (1.0 - x[i])


def overwritten(mode: str) -> tuple[wp.Tape, Any, Any, Any]:
    """Example A of the documents, "Inter-Kernel Overwrite": a is written after it was squared."""
    a, c = k.vector([1.0, 2.0, 3.0]), k.vector([-1.0, -2.0, -3.0])
    b, loss = wp.zeros_like(a), wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        wp.launch(k.square, 3, [a], [b])
        wp.launch(k.identity, 3, [c], [a])
        wp.launch(k.total, 3, [b, loss])
    return tape, loss, a, c


def scaled(size: int, mode: str) -> tuple[wp.Tape, Any]:
    """A tape of two launches on vectors of `size` elements."""
    x, y = k.vector(np.linspace(0.1, 0.9, size)), k.vector(np.zeros(size))
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(step, size, [x, y, 2.0])
        wp.launch(k.total, size, [y, loss])
    tape.backward(loss)
    return tape, loss


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
@pytest.mark.parametrize("size", [5, BLOCK + 1])
def test_float64_loss_and_gradients_come_from_one_run(
    size: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, loss = scaled(size, mode)
    made: list[list[Any]] = []
    before, forward = Shadow.__init__, Shadow.forward

    def noted(self: Shadow, *args: Any) -> None:
        made.append([args[1:], 0])
        self.number = len(made) - 1  # type: ignore[attr-defined]
        before(self, *args)

    def counted(self: Shadow, start: int = 0, stop: int | None = None, **options: Any) -> Shadow:
        if stop != start:
            made[self.number][1] += 1  # type: ignore[attr-defined]
        return forward(self, start, stop, **options)

    monkeypatch.setattr(Shadow, "__init__", noted)
    monkeypatch.setattr(Shadow, "forward", counted)
    monkeypatch.setattr(
        "tapedebug.autograd.tapes.end_to_end.SLOW", np.inf
    )  # three other inputs, on any machine
    result = end_to_end(tape, loss)
    assert result.verdict == "AGREE"
    assert result.dot_product is not None and result.dot_product.agrees
    wide = [runs for dtype, runs in made if dtype and dtype[0] is not None]
    assert len(made) - len(wide) == 1, "the loss and the gradient in float32"
    # Tangents; the reverse run of the dot-product test, unless the gradients go on from it; loss and
    # gradients, at the inputs and at three others; gradients that see what memory holds, unless the test has
    # computed them; a run to be timed if the loss is that of the dot-product test's run; differences.
    large = size > BLOCK
    once = large and mode == "preserve"
    expected = [0] + [1] * (not once) + [4] + [1] * (once or (mode == "ignore" and not large))
    assert wide[:-1] == expected
    assert len(wide) == len(expected) + 1


def test_preserve_agrees_where_ignore_is_wrong() -> None:
    tape, loss, a, _ = overwritten("preserve")
    result = end_to_end(tape, loss, [a])
    assert (result.verdict, bool(result)) == ("AGREE", True)
    assert result.inputs[0].consumed.tolist() == [2.0, 4.0, 6.0]
    assert result.coverage.summary.startswith("3 of 3 launches checked end to end; agrees to ")
    assert 0 < result.inputs[0].agreement < 1e-9  # differences have error bars, also where AD is exact

    tape, loss, a, _ = overwritten("ignore")
    result = end_to_end(tape, loss, [a])
    assert (result.verdict, bool(result)) == ("WRONG", False)
    assert result.inputs[0].consumed.tolist() == [-2.0, -4.0, -6.0], "the documents' numbers"
    assert result.inputs[0].reference.tolist() == [2.0, 4.0, 6.0]
    assert (result.rel_error, result.inputs[0].max_abs_error) == (2.0, 12.0)
    assert result.coverage.summary == (
        "3 of 3 launches checked end to end; WRONG with respect to x, off by 200 %: "
        "values that the adjoint needs were overwritten before the reverse pass"
    )
    assert result.inputs[0].message.endswith(
        ": values that the adjoint needs were overwritten before the reverse pass"
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_the_headline_names_all_wrong_inputs_the_worst_first(swapped: bool) -> None:
    tape, loss, a, b = _two_overwritten()
    labels = {a: "a", b: "b"}
    result = end_to_end(tape, loss, [b, a] if swapped else [a, b], labels=labels)
    assert [check.name for check in result.inputs] == (["b", "a"] if swapped else ["a", "b"])
    assert result.coverage.summary == (
        "6 of 6 launches checked end to end; WRONG with respect to a, off by 200 %, and b, off by 50 %: "
        "values that the adjoint needs were overwritten before the reverse pass"
    )


def _two_overwritten() -> tuple[wp.Tape, Any, Any, Any]:
    """Squares of two inputs, which are overwritten by their negative and by their half."""
    a, b = k.vector([1.0, 2.0, 3.0]), k.vector([2.0, 3.0, 4.0])
    c, d = k.vector([-1.0, -2.0, -3.0]), k.vector([1.0, 1.5, 2.0])
    y, z, loss = wp.zeros_like(a), wp.zeros_like(a), wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(on_overwrite="ignore")
    with tape:
        for source, target, later in ((a, y, c), (b, z, d)):
            wp.launch(k.square, 3, [source, target])
            wp.launch(k.identity, 3, [later, source])
        for result in (y, z):
            wp.launch(k.total, 3, [result, loss])
    return tape, loss, a, b


def test_of_many_wrong_inputs_the_headline_counts_the_rest() -> None:
    assert _inputs([_wrong("x", 0.5)]) == "x, off by 50 %"
    assert _inputs([_wrong("x", math.inf), _wrong("y", 0.5)]) == "x, and y, off by 50 %"
    assert _inputs([_wrong(name, math.inf) for name in "abcdef"]) == "a, b, c, d and 2 more"
    assert _inputs([_wrong(name, 2.0) for name in "abcde"]) == (
        "a, off by 200 %, b, off by 200 %, c, off by 200 %, d, off by 200 %, and 1 more"
    )


def _wrong(name: str, error: float) -> Any:
    return SimpleNamespace(name=name, verdict="WRONG", rel_error=error)


def test_warn_consumes_what_ignore_does() -> None:
    with pytest.warns(wp.OverwriteWarning):
        tape, loss, a, _ = overwritten("warn")
    assert end_to_end(tape, loss, [a]).verdict == "WRONG"


def test_inputs_are_by_default_the_arrays_that_were_read_before_they_were_written() -> None:
    tape, loss, a, c = overwritten("preserve")
    result = end_to_end(tape, loss)
    assert [check.array for check in result.inputs] == [a, c]
    assert result.inputs[1].message.startswith("relative error 0 against the float64 adjoint")


def test_the_loss_is_by_default_that_of_the_last_backward() -> None:
    tape, loss, a, _ = overwritten("preserve")
    with pytest.raises(wp.GradcheckError) as caught:
        end_to_end(tape)
    assert caught.value.message == "end_to_end: no loss is known: backward has not been called on this tape"
    tape.backward(loss)
    before = a.grad.numpy().copy()
    assert end_to_end(tape)
    np.testing.assert_array_equal(a.grad.numpy(), before)


def test_a_dictionary_of_outputs_is_an_objective_too() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.cube, 2, [x], [y])
    result = end_to_end(tape, {y: np.array([1.0, -2.0])})
    assert result
    assert result.inputs[0].reference.tolist() == [3.0, -24.0]
    tape.backward(grads={y: wp.ones_like(y)})
    assert end_to_end(tape).inputs[0].reference.tolist() == [3.0, 12.0]


def test_a_severed_chain_is_wrong() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0], grad=False), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    result = end_to_end(tape, loss)
    assert result.verdict == "WRONG"
    assert result.inputs[0].consumed.tolist() == [0.0, 0.0]
    assert result.rel_error == 1.0
    assert result.inputs[0].message.endswith(": the adjoint disagrees with differences of the loss")


@wp.kernel
def eighth_power(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, wp.pow(x[i], 8.0))


@wp.func
def severed(x: float):
    return x


@wp.func_grad(severed)
def adj_severed(x: float, adj_ret: float):
    wp.adjoint[x] += 0.0 * adj_ret


@wp.kernel
def steep_without_gradient(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, severed(x[i]) * 1.0e-6 + wp.pow(x[i], 8.0))


@pytest.mark.parametrize("power", [k.square, k.cube, eighth_power], ids=lambda p: p.key)
def test_where_loss_and_gradient_are_zero_and_flat(power: Any) -> None:
    """x⁸ at 0: neither has a size, but no difference shows a slope that a step of the input would feel."""
    x, y = k.vector([0.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(power, 1, [x, y])
    result = end_to_end(tape, y)
    assert (result.verdict, bool(result)) == ("AGREE", True)


def test_a_small_slope_that_the_gradient_lacks_is_wrong_there_too() -> None:
    x, y = k.vector([0.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(steep_without_gradient, 1, [x, y])
    assert end_to_end(tape, y).verdict == "WRONG"


def test_a_gradient_that_is_truly_zero_agrees() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.constant, 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    result = end_to_end(tape, loss)
    assert (result.verdict, result.rel_error) == ("AGREE", 0.0)
    assert result.coverage.summary == "2 of 2 launches checked end to end; agrees: it is exactly zero"
    assert result.coverage.notes == ("exactly zero: the gradient with respect to x",)


def test_a_wrong_adjoint_is_wrong_though_nothing_was_overwritten() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.with_adjoint_of(k.square, k.off_by_2_percent), 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    result = end_to_end(tape, loss)
    assert result.verdict == "WRONG"
    assert result.rel_error == pytest.approx(0.02, rel=0.2)
    # `rtol` is for the rounding of float32: what differences of the loss refute never agrees.
    lenient = end_to_end(tape, loss, rtol=0.03)
    assert lenient.verdict == "WRONG"
    assert lenient.inputs[0].reason.startswith(
        "the adjoint disagrees with differences of the loss at x[1]: AD "
    )


def test_one_wrong_entry_of_many_is_found() -> None:
    n = 500
    x, y, loss = k.vector(np.linspace(0.5, 1.5, n)), k.vector(np.zeros(n)), k.vector([0.0])

    def break_one(seeds: np.ndarray) -> None:
        seeds[171] = 0

    tape = wp.Tape()
    with tape:
        wp.launch(k.with_seeds(k.square, break_one, n), n, [x], [y])
        wp.launch(k.total, n, [y, loss])
    assert end_to_end(tape, loss).verdict == "WRONG"


def logistic_map(steps: int, rate: float = 3.9) -> tuple[wp.Tape, Any, Any]:
    x, loss = k.vector([0.3]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        state = x
        for _ in range(steps):
            following = wp.zeros_like(state)
            wp.launch(step, 1, [state], [following, rate])
            state = following
        wp.launch(k.total, 1, [state, loss])
    return tape, loss, x


@pytest.mark.parametrize("steps", [25, 40, 60, 80])
def test_chaos_is_undecidable_not_wrong(steps: int) -> None:
    tape, loss, _ = logistic_map(steps)
    result = end_to_end(tape, loss)
    assert (result.verdict, bool(result)) == ("UNDECIDABLE", False)


def test_as_long_as_chaos_leaves_digits_the_gradient_agrees_to_those() -> None:
    result = end_to_end(*logistic_map(20)[:2])
    assert result.verdict == "AGREE"
    assert 1e-3 < result.rel_error < 1e-2
    assert "in the forward values" in result.inputs[0].note


def test_many_tame_steps_agree() -> None:
    tape, loss, _ = logistic_map(200, rate=2.5)
    result = end_to_end(tape, loss)
    assert result.verdict == "AGREE", str(result)


def test_a_kink_in_every_direction_is_a_kink() -> None:
    x, y, loss = k.vector([0.0]), k.vector([0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.absolute, 1, [x], [y])
        wp.launch(k.total, 1, [y, loss])
    result = end_to_end(tape, loss)
    assert result.verdict == "KINK"
    assert result.inputs[0].message.endswith(
        ": the loss has a kink here: along entry [0], the slope is -1 on the left and 1 on the right: no "
        "derivative exists here"
    )
    assert result.inputs[0].kink == pytest.approx((-1.0, 1.0))


def test_a_random_program_is_nondeterministic() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.with_noise(k.square, 2), 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    result = end_to_end(tape, loss)
    assert result.verdict == "NONDETERMINISTIC"
    assert result.inputs[0].message.startswith("two forward runs on the same values give the losses ")


def test_nan_in_the_consumed_gradient_is_wrong() -> None:
    x, y, loss = k.vector([0.0, 1.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.root, 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    result = end_to_end(tape, loss)
    assert result.verdict == "WRONG"
    assert result.inputs[0].message == "1 of 2 entries of the consumed gradient are not finite"
    assert result.coverage.summary == (
        "2 of 2 launches checked end to end; WRONG with respect to x: "
        "1 of 2 entries of the consumed gradient are not finite"
    )


# ------------------------------------------------------------------ coverage


def test_without_inputs_nothing_was_checked() -> None:
    x, loss = k.vector([1.0], grad=False), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.total, 1, [x, loss])
    result = end_to_end(tape, loss)
    assert (result.verdict, result.coverage.summary) == (
        "UNDECIDABLE",
        "0 of 1 launches checked end to end: no input has requires_grad=True",
    )
    named = end_to_end(tape, loss, [x])
    assert named.coverage.notes == ("not checked: x has requires_grad=False",)


@wp.kernel
def total_of_what_there_is(x: wp.array(dtype=float), loss: wp.array(dtype=float)) -> None:
    i = wp.tid()
    if i < x.shape[0]:
        wp.atomic_add(loss, 0, x[i])


@pytest.mark.filterwarnings("error")
def test_an_empty_input_is_called_so() -> None:
    x, loss = wp.zeros(0, dtype=float, requires_grad=True), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(total_of_what_there_is, 2, [x, loss])
    tape.backward(loss)
    summary = "0 of 1 launches checked end to end: the only input with requires_grad=True is empty"
    assert end_to_end(tape, loss).coverage.summary == summary
    found = wp.diagnose(tape, loss=loss)
    assert (found.verdict, found.findings) == ("NOT CHECKED", [])
    assert found.coverage.summary == summary


def test_arrays_that_the_tape_computes_are_no_inputs() -> None:
    x, y, loss = k.vector([1.0]), k.vector([0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 1, [x], [y])
        wp.launch(k.total, 1, [y, loss])
    result = end_to_end(tape, loss, [y, x], labels={y: "y"})
    assert [check.array for check in result.inputs] == [x]
    assert result.coverage.notes == (
        "not checked: y is written by launch 0 before anything reads it: it is no input",
    )


def test_record_func_can_not_be_covered_and_is_said() -> None:
    x, y, loss = k.vector([1.0]), k.vector([0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 1, [x], [y])
        tape.record_func(lambda: None, [y])
        wp.launch(k.total, 1, [y, loss])
    result = end_to_end(tape, loss)
    assert (result.verdict, result.coverage.checked, result.coverage.launches) == ("UNDECIDABLE", 2, 3)
    assert result.inputs[0].message.endswith(
        ": record_func (record 1) is not replayed, and may take part in the gradient "
        "(launch_python is replayed)"
    )


def test_writes_that_nobody_saw_are_said() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    assert end_to_end(tape, loss).coverage.notes == ()
    ctypes.c_float.from_address(y.ptr).value = 7.0
    note = (
        "a replay gives other values than the arrays hold: something changed them without the tape's "
        "knowledge",
    )
    assert end_to_end(tape, loss).coverage.notes == note
    assert gradcheck_tape(tape, show_summary=False).coverage.notes == note


def test_writes_outside_of_the_tape_are_said() -> None:
    x, y, loss = k.vector([1.0]), k.vector([0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 1, [x], [y])
        wp.launch(k.cube, 1, [x], [y], record_tape=False)
        wp.launch(k.total, 1, [y, loss])
    result = end_to_end(tape, loss, labels={y: "force"})
    assert result.coverage.notes == (
        "written outside of the tape while it recorded, and taken as constant there: force",
        "dot-product test: ⟨w, J v⟩ = 0, ⟨Jᵀ w, v⟩ = 2.16775, relative mismatch 1: the reverse pass goes on "
        "through what was written outside of the tape before launch 1 (total)",
    )


@pytest.mark.parametrize(
    "loss, message",
    [
        (lambda x, y, other: y, "end_to_end: the loss must be a scalar; got y of shape (2,), float32"),
        (lambda x, y, other: other, "end_to_end: array(1,), an array of shape (1,), is not on the tape"),
        (lambda x, y, other: {y: np.ones(3)}, "end_to_end: the seed of y has 3 values, the array has 2"),
    ],
)
def test_losses_that_are_none(loss: Any, message: str) -> None:
    x, y, other = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 2, [x], [y])
    with pytest.raises(wp.GradcheckError) as caught:
        end_to_end(tape, loss(x, y, other))
    assert caught.value.message == message


def test_an_empty_tape_and_inputs_that_are_elsewhere() -> None:
    with pytest.raises(wp.GradcheckError, match="the tape is empty: nothing was recorded"):
        end_to_end(wp.Tape(), k.vector([0.0]))
    tape, loss, _, _ = overwritten("preserve")
    with pytest.raises(wp.GradcheckError) as caught:
        end_to_end(tape, loss, [k.vector([1.0])])
    assert caught.value.message == "end_to_end: array(1,) is not on the tape"


def test_little_time_means_fewer_directions_and_is_said() -> None:
    x = k.vector(np.linspace(0.5, 1.5, 200))
    y, loss = wp.zeros_like(x), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 200, [x], [y])
        wp.launch(k.total, 200, [y, loss])
    assert len(end_to_end(tape, loss).inputs[0].probes) == 9
    hurried = end_to_end(tape, loss, max_seconds=0.0)
    assert (hurried.verdict, len(hurried.inputs[0].probes)) == ("AGREE", 2)
    assert hurried.coverage.notes == ("each gradient was compared in 2 directions only, to keep to 0 s",)


# ------------------------------------------------------------------ the net


def thrown(buffers: str, mode: str) -> EndToEnd:
    throw = wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(), throw, buffers, on_overwrite=mode)
    return end_to_end(tape, loss, labels={throw: "throw"})


def test_the_net() -> None:
    result = thrown("pingpong", "preserve")
    assert result.verdict == "AGREE"
    assert result.rel_error < 1e-4
    assert result.coverage.summary.startswith("123 of 123 launches checked end to end; agrees to ")
    assert result.loss == pytest.approx(result.loss64, rel=1e-5)
    wrong = thrown("pingpong", "ignore")
    assert wrong.verdict == "WRONG"
    assert wrong.rel_error > 0.1
    assert thrown("distinct", "ignore").verdict == "AGREE"


def test_the_text_of_a_result() -> None:
    text = str(thrown("pingpong", "preserve")).splitlines()
    assert text[0].startswith("AGREE: 123 of 123 launches checked end to end; agrees to ")
    assert text[1].startswith("  throw: AGREE, relative error ")
