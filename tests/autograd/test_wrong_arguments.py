"""Messages of checks about arguments that make no sense: the value given, and the hint."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug import GradcheckError
from tapedebug.autograd import end_to_end, gradcheck, gradcheck_tape, jacobian, jacobian_fd
from tapedebug.autograd.sparse import memory_budget
from tests.autograd import kernels as k

REQUIRES_GRAD = "set requires_grad=True on the arrays whose gradients are wanted, and name them"


def refused(function: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(GradcheckError) as caught:
        function(*args, **more)
    return str(caught.value)


def arrays() -> tuple[Any, Any]:
    return k.vector([1.0, 2.0, 3.0]), k.vector([0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "option, text",
    [
        ({"eps": "a"}, "eps, the largest step, must be positive; got 'a'"),
        ({"eps": float("inf")}, "eps, the largest step, must be positive; got inf"),
        ({"rtol": "1e-3"}, "tolerances must not be negative; got atol=0.001, rtol='1e-3'"),
        ({"nondet_tol": "0"}, "nondet_tol must not be negative; got '0'"),
        ({"max_inputs_per_var": 1.5}, "gradcheck: max_inputs_per_var is an integer; got 1.5"),
        ({"max_outputs_per_var": "2"}, "gradcheck: max_outputs_per_var is an integer; got '2'"),
        ({"complex": True}, "kernel square: complex=True, but no argument is an array of vec2"),
    ],
)
def test_options_of_a_wrong_type(option: Any, text: str) -> None:
    x, y = arrays()
    assert refused(gradcheck, k.square, 3, [x], [y], **option).splitlines()[0] == text


def test_limits_of_jacobians() -> None:
    x, y = arrays()
    assert refused(jacobian, k.square, 3, [x], [y], max_outputs_per_var="2") == (
        "jacobian: max_outputs_per_var is an integer; got '2'\n  = hint: -1 evaluates all"
    )
    assert refused(jacobian_fd, k.square, 3, [x], [y], max_inputs_per_var=0.5) == (
        "jacobian_fd: max_inputs_per_var is an integer; got 0.5\n  = hint: -1 evaluates all"
    )


@pytest.mark.parametrize("loss", ["loss", 3.0])
def test_a_loss_that_is_no_array(loss: Any) -> None:
    x, y = arrays()
    with wp.Tape() as tape:
        wp.launch(k.square, 3, [x], [y])
    assert refused(end_to_end, tape, loss) == (
        f"end_to_end: the loss is an array, or {{array: seed}}; got {loss!r}\n"
        "  = hint: pass the array of one element that the tape computes"
    )


def test_why_nothing_was_checked() -> None:
    x, y = arrays()
    empty = wp.zeros(0, dtype=float, requires_grad=True)
    failed = "Gradient check for kernel square failed: UNDECIDABLE: nothing was checked: "
    assert refused(gradcheck, k.square, 0, [x], [y], show_summary=False) == (
        f"{failed}no thread runs\n"
        "  = note: not checked: kernel square has dim=0: no thread runs\n"
        "  = hint: pass dim=len(array), or its shape"
    )
    assert refused(gradcheck, k.square, 3, [x], [y], input_output_mask=[], show_summary=False) == (
        f"{failed}the mask is empty\n"
        "  = note: not checked: the input-output mask is empty\n"
        "  = hint: name a pair, or leave input_output_mask out"
    )
    assert refused(gradcheck, k.square, 3, [np.ones(3, np.float32)], [y], show_summary=False) == (
        f"{failed}no pair of an input and an output with requires_grad=True\n"
        "  = note: not checked: x is a NumPy array, which has no gradient\n"
        "  = hint: pass wp.array(values, dtype=float, requires_grad=True) in its place"
    )
    assert refused(gradcheck, k.square, 1, [empty], [y], show_summary=False) == (
        f"{failed}no array holds anything\n"
        "  = note: not checked: x is empty\n"
        "  = hint: pass arrays that hold something"
    )
    assert refused(gradcheck_tape, wp.Tape(), show_summary=False) == (
        "Gradient check for tape of 0 launches failed: UNDECIDABLE: nothing was checked: the tape is empty\n"
        "  = hint: run the launches inside `with tape:`"
    )


@wp.kernel(enable_backward=False)
def forward_only(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def test_tangents_and_differences_need_no_adjoint() -> None:
    x, y = arrays()
    expected = np.diag([2.0, 4.0, 6.0])
    assert np.array_equal(jacobian(forward_only, 3, [x], [y], mode="tangent")[0, 0].numpy(), expected)
    assert np.allclose(jacobian_fd(forward_only, 3, [x], [y])[0, 0].numpy(), expected)
    assert refused(jacobian, forward_only, 3, [x], [y]) == (
        "kernel forward_only has no Jacobian to compute: no pair of a differentiable input and output\n"
        "  = note: not checked: kernel forward_only has no adjoint: enable_backward=False\n"
        "  = hint: define the kernel with enable_backward=True; check_forward_ad=True, "
        "check_backward_ad=False checks its tangent"
    )


def test_a_dense_jacobian_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "available_memory", lambda: 2.0 * 2**30)
    x = wp.zeros(300_000, dtype=float, requires_grad=True)
    for function in (jacobian, jacobian_fd):
        assert refused(function, k.square, len(x), [x], [wp.zeros_like(x)]) == (
            "kernel square: d y / d x, 300000 × 300000 numbers as a dense array, takes 335 GiB of memory, of "
            "which 2 GiB are free\n"
            "  = hint: pass sparse=True, or choose entries and check them with gradcheck, which stores none"
        )


def test_free_memory_is_the_least_of_machine_and_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=9216, available=4096))
    monkeypatch.setattr(memory_budget, "CGROUP", tmp_path)
    assert memory_budget.available_memory() == 4096
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert memory_budget.available_memory() == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_budget.available_memory() == 4096


def test_the_dot_product_of_exact_numbers_says_so() -> None:
    x, y = arrays()
    with wp.Tape() as tape:
        wp.launch(k.square, 3, [x], [y])
    dot = end_to_end(tape, {y: [1.0, 1.0, 1.0]}).dot_product
    assert dot is not None
    expected = "exactly" if dot.mismatch == 0 else f"to {dot.mismatch:.0e}"
    assert str(dot) == f"dot-product test: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩ {expected}"
    assert str(type(dot)(1.0, 1.0, 0.0)) == "dot-product test: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩ exactly"
