"""Complex numbers in vec2 arrays: gradients, verdicts and messages, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckResult, gradcheck
from tests.autograd import complex_kernels as c
from tests.autograd import kernels as k

Z = np.array([1.0 + 2.0j, -0.5 + 1.0j, 0.3 - 0.7j])
U = np.array([0.2 - 1.0j, 2.0 + 0.5j, -1.0 - 1.0j])


def held(values: Any) -> Any:
    return wp.array(np.asarray(values), dtype=wp.vec2d, requires_grad=True)


def check(kernel: Any, *inputs: Any, real: bool = False, **options: Any) -> GradcheckResult:
    given = [held(values) for values in inputs]
    out = wp.zeros(len(Z), dtype=wp.float64 if real else wp.vec2d, requires_grad=True)
    quiet = {"show_summary": False, "raise_exception": False, "complex": True, **options}
    return gradcheck(kernel, len(Z), given, [out], **quiet)


# ------------------------------------------------------------------ beside PyTorch

TWINS: dict[str, tuple[Any, Callable[[Any, Any], Any], bool]] = {
    "z²": (c.squared, lambda t, z: z * z, False),
    "conj(z)": (c.conjugated, lambda t, z: z.conj(), False),
    "|z|": (c.modulus, lambda t, z: z.abs(), True),
    "1/z": (c.reciprocal, lambda t, z: 1 / z, False),
    "exp(z)": (c.exponential, lambda t, z: t.exp(z), False),
    "z² + 3 conj(z)": (c.half_real, lambda t, z: z * z + 3 * z.conj(), False),
}


@pytest.mark.peer
@pytest.mark.parametrize("name", TWINS)
def test_gradients_and_verdicts_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    kernel, twin, real = TWINS[name]
    result = check(kernel, Z, real=real)
    z = torch.tensor(Z, requires_grad=True)
    assert bool(result) is torch.autograd.gradcheck(lambda z: twin(torch, z), (z,)) is True
    found = result.pairs[0].wirtinger
    assert found is not None
    for row, column, ad, fd in zip(found.rows, found.columns, found.ad, found.fd, strict=True):
        seed = np.zeros(len(Z), dtype=float if real else complex)
        seed[row if real else row // 2] = 1.0 if real or row % 2 == 0 else 1.0j
        (grad,) = torch.autograd.grad(twin(torch, z), z, torch.tensor(seed))
        assert ad == pytest.approx(complex(grad[column]), abs=1e-12)
        assert fd == pytest.approx(complex(grad[column]), abs=1e-7)


@pytest.mark.peer
def test_a_product_of_two_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    result = check(c.product, Z, U, complex=["z", "u", "w"])
    z, u = torch.tensor(Z, requires_grad=True), torch.tensor(U, requires_grad=True)
    assert bool(result) is torch.autograd.gradcheck(torch.mul, (z, u)) is True
    by_z, by_u = (pair.wirtinger for pair in result.pairs)
    assert by_z is not None and by_u is not None
    gradients = torch.autograd.grad(z * u, (z, u), torch.tensor([1.0 + 0j, 0, 0]))
    assert by_z.ad[0] == pytest.approx(complex(gradients[0][0])) == pytest.approx(np.conj(U[0]))
    assert by_u.ad[0] == pytest.approx(complex(gradients[1][0])) == pytest.approx(np.conj(Z[0]))


@pytest.mark.peer
def test_a_forgotten_conj_is_wrong_here_and_there() -> None:
    torch = pytest.importorskip("torch")

    class Forgetful(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g  # it should be the conj

    z = torch.tensor(Z, requires_grad=True)
    with pytest.raises(RuntimeError, match="While considering the imaginary part of complex outputs only"):
        torch.autograd.gradcheck(Forgetful.apply, (z,))
    assert check(c.without_conj, Z).verdict == "WRONG"


# ------------------------------------------------------------------ what is told


def test_a_forgotten_conj_is_called_so() -> None:
    result = check(c.without_conj, Z)
    assert result.pairs[0].message == (
        "d Re w[0] / d z[0]: AD 2+4i, FD 2-4i ± 3e-10 (∂/∂a + i ∂/∂b of z = a + ib); 6 of 18 complex "
        "entries differ by more than the tolerance; AD is the conjugate of what it should be: the adjoint "
        "multiplies by ∂w/∂z, not by conj(∂w/∂z) (a conjugate is missing, or one too many)"
    )


def test_a_conjugated_gradient_of_a_real_output() -> None:
    result = check(c.modulus_conjugated, Z, real=True)
    assert result.verdict == "WRONG"
    assert result.pairs[0].message.startswith(
        "d r[2] / d z[2]: AD 0.393919+0.919145i, FD 0.393919-0.919145i ± "
    )
    assert result.pairs[0].message.endswith(
        "; 3 of 9 complex entries differ by more than the tolerance; AD is the conjugate of what it should be"
    )


def test_the_adjoint_taken_for_its_conjugate() -> None:
    """The adjoint of a real part is real, which is not wrong."""
    result = check(c.of_the_conjugate, Z)
    assert result.pairs[0].message == (
        "d Im w[1] / d z[1]: AD -2+4i, FD 2-4i ± 5e-10 (∂/∂a + i ∂/∂b of z = a + ib); 3 of 18 complex "
        "entries differ by more than the tolerance; AD takes the adjoint of the output for its conjugate"
    )
    pair = check(c.conjugate_as_identity, Z).pairs[0]
    assert pair.message.endswith("; AD is the conjugate of what it should be")
    assert pair.signature is not None and pair.signature.name == "conjugated"


def test_a_factor_is_no_conjugate() -> None:
    pair = check(c.with_factor, Z).pairs[0]
    message = pair.message
    assert pair.signature is not None and pair.signature.name == "factor"
    assert message.startswith("d Re w[0] / d z[0]: AD 3-6i, FD 2-4i ± ")
    assert message.endswith("; 6 of 18 complex entries differ by more than the tolerance")


@pytest.mark.parametrize(
    "kernel, note",
    [
        (c.squared, "z → w: holomorphic here: abs(∂w/∂z̄) is at most "),
        (c.conjugated, "z → w: not holomorphic: of w[0] by z[0] ∂w/∂z is 0+0i and ∂w/∂z̄ is 1+0i"),
        (c.half_real, "z → w: not holomorphic: of w[0] by z[0] ∂w/∂z is 2+4i and ∂w/∂z̄ is 3+0i"),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
def test_whether_it_is_holomorphic_is_said(kernel: Any, note: str) -> None:
    result = check(kernel, Z)
    assert result
    assert result.coverage.notes[-1].startswith(note)


def test_components_are_called_real_and_imaginary() -> None:
    result = check(c.modulus, [0.0, 1.0 + 1.0j, 2.0], real=True)
    assert result.verdict == "KINK"
    assert result.pairs[0].message.startswith("d r[0] / d Re z[0]: AD ")
    x = wp.array([0.0, 1.0, 2.0], dtype=wp.float64, requires_grad=True)
    reported = gradcheck(c.rotated, 3, [x], [held(Z)], complex="w", show_summary=False)
    assert reported.pairs[0].wirtinger is None  # by a real number


def test_components_of_tangents_are_called_so_too() -> None:
    broken, donor = k.fresh(c.squared), k.fresh(c.conjugated)
    broken.tangent = donor.tangent
    result = check(broken, Z, check_forward_ad=True)
    assert [(pair.check, pair.verdict) for pair in result.pairs] == [
        ("adjoint", "AGREE"),
        ("tangent", "WRONG"),
    ]
    assert result.pairs[1].message.startswith("d Re w[0] / d Im z[0]: AD 0, FD -4 ± ")


def test_many_entries_of_which_only_some_were_looked_at() -> None:
    result = check(c.squared, Z, max_inputs_per_var=3)
    assert result
    found = result.pairs[0].wirtinger
    assert found is not None and len(found.columns) <= 6


def test_without_complex_nothing_changes() -> None:
    plain = check(c.without_conj, Z, complex=None)
    assert plain.pairs[0].message.startswith("d w[0].")
    assert plain.pairs[0].wirtinger is None


def test_a_function_of_complex_numbers_in_float32() -> None:
    @wp.kernel
    def power(z: wp.array(dtype=wp.vec2), w: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        w[i] = wp.vec2(z[i].x * z[i].x - z[i].y * z[i].y, 2.0 * z[i].x * z[i].y)

    def function(z: Any) -> Any:
        w = wp.zeros_like(z)
        wp.launch(power, 3, [z, w])
        return w

    z = wp.array(Z.astype(np.complex64), requires_grad=True)
    assert z.dtype is wp.vec2f
    result = gradcheck(function, inputs=[z], complex=[0, "output_0"], show_summary=False, fast_mode=True)
    assert result
    assert result.coverage.notes[-1].startswith("z → output_0: holomorphic here")


def test_scripts_say_complex() -> None:
    assert "    complex=True,\n" in check(c.without_conj, Z).reproduce()


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "chosen, message, hint",
    [
        (
            ["v"],
            "kernel modulus: complex names the argument 'v'; the arguments are 0: z, 1: r",
            "give names of arguments, or their places among all of them",
        ),
        (
            2,
            "kernel modulus: complex names the argument 2; the arguments are 0: z, 1: r",
            "give names of arguments, or their places among all of them",
        ),
        (
            3.5,
            "kernel modulus: complex is a list of names or places of arguments, or True; got 3.5",
            'write complex=("z", "w")',
        ),
        (
            "r",
            "kernel modulus: complex names r, which is an array of float64",
            "hold complex numbers in an array of vec2 (or vec2d): real part, imaginary part",
        ),
    ],
)
def test_what_holds_no_complex_numbers(chosen: Any, message: str, hint: str) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        check(c.modulus, Z, real=True, complex=chosen)
    assert (caught.value.message, caught.value.hint) == (message, hint)


# ------------------------------------------------------------------ arrays


def test_arrays_of_complex_numpy_numbers() -> None:
    a = wp.array(Z)
    assert (a.dtype, a.shape) == (wp.vec2d, (3,))
    np.testing.assert_array_equal(a.numpy(), np.stack([Z.real, Z.imag], axis=-1))
    np.testing.assert_array_equal(a.numpy().view(complex)[..., 0], Z)
    b = wp.array(np.arange(6).reshape(2, 3) * (1 - 1j), dtype=wp.vec2)
    assert (b.dtype, b.shape) == (wp.vec2f, (2, 3))
    b.assign(np.full((2, 3), 2.0 + 3.0j))
    assert b.numpy()[1, 2].tolist() == [2.0, 3.0]
    c = wp.array(Z[::2], dtype=wp.vec2d, shape=(2, 1))
    assert c.numpy().tolist() == [[[1.0, 2.0]], [[0.3, -0.7]]]
    shared = Z.copy()
    wp.array(shared, dtype=wp.vec2d, copy=False).fill_(wp.vec2d(0.0, 1.0))
    assert shared.tolist() == [1j, 1j, 1j]


@pytest.mark.parametrize("dtype", [float, wp.vec3, int, wp.mat22])
def test_complex_numbers_lose_no_imaginary_part(dtype: Any) -> None:
    with pytest.raises(wp.ArrayError) as caught:
        wp.array(Z, dtype=dtype)
    name = {float: "float32", int: "int32"}.get(dtype, getattr(dtype, "__name__", ""))
    assert caught.value.message == f"array: complex numbers (complex128) are no elements of {name}"
    assert caught.value.hint == (
        "use dtype=vec2 (vec2d) for pairs of real and imaginary part, or pass data.real"
    )
