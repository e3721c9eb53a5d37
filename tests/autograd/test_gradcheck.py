"""`gradcheck`: right kernels pass, wrong ones fail, what cannot be decided is called so."""

import math
import re
import time
import warnings
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckFailure, GradcheckResult, gradcheck, jacobian
from tests import forked
from tests.autograd import kernels as k
from tests.processes import ROOT


def check(kernel: Any, values: Any, **options: Any) -> GradcheckResult:
    x = k.vector(values)
    y = k.vector(np.ones(len(x)))
    quiet = {"show_summary": False, "raise_exception": False, **options}
    return gradcheck(kernel, dim=len(x), inputs=[x], outputs=[y], **quiet)


RIGHT = {
    "x cubed at 100 and 1000": (k.cube, [1.0, 100.0, 1000.0]),
    "x squared + 1000 at 0.5": (k.offset_square, [0.5, 3.0]),
    "y = x at 1000": (k.identity, [1e3, 1e5]),
    "sin(10000 x)": (k.fast_sine, np.linspace(0, 1, 64)),
    "abs beside the kink": (k.absolute, [1e-2, 1e-5, -1e-6, 1e-7]),
    "relu beside the kink": (k.relu, [1e-2, 1e-5, -1e-6, 1e-9]),
    "floor between integers": (k.floor_plus, [2.5, -0.25]),
    "sqrt near its end": (k.root, [1e-5, 1.0]),
    "in place": (k.times, [0.5, 3.0]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_agree(name: str) -> None:
    kernel, values = RIGHT[name]
    result = check(kernel, values)
    assert (result.verdict, [pair.message for pair in result.pairs]) == (
        "AGREE",
        [""] * len(result.pairs),
    )
    assert result


@pytest.mark.parametrize("name", ["x cubed at 100 and 1000", "x squared + 1000 at 0.5", "y = x at 1000"])
def test_right_kernels_agree_at_a_thousandth_of_the_default_tolerances(name: str) -> None:
    assert check(*RIGHT[name], atol=1e-6, rtol=1e-5)


WRONG = {
    "sign": (k.square, k.negated, "; AD is -1 × FD in each: a wrong sign"),
    "factor": (k.square, k.doubled, "; AD is 2 × FD in each: counted twice"),
    "missing": (k.square, k.constant, "; AD is 0 × FD in each: the chain is severed, or the term is missing"),
    "two percent": (
        k.square,
        k.off_by_2_percent,
        "; AD is 1.02 × FD in each: a constant factor of 1.02 too much",
    ),
    "only thread 0": (k.square, k.except_thread_0, "; only y[0] is concerned: one thread, or one index"),
    "off by one": (k.square, k.shifted, "; AD at y[i] equals FD at y[i − 1]: off by one"),
    "another function": (k.cube, k.square, ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_adjoints_are_wrong(name: str) -> None:
    forward, adjoint, signature = WRONG[name]
    result = check(k.with_adjoint_of(forward, adjoint), [0.7, -1.3, 2.1])
    assert (result.verdict, bool(result)) == ("WRONG", False)
    assert "differ by more than the tolerance" in result.pairs[0].message
    assert result.pairs[0].message.endswith(signature or "tolerance")


def test_two_percent_are_forgiven_where_the_tolerance_says_so() -> None:
    broken = k.with_adjoint_of(k.square, k.off_by_2_percent)
    assert check(broken, [0.7, -1.3, 2.1], rtol=0.021)
    assert not check(broken, [0.7, -1.3, 2.1], rtol=0.019, atol=0)


def drop_negative(seeds: np.ndarray) -> None:
    seeds[seeds < 0] = 0


def clip_large(seeds: np.ndarray) -> None:
    np.clip(seeds, -10, 10, out=seeds)


@pytest.mark.parametrize("change", [drop_negative, clip_large])
def test_adjoints_that_are_wrong_for_some_seeds_only_are_wrong(change: Any) -> None:
    result = check(k.with_seeds(k.square, change, 3), [0.7, -1.3, 2.1])
    assert result.verdict == "WRONG"
    assert result.pairs[0].message.startswith(
        "a combination of entries of y (negative, large and small adjoint seeds) by x: AD "
    )
    assert result.pairs[0].message.endswith(
        "; the single entries agree, so the adjoint is not linear in its seed"
    )


def test_in_place_derivatives_are_checked_though_the_array_was_named_as_output_only() -> None:
    result = check(k.times, [0.5, 3.0])
    assert [(pair.input, pair.output) for pair in result.pairs] == [("x", "y"), ("y (in place)", "y")]
    broken = check(k.with_adjoint_of(k.times, k.square), [0.5, 3.0])
    assert [pair.verdict for pair in broken.pairs] == ["WRONG", "WRONG"]


def test_a_kink_is_a_kink_with_both_slopes() -> None:
    result = check(k.absolute, [0.0, 1.0])
    assert (result.verdict, bool(result)) == ("KINK", False)
    assert result.pairs[0].message == (
        "d y[0] / d x[0]: AD 0, FD 0 ± 9e-16; the slope is -1 on the left and 1 on the right: no derivative "
        "exists here (1 of 4 entries)"
    )
    assert check(k.relu, [0.0, 1.0]).verdict == "KINK"


def test_a_jump_is_a_kink() -> None:
    result = check(k.floor_plus, [3.0, 2.5])
    assert result.verdict == "KINK"
    assert result.pairs[0].message.endswith(
        "; the function jumps here: no derivative exists (1 of 4 entries)"
    )


def test_at_a_kink_a_gradient_outside_of_both_slopes_is_wrong() -> None:
    assert check(k.with_adjoint_of(k.absolute, k.square), [0.0, 1.0]).verdict == "WRONG"  # 2 at x = 1
    result = check(k.with_adjoint_of(k.relu, k.minus), [0.0])
    assert result.verdict == "WRONG"


def test_chaos_is_undecidable() -> None:
    result = check(k.logistic, [0.3, 0.4])
    assert (result.verdict, bool(result)) == ("UNDECIDABLE", False)
    assert result.pairs[0].message.endswith(
        "± inf; the error bar is wider than the tolerance: differences cannot decide (2 of 4 entries)"
    )


def test_what_float32_cancels_is_undecidable_not_wrong() -> None:
    result = check(k.cancelling, [0.3, 0.7])
    assert result.verdict == "UNDECIDABLE"
    assert result.pairs[0].message == (
        "d y[0] / d x[0]: AD 0, FD 0.6 ± 5e-12; the float64 twin of the adjoint agrees with the differences, "
        "float32 rounding is as large as the gradient (2 of 4 entries)"
    )


def test_float32_rounding_of_a_right_derivative_is_told_and_forgiven() -> None:
    result = check(k.fast_sine, np.linspace(0, 10, 50))
    assert result
    assert result.coverage.notes == (
        "x → y: 3 entries differ by float32 rounding only: the float64 twin of the adjoint agrees",
    )


def test_nan_in_the_gradient_is_wrong() -> None:
    result = check(k.root, [0.0, 1.0])
    assert result.verdict == "WRONG"
    assert result.pairs[0].message == (
        "d y[1] / d x[0]: AD nan, FD 0 ± 2e-12; the gradient is not finite (1 of 4 entries); a division by "
        "zero, or the slope of a root or a length at zero, gives such numbers; only x[0] is concerned: one "
        "thread, or one index"
    )


def test_a_random_kernel_is_nondeterministic() -> None:
    result = check(k.with_noise(k.square, 2), [1.0, 2.0])
    assert (result.verdict, bool(result)) == ("NONDETERMINISTIC", False)
    assert result.pairs[0].message.startswith("two forward runs on the same values differ by ")
    assert result.pairs[0].message.endswith(" relative in y: no difference quotient means anything")


def test_agreement_that_rests_on_atol_alone_is_said() -> None:
    result = check(k.with_adjoint_of(k.small, k.constant), [1.0, 2.0])
    assert result
    assert result.pairs[0].by_atol == 2
    assert result.coverage.notes[0].startswith(
        "x → y: agreement rests on atol=0.001 alone for 2 of 4 entries; the largest is d y["
    )
    assert ": AD 0, FD 0.0009 ± " in result.coverage.notes[0]
    assert result.pairs[0].max_rel_error == pytest.approx(1.0)
    assert not check(k.with_adjoint_of(k.small, k.constant), [1.0, 2.0], atol=1e-5)


# ------------------------------------------------------------------ what was covered


def test_a_check_without_gradients_is_not_agreement() -> None:
    x, y = k.vector([1.0], grad=False), k.vector([1.0], grad=False)
    result = gradcheck(k.square, 1, [x], [y], show_summary=False, raise_exception=False)
    assert (result.verdict, bool(result), result.pairs) == ("UNDECIDABLE", False, ())
    assert str(result.coverage) == (
        "nothing was checked: no pair of an input and an output with requires_grad=True\n"
        "  - not checked: x has requires_grad=False\n"
        "  - not checked: y has requires_grad=False"
    )
    with pytest.raises(GradcheckFailure) as caught:
        gradcheck(k.square, 1, [x], [y], show_summary=False)
    assert str(caught.value) == (
        "Gradient check for kernel square failed: UNDECIDABLE: nothing was checked: no pair of an input "
        "and an output with requires_grad=True\n"
        "  = note: not checked: x has requires_grad=False\n"
        "  = note: not checked: y has requires_grad=False\n"
        "  = hint: set requires_grad=True on the arrays whose gradients are wanted, and name them"
    )


def test_empty_arrays_and_kernels_without_adjoint_are_not_agreement() -> None:
    result = check(k.square, [])
    assert (result.verdict, result.coverage.notes) == (
        "UNDECIDABLE",
        (
            "not checked: x is empty",
            "not checked: y is empty",
            "not checked: kernel square has dim=0: no thread runs",
        ),
    )
    result = check(k.no_adjoint, [1.0])
    assert result.verdict == "UNDECIDABLE"
    assert result.coverage.notes == ("not checked: kernel no_adjoint has no adjoint: enable_backward=False",)


def test_a_launch_of_no_threads_is_not_agreement() -> None:
    x = k.vector([1.0])
    result = gradcheck(k.square, 0, [x], [wp.zeros_like(x)], show_summary=False, raise_exception=False)
    assert result.verdict == "UNDECIDABLE"
    assert result.coverage.notes == ("not checked: kernel square has dim=0: no thread runs",)


@pytest.mark.parametrize("values", [[0.0, 1.0], [np.inf, 1.0], [np.nan, 1.0], [-1.0, 1.0], [1e38, 1e-38]])
@pytest.mark.parametrize("kernel", [k.root, k.reciprocal, k.cube])
def test_values_that_are_not_finite_raise_no_warnings(kernel: Any, values: list) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = check(kernel, values)
    assert result.verdict in ("AGREE", "WRONG", "UNDECIDABLE")


def test_integers_have_no_derivatives() -> None:
    x = wp.array([1, 2], dtype=int, requires_grad=True)
    result = gradcheck(k.counting, 2, [x], [wp.zeros_like(x)], show_summary=False, raise_exception=False)
    assert (result.verdict, result.pairs) == ("UNDECIDABLE", ())


def test_a_kernel_whose_outputs_were_not_named() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    result = gradcheck(k.square, 2, [x, y], show_summary=False)
    assert [(pair.input, pair.output) for pair in result.pairs] == [("x", "y")]


def document_arrays() -> tuple[Any, ...]:
    a = wp.array([2.0, -1.0], dtype=wp.float32, requires_grad=True)
    b = wp.array([[3.0, 1.0, 2.0], [-4.0, -1.0, 0.0]], dtype=wp.vec3, requires_grad=True)
    out1 = wp.zeros(2, dtype=wp.vec2, requires_grad=True)
    out2 = wp.zeros(2, dtype=wp.vec3, requires_grad=True)
    return a, b, out1, out2


@pytest.mark.parametrize(
    "mask, chosen",
    [
        (None, [("a", "out1"), ("a", "out2"), ("b", "out1"), ("b", "out2")]),
        ([("a", "out1"), ("b", "out2")], [("a", "out1"), ("b", "out2")]),
        ([(1, 0), ("a", 1)], [("b", "out1"), ("a", "out2")]),
    ],
)
def test_masks_by_name_and_by_index(mask: Any, chosen: list) -> None:
    a, b, out1, out2 = document_arrays()
    result = gradcheck(k.documented, 2, [a, b], [out1, out2], input_output_mask=mask, show_summary=False)
    assert [(pair.input, pair.output) for pair in result.pairs] == chosen
    assert result


def test_the_documents_table() -> None:
    a, b, out1, out2 = document_arrays()
    lines = gradcheck(k.documented, 2, [a, b], [out1, out2], show_summary=False).summary().splitlines()
    columns = [cell.strip() for cell in lines[0].split(" | ")]
    assert columns == [
        "Input", "Output", "Max Abs Error", "AD at max", "FD at max", "Max Rel Error", "Pass",
    ]  # fmt: skip
    assert set(lines[1]) == {"-", "+"} and len(lines[1]) >= len(lines[0])
    rows = [[cell.strip() for cell in line.split(" | ")] for line in lines[2:6]]
    assert [row[0::6] for row in rows] == [["a", "PASS"]] * 2 + [["b", "PASS"]] * 2
    # d out1[0].x / d a[0] is the length of b[0]
    assert re.fullmatch(r"\d\.\d{3}e-\d\d at \([0-3], [01]\)", rows[0][2]), rows[0]
    assert float(rows[0][3]) == pytest.approx(float(rows[0][4]), rel=1e-3)
    assert lines[6:] == [
        "",
        "4 input-output pairs checked, 80 of 80 entries",
        "Gradient check for kernel documented passed",
    ]


def test_the_summary_is_printed_unless_told_otherwise(capsys: pytest.CaptureFixture) -> None:
    result = check(k.square, [1.0], show_summary=True)
    assert capsys.readouterr().out == result.summary() + "\n"
    check(k.square, [1.0])
    assert capsys.readouterr().out == ""


def test_limits_sample_entries_and_say_so() -> None:
    result = check(k.square, np.arange(1.0, 101.0), max_inputs_per_var=5, max_outputs_per_var=4)
    assert (result.pairs[0].entries, result.pairs[0].evaluated) == (10000, 20)
    assert result.coverage.summary == "1 input-output pairs checked, 20 of 10000 entries"


def test_one_wrong_entry_in_a_jacobian_too_large_to_evaluate_is_found() -> None:
    n = 5000

    def break_one(seeds: np.ndarray) -> None:
        seeds[1711] = 0

    values = np.linspace(0.5, 1.5, n)
    right = check(k.square, values)
    assert right.coverage.summary == (
        "1 input-output pairs checked, 5000 of 25000000 entries, by 1 group of rows and 1 of columns; "
        "24995000 more are zero (traced, verified by random products)"
    )
    assert right.coverage.notes == ()
    assert right
    result = check(k.with_seeds(k.square, break_one, n), values)
    assert result.verdict == "WRONG"
    assert result.pairs[0].worst.output_index == result.pairs[0].worst.input_index == (1711,)
    assert result.pairs[0].message.startswith("d y[1711] / d x[1711]: AD 0, FD 1.68454 ± ")


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "mask, message",
    [
        ([("z", "y")], "kernel square: the input-output mask names the input 'z'; the inputs are 0: x"),
        ([("x", 7)], "kernel square: the input-output mask names the output 7; the outputs are 0: y"),
        (["xy"], "kernel square: an entry of the input-output mask is a pair (input, output); got 'xy'"),
    ],
)
def test_masks_that_name_what_there_is_not(mask: Any, message: str) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        check(k.square, [1.0], input_output_mask=mask)
    assert caught.value.message == message


def test_a_mask_of_an_array_without_gradient_is_not_silent() -> None:
    x, y = k.vector([1.0], grad=False), k.vector([1.0])
    result = gradcheck(
        k.square, 1, [x], [y], input_output_mask=[("x", "y")], show_summary=False, raise_exception=False
    )
    assert result.coverage.notes == (
        "not checked: x has requires_grad=False",
        "not checked: ('x', 'y') was asked for, but 'x' is not an array with requires_grad=True",
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"eps": 0.0}, "eps, the largest step, must be positive; got 0.0"),
        ({"eps": math.nan}, "eps, the largest step, must be positive; got nan"),
        ({"atol": -1.0}, "tolerances must not be negative; got atol=-1.0, rtol=0.01"),
    ],
)
def test_steps_and_tolerances_that_are_none(options: dict, message: str) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        check(k.square, [1.0], **options)
    assert caught.value.message == message


