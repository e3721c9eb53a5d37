"""`nondet_tol`, `fast_mode`, `masked`, `reference` of `gradcheck`; and what PyTorch says of the same."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck, gradcheck_tape, gradgradcheck
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.options import Options
from tests.autograd import kernels as k
from tests.autograd.test_extra_checks import check, with_affine, with_tangent_of


@wp.kernel
def sigmoid(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0 / (1.0 + wp.exp(-x[i]))


MANY = np.linspace(0.5, 1.5, 300)

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def shaky(share: float) -> Any:
    """x² with an adjoint that is off by up to `share`, each time by another amount."""
    rng = np.random.default_rng(0)
    return k.with_seeds(k.square, lambda seeds: seeds.__imul__(1 + share * rng.uniform(-1, 1)), 2)


@wp.kernel
def leaking(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + 0.01 * x[(i + 1) % 300]


@pytest.mark.parametrize("function", [gradcheck, gradcheck_tape, gradgradcheck])
def test_every_option_reaches_the_plan_and_has_one_default(function: Callable[..., Any]) -> None:
    given = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    plan = CheckPlan.of(given)
    assert plan.options == Options()
    shared = plan.settings().keys() & given.keys() - {"masked"}
    assert {name: given[name] for name in shared} == {name: plan.settings()[name] for name in shared}
    others = plan.settings().keys() - given.keys()
    assert not others or function is gradgradcheck
    changed = CheckPlan.of(given | {"eps": 1e-3, "max_outputs_per_var": 7, "nondet_tol": 0.5, "masked": True})
    assert changed == CheckPlan(1e-3, plan.tolerance, -1, 7, options=Options(nondet_tol=0.5, masked=True))


# ------------------------------------------------------------------ nondet_tol


def test_reverse_passes_that_differ_by_more_than_nondet_tol() -> None:
    result = check(shaky(1e-2), [1.0, 2.0])
    assert result.verdict == "NONDETERMINISTIC"
    assert result.pairs[0].message.startswith("two reverse passes on the same values differ by ")
    assert result.pairs[0].message.endswith(" relative in the gradient of x")
    assert check(shaky(1e-3), [1.0, 2.0], nondet_tol=0.1)


def test_nondet_tol_of_forward_runs() -> None:
    noisy = k.with_noise(k.square, 2)
    assert check(noisy, [1.0, 2.0]).verdict == "NONDETERMINISTIC"
    assert check(noisy, [1.0, 2.0], nondet_tol=100.0).verdict != "NONDETERMINISTIC"


# ------------------------------------------------------------------ fast_mode


def test_fast_mode_compares_combinations_of_all_entries() -> None:
    result = check(k.square, MANY, fast_mode=True)
    assert result
    assert str(result.coverage) == (
        "1 input-output pairs checked, 0 of 90000 entries one by one, 90000 in 12 random combinations\n"
        "  - x → y: 3 random directions and 4 seeds of all 300 × 300 entries were compared, none by itself "
        "(fast_mode)"
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("fast", [False, True])
def test_an_input_that_is_not_finite_agrees_with_nothing(value: float, fast: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = check(sigmoid, [0.5, value, -1.0], fast_mode=fast)
        text = str(result)
    assert result.verdict == ("UNDECIDABLE" if value == np.inf else "WRONG")
    assert f"x[1] is {value} to begin with" in text
    assert "12 of 9" not in text
    if fast and value == np.inf:
        assert "1 input is not finite, and not in these combinations; the others agree" in text


@pytest.mark.parametrize("size", [1, 3, 50])
def test_fast_mode_claims_no_more_entries_than_there_are(size: int) -> None:
    text = str(check(k.square, [0.5] * size, fast_mode=True).coverage)
    assert f"0 of {size * size} entries one by one, {size * size} in 12 random combinations" in text


def test_fast_mode_names_the_entry_that_is_off() -> None:
    def forget_one(seeds: np.ndarray) -> None:
        seeds[171] = 0.0

    result = check(k.with_seeds(k.square, forget_one, 300), MANY, fast_mode=True)
    assert result.verdict == "WRONG"
    assert result.pairs[0].message.startswith("d y[171] / d x[171]: AD 0, FD 2.14381 ± ")


def test_fast_mode_of_a_tape() -> None:
    x, y, z = k.vector(MANY), k.vector(MANY), k.vector(MANY)
    with wp.Tape() as tape:
        wp.launch(k.square, 300, [x, y])
        wp.launch(k.with_adjoint_of(k.cube, k.square), 300, [y, z])
    result = gradcheck_tape(tape, fast_mode=True, show_summary=False, raise_exception=False)
    assert [(pair.launch, pair.verdict) for pair in result.pairs] == [(0, "AGREE"), (1, "WRONG")]


# ------------------------------------------------------------------ masked


def test_masked_leaves_out_what_the_traced_sparsity_has_as_zero() -> None:
    broken = k.with_adjoint_of(k.square, leaking)
    result = check(broken, MANY)
    assert result.verdict == "WRONG"
    assert ": AD 0.01, FD 0 ± " in result.pairs[0].message
    masked = check(broken, MANY, masked=True)
    assert masked.verdict == "AGREE"
    assert masked.pairs[0].evaluated == 300
    assert masked.coverage.notes[0] == (
        "x → y: 89700 entries outside of the traced sparsity were left out (masked=True)"
    )
    assert check(k.with_adjoint_of(k.square, k.doubled), MANY, masked=True).verdict == "WRONG"


# ------------------------------------------------------------------ reference


def test_the_plain_differences_of_the_documents() -> None:
    """They are off by 28 % for x³ at 1000, and so a right kernel fails."""
    assert check(k.cube, [1.0, 1000.0])
    result = check(k.cube, [1.0, 1000.0], reference="float32")
    assert result.verdict == "WRONG"
    assert result.pairs[0].message.startswith("d y[1] / d x[1]: AD 3e+06, FD 3.84e+06 ± 0; ")
    assert result.coverage.notes == (
        "x → y: compared with one float32 difference at eps=0.0001, which has no error bar",
    )
    assert check(k.square, [1.0, 2.0], reference="float32", eps=1e-2)


# ------------------------------------------------------------------ beside PyTorch

Made = Callable[[Any], Any]


def custom(
    forward: Made, backward: Callable[[Any, Any], Any], jvp: Callable[[Any, Any], Any] | None = None
) -> Any:
    """An operation of PyTorch with derivatives of its own."""
    torch = pytest.importorskip("torch")

    class Operation(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return backward(ctx.saved_tensors[0], g)

        @staticmethod
        def jvp(ctx: Any, dot: Any) -> Any:
            return (jvp or (lambda x, dot: 2 * x * dot))(ctx.saved_tensors[0], dot)

    return Operation.apply


def both(ours: Any, theirs: Any, **options: Any) -> tuple[bool, bool]:
    """Return the results of both for x² at 1 and 2."""
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    found = torch.autograd.gradcheck(theirs, (x,), raise_exception=False, **options)
    return bool(check(ours, [1.0, 2.0], **options)), found


@pytest.mark.peer
def test_right_and_wrong_operations_beside_torch() -> None:
    right = custom(lambda x: x * x, lambda x, g: 2 * x * g)
    wrong = custom(lambda x: x * x, lambda x, g: 4 * x * g)
    every: dict[str, Any] = {"check_forward_ad": True, "check_grad_dtypes": True}
    for options in ({}, every, {"fast_mode": True}, {"check_undefined_grad": False}):
        assert both(k.square, right, **options) == (True, True), options
        assert both(k.with_adjoint_of(k.square, k.doubled), wrong, **options) == (False, False), options


@pytest.mark.peer
def test_a_wrong_tangent_beside_torch() -> None:
    theirs = custom(lambda x: x * x, lambda x, g: 2 * x * g, lambda x, dot: 4 * x * dot)
    ours = with_tangent_of(k.square, k.doubled)
    assert both(ours, theirs) == (True, True)
    assert both(ours, theirs, check_forward_ad=True) == (False, False)
    only_tangents = {"check_forward_ad": True, "check_backward_ad": False, "check_undefined_grad": False}
    assert both(ours, theirs, **only_tangents) == (False, False)


@pytest.mark.peer
def test_reverse_passes_that_differ_beside_torch() -> None:
    rng = np.random.default_rng(1)
    theirs = custom(lambda x: x * x, lambda x, g: 2 * x * g * (1 + 1e-4 * rng.uniform(-1, 1)))
    assert both(shaky(1e-3), theirs) == (False, False)
    assert both(shaky(1e-4), theirs, nondet_tol=0.1) == (True, True)


@pytest.mark.peer
def test_an_adjoint_that_is_not_zero_for_a_seed_of_zero_beside_torch() -> None:
    """PyTorch multiplies by a seed of zero whatever `check_undefined_grad` is."""
    theirs = custom(lambda x: x * x, lambda x, g: 2 * x * g + 5e-6)
    assert both(with_affine, theirs) == (False, False)
    assert both(with_affine, theirs, check_undefined_grad=False) == (True, False)


@pytest.mark.peer
def test_what_both_refuse() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    for options in (
        {"check_backward_ad": False},
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
        {"check_batched_forward_grad": True},
    ):
        with pytest.raises(AssertionError, match="check_"):
            torch.autograd.gradcheck(lambda x: x * x, (x,), **options)
        with pytest.raises(wp.GradcheckError, match="check_"):
            check(k.square, [1.0, 2.0], **options)
    expanded = torch.ones(1, dtype=torch.float64).expand(4).requires_grad_()
    with pytest.raises(RuntimeError, match="has a dimension with stride 0"):
        torch.autograd.gradcheck(lambda x: x * x, (expanded,))
    memory = np.ones(1, dtype=np.float32)
    mine = wp.array(ptr=memory.ctypes.data, shape=(4,), strides=(0,), dtype=float, requires_grad=True)
    with pytest.raises(wp.GradcheckError, match="x overlaps itself"):
        gradcheck(k.square, 4, [mine], [k.vector(np.zeros(4))])
    with pytest.raises(ValueError, match="none of them have requires_grad=True"):
        torch.autograd.gradcheck(lambda x: x * x, (x.detach(),))
    x1 = k.vector([1.0], grad=False)
    nothing = gradcheck(k.square, 1, [x1], [k.vector([0.0])], show_summary=False, raise_exception=False)
    assert (nothing.verdict, bool(nothing)) == ("UNDECIDABLE", False)
