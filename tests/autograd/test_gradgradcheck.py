"""`gradgradcheck`: second derivatives that are right, wrong, at kinks, and beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckFailure, GradcheckResult, gradcheck, gradgradcheck
from tests import forked
from tests.autograd import kernels as k
from tests.processes import ROOT

QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False}


def check(kernel: Any, values: Any, **options: Any) -> GradcheckResult:
    x = k.vector(values)
    return gradgradcheck(kernel, len(x), [x], [k.vector(np.ones(len(x)))], **{**QUIET, **options})


@wp.kernel
def sine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def exponential(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.exp(x[i])


@wp.kernel
def norms(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.length(x[i])


@wp.kernel
def coupled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for j in range(3):
        total += x[j] * x[i]
    y[i] = wp.sin(total)


# ------------------------------------------------------------------ right ones


@pytest.mark.parametrize(
    "kernel, values",
    [
        (k.cube, [1.0, 100.0, 1000.0]),
        (sine, [0.0, 0.7, 3.0]),
        (exponential, [-2.0, 0.0, 3.0]),
        (coupled, [0.3, -0.7, 1.1]),
        (k.identity, [1e3, 1e5]),
        (k.absolute, [1e-2, -1e-5]),
        (k.times, [0.5, 3.0]),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
def test_right_second_derivatives_agree(kernel: Any, values: list) -> None:
    result = check(kernel, values)
    assert result.verdict == "AGREE", result.summary()
    assert {pair.check for pair in result.pairs} == {"second derivative"}
    assert result.subject == f"the gradient of kernel {kernel.key}"


def test_pairs_are_by_inputs_and_by_adjoints_of_outputs() -> None:
    result = check(k.cube, [1.0, 2.0])
    assert [(pair.input, pair.output) for pair in result.pairs] == [("x", "grad x"), ("grad y", "grad x")]
    assert str(result.coverage) == "2 input-output pairs checked, 8 of 8 entries"
    assert result.conclusion() == "Gradient check for the gradient of kernel cube passed"
    found = result.pairs[0].compared
    assert found is not None
    np.testing.assert_allclose(found.dense(found.ad), found.dense(found.fd), rtol=1e-5)
    weights = check(k.cube, [1.0, 2.0], grad_outputs=[10.0, 100.0]).pairs[0].compared
    assert weights is not None
    np.testing.assert_allclose(weights.dense(weights.fd), np.diag([60.0, 1200.0]), rtol=1e-8)


def test_vectors_structs_and_functions() -> None:
    x = wp.array([[1.0, 2.0, 2.0], [0.1, -0.5, 0.3]], dtype=wp.vec3, requires_grad=True)
    assert gradgradcheck(norms, 2, [x], [k.vector([0.0, 0.0])], **QUIET)

    def function(x: Any) -> list:
        y, z = wp.zeros_like(x), wp.zeros_like(x)
        wp.launch(sine, 2, [x, y])
        wp.launch(k.cube, 2, [y, z])
        wp.launch(k.cube, 2, [z, y])  # an array that is overwritten
        return [y, z]

    result = gradgradcheck(function, inputs=[k.vector([0.5, 1.0])], **QUIET)
    assert result.verdict == "AGREE", result.summary()
    assert [pair.input for pair in result.pairs] == ["x", "grad output_0", "grad output_1"]


@pytest.mark.parametrize("dtype", [wp.float64, wp.float16])
def test_other_precisions(dtype: Any) -> None:
    @wp.kernel
    def cubed(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = x[i] * x[i] * x[i]

    x = wp.array([0.5, 1.5], dtype=dtype, requires_grad=True)
    assert gradgradcheck(cubed, 2, [x], [wp.zeros_like(x)], **QUIET)


def test_nothing_of_the_caller_changes() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([3.0, 4.0])
    x.grad.fill_(5.0)
    with wp.Tape() as tape:
        assert gradgradcheck(k.cube, 2, [x], [y], check_grad_dtypes=True, **QUIET)
    assert not tape.records
    assert [a.numpy().tolist() for a in (x, y, x.grad, y.grad)] == [[1, 2], [3, 4], [5, 5], [0, 0]]


# ------------------------------------------------------------------ wrong ones


@wp.func
def tangent_line(x: float):
    return x * x * x


@wp.func_grad(tangent_line)
def adj_tangent_line(x: float, adj_ret: float):
    wp.adjoint[x] += 6.0 * x * adj_ret  # 3 x² at x = 2 only


@wp.kernel
def right_at_2(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = tangent_line(x[i])


def test_an_adjoint_that_is_right_at_these_values_only() -> None:
    """Its tangent is consistent with it, but it is the adjoint of another function."""
    x, y = k.vector([2.0, 2.0]), k.vector([0.0, 0.0])
    assert gradcheck(right_at_2, 2, [x], [y], show_summary=False)
    result = gradgradcheck(right_at_2, 2, [x], [y], **QUIET)
    assert [(pair.check, pair.verdict) for pair in result.pairs] == [
        ("second derivative", "AGREE"),
        ("second derivative", "AGREE"),
        ("second derivative of the function", "WRONG"),
    ]
    assert result.pairs[-1].message == (
        "⟨u, H v⟩ is -4.30967239 by the tangent of the adjoint, and -8.61934478 ± 1e-09 by differences of "
        "the tangent of the function itself: the adjoint is not that of this function beside these values"
    )
    with pytest.raises(GradcheckFailure, match="second derivative of the function: ⟨u, H v⟩ is"):
        gradgradcheck(right_at_2, 2, [x], [y], show_summary=False)


@wp.func
def storing(x: wp.array(dtype=float), slopes: wp.array(dtype=float), i: int):
    slopes[i] = 3.0 * x[i] * x[i]
    return x[i] * x[i] * x[i]


@wp.func_grad(storing)
def adj_storing(x: wp.array(dtype=float), slopes: wp.array(dtype=float), i: int, adj_ret: float):
    wp.adjoint[x][i] += slopes[i] * adj_ret


@wp.kernel
def through_a_constant(x: wp.array(dtype=float), slopes: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = storing(x, slopes, i)


def test_an_adjoint_whose_own_derivative_is_cut() -> None:
    """The slopes go through an array without a gradient: right in first order, constant in second."""
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    slopes = wp.zeros(2, dtype=float)
    assert gradcheck(through_a_constant, 2, [x, slopes], [y], show_summary=False)
    result = gradgradcheck(through_a_constant, 2, [x, slopes], [y], grad_outputs={y: [1.0, 1.0]}, **QUIET)
    assert (result.verdict, result.pairs[0].verdict) == ("WRONG", "WRONG")
    assert result.pairs[0].message == (
        "d grad x[1] / d x[1]: AD 0, FD 12 ± 7e-10; 2 of 4 entries differ by more than the tolerance; AD is "
        "0 × FD in each: the chain is severed, or the term is missing"
    )


def test_an_adjoint_that_is_not_linear_in_its_seed() -> None:
    @wp.func
    def f(x: float):
        return x * x

    @wp.func_grad(f)
    def adj_f(x: float, adj_ret: float):
        wp.adjoint[x] += 2.0 * x * wp.abs(adj_ret)

    @wp.kernel
    def bent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = f(x[i])

    result = check(bent, [1.0, 2.0], grad_outputs=[-1.0, 1.0])
    by_seed = result.pairs[1]
    assert (by_seed.input, by_seed.verdict) == ("grad y", "WRONG")
    assert by_seed.message.startswith("d grad x[0] / d grad y[0]: AD 2, FD -2 ± ")


def test_chaos_is_undecidable() -> None:
    assert check(k.logistic, [0.3, 0.4]).verdict == "UNDECIDABLE"


def test_what_is_not_finite_is_wrong() -> None:
    result = check(k.root, [0.0, 1.0])
    assert result.verdict == "WRONG"
    assert result.pairs[0].message.startswith("d grad x[0] / d x[0]: AD nan, FD nan ± inf; ")


def test_a_kink_of_the_function_is_a_jump_of_its_gradient() -> None:
    result = check(k.absolute, [0.0, 1.0])
    assert (result.verdict, bool(result)) == ("KINK", False)
    assert result.pairs[0].message.endswith(
        "; the function jumps here: no derivative exists (1 of 4 entries)"
    )


def test_reverse_passes_that_differ() -> None:
    rng = np.random.default_rng(0)
    noisy = k.with_seeds(k.square, lambda seeds: seeds.__imul__(rng.uniform(0.9, 1.1)), 2)
    result = check(noisy, [1.0, 2.0])
    assert result.verdict == "NONDETERMINISTIC"
    assert result.pairs[0].message.startswith("two reverse passes on the same values differ by ")
    assert result.pairs[0].message.endswith(" in grad x: no difference quotient means anything")
    assert check(noisy, [1.0, 2.0], nondet_tol=10.0, fast_mode=True).verdict != "NONDETERMINISTIC"


# ------------------------------------------------------------------ beside PyTorch

TWINS: dict[str, tuple[Any, list, Callable[[Any, Any], Any]]] = {
    "x³": (k.cube, [1.0, 2.0, -3.0], lambda t, x: x * x * x),
    "sin": (sine, [0.0, 0.7, 3.0], lambda t, x: t.sin(x)),
    "exp": (exponential, [-2.0, 0.0, 1.0], lambda t, x: t.exp(x)),
    "abs at 0": (k.absolute, [0.0, 1.0], lambda t, x: t.abs(x)),
}


@pytest.mark.peer
@pytest.mark.parametrize("name", TWINS)
def test_verdicts_beside_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    kernel, values, twin = TWINS[name]
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    w = torch.linspace(0.5, 1.5, len(values), dtype=torch.float64, requires_grad=True)
    theirs = torch.autograd.gradgradcheck(lambda x: twin(torch, x), (x,), (w,), raise_exception=False)
    ours = check(kernel, values, grad_outputs=w.detach().numpy())
    assert bool(ours) is theirs is (name != "abs at 0")
    if theirs:
        (first,) = torch.autograd.grad(twin(torch, x), x, w, create_graph=True)
        second = [torch.autograd.grad(g, x, retain_graph=True, allow_unused=True)[0] for g in first]
        found = ours.pairs[0].compared
        assert found is not None
        np.testing.assert_allclose(found.dense(found.fd), np.stack([s.numpy() for s in second]), atol=1e-7)


@pytest.mark.peer
def test_a_cut_second_derivative_is_wrong_here_and_there() -> None:
    torch = pytest.importorskip("torch")

    class Cut(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.slope = (3 * x * x).detach()
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.slope * g

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Cut.apply, (x,))
    assert not torch.autograd.gradgradcheck(Cut.apply, (x,), raise_exception=False)
    given = [k.vector([1.0, 2.0]), wp.zeros(2, dtype=float)]
    assert not gradgradcheck(through_a_constant, 2, given, [k.vector([0.0, 0.0])], **QUIET)


# ------------------------------------------------------------------ options and errors


def test_options_of_the_first_pass() -> None:
    result = check(k.cube, [1.0, 2.0], check_grad_dtypes=True, check_batched_grad=True)
    assert [pair.check for pair in result.pairs] == [
        *["second derivative"] * 2, "batched adjoint", "gradient dtype"
    ]  # fmt: skip
    assert result


def test_fast_mode_takes_random_directions() -> None:
    result = check(k.cube, np.linspace(0.5, 1.5, 50), fast_mode=True)
    assert result
    assert [pair.evaluated for pair in result.pairs] == [150, 150]
    assert result.coverage.notes[0] == (
        "x → grad x: fast_mode: second derivatives along 3 random directions were compared, not single "
        "entries"
    )


def test_adjoints_that_lie_apart() -> None:
    assert check(k.cube, [1.0, 2.0, 3.0], gen_non_contig_grad_outputs=True)


def test_adjoints_of_some_outputs_only() -> None:
    @wp.kernel
    def both(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i]
        z[i] = x[i] * x[i] * x[i]

    x, y, z = (k.vector([1.0, 2.0]) for _ in range(3))
    for given in ([None, [1.0, 1.0]], {z: k.vector([1.0, 1.0])}):
        result = gradgradcheck(both, 2, [x], [y, z], given, **QUIET)
        assert result
        found = result.pairs[0].compared
        assert found is not None
        np.testing.assert_allclose(found.dense(found.fd), np.diag([6.0, 12.0]), rtol=1e-8)
    assert gradgradcheck(both, 2, [x], [y, z], **QUIET)


@pytest.mark.parametrize(
    "options, message, hint",
    [
        (
            {"check_rev_over_rev": True},
            "gradgradcheck: check_rev_over_rev=True: a reverse pass cannot be reversed here; second "
            "derivatives are tangents of adjoints (forward over reverse)",
            "leave it at False: check_fwd_over_rev checks the same derivatives",
        ),
        (
            {"check_fwd_over_rev": False},
            "gradgradcheck: nothing is left to check: check_fwd_over_rev and check_rev_over_rev are False",
            "leave check_fwd_over_rev at True",
        ),
        (
            {"grad_outputs": [[1.0], [2.0]]},
            "gradgradcheck: the adjoint of y has shape (2, 1); the output has (1,)",
            "pass values of the output's shape, components last",
        ),
        (
            {"grad_outputs": {"y": [1.0]}},
            "gradgradcheck: grad_outputs names 'y', which is no output with a gradient; those are y",
            "map output arrays to values of their shape",
        ),
        (
            {"grad_outputs": "abc"},
            "gradgradcheck: the adjoint of y is an array or numbers; got 'abc'",
            "pass values of the output's shape, components last",
        ),
        ({"nondet_tol": -1.0}, "nondet_tol must not be negative; got -1.0", None),
        ({"eps": 0.0}, "eps, the largest step, must be positive; got 0.0", "leave it at 1e-4"),
    ],
)
def test_what_can_not_be_asked(options: dict, message: str, hint: str | None) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        check(k.square, [1.0], **options)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


def test_tapes_are_for_hvp_check() -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        gradgradcheck(wp.Tape())
    assert caught.value.message == "gradgradcheck: it takes a kernel or a function, not a tape"
    assert caught.value.hint == (
        "use hvp_check(tape, loss=…), or a function that launches what is on the tape"
    )


def test_adjoints_for_each_of_several_outputs() -> None:
    @wp.kernel
    def both(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i]
        z[i] = x[i]

    x, y, z = (k.vector([1.0]) for _ in range(3))
    with pytest.raises(wp.GradcheckError) as caught:
        gradgradcheck(both, 1, [x], [y, z], [[1.0]])
    assert caught.value.message == (
        "gradgradcheck: grad_outputs has 1 entries for 2 outputs with a gradient (y, z)"
    )


def test_what_covered_nothing_is_no_agreement() -> None:
    x = k.vector([1.0], grad=False)
    result = gradgradcheck(k.square, 1, [x], [k.vector([0.0])], **QUIET)
    assert (result.verdict, result.pairs) == ("UNDECIDABLE", ())
    assert check(k.no_adjoint, [1.0]).verdict == "UNDECIDABLE"
    result = check(k.square, [1.0, 2.0], max_seconds=1e-9)
    assert [pair.message for pair in result.pairs] == ["not checked: time was up (max_seconds=1e-09)"] * 2


def test_a_script_shows_the_failure(tmp_path: Any) -> None:
    x, y = k.vector([2.0, 2.0]), k.vector([0.0, 0.0])
    result = gradgradcheck(right_at_2, 2, [x], [y], **QUIET)
    path = tmp_path / "failure.py"
    path.write_text(result.reproduce(), encoding="utf-8")
    done = forked.run([str(path)], ROOT)
    assert (done.returncode, done.stderr) == (1, "")
    assert result.pairs[-1].message in done.stdout
