"""Options beside the adjoint: tangents, many at once, adjoints that were never set, dtypes; errors."""

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckFailure, GradcheckResult, gradcheck
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tests.autograd import kernels as k


def check(kernel: Any, values: Any, **options: Any) -> GradcheckResult:
    x = k.vector(values)
    y = k.vector(np.ones(len(x)))
    quiet = {"show_summary": False, "raise_exception": False, **options}
    return gradcheck(kernel, dim=len(x), inputs=[x], outputs=[y], **quiet)


def with_tangent_of(forward: Any, other: Any) -> Any:
    """`forward` with the tangent of `other`."""
    broken, donor = k.fresh(forward), k.fresh(other)
    broken.tangent = donor.tangent
    return broken


# ------------------------------------------------------------------ check_forward_ad


@pytest.mark.parametrize(
    "kernel, values",
    [
        (k.cube, [1.0, 100.0, 1000.0]),
        (k.identity, [1e3, 1e5]),
        (k.fast_sine, np.linspace(0, 1, 64)),
        (k.absolute, [1e-2, 1e-5, -1e-6, 1e-7]),
        (k.times, [0.5, 3.0]),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
def test_right_tangents_agree(kernel: Any, values: Any) -> None:
    result = check(kernel, values, check_forward_ad=True)
    assert (result.verdict, {pair.check for pair in result.pairs}) == ("AGREE", {"adjoint", "tangent"})
    tangents = [pair for pair in result.pairs if pair.check == "tangent"]
    assert all(pair.evaluated == pair.entries == len(values) ** 2 for pair in tangents)
    found = tangents[0].compared
    assert found is not None and found.shape == (len(values), len(values))


def test_a_wrong_tangent_is_wrong_though_the_adjoint_is_right() -> None:
    broken = with_tangent_of(k.square, k.doubled)
    assert check(broken, [0.7, -1.3])
    result = check(broken, [0.7, -1.3], check_forward_ad=True)
    assert [(pair.check, pair.verdict) for pair in result.pairs] == [
        ("adjoint", "AGREE"),
        ("tangent", "WRONG"),
    ]
    assert result.pairs[1].message == (
        "d y[1] / d x[1]: AD -5.2, FD -2.6 ± 1e-10; 2 of 4 entries differ by more than the tolerance; "
        "AD is 2 × FD in each: counted twice"
    )
    assert "x → y: the tangent of the float64 twin is off, too" in result.coverage.notes
    with pytest.raises(GradcheckFailure) as caught:
        check(broken, [0.7, -1.3], check_forward_ad=True, raise_exception=True)
    assert caught.value.message.startswith(
        "Gradient check for kernel square failed: WRONG: kernel square, y with respect to x: tangent: d y[1]"
    )


def test_a_tangent_that_is_wrong_in_float32_only_is_wrong() -> None:
    broken, donor = k.fresh(k.square), k.fresh(k.doubled)
    real = broken.tangent

    def tangent(active: Any, *, f64: bool = False, **options: Any) -> Any:
        return (real if f64 else donor.tangent)(active, f64=f64, **options)

    broken.tangent = tangent
    result = check(broken, [0.7, -1.3], check_forward_ad=True)
    assert [(pair.check, pair.verdict) for pair in result.pairs] == [
        ("adjoint", "AGREE"),
        ("tangent", "WRONG"),
    ]


def test_tangents_need_no_adjoint() -> None:
    result = check(k.no_adjoint, [1.0, 3.0], check_backward_ad=False, check_forward_ad=True)
    assert [(pair.check, pair.verdict) for pair in result.pairs] == [("tangent", "AGREE")]
    assert result.dot_product is None
    assert str(result.coverage) == "1 input-output pairs checked, 4 of 4 entries (only the tangent)"


def test_rounding_of_a_right_tangent_is_forgiven_and_told() -> None:
    options = {"check_forward_ad": True, "check_backward_ad": False}
    result = check(k.fast_sine, np.linspace(0, 2, 50), **options)
    assert result
    assert result.coverage.notes == (
        "x → y: 1 entry differs by float32 rounding only: the float64 twin of the tangent agrees",
    )
    assert check(k.fast_sine, np.linspace(0, 1000, 50), **options).verdict == "UNDECIDABLE"


def test_a_tangent_that_float32_cancels_is_undecidable_not_wrong() -> None:
    result = check(k.cancelling, [0.3, 0.7], check_forward_ad=True, check_backward_ad=False)
    assert result.verdict == "UNDECIDABLE"
    assert result.pairs[0].message.endswith(
        "; the float64 twin of the tangent agrees with the differences, float32 rounding is as large as the "
        "gradient (2 of 4 entries)"
    )


def test_the_tangent_at_a_kink() -> None:
    result = check(k.absolute, [0.0, 1.0], check_forward_ad=True, check_backward_ad=False)
    assert result.verdict == "KINK"
    assert result.pairs[0].message.endswith(
        "the slope is -1 on the left and 1 on the right: no derivative exists here (1 of 4 entries)"
    )


def test_fast_mode_pushes_random_directions_and_looks_into_what_is_off() -> None:
    options = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": True}
    result = check(k.cube, np.linspace(0.5, 1.5, 100), **options)
    assert result
    assert (result.pairs[0].entries, result.pairs[0].evaluated) == (10000, 300)
    assert result.coverage.notes == (
        "x → y: fast_mode: tangents along 3 random directions were compared, not single entries",
    )
    broken = check(with_tangent_of(k.cube, k.square), np.linspace(0.5, 1.5, 100), **options)
    assert (broken.verdict, broken.pairs[0].evaluated) == ("WRONG", 10000)
    assert broken.pairs[0].message.startswith("d y[99] / d x[99]: AD 3, FD 6.75 ± ")


def test_of_a_large_jacobian_entries_are_sampled_and_random_directions_are_pushed() -> None:
    values = np.linspace(0.5, 1.5, 3000)
    options = {"check_forward_ad": True, "check_backward_ad": False}
    right = check(k.square, values, **options)
    assert right
    assert right.coverage.notes == (
        "x → y: the Jacobian of 3000 × 3000 entries is too large to evaluate whole: 256 × 256 of them were "
        "compared with the tangent, and 3 random directions",
    )
    broken, donor = k.fresh(k.square), k.fresh(k.square)

    def tangent(active: Any, **options: Any) -> Any:
        entry = donor.tangent(active, **options)
        return lambda lo, hi, args: (entry(lo, 1711, args), entry(1712, hi, args))

    broken.tangent = tangent
    result = check(broken, values, **options)
    assert result.verdict == "WRONG"
    assert result.pairs[0].message.startswith("d y[1711] / d x[1711]: AD 0, FD 2.14105 ± ")


@wp.func_native("out[tid] = x[tid] * x[tid];", "adj_x[tid] += 2.0f * x[tid] * adj_out[tid];")
def squared_in_c(x: wp.array(dtype=float), out: wp.array(dtype=float), tid: int): ...


@wp.kernel
def native(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    squared_in_c(x, y, wp.tid())


def test_a_tangent_that_is_unknown_is_said_to_be_not_checked() -> None:
    result = check(native, [1.0, 3.0], check_forward_ad=True)
    assert [(pair.check, pair.input, pair.verdict) for pair in result.pairs] == [
        ("adjoint", "x", "AGREE"),
        ("tangent", "x", "UNDECIDABLE"),
    ]
    assert result.pairs[1].message == (
        "not checked: the tangent by x is unknown: launch 0 (native) calls the native function squared_in_c"
    )


# ------------------------------------------------------------------ batched


def test_many_at_once_are_what_they_are_one_by_one() -> None:
    result = check(
        k.times, [0.5, 3.0], check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert result
    assert [pair.check for pair in result.pairs] == [
        *["adjoint"] * 2, *["tangent"] * 2, *["batched adjoint"] * 2, *["batched tangent"] * 2
    ]  # fmt: skip
    assert str(result.coverage) == (
        "2 input-output pairs checked, 8 of 8 entries; beside the adjoint: tangent (2 pairs), "
        "batched adjoint (2 pairs), batched tangent (2 pairs)"
    )
    assert "\nbatched tangent\nInput        | Output | " in result.summary()


def test_where_several_run_one_by_one_there_is_nothing_to_compare_and_it_is_said() -> None:
    result = check(native, [1.0, 3.0], check_batched_grad=True)
    assert result
    assert result.coverage.notes == (
        "several adjoints run one by one here: launch 0 (native) calls native functions, which may write "
        "anywhere",
    )


@pytest.mark.parametrize(
    "option, method, port",
    [("check_batched_grad", "pull_many", "x"), ("check_batched_forward_grad", "push_many", "y")],
)
def test_many_at_once_that_differ_are_wrong(
    option: str, method: str, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(ShadowProgram, method)

    def broken(self: Any, several: Any, **options: Any) -> Any:
        found = real(self, several, **options)
        values = next(values for p, values in found.items() if p.name == port)
        if len(values) == 5:
            values[3, 1] += 0.25
        return found

    options = {option: True, "check_forward_ad": True}
    right = check(k.square, [0.5, 3.0], **options)
    assert right
    monkeypatch.setattr(ShadowProgram, method, broken)
    result = check(k.square, [0.5, 3.0], **options, check_backward_ad=True)
    pair = result.pairs[-1]
    kind = "adjoint" if option == "check_batched_grad" else "tangent"
    assert (pair.check, pair.verdict, pair.max_abs_error) == (f"batched {kind}", "WRONG", 0.25)
    assert pair.message.startswith(f"with 5 {kind}s at once the {kind} of {port}[1] is ")
    assert pair.message.endswith("they differ by 0.25, nondet_tol is 0")
    assert (
        check(k.square, [0.5, 3.0], **{option: True, "check_forward_ad": True}, nondet_tol=0.3)
        .pairs[-1]
        .verdict
        == "AGREE"
    )


# ------------------------------------------------------------------ adjoints that were never set, dtypes


@wp.func
def affine(x: float):
    return x * x


@wp.func_grad(affine)
def adj_affine(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * x * adj_ret + 0.0005


@wp.kernel
def with_affine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = affine(x[i])


def test_an_adjoint_of_zero_gives_zero() -> None:
    """An error below `atol` that no comparison of entries can tell from rounding."""
    assert check(with_affine, [1.0, 3.0], check_undefined_grad=False)
    result = check(with_affine, [1.0, 3.0])
    assert [(pair.check, pair.verdict) for pair in result.pairs] == [
        ("adjoint", "AGREE"),
        ("undefined adjoint", "WRONG"),
    ]
    assert result.pairs[1].message == (
        "with an adjoint of zero for y the gradient of x[0] is 0.000500000024, it should be zero: "
        "the adjoint adds something that is no multiple of its seed"
    )


@wp.kernel
def two(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
    z[i] = wp.sin(x[i])


def two_outputs() -> tuple[Any, Any, Any]:
    x = k.vector([1.0, 2.0])
    return x, wp.zeros_like(x), wp.zeros_like(x)


def test_outputs_without_a_gradient_are_as_good_as_zero() -> None:
    x, y, z = two_outputs()
    result = gradcheck(two, 2, [x], [y, z], show_summary=False)
    assert [(pair.output, pair.check) for pair in result.pairs] == [("y", "adjoint"), ("z", "adjoint")]


def test_an_adjoint_that_is_wrong_without_one_of_its_outputs_is_wrong() -> None:
    """The variant for `y.grad is None` is broken; the one that every other check uses is right."""
    broken, donor = k.fresh(two), k.fresh(two)

    def adjoint(active: Any, **options: Any) -> Any:
        if 1 in active:
            return donor.adjoint(active, **options)
        return lambda lo, hi, args: None

    broken.adjoint = adjoint
    x, y, z = two_outputs()
    given: dict[str, Any] = {"show_summary": False, "raise_exception": False}
    assert gradcheck(broken, 2, [x], [y, z], check_undefined_grad=False, **given)
    result = gradcheck(broken, 2, [x], [y, z], **given)
    pair = result.pairs[-1]
    assert (pair.output, pair.check, pair.verdict) == ("y", "undefined adjoint", "WRONG")
    assert pair.message.startswith(
        "with y.grad None (requires_grad=False) the gradient of x[0] is 0, it should be "
    )
    assert pair.message.endswith(
        ", as with an adjoint of zeros: the adjoint adds something that is no multiple of its seed"
    )


@pytest.mark.parametrize("values", [[0.0, 1.0], [1e-30, 1.0]])
def test_infinite_slopes_are_no_matter_of_undefined_adjoints(values: list) -> None:
    assert {pair.check for pair in check(k.root, values).pairs} == {"adjoint"}


@wp.kernel
def through(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
    z[i] = y[i] * 3.0


def test_an_output_that_is_read_again_keeps_its_gradient() -> None:
    """Without it the chain to z would be cut, and rightly."""
    x, y, z = two_outputs()
    assert gradcheck(through, 2, [x], [y, z], show_summary=False)

    def function(x: Any) -> list:
        y, z = wp.zeros_like(x), wp.zeros_like(x)
        wp.launch(k.square, 2, [x, y])
        wp.launch(k.square, 2, [y, z])
        wp.copy(y, z)
        z.fill_(2.0)
        wp.launch(k.cube, 2, [y, z])
        return [y, z]

    assert gradcheck(function, inputs=[x], show_summary=False, check_grad_dtypes=True)


def test_what_could_not_be_left_out_is_said() -> None:
    def function(x: Any) -> Any:
        y, z = wp.zeros_like(x), wp.zeros_like(x)
        factor = wp.ones(2, dtype=float)
        wp.launch(product, 2, [x, factor, y])
        factor.numpy()[:] = 3.0
        wp.launch(product, 2, [y, factor, z])
        return z

    result = gradcheck(function, inputs=[k.vector([1.0, 2.0])], show_summary=False)
    assert result
    assert result.coverage.notes == (
        "not checked: whether adjoints that are not set count as zero: something outside of the tape wrote "
        "before record 1",
    )

    def many(x: Any) -> list:
        outputs = [wp.zeros_like(x) for _ in range(6)]
        for y in outputs:
            wp.launch(k.square, 2, [x, y])
        return outputs

    result = gradcheck(many, inputs=[k.vector([1.0, 2.0])], show_summary=False)
    assert result.coverage.notes == (
        "whether adjoints that are not set count as zero was checked with 4 of 6 outputs",
    )


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64, wp.vec3, wp.mat33d, wp.quat])
def test_gradients_have_the_dtype_of_their_arrays(dtype: Any) -> None:
    @wp.kernel
    def twice(x: wp.array(dtype=dtype, ndim=2), y: wp.array(dtype=dtype, ndim=2)):
        i, j = wp.tid()
        y[i, j] = x[i, j] + x[i, j]

    x = wp.ones((2, 6), dtype=dtype, requires_grad=True)[:, ::2]
    y = wp.zeros((2, 3), dtype=dtype, requires_grad=True)
    result = gradcheck(twice, (2, 3), [x], [y], check_grad_dtypes=True, show_summary=False)
    assert [pair.check for pair in result.pairs] == ["adjoint", "gradient dtype"]
    assert not x.grad.numpy().any()


def test_a_gradient_of_another_dtype_or_shape_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapedebug.autograd.checks.extra.tape_backward import TapeBackward

    def broken(self: Any, port: Any) -> Any:
        return wp.zeros(3, dtype=wp.float64)

    monkeypatch.setattr(TapeBackward, "_gradient", broken)
    result = check(k.square, [1.0, 2.0], check_grad_dtypes=True, check_undefined_grad=False)
    assert (result.pairs[-1].check, result.pairs[-1].verdict) == ("gradient dtype", "WRONG")
    assert result.pairs[-1].message == (
        "x.grad has dtype float64 where the array has float32 and shape (3,) where the array has (2,)"
    )


def test_a_real_pass_is_of_private_copies_and_off_every_tape() -> None:
    from tapedebug._tape_observers import live_tapes

    x, y, z = two_outputs()
    x.grad.fill_(7.0)
    tapes = len(live_tapes())
    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x, y])
        gradcheck(two, 2, [x], [y, z], check_grad_dtypes=True, show_summary=False)
    assert (len(tape.records), len(live_tapes())) == (1, tapes + 1)
    assert (x.grad.numpy().tolist(), y.numpy().tolist()) == ([7.0, 7.0], [1.0, 4.0])


def test_scripts_ask_for_the_check_that_failed() -> None:
    result = check(with_tangent_of(k.square, k.doubled), [0.7], check_forward_ad=True)
    script = result.reproduce()
    assert "    check_backward_ad=False,\n    check_forward_ad=True,\n    raise_exception=False,\n)" in script


# ------------------------------------------------------------------ options that do not fit


@pytest.mark.parametrize(
    "options, message",
    [
        ({"nondet_tol": -1.0}, "nondet_tol must not be negative; got -1.0"),
        ({"reference": "float16"}, "reference is 'float64' or 'float32'; got 'float16'"),
        ({"sample": "last"}, "sample is 'random' or 'first'; got 'last'"),
        (
            {"check_backward_ad": False},
            "nothing is left to check: check_backward_ad and check_forward_ad are both False",
        ),
        (
            {"check_batched_grad": True, "check_backward_ad": False, "check_forward_ad": True},
            "check_batched_grad=True asks for what check_backward_ad=False leaves out",
        ),
        (
            {"check_batched_forward_grad": True},
            "check_batched_forward_grad=True asks for what check_forward_ad=False leaves out",
        ),
    ],
)
def test_options_that_do_not_fit_together(options: dict, message: str) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        check(k.square, [1.0], **options)
    assert caught.value.message == message


def test_check_sparse_nnz_is_the_old_name_of_masked() -> None:
    with pytest.warns(
        DeprecationWarning, match="^check_sparse_nnz is deprecated: use masked instead$"
    ) as messages:
        assert check(k.square, [1.0], check_sparse_nnz=True)
    assert messages[0].filename == __file__
    with pytest.warns(DeprecationWarning), pytest.raises(wp.GradcheckError) as caught:
        check(k.square, [1.0], check_sparse_nnz=True, masked=False)
    assert caught.value.message == "check_sparse_nnz=True and masked=False: two names of one option differ"
    with pytest.warns(DeprecationWarning):
        assert check(k.square, [1.0], check_sparse_nnz=False, masked=False)


def test_the_first_scalars_where_they_are_asked_for() -> None:
    from tapedebug.autograd.subjects.probes import choose

    assert choose(10, 3, "first").tolist() == [0, 1, 2]
    first = check(k.square, np.arange(1.0, 101.0), max_inputs_per_var=5, sample="first")
    assert first.pairs[0].evaluated == 500


def test_inputs_are_restored_whatever_is_asked() -> None:
    x = k.vector([1.0, 2.0])
    y = wp.zeros_like(x)
    for wanted in (True, False):
        assert gradcheck(k.square, 2, [x], [y], restore_inputs=wanted, show_summary=False)
        assert (x.numpy().tolist(), y.numpy().tolist()) == ([1.0, 2.0], [0.0, 0.0])


# ------------------------------------------------------------------ time


def test_out_of_time_pairs_are_said_to_be_not_checked() -> None:
    result = check(k.square, np.linspace(0.5, 1.5, 400), max_seconds=1e-9, check_forward_ad=True)
    assert result.verdict == "UNDECIDABLE"
    assert [(pair.check, pair.message) for pair in result.pairs] == [
        ("adjoint", "not checked: time was up (max_seconds=1e-09)"),
        ("tangent", "not checked: time was up (max_seconds=1e-09)"),
    ]


def test_pairs_that_were_done_in_time_keep_their_results(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapedebug._progress import OutOfTime, Progress
    from tapedebug.autograd.checks.deadline import check_pairs_of

    a, b = k.vector([1.0, 2.0]), k.vector([3.0, 4.0])

    def slow(program: Any, pairs: Any, plan: Any, checkpoint: Any, kept: Any) -> Any:
        if pairs.chosen[0][0].name == "b":
            raise OutOfTime("time was up (max_seconds=100)")
        return check_pairs_of(program, pairs, plan, checkpoint, kept)

    monkeypatch.setattr("tapedebug.autograd.checks.deadline.check_pairs_of", slow)
    result = gradcheck(
        product, 2, [a, b], [k.vector([0.0, 0.0])], max_seconds=100, show_summary=False, raise_exception=False
    )
    assert [(pair.input, pair.verdict, pair.message) for pair in result.pairs] == [
        ("a", "AGREE", ""),
        ("b", "UNDECIDABLE", "not checked: time was up (max_seconds=100)"),
    ]
    assert Progress(max_seconds=100).max_seconds == 100


@wp.kernel
def product(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a[i] * b[i]


def test_progress_is_told() -> None:
    steps: list[str] = []
    check(k.square, [1.0], progress=steps.append)
    assert steps == ["the adjoint, 1 input-output pair"]
    with pytest.raises(
        TypeError, match="gradcheck: progress is a function of one string, True or False, not 3"
    ):
        check(k.square, [1.0], progress=3)
    with pytest.raises(ValueError, match="gradcheck: max_seconds must be positive, not 0"):
        check(k.square, [1.0], max_seconds=0)
