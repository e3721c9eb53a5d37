"""Every float type as input and as output: Jacobians of the right shape and type, checks that agree."""

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck, jacobian, jacobian_fd
from tapedebug.lang.types import components, scalar_of, value_shape

SCALARS = [wp.float16, wp.float32, wp.float64]
COMPOUNDS = [
    wp.vec2, wp.vec3, wp.vec4, wp.vec3h, wp.vec3d, wp.types.vector(5, wp.float32),
    wp.mat22, wp.mat33, wp.mat33d, wp.mat44, wp.types.matrix((2, 3), wp.float32),
    wp.quat, wp.quatd, wp.transform, wp.spatial_vector, wp.spatial_matrix,
]  # fmt: skip
N = 3


def kernel_of(dtype: Any) -> Any:
    scalar = scalar_of(dtype)

    @wp.kernel
    def scaled(x: wp.array(dtype=dtype), s: wp.array(dtype=scalar), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = x[i] * (s[i] * s[i])

    return scaled


def arrays(dtype: Any) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(2)
    shape = (N, *value_shape(dtype))
    x = wp.array(rng.uniform(0.5, 1.5, size=shape), dtype=dtype, shape=N, requires_grad=True)
    s = wp.array(rng.uniform(0.5, 1.5, size=N), dtype=scalar_of(dtype), requires_grad=True)
    return x, s, wp.zeros(N, dtype=dtype, requires_grad=True)


def scalars(jacobian: Any) -> np.ndarray[Any, Any]:
    values = jacobian.numpy().astype(np.float64)
    return values.reshape(len(values), -1)


@pytest.mark.parametrize("dtype", [*SCALARS, *COMPOUNDS], ids=lambda t: t.__name__)
def test_a_type_as_input_and_output(dtype: Any) -> None:
    x, s, y = arrays(dtype)
    kernel, size = kernel_of(dtype), components(dtype)
    rtol = 2e-3 if scalar_of(dtype) is wp.float16 else 1e-5
    factor, value = s.numpy().astype(np.float64), x.numpy().astype(np.float64).reshape(N, size)
    exact_x = np.diag(np.repeat(factor**2, size))
    exact_s = np.zeros((N * size, N))
    for i in range(N):
        exact_s[i * size : (i + 1) * size, i] = 2 * factor[i] * value[i]
    for method in (jacobian, jacobian_fd):
        found = method(kernel, N, [x, s], [y])
        assert {key: (a.dtype, a.shape) for key, a in found.items()} == {
            (0, 0): (dtype, (N * size, N)),
            (1, 0): (scalar_of(dtype), (N * size, N)),
        }
        np.testing.assert_allclose(scalars(found[0, 0]), exact_x, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(scalars(found[1, 0]), exact_s, rtol=rtol, atol=rtol)
    result = gradcheck(kernel, N, [x, s], [y], show_summary=False, raise_exception=False)
    assert (result.verdict, len(result.pairs)) == ("AGREE", 2), result.summary()


def broken_kernel_of(dtype: Any) -> Any:
    scalar = scalar_of(dtype)

    @wp.func
    def twice(v: scalar):
        return v * scalar(2.0)

    @wp.func_grad(twice)
    def adj_twice(v: scalar, adj_ret: scalar):
        wp.adjoint[v] += scalar(2.5) * adj_ret

    @wp.kernel
    def wrong(x: wp.array(dtype=dtype), s: wp.array(dtype=scalar), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = x[i] * twice(s[i])

    return wrong


@pytest.mark.parametrize(
    "dtype", [wp.float16, wp.float64, wp.mat22, wp.quat, wp.transform], ids=lambda t: t.__name__
)
def test_a_wrong_gradient_is_found_in_every_type(dtype: Any) -> None:
    x, s, y = arrays(dtype)
    result = gradcheck(broken_kernel_of(dtype), N, [x, s], [y], show_summary=False, raise_exception=False)
    assert {(p.input, p.verdict) for p in result.pairs} == {("x", "AGREE"), ("s", "WRONG")}


def test_integers_have_no_derivative_and_that_is_said() -> None:
    @wp.kernel
    def gather(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[index[i]] * x[index[i]]

    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    result = gradcheck(gather, 2, [x, wp.array([2, 0], dtype=int)], [y], show_summary=False)
    assert result.verdict == "AGREE"
    assert result.coverage.notes == ("not checked: index holds int32, which has no derivatives",)


def test_empty_arrays_are_no_error_and_not_agreement() -> None:
    x, s, y = (wp.zeros(0, dtype=float, requires_grad=True) for _ in range(3))
    result = gradcheck(kernel_of(wp.float32), 0, [x, s], [y], show_summary=False, raise_exception=False)
    assert result.verdict == "UNDECIDABLE"
    assert result.coverage.notes == (
        "not checked: x is empty",
        "not checked: s is empty",
        "not checked: y is empty",
        "not checked: kernel kernel_of__scaled has dim=0: no thread runs",
    )


def test_launches_of_several_dimensions() -> None:
    @wp.kernel
    def outer(x: wp.array2d(dtype=float), y: wp.array(dtype=wp.vec2, ndim=2)):
        i, j = wp.tid()
        y[i, j] = wp.vec2(x[i, j] * x[i, j], x[j % 2, i])

    x = wp.array(np.arange(1.0, 7.0).reshape(2, 3), dtype=float, requires_grad=True)
    y = wp.zeros((2, 3), dtype=wp.vec2, requires_grad=True)
    for dim in ((2, 3), [2, 3], x.shape):
        assert gradcheck(outer, dim, [x], [y], show_summary=False)
    assert jacobian(outer, (2, 3), [x], [y])[0, 0].shape == (12, 6)
