"""The dot-product test: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩ holds for right reverse passes, and names what breaks it."""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end, gradcheck, gradcheck_tape
from tapedebug.autograd.finite_diff.dot_product_test import dot_test
from tapedebug.autograd.subjects.whole_tape import whole_tape
from tapedebug.runtime.replay.shadow import Shadow
from tests.autograd import kernels as k
from tests.autograd.test_random_tapes import record
from tests.sweeps import cases

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
import net

QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False}


@wp.kernel
def chaotic(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    b = 0.3
    for _ in range(200):
        c = 1.0 - 1.4 * a * a + b
        b = 0.3 * a
        a = c
    y[i] = a


@wp.kernel
def cancels(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    b = (x[i] + 10000000000.0 * x[i] * x[i]) - 10000000000.0 * x[i] * x[i]
    y[i] = b


RIGHT = [
    k.square, k.cube, k.except_thread_0, k.shifted, k.fast_sine, k.absolute, k.relu, k.floor_plus, k.logistic,
    k.cancelling, k.times, k.total, chaotic, cancels, k.constant,
]  # fmt: skip


@pytest.mark.parametrize("kernel", RIGHT, ids=lambda kernel: kernel.key)
def test_right_kernels_agree(kernel: Any) -> None:
    x, y = k.vector(np.linspace(0.1, 0.9, 5)), k.vector(np.ones(5))
    result = gradcheck(kernel, 5, [x], [y], **QUIET)
    assert result.dot_product is not None
    assert result.dot_product.agrees, str(result.dot_product)
    assert result.dot_product.message == ""
    assert not any("dot-product" in note for note in result.coverage.notes)


@pytest.mark.parametrize("seed", range(cases(full=24, sample=14)))
def test_random_tapes_agree_where_values_are_preserved(seed: int) -> None:
    tape, loss, _ = record(seed, "preserve")
    test = end_to_end(tape, loss).dot_product
    assert test is not None and test.mismatch < 1e-13
    assert all(dot.mismatch < 1e-13 for dot in gradcheck_tape(tape, **QUIET).dot_products)
    tape, loss, _ = record(seed, "ignore")
    lost = end_to_end(tape, loss)
    assert lost.dot_product is not None
    if lost.verdict == "WRONG":
        assert not lost.dot_product.agrees
        assert lost.dot_product.launch is not None


def test_the_test_of_a_tape_makes_one_replay_for_each_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, loss, _ = record(3, "preserve")
    program = whole_tape(tape, loss, None, None)
    before, made = Shadow.__init__, []

    def noted(self: Shadow, *args: Any) -> None:
        made.append(self)
        before(self, *args)

    monkeypatch.setattr(Shadow, "__init__", noted)
    found = dot_test(program)
    assert found is not None and found.agrees
    assert len(made) == 2
    other = whole_tape(tape, loss, None, None)
    assert all(
        np.array_equal(program.values(a), other.values(b))
        for a, b in zip(program.inputs, other.inputs, strict=True)
    )
    assert len(made) == 3


def test_a_wrong_adjoint_names_the_kernel() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    result = gradcheck(k.with_adjoint_of(k.square, k.off_by_2_percent), 2, [x], [y], **QUIET)
    test = result.dot_product
    assert test is not None and not test.agrees
    assert test.mismatch == pytest.approx(0.02 / 1.02, rel=1e-6)
    assert test.reverse == pytest.approx(1.02 * test.forward, rel=1e-6)
    assert result.coverage.notes == (test.message,)
    assert test.message == (
        f"dot-product test: ⟨w, J v⟩ = {test.forward:.6g}, ⟨Jᵀ w, v⟩ = {test.reverse:.6g}, relative mismatch "
        "0.02: the reverse pass of kernel square is not the transpose of its derivative"
    )


def test_an_error_below_the_tolerance_is_seen_and_fails_nothing() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    broken = k.with_adjoint_of(k.square, k.off_by_2_percent)
    result = gradcheck(broken, 2, [x], [y], rtol=0.05, **QUIET)
    assert result.verdict == "AGREE"
    assert result.dot_product is not None and not result.dot_product.agrees
    assert result.dot_product.message in result.summary()


def with_tangent_of(forward: Any, other: Any) -> Any:
    broken, donor = k.fresh(forward), k.fresh(other)
    broken.tangent = donor.tangent
    return broken


def test_a_wrong_tangent_is_seen_and_fails_nothing() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    result = gradcheck(with_tangent_of(k.square, k.doubled), 2, [x], [y], **QUIET)
    assert result.verdict == "AGREE"
    assert result.dot_product is not None
    assert result.dot_product.forward == pytest.approx(2 * result.dot_product.reverse)
    assert not result.dot_product.agrees


def test_a_rule_that_is_wrong_on_both_sides_passes() -> None:
    """A limit of the test: tangent and adjoint share their partial derivatives."""
    broken = k.with_adjoint_of(k.square, k.doubled)
    broken.tangent = k.fresh(k.doubled).tangent
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    result = gradcheck(broken, 2, [x], [y], **QUIET)
    assert result.verdict == "WRONG"
    assert result.dot_product is not None and result.dot_product.agrees


def forgetting(kernel: Any) -> Any:
    """A kernel whose adjoint zeroes the gradient of x before it adds to it."""
    broken = k.fresh(kernel)
    real = broken.adjoint

    def adjoint(active: Any, *, f64: bool = False, **options: Any) -> Any:
        entry = real(active, f64=f64, **options)

        def run(lo: int, hi: int, args: int) -> None:
            pointer = ctypes.c_uint64.from_address(args + 8 * broken.layout.adjoints[0]).value
            scalar = ctypes.c_double if f64 else ctypes.c_float
            np.ctypeslib.as_array((scalar * 2).from_address(pointer))[:] = 0
            entry(lo, hi, args)

        return run

    broken.adjoint = adjoint
    return broken


@pytest.mark.parametrize("guilty", range(5))
def test_a_launch_that_does_not_accumulate_is_named(guilty: int) -> None:
    x, loss = k.vector([1.0, 2.0]), k.vector([0.0])
    ys = [k.vector([0.0, 0.0]) for _ in range(6)]
    tape = wp.Tape()
    with tape:
        for index, y in enumerate(ys):
            wp.launch(forgetting(k.square) if index == guilty else k.square, 2, [x, y])
        for y in ys:
            wp.launch(k.total, 2, [y, loss])
    test = end_to_end(tape, loss).dot_product
    assert test is not None
    assert test.launch == guilty
    assert test.message.endswith(
        f"the reverse pass of launch {guilty} (square) is not the transpose of its derivative"
    )


def test_a_launch_alone_accumulates_from_nothing_so_the_check_one_by_one_says_nothing() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x, y])
        wp.launch(k.with_adjoint_of(k.cube, k.square), 2, [y, x])
    result = gradcheck_tape(tape, **QUIET)
    assert [test.agrees for test in result.dot_products] == [True, False]
    assert result.dot_product is result.dot_products[1]
    assert result.dot_product.launch == 1
    assert result.dot_product.message.endswith(
        "the reverse pass of launch 1 (cube) is not the transpose of its derivative"
    )
    assert result.dot_product.message in result.coverage.notes