def test_arguments_that_do_not_fit_get_the_messages_of_a_launch() -> None:
    x = k.vector([1.0])
    with pytest.raises(wp.LaunchError, match="launch of square: it takes 2 arguments"):
        gradcheck(k.square, 1, [x], show_summary=False)
    with pytest.raises(wp.GradcheckError, match=r"kernel square needs dim, its number of threads"):
        gradcheck(k.square, inputs=[x], outputs=[x], show_summary=False)
    with pytest.raises(
        wp.GradcheckError, match="a kernel or a function that launches kernels is needed; got 3 "
    ):
        gradcheck(3, 1, [x], [x], show_summary=False)


def test_the_exception_is_a_value_error_that_names_the_failing_pair() -> None:
    a, b, out1, out2 = document_arrays()
    broken = k.fresh(k.documented)
    good = broken.adjoint

    def adjoint(active: Any, **options: Any) -> Any:
        entry = good(active, **options)

        def run(lo: int, hi: int, args: int) -> None:
            entry(lo + 1, hi, args)  # thread 0 is forgotten

        return run

    broken.adjoint = adjoint
    with pytest.raises(ValueError) as caught:
        gradcheck(broken, 2, [a, b], [out1, out2], input_output_mask=[("b", "out2")], show_summary=False)
    error = caught.value
    assert isinstance(error, GradcheckFailure)
    assert error.message.startswith(
        "Gradient check for kernel documented failed: WRONG: kernel documented, out2 with respect to b: "
        "d out2[0]."
    )
    assert error.result.failing is error.result.pairs[0]
    assert error.result.pairs[0].worst.output_index[0] == error.result.pairs[0].worst.input_index[0] == 0


