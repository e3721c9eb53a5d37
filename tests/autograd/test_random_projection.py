"""Entries that a check compares: all, groups of rows and columns, or random combinations of all."""

import ctypes
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck
from tapedebug.autograd.checks import adjoint_check as checking
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.checks.random_projection import RandomProjection
from tapedebug.autograd.finite_diff.verdict import Tolerance
from tapedebug.autograd.sparse.pattern import Pattern
from tapedebug.autograd.subjects.subject import subject_of
from tests.autograd import kernels as k

QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False}
MANY = 65536
SOME = 300  # enough that a Jacobian is not evaluated whole


@wp.func
def square_of(a: float, i: int, wrong: int, factor: float):
    return a * a


@wp.func_grad(square_of)
def adj_square_of(a: float, i: int, wrong: int, factor: float, adj: float):
    scale = 1.0
    if i == wrong:
        scale = factor
    wp.adjoint[a] += scale * 2.0 * a * adj


@wp.kernel
def squares(x: wp.array(dtype=float), wrong: int, factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = square_of(x[i], i, wrong, factor)


@wp.kernel
def sum_of_squares(x: wp.array(dtype=float), wrong: int, factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, square_of(x[i], i, wrong, factor))


@wp.kernel
def one_for_all(x: wp.array(dtype=float), wrong: int, factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = square_of(x[0], i, wrong, factor)


@wp.kernel
def everything(x: wp.array(dtype=float), wrong: int, factor: float, n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for j in range(n):
        s += square_of(x[j], i * n + j, wrong, factor) * float(i + 1)
    y[i] = s


def values(count: int) -> Any:
    return k.vector(np.random.default_rng(0).uniform(0.5, 2.0, size=count))


def check(kernel: Any, x: Any, y: Any, *args: Any, **options: Any) -> Any:
    dim = max(len(x), len(y))
    return gradcheck(kernel, dim, [x, *args], [y], **{**QUIET, **options})


TIGHT = {"atol": 1e-6, "rtol": 1e-5}


@pytest.mark.sweep
@pytest.mark.parametrize("wrong", [0, 777, MANY - 1])
@pytest.mark.parametrize(
    "factor, tolerances", [(1.01, {"rtol": 5e-3}), (1.0001, TIGHT)], ids=["1e-2", "1e-4"]
)
def test_one_wrong_thread_of_many_is_found_and_named(wrong: int, factor: float, tolerances: Any) -> None:
    x, y = values(MANY), wp.zeros(MANY, dtype=float, requires_grad=True)
    result = check(squares, x, y, wrong, factor, **tolerances)
    assert result.verdict == "WRONG"
    worst = result.pairs[0].worst
    assert worst.output_index == worst.input_index == (wrong,)
    assert "; 1 of 65536 entries differ by more than the tolerance" in result.pairs[0].message
    assert check(squares, x, y, -1, 1.0, **TIGHT).verdict == "AGREE"


@pytest.mark.parametrize(
    "factor, tolerances", [(1.01, {"rtol": 5e-3}), (1.0001, TIGHT)], ids=["1e-2", "1e-4"]
)
def test_one_wrong_term_of_a_sum_is_found_and_named(factor: float, tolerances: Any) -> None:
    x, y = values(MANY), wp.zeros(1, dtype=float, requires_grad=True)
    result = check(sum_of_squares, x, y, 777, factor, **tolerances)
    assert result.verdict == "WRONG"
    assert (result.pairs[0].worst.output_index, result.pairs[0].worst.input_index) == ((0,), (777,))
    assert check(sum_of_squares, x, y, -1, 1.0, **TIGHT).verdict == "AGREE"


@pytest.mark.parametrize(
    "factor, tolerances", [(1.01, {"rtol": 5e-3}), (1.0001, TIGHT)], ids=["1e-2", "1e-4"]
)
def test_one_wrong_output_of_one_input_is_found_and_named(factor: float, tolerances: Any) -> None:
    x, y = values(1), wp.zeros(MANY, dtype=float, requires_grad=True)
    result = check(one_for_all, x, y, 777, factor, **tolerances)
    assert result.verdict == "WRONG"
    assert (result.pairs[0].worst.output_index, result.pairs[0].worst.input_index) == ((777,), (0,))
    assert check(one_for_all, x, y, -1, 1.0, **TIGHT).verdict == "AGREE"


DENSE = 600


@pytest.mark.parametrize("factor, tolerances", [(1.05, {}), (1.0001, TIGHT)], ids=["big", "small"])
def test_one_wrong_entry_of_a_dense_jacobian_is_found_and_named(factor: float, tolerances: Any) -> None:
    x, y = values(DENSE), wp.zeros(DENSE, dtype=float, requires_grad=True)
    result = check(everything, x, y, 17 * DENSE + 444, factor, DENSE, **tolerances)
    assert result.verdict == "WRONG"
    assert (result.pairs[0].worst.output_index, result.pairs[0].worst.input_index) == ((17,), (444,))
    assert result.coverage.notes[1] == "x → y: the entry was found by halving: others may be like it"
    right = check(everything, x, y, -1, 1.0, DENSE, **TIGHT)
    assert right.verdict == "AGREE"
    assert right.coverage.notes[0] == (
        "x → y: 600 × 600 entries are too many to evaluate: 3 random directions and 4 seeds of all of them "
        "were compared, and a sample one by one"
    )


# ------------------------------------------------------------------ within the tolerance, beyond rounding


def test_a_systematic_error_within_tolerance_is_told() -> None:
    x, y = values(SOME), wp.zeros(SOME, dtype=float, requires_grad=True)
    for count in (20, SOME):
        x, y = values(count), wp.zeros(count, dtype=float, requires_grad=True)
        result = check(k.with_adjoint_of(k.square, off_by_a_thousandth), x, y)
        assert result.verdict == "AGREE"
        assert result.coverage.notes[0] == (
            "x → y: all within tolerance; the adjoint differs from its reference by a factor 1.001 in "
            f"{count} of {count * count if count == 20 else count} entries: more than rounding"
        )
    assert check(k.square, x, y).coverage.notes == ()


@wp.kernel
def off_by_a_thousandth(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.001 * x[i] * x[i]


@wp.kernel
def off_by_two_millionths(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.000002 * x[i] * x[i]


@wp.kernel
def rounded_a_lot(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for _ in range(400):
        s += wp.sin(x[i]) * 0.37
    y[i] = s


@pytest.mark.parametrize("count", [20, SOME])
def test_tolerances_finer_than_float32_tell_errors_from_rounding(count: int) -> None:
    x, y = values(count), wp.zeros(count, dtype=float, requires_grad=True)
    fine = {"atol": 1e-9, "rtol": 1e-6}
    assert check(k.with_adjoint_of(k.square, off_by_two_millionths), x, y, **fine).verdict == "WRONG"
    result = check(rounded_a_lot, x, y, **fine)
    assert result.verdict == "AGREE"
    assert "by float32 rounding only: the float64 twin of the adjoint agrees" in result.coverage.notes[0]


# ------------------------------------------------------------------ what is not among the traced entries


def scattering(kernel: Any, place: int, amount: float) -> Any:
    """A kernel whose adjoint also adds to x[place], as one does that has an index wrong."""
    broken = k.fresh(kernel)
    real = broken.adjoint

    def adjoint(active: Any, *, f64: bool = False, **options: Any) -> Any:
        entry = real(active, f64=f64, **options)
        scalar = ctypes.c_double if f64 else ctypes.c_float

        def run(lo: int, hi: int, args: int) -> None:
            seeds, found = (
                np.ctypeslib.as_array((scalar * SOME).from_address(pointer))
                for pointer in (
                    ctypes.c_uint64.from_address(args + 8 * broken.layout.adjoints[p]).value for p in (1, 0)
                )
            )
            found[place] += amount * seeds[5]
            entry(lo, hi, args)

        return run

    broken.adjoint = adjoint
    return broken


def test_an_adjoint_that_adds_where_nothing_depends_is_wrong() -> None:
    x, y = values(SOME), wp.zeros(SOME, dtype=float, requires_grad=True)
    result = check(scattering(k.cube, 40, 0.3), x, y)
    assert result.verdict == "WRONG"
    worst = result.pairs[0].worst
    assert (worst.output_index, worst.input_index, worst.ad) == ((5,), (40,), pytest.approx(0.3))
    assert check(scattering(k.cube, 40, 0.3), x, y, masked=True).verdict == "AGREE"


def test_masked_leaves_out_what_is_not_in_the_sparsity() -> None:
    for count in (20, SOME):
        x, y = values(count), wp.zeros(count, dtype=float, requires_grad=True)
        result = check(k.square, x, y, masked=True)
        assert (result.verdict, result.pairs[0].evaluated, result.pairs[0].zeros) == ("AGREE", count, 0)
        assert result.coverage.notes == (
            f"x → y: {count * count - count} entries outside of the traced sparsity were left out "
            "(masked=True)",
        )


def test_a_sparsity_that_misses_entries_is_seen_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_only(program: Any) -> Any:
        return {
            pair: Pattern((found.shape), found.rows[:-1], found.columns[:-1])
            for pair, found in real(program).items()
        }

    real = checking.traced
    monkeypatch.setattr(checking, "traced", first_only)
    x, y = values(SOME), wp.zeros(SOME, dtype=float, requires_grad=True)
    result = check(squares, x, y, -1, 1.0)
    assert result.verdict == "AGREE"
    assert result.coverage.notes == (
        "x → y: y depends on more than was traced (at flat index 299), so the traced sparsity was not used",
    )
    assert result.pairs[0].evaluated == SOME * SOME
    assert check(squares, x, y, SOME - 1, 1.05).pairs[0].worst.input_index == (SOME - 1,)


def test_coverage_counts_what_is_zero_by_sparsity() -> None:
    x, y = values(1024), wp.zeros(1024, dtype=float, requires_grad=True)
    result = check(k.tridiagonal, x, y)
    assert result.coverage.summary == (
        "1 input-output pairs checked, 3070 of 1048576 entries, by 3 groups of rows and 3 of columns; "
        "1045506 more are zero (traced, verified by random products)"
    )
    found = result.pairs[0].compared
    assert found is not None and found.zeros and len(found) == 3070


# ------------------------------------------------------------------ groups are as good as single entries


def drop_negative(seeds: np.ndarray) -> None:
    seeds[seeds < 0] = 0


def clip_large(seeds: np.ndarray) -> None:
    np.clip(seeds, -10, 10, out=seeds)


@pytest.mark.parametrize("change", [drop_negative, clip_large])
def test_adjoints_that_are_wrong_for_some_seeds_only_are_wrong(change: Any) -> None:
    x, y = values(SOME), wp.zeros(SOME, dtype=float, requires_grad=True)
    result = check(k.with_seeds(k.square, change, SOME), x, y)
    assert result.verdict == "WRONG"
    assert result.pairs[0].message.endswith(
        "; the single entries agree, so the adjoint is not linear in its seed"
    )


def test_an_index_that_is_off_by_one_is_told_from_the_sums_that_it_is_in() -> None:
    x, y = values(SOME), wp.zeros(SOME, dtype=float, requires_grad=True)
    result = check(k.with_adjoint_of(k.square, k.shifted), x, y)
    assert result.verdict == "WRONG"
    assert result.pairs[0].worst.ad == 0.0  # by itself, not in the sum where its neighbour has its place
    assert result.coverage.notes[0].endswith(
        "more entries are off in sums of several rows; they were not evaluated one by one"
    )


def test_values_of_all_magnitudes_have_steps_of_their_own() -> None:
    rng = np.random.default_rng(1)
    mixed = 10.0 ** rng.uniform(-11, 9, size=3000) * rng.choice([-1.0, 1.0], size=3000)
    y = wp.zeros(3000, dtype=float, requires_grad=True)
    assert check(k.relu, k.vector(mixed), y).verdict == "AGREE"
    assert check(k.cube, k.vector(mixed), y).verdict == "AGREE"
    broken = k.with_adjoint_of(k.relu, k.identity)
    assert check(broken, k.vector(mixed), y).verdict == "WRONG"


def test_kinks_and_values_that_are_not_finite_spoil_no_other_entry() -> None:
    rng = np.random.default_rng(2)
    spoiled = np.concatenate([[0.0], rng.normal(size=SOME - 1)])
    y = wp.zeros(SOME, dtype=float, requires_grad=True)
    result = check(k.absolute, k.vector(spoiled), y)
    assert (result.verdict, result.pairs[0].worst.input_index) == ("KINK", (0,))
    assert "(1 of 300 entries)" in result.pairs[0].message
    spoiled[0] = np.inf
    result = check(k.absolute, k.vector(spoiled), y)
    assert result.verdict in ("UNDECIDABLE", "WRONG")
    assert result.pairs[0].worst.input_index == (0,)


def test_chaos_is_undecidable_in_many_entries_too() -> None:
    x = k.vector(np.random.default_rng(3).uniform(0.1, 0.9, size=2000))
    result = check(k.logistic, x, wp.zeros_like(x))
    assert result.verdict == "UNDECIDABLE"


# ------------------------------------------------------------------ the stages of random combinations


def combined(kernel: Any, count: int) -> RandomProjection:
    x, y = values(count), wp.zeros(count, dtype=float, requires_grad=True)
    subject = subject_of(kernel, count, [x], [y], None, None)
    (pair,) = subject.pairs.chosen
    return RandomProjection(subject.program, *pair, CheckPlan(1e-4, Tolerance(1e-6, 1e-5)))


def off_in_float32(kernel: Any, count: int) -> Any:
    """A kernel whose adjoint is wrong in float32 only: its twin is right."""
    broken = k.fresh(kernel)
    real = broken.adjoint

    def adjoint(active: Any, *, f64: bool = False, **options: Any) -> Any:
        entry = real(active, f64=f64, **options)

        def run(lo: int, hi: int, args: int) -> None:
            if not f64:
                pointer = ctypes.c_uint64.from_address(args + 8 * broken.layout.adjoints[1]).value
                np.ctypeslib.as_array((ctypes.c_float * count).from_address(pointer))[33] *= 1.001
            entry(lo, hi, args)

        return run

    broken.adjoint = adjoint
    return broken


def test_right_kernels_raise_no_suspicion() -> None:
    for kernel in (k.square, k.fast_sine, k.identity, rounded_a_lot):
        assert list(combined(kernel, 50).suspects()) == []


def test_the_twin_against_differences() -> None:
    def change(seeds: np.ndarray) -> None:
        seeds[33] *= 1.0001

    work = combined(k.with_seeds(k.square, change, 50), 50)
    assert next(work.suspects()) == (33, 33)
    assert (work.error > work.allowed).any()


def test_the_gradient_in_float32_against_its_twin() -> None:
    work = combined(off_in_float32(k.square, 50), 50)
    assert (work.error <= work.allowed).all()
    assert list(work.suspects()) == [(33, 33)]


def test_the_tangent_against_differences() -> None:
    broken = k.fresh(k.square)
    broken.tangent = k.fresh(k.except_thread_0).tangent  # type: ignore[method-assign]
    work = combined(broken, 50)
    assert (work.error <= work.allowed).all()
    assert [row for row, _ in work.suspects()] == [0]


def test_a_kink_among_the_combinations() -> None:
    x = values(50).numpy()
    x[21] = 0.0
    x, y = k.vector(x), wp.zeros(50, dtype=float, requires_grad=True)
    subject = subject_of(k.absolute, 50, [x], [y], None, None)
    (pair,) = subject.pairs.chosen
    assert list(
        RandomProjection(subject.program, *pair, CheckPlan(1e-4, Tolerance(1e-3, 1e-2))).suspects()
    ) == [(21, 21)]


def test_fast_mode_compares_combinations_only_and_says_so() -> None:
    x, y = values(SOME), wp.zeros(SOME, dtype=float, requires_grad=True)
    result = check(squares, x, y, -1, 1.0, fast_mode=True)
    assert result.verdict == "AGREE"
    assert result.coverage.notes == (
        "x → y: 3 random directions and 4 seeds of all 300 × 300 entries were compared, none by itself "
        "(fast_mode)",
    )
    result = check(squares, x, y, 123, 1.05, fast_mode=True)
    assert (result.verdict, result.pairs[0].worst.input_index) == ("WRONG", (123,))


# ------------------------------------------------------------------ two runs on the same values


def with_noisy_adjoint(kernel: Any, count: int, size: float) -> Any:
    broken = k.fresh(kernel)
    real = broken.adjoint
    rng = np.random.default_rng(0)

    def adjoint(active: Any, *, f64: bool = False, **options: Any) -> Any:
        entry = real(active, f64=f64, **options)

        def run(lo: int, hi: int, args: int) -> None:
            entry(lo, hi, args)
            pointer = ctypes.c_uint64.from_address(args + 8 * broken.layout.adjoints[0]).value
            scalar = ctypes.c_double if f64 else ctypes.c_float
            np.ctypeslib.as_array((scalar * count).from_address(pointer))[:] += size * rng.normal(size=count)

        return run

    broken.adjoint = adjoint
    return broken


def test_reverse_passes_that_differ_are_nondeterministic() -> None:
    x, y = values(3), wp.zeros(3, dtype=float, requires_grad=True)
    noisy = with_noisy_adjoint(k.square, 3, 1e-5)
    result = check(noisy, x, y)
    assert result.verdict == "NONDETERMINISTIC"
    assert result.pairs[0].message.startswith("two reverse passes on the same values differ by ")
    assert result.pairs[0].message.endswith(" relative in the gradient of x")
    assert check(noisy, x, y, nondet_tol=1e-3).verdict == "AGREE"


# ------------------------------------------------------------------ the documents' own reference


@pytest.mark.parametrize("count", [3, SOME])
def test_plain_float32_differences_when_asked(count: int) -> None:
    x = k.vector(np.linspace(900, 1000, count))
    y = wp.zeros_like(x)
    assert check(k.cube, x, y).verdict == "AGREE"
    result = check(k.cube, x, y, reference="float32")
    assert result.verdict == "WRONG"
    assert result.coverage.notes[-1] == (
        "x → y: compared with one float32 difference at eps=0.0001, which has no error bar"
    )
    at, h = np.float32(x.numpy()[-1]), np.float32(1e-4)
    moved = [np.float32(at + s * h) for s in (1, -1)]
    plain = (float(moved[0] * moved[0] * moved[0]) - float(moved[1] * moved[1] * moved[1])) / 2e-4
    found = result.pairs[0].compared
    assert found.fd[found.rows == count - 1][-1] == pytest.approx(plain)