def test_a_launch_within_a_function_is_named() -> None:
    broken = k.with_adjoint_of(k.cube, k.square)

    def function(x: Any) -> Any:
        y, z = wp.zeros_like(x), wp.zeros_like(x)
        wp.launch(k.square, 2, [x, y])
        wp.launch(broken, 2, [y, z])
        return z

    result = gradcheck(function, inputs=[k.vector([1.0, 2.0])], **QUIET)
    assert result.verdict == "WRONG"
    assert result.dot_product is not None
    assert result.dot_product.message.endswith(
        "the reverse pass of launch 1 (cube) is not the transpose of its derivative"
    )


@pytest.mark.parametrize("mode", ["ignore", "warn"])
@pytest.mark.filterwarnings("ignore::tapedebug.OverwriteWarning")
def test_the_launch_whose_values_were_overwritten_is_named(mode: str) -> None:
    a, b, c, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([-1.0, -2.0]), k.vector([0.0])
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        wp.launch(k.square, 2, [a, b])
        wp.launch(k.identity, 2, [c, a])
        wp.launch(k.total, 2, [b, loss])
    result = end_to_end(tape, loss)
    test = result.dot_product
    assert test is not None
    assert test.launch == 0
    assert test.message == (
        f"dot-product test: ⟨w, J v⟩ = {test.forward:.6g}, ⟨Jᵀ w, v⟩ = {test.reverse:.6g}, relative mismatch "
        f"{test.mismatch:.1g}: values that the adjoint of launch 0 (square) needs were overwritten before "
        "the reverse pass"
    )
    assert test.message in result.coverage.notes