# ------------------------------------------------------------------ scripts and speed


def test_reproduce_writes_a_script_that_shows_the_failure(tmp_path: Any) -> None:
    result = check(k.root, [0.0, 1.0])
    path = tmp_path / "failure.py"
    path.write_text(result.reproduce(), encoding="utf-8")
    done = forked.run([str(path)], ROOT, _environment())
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAIL (WRONG)" in done.stdout
    assert result.pairs[0].message in done.stdout


RATE = 0.5
DOWN = wp.vec3(0.0, -1.0, 0.0)


@wp.func
def inner(a: float):
    return a * RATE


@wp.func
def outer(a: float, b: wp.vec3):
    return inner(a) * b + DOWN


def test_reproduce_takes_functions_and_constants_along(tmp_path: Any) -> None:
    scale = 3.0

    @wp.kernel
    def local(
        x: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), n: int, w: wp.vec3, y: wp.array(dtype=wp.vec3)
    ):
        i = wp.tid()
        if i < n:
            y[i] = outer(x[i], v[i] + w) * scale + inner(x[i]) * w

    x = k.vector([0.1, 0.7])
    v = wp.array(np.ones((2, 3)), dtype=wp.vec3, requires_grad=True)
    y = wp.zeros(2, dtype=wp.vec3, requires_grad=True)
    result = gradcheck(local, 2, [x, v, 2, wp.vec3(1.0, 2.0, 3.0)], [y], show_summary=False)
    path = tmp_path / "agreement.py"
    script = result.reproduce(result.pairs[1])
    assert "x = wp.array([0.1, 0.7], dtype=wp.float32, shape=(2,), requires_grad=True)" in script
    assert script.index("def inner") < script.index("def outer") < script.index("def local")
    path.write_text(script, encoding="utf-8")
    done = forked.run([str(path)], ROOT, _environment())
    expected = result_of(local, x, v, y).summary().splitlines()
    assert done.stdout.splitlines() == [*expected[:-1], "Gradient check for kernel local passed"]


