"""Decompositions: factors, conventions, and derivatives where singular values or eigenvalues agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.lang.numpy_eval import NUMPY_EVAL, Number
from tapedebug.lang.rules import RULES, Expr
from tests.compiler.harness import check_gradient, run

pytestmark = pytest.mark.unoptimized


@wp.kernel
def svd(
    a: wp.array(dtype=wp.mat33),
    u: wp.array(dtype=wp.mat33),
    s: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.mat33),
):
    i = wp.tid()
    left, sigma, right = wp.svd3(a[i])
    u[i] = left
    s[i] = sigma
    v[i] = right


@wp.kernel
def svd_into(
    a: wp.array(dtype=wp.mat22),
    u: wp.array(dtype=wp.mat22),
    s: wp.array(dtype=wp.vec2),
    v: wp.array(dtype=wp.mat22),
):
    i = wp.tid()
    left = wp.mat22()
    right = wp.mat22()
    sigma = wp.vec2()
    for _ in range(2):
        wp.svd2(a[i], left, sigma, right)
    u[i] = left
    s[i] = sigma
    v[i] = right


@wp.kernel
def eig(a: wp.array(dtype=wp.mat33), q: wp.array(dtype=wp.mat33), d: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    vectors, values = wp.eig3(a[i])
    q[i] = vectors
    d[i] = values


@wp.kernel
def qr(a: wp.array(dtype=wp.mat33), q: wp.array(dtype=wp.mat33), r: wp.array(dtype=wp.mat33)):
    i = wp.tid()
    turned, upper = wp.qr3(a[i])
    q[i] = turned
    r[i] = upper


@wp.kernel
def polar(a: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33)):
    i = wp.tid()
    u, _s, v = wp.svd3(a[i])
    out[i] = u @ wp.transpose(v)


@wp.kernel
def of_values(a: wp.array(dtype=wp.mat33), out: wp.array(dtype=float)):
    i = wp.tid()
    _q, d = wp.eig3(a[i])
    out[i] = d[0] * d[0] * d[0] + d[1] * d[1] * d[1] + d[2] * d[2] * d[2]


RNG = np.random.default_rng(3)
SHEAR = np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 1.0]])
MATRICES = {
    "random": RNG.normal(size=(16, 3, 3)),
    "large": RNG.normal(size=(4, 3, 3)) * 1e18,
    "small": RNG.normal(size=(4, 3, 3)) * 1e-18,
    "zero": np.zeros((1, 3, 3)),
    "identity": np.eye(3)[None],
    "reflection": np.diag([1.0, 1.0, -1.0])[None],
    "diagonal": np.stack([np.diag([1.0, -3.0, 2.0]), np.diag([0.0, 0.0, 5.0])]),
    "permutation": np.eye(3)[[1, 2, 0]][None],
    "rank one": np.outer([1.0, 2.0, 3.0], [-1.0, 0.5, 2.0])[None],
    "rank two": (RNG.normal(size=(3, 2)) @ RNG.normal(size=(2, 3)))[None],
    "nearly equal": np.diag([1.0, 1.0 + 1e-6, 2.0])[None] + 1e-7,
    "ill conditioned": np.vander([1.0, 1.001, 1.002])[None],
    "shear": SHEAR[None],
}


def found(kernel: Any, a: np.ndarray, f64: bool, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    dtype = np.float64 if f64 else np.float32
    outputs = [np.zeros((len(a), *shape), dtype) for shape in shapes]
    run(kernel, len(a), [a.astype(dtype), *outputs], f64=f64)
    return [o.astype(float) for o in outputs]


def near(one: np.ndarray, other: np.ndarray, scale: Any, f64: bool) -> None:
    np.testing.assert_allclose(one / scale, other / scale, rtol=0, atol=2e-15 * 8 if f64 else 3e-6)


def transposed(m: np.ndarray) -> np.ndarray:
    return m.swapaxes(-1, -2)


@pytest.mark.parametrize("f64", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("name", MATRICES)
def test_factors(name: str, f64: bool) -> None:
    a = MATRICES[name] if f64 else MATRICES[name].astype(np.float32).astype(float)
    scale = np.abs(a).max() or 1.0
    u, s, v = found(svd, a, f64, (3, 3), (3,), (3, 3))
    near((u * s[:, None, :]) @ transposed(v), a, scale, f64)
    near(s[:, :2], np.linalg.svd(a)[1][:, :2], scale, f64)
    assert (np.abs(s[:, 0]) >= np.abs(s[:, 1]) - 1e-6 * scale).all()
    assert (np.abs(s[:, 1]) >= np.abs(s[:, 2]) - 1e-6 * scale).all()
    assert (s[:, :2] >= -1e-6 * scale).all()
    q, r = found(qr, a, f64, (3, 3), (3, 3))
    near(q @ r, a, scale, f64)
    assert (r[:, [1, 2, 2], [0, 0, 1]] == 0).all() and (r[:, [0, 1], [0, 1]] >= 0).all()
    symmetric = a + transposed(a)
    e, d = found(eig, symmetric, f64, (3, 3), (3,))
    near((e * d[:, None, :]) @ transposed(e), symmetric, 2 * scale, f64)
    for rotation in (u, v, q, e):
        near(transposed(rotation) @ rotation, np.broadcast_to(np.eye(3), rotation.shape), 1.0, f64)
        assert (np.linalg.det(rotation) > 0.99).all()


@pytest.mark.parametrize("kernel", [svd, qr, eig], ids=lambda k: k.key)
def test_gradient_of_random_matrices(kernel: Any) -> None:
    a = MATRICES["random"].astype(np.float32)
    a = a + transposed(a) if kernel is eig else a
    shapes = {"svd": [(3, 3), (3,), (3, 3)], "qr": [(3, 3)] * 2, "eig": [(3, 3), (3,)]}[kernel.key]
    check_gradient(kernel, len(a), [a, *(np.zeros((len(a), *s), np.float32) for s in shapes)], tolerance=1e-5)


def test_results_in_variables_of_a_loop() -> None:
    a = RNG.normal(size=(6, 2, 2)).astype(np.float32)
    u, s, v = (np.zeros((6, *shape), np.float32) for shape in ((2, 2), (2,), (2, 2)))
    run(svd_into, 6, [a, u, s, v])
    np.testing.assert_allclose((u * s[:, None, :]) @ transposed(v), a, atol=2e-6)
    np.testing.assert_allclose(s, np.linalg.svd(a)[1], rtol=1e-5)
    check_gradient(svd_into, 6, [a, u, s, v], tolerance=1e-6)


def gradient(kernel: Any, a: np.ndarray, seed: np.ndarray) -> np.ndarray:
    a = a.copy()
    adjoint, out = np.zeros(a.shape, a.dtype), np.zeros_like(seed)
    run(kernel, len(a), [a, out], adjoints=[adjoint, seed.copy()], f64=a.dtype == np.float64)
    return adjoint


def rotation_of(a: np.ndarray) -> np.ndarray:
    """The polar factor, in float64."""
    u, _, vt = np.linalg.svd(a)
    return u @ np.diag([1, 1, np.linalg.det(u) * np.linalg.det(vt)]) @ vt


CLOSE = {
    "identity": np.eye(3),
    "twice identity": 2 * np.eye(3),
    "two alike": np.diag([2.0, 2.0, 1.0]),
    "last two alike": SHEAR @ np.diag([2.0, 1.0, 1.0]) @ SHEAR.T,
    "nearly alike": np.diag([1.0, 1.0 + 1e-3, 1.0 - 1e-3]),
    "shear": SHEAR,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CLOSE)
def test_polar_factor_has_its_derivative_where_singular_values_agree(name: str, dtype: Any) -> None:
    a = CLOSE[name].astype(dtype)[None]
    seed = np.random.default_rng(5).normal(size=(1, 3, 3)).astype(dtype)
    expected = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[i, j] = 1e-5
        difference = rotation_of(a[0] + step) - rotation_of(a[0] - step)
        expected[i, j] = (difference * seed[0]).sum() / 2e-5
    tolerance = 2e-3 if dtype is np.float32 else 1e-7
    np.testing.assert_allclose(gradient(polar, a, seed)[0], expected, atol=tolerance)


@pytest.mark.parametrize("name", CLOSE)
def test_symmetric_functions_of_eigenvalues_have_their_derivative_where_these_agree(name: str) -> None:
    a = CLOSE[name] + CLOSE[name].T
    found = gradient(of_values, a.astype(np.float64)[None], np.ones(1))[0]
    np.testing.assert_allclose(found, 3 * (a @ a), rtol=1e-9, atol=1e-9)  # of the trace of the cube


@pytest.mark.parametrize("name", ["zero", "identity", "reflection", "rank one", "diagonal", "permutation"])
def test_gradients_are_finite_where_vectors_are_free(name: str) -> None:
    a = MATRICES[name].astype(np.float32)
    for kernel, shapes in ((svd, [(3, 3), (3,), (3, 3)]), (eig, [(3, 3), (3,)]), (qr, [(3, 3)] * 2)):
        seeds = [np.ones((len(a), *shape), np.float32) for shape in shapes]
        adjoint = np.zeros(a.shape, a.dtype)
        run(kernel, len(a), [a.copy(), *(0 * s for s in seeds)], adjoints=[adjoint, *seeds])
        assert np.isfinite(adjoint).all()


def test_a_held_number_passes_no_derivative() -> None:
    x = Expr(NUMPY_EVAL, Number(np.float32(2), wp.float32))
    assert x.stop_gradient().value.number == 2
    assert not RULES["stop_gradient"].differentiable