def test_a_kernel_at_fault_is_named_beside_one_whose_values_were_overwritten() -> None:
    """The search goes on with the values that each launch had: what others overwrote is no fault of it."""
    a, b, c, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([-1.0, -2.0]), k.vector([0.0])
    d = wp.zeros_like(b)
    tape = wp.Tape(on_overwrite="ignore")
    with tape:
        wp.launch(k.with_adjoint_of(k.cube, k.square), 2, [a, b])
        wp.launch(k.square, 2, [b, d])
        wp.launch(k.identity, 2, [c, b])
        wp.launch(k.total, 2, [d, loss])
    test = end_to_end(tape, loss, [a]).dot_product
    assert test is not None
    assert test.launch == 0
    assert test.message.endswith("the reverse pass of launch 0 (cube) is not the transpose of its derivative")


def test_what_was_detached_is_constant_on_both_sides() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0], grad=False), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    test = end_to_end(tape, loss).dot_product
    assert test is not None
    assert (test.agrees, test.forward, test.reverse) == (True, 0.0, 0.0)
    v, out, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.copy(out, wp.clone(v, requires_grad=False))
        wp.launch(k.square, 2, [v, out])
        wp.launch(k.times, 2, [wp.clone(v, requires_grad=False), out])
        wp.launch(k.total, 2, [out, loss])
    test = end_to_end(tape, loss).dot_product
    assert test is not None
    assert test.mismatch < 1e-14
    assert test.forward != 0


def test_a_kernel_without_an_adjoint_is_named() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.no_adjoint, 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    test = end_to_end(tape, loss).dot_product
    assert test is not None
    assert test.message.endswith("launch 0 (no_adjoint) has no adjoint: enable_backward=False")


def test_custom_functions_and_nothing_to_differentiate_give_no_test() -> None:
    x, y = k.vector([1.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 1, [x, y])
        tape.record_func(lambda: None, arrays=[y])
    assert end_to_end(tape, y).dot_product is None
    constant = k.vector([1.0], grad=False)
    assert gradcheck(k.square, 1, [constant], [y], **QUIET).dot_product is None


def test_derivatives_that_are_not_finite_are_not_evidence() -> None:
    x, y = k.vector([0.0, 1.0]), k.vector([0.0, 0.0])
    test = gradcheck(k.root, 2, [x], [y], **QUIET).dot_product
    assert test is not None
    assert (test.agrees, test.message, str(test)) == (
        False, "", "dot-product test: the derivatives are not finite",
    )  # fmt: skip


@pytest.mark.parametrize(
    "buffers, mode, agrees", [("pingpong", "preserve", True), ("pingpong", "ignore", False)]
)
def test_the_net(buffers: str, mode: str, agrees: bool) -> None:
    throw = wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(), throw, buffers, on_overwrite=mode)
    result = end_to_end(tape, loss, labels={throw: "throw"})
    assert result.dot_product is not None
    assert result.dot_product.agrees == agrees
    assert (str(result.dot_product) in str(result)) and str(result).count("dot-product test") == 1