mat23 = wp.types.matrix((2, 3), float)


@wp.kernel
def unnamed(
    a: wp.array(dtype=mat23), t: wp.array(dtype=wp.transform), m: mat23, s: wp.array(dtype=wp.spatial_vector)
):
    i = wp.tid()
    v = (a[i] + m) @ t[i].p
    s[i] = wp.spatial_vector(t[i].p * v[0], wp.quat_rotate(t[i].q, t[i].p) * v[1])


def test_reproduce_writes_types_that_have_no_name(tmp_path: Any) -> None:
    rng = np.random.default_rng(2)
    a = wp.array(rng.normal(size=(2, 2, 3)), dtype=mat23, requires_grad=True)
    t = wp.array(rng.normal(size=(2, 7)), dtype=wp.transform, requires_grad=True)
    s = wp.zeros(2, dtype=wp.spatial_vector, requires_grad=True)
    result = gradcheck(unnamed, 2, [a, t, mat23(1, 2, 3, 4, 5, 6)], [s], show_summary=False)
    script = result.reproduce(result.pairs[0])
    assert "dtype=wp.types.matrix((2, 3), wp.float32)" in script and "dtype=wp.transform, " in script
    assert "mat23 = wp.types.matrix((2, 3), wp.float32)" in script
    path = tmp_path / "unnamed.py"
    path.write_text(script, encoding="utf-8")
    done = forked.run([str(path)], ROOT, _environment())
    assert "Gradient check for kernel unnamed passed" in done.stdout


def result_of(kernel: Any, x: Any, v: Any, y: Any) -> GradcheckResult:
    return gradcheck(
        kernel, 2, [x, v, 2, wp.vec3(1.0, 2.0, 3.0)], [y], input_output_mask=[("v", "y")], show_summary=False
    )


def test_reproduce_needs_a_pair() -> None:
    x = k.vector([1.0], grad=False)
    result = gradcheck(k.square, 1, [x], [x], show_summary=False, raise_exception=False)
    with pytest.raises(ValueError, match="no script can be written for a check without pairs"):
        result.reproduce()


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_tridiagonal_1024_takes_a_moment() -> None:
    x = k.vector(np.random.default_rng(0).normal(size=1024))
    y = wp.zeros_like(x)
    gradcheck(k.tridiagonal, 1024, [x], [y], show_summary=False, max_inputs_per_var=1, max_outputs_per_var=1)
    start = time.process_time()  # processor time, for the machine may be busy
    result = gradcheck(k.tridiagonal, 1024, [x], [y], show_summary=False)
    assert result
    assert (result.pairs[0].evaluated, result.pairs[0].max_abs_error < 1e-5) == (3 * 1024 - 2, True)
    assert time.process_time() - start < 2  # 0.01 s on an idle machine


@wp.kernel
def logarithm(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    assert x[i] > 0.0, "positive"
    y[i] = wp.log(x[i])


@pytest.mark.parametrize("check", [gradcheck, jacobian])
def test_an_assertion_that_does_not_hold_ends_a_check_as_it_ends_a_launch(check: Any) -> None:
    x = k.vector([1.0, -2.0])
    y = wp.zeros_like(x)
    with pytest.raises(wp.KernelAssertionError) as caught:
        check(logarithm, 2, [x], [y])
    assert caught.value.message == "kernel `logarithm`: assertion failed in thread 1: positive"
    assert not y.numpy().any()


def test_displaced_inputs_may_break_an_assertion() -> None:
    x = k.vector([0.5, 2.0])
    y = wp.zeros_like(x)
    assert gradcheck(logarithm, 2, [x], [y], eps=1.0, show_summary=False)
