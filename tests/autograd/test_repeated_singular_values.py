"""Smooth functions of a decomposition's factors, where singular values or eigenvalues agree or nearly do.

`U diag(s) Vᵀ` is the matrix, `V diag(s²) Vᵀ` is `Fᵀ F`, `Q diag(d²) Qᵀ` is `A²`, and `Q R` is the matrix:
their derivatives are known without any differences, whatever the singular values are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradgradcheck, hvp, jvp
from tests import sweeps

TYPES = {"float32": wp.float32, "float64": wp.float64}
Recipe = tuple[Any, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]]


def svd_kernel(scalar: Any, size: int) -> Any:
    kind = wp.types.matrix((size, size), scalar)
    svd = wp.svd2 if size == 2 else wp.svd3

    @wp.func
    def squares(v: kind, s: wp.types.vector(size, scalar)):
        return v * wp.diag(wp.cw_mul(s, s)) * wp.transpose(v)

    @wp.kernel
    def svd_compositions(f: wp.array(dtype=kind), same: wp.array(dtype=kind), square: wp.array(dtype=kind)):
        i = wp.tid()
        u, s, v = svd(f[i])
        same[i] = u * wp.diag(s) * wp.transpose(v)
        square[i] = squares(v, s)

    return svd_compositions


def eig_kernel(scalar: Any) -> Any:
    kind = wp.types.matrix((3, 3), scalar)

    @wp.kernel
    def eig_compositions(f: wp.array(dtype=kind), same: wp.array(dtype=kind), square: wp.array(dtype=kind)):
        i = wp.tid()
        q, d = wp.eig3(f[i])
        if d[0] + d[1] + d[2] > scalar(-100.0):  # a branch in between
            same[i] = q * wp.diag(d) * wp.transpose(q)
            square[i] = q * wp.diag(wp.cw_mul(d, d)) * wp.transpose(q)

    return eig_compositions


def qr_kernel(scalar: Any) -> Any:
    kind = wp.types.matrix((3, 3), scalar)

    @wp.kernel
    def qr_compositions(f: wp.array(dtype=kind), same: wp.array(dtype=kind), square: wp.array(dtype=kind)):
        i = wp.tid()
        q, r = wp.qr3(f[i])
        same[i] = q * r
        square[i] = wp.transpose(r) * r

    return qr_compositions


def symmetric(m: np.ndarray) -> np.ndarray:
    return 0.5 * (m + m.swapaxes(-1, -2))


def transposed(m: np.ndarray) -> np.ndarray:
    return m.swapaxes(-1, -2)


def of_matrix(f: np.ndarray, w: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The gradient of ⟨w, f⟩ + ⟨z, fᵀ f⟩."""
    return w + 2 * f @ symmetric(z)


def of_symmetric(f: np.ndarray, w: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The gradient of ⟨w, f⟩ + ⟨z, f²⟩, of the symmetric part of f."""
    f, z = symmetric(f), symmetric(z)
    return symmetric(w) + f @ z + z @ f


RECIPES: dict[str, Callable[[Any], Recipe]] = {
    "svd3": lambda scalar: (svd_kernel(scalar, 3), of_matrix),
    "svd2": lambda scalar: (svd_kernel(scalar, 2), of_matrix),
    "eig3": lambda scalar: (eig_kernel(scalar), of_symmetric),
    "qr3": lambda scalar: (qr_kernel(scalar), of_matrix),
}
RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=(3, 3))
TURN = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
TURN *= np.linalg.det(TURN)
MATRICES = np.stack(
    [
        np.eye(3),
        *(np.eye(3) + e * NOISE for e in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2)),
        2.0 * TURN,
        TURN @ np.diag([2.0, 2.0, 1.0]) @ TURN.T,
        np.diag([3.0, 1.0, 1.0]),
        -np.eye(3),
        np.diag([1.0, 1.0, -1.0]),
        np.diag([1.0, -2.0, 2.0 + 1e-7]),
        np.diag([2.0, 0.0, 0.0]),
        np.outer([1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]),
        np.zeros((3, 3)),
        1e-6 * np.eye(3),
        1e6 * np.eye(3) + NOISE,
        NOISE,
    ]
)


def recorded(name: str, scalar: Any) -> Any:
    """A tape that computes a loss of the compositions of all matrices, with its gradient."""
    kernel, gradient = RECIPES[name](scalar)
    size = 2 if name == "svd2" else 3
    a = MATRICES[:, :size, :size]
    a = symmetric(a) if name == "eig3" else a
    w, z = np.random.default_rng(1).normal(size=(2, *a.shape))
    kind = wp.types.matrix((size, size), scalar)
    f = wp.array(a, dtype=kind, requires_grad=True)
    out = [wp.zeros(len(a), dtype=kind, requires_grad=True) for _ in range(2)]
    with wp.Tape() as tape:
        wp.launch(kernel, dim=len(a), inputs=[f], outputs=out)
    seeds = {o: wp.array(s, dtype=kind) for o, s in zip(out, (w, z), strict=True)}
    return tape, kernel, f, out, seeds, (w, z), gradient


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Each matrix to `tolerance` of its largest entry."""
    scale = np.maximum(1.0, np.abs(expected).max(axis=(1, 2), keepdims=True))
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=tolerance)


FIRST = [("svd3", "float32"), ("svd2", "float64"), ("eig3", "float64"), ("qr3", "float32")]
"""The cases of an ordinary run: to compile another of the long ones with optimization takes 5 seconds."""
OTHERS = [(name, scalar) for name in RECIPES for scalar in TYPES if (name, scalar) not in FIRST]


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        pytest.param(name, scalar, marks=pytest.mark.optimized if scalar == "float32" else ())
        for name, scalar in FIRST + (OTHERS if sweeps.FULL else [])
    ],
)
def test_first_derivatives(name: str, scalar: str) -> None:
    tape, _, f, out, seeds, (w, z), gradient = recorded(name, TYPES[scalar])
    a = f.numpy().astype(float)
    tolerance = 2e-6 if scalar == "float32" else 1e-9
    tape.backward(grads=seeds)
    close(f.grad.numpy(), gradient(a, w, z), tolerance)
    v = np.random.default_rng(2).normal(size=a.shape)
    pushed = jvp(tape, tangents={f: v})
    along = symmetric(v) if name == "eig3" else v
    close(pushed[out[0]], along, tolerance)
    a = symmetric(a) if name == "eig3" else a
    close(pushed[out[1]], transposed(a) @ along + transposed(along) @ a, tolerance)


@pytest.mark.sweep(most=1)
@pytest.mark.parametrize("name", ["svd3", "eig3"])
def test_second_derivatives(name: str) -> None:
    scalar = wp.float64
    kernel, gradient = RECIPES[name](scalar)
    a = symmetric(MATRICES[:-2]) if name == "eig3" else MATRICES[:-2]
    weights, v = np.random.default_rng(1).normal(size=(2, *a.shape))

    @wp.kernel
    def total(m: wp.array(dtype=wp.mat33d), w: wp.array(dtype=wp.mat33d), loss: wp.array(dtype=scalar)):
        i = wp.tid()
        wp.atomic_add(loss, 0, wp.ddot(m[i], w[i]))

    f = wp.array(a, dtype=wp.mat33d, requires_grad=True)
    same, square = (wp.zeros(len(a), dtype=wp.mat33d, requires_grad=True) for _ in range(2))
    loss = wp.zeros(1, dtype=scalar, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=len(a), inputs=[f], outputs=[same, square])
        wp.launch(total, dim=len(a), inputs=[square, wp.array(weights, dtype=wp.mat33d)], outputs=[loss])
    found = hvp(tape, loss=loss, tangents={f: v})
    zero = np.zeros_like(a)
    close(found.product[f], gradient(v, zero, weights), 5e-5)


@pytest.mark.sweep
def test_gradcheck_and_gradgradcheck_agree_beside_equal_values() -> None:
    size = 3 if sweeps.FULL else 2  # 3 × 3 takes half a minute to compile
    kernel, _ = RECIPES[f"svd{size}"](wp.float32)
    kind = wp.types.matrix((size, size), wp.float32)
    f = wp.array(MATRICES[[0, 3], :size, :size], dtype=kind, requires_grad=True)
    out = [wp.zeros(2, dtype=kind, requires_grad=True) for _ in range(2)]
    first = wp.autograd.gradcheck(
        kernel, dim=2, inputs=[f], outputs=out, raise_exception=False, show_summary=False
    )
    assert first.verdict == "AGREE", str(first)
    second = gradgradcheck(kernel, dim=2, inputs=[f], outputs=out, raise_exception=False, show_summary=False)
    assert second.verdict == "AGREE", str(second)


def test_values_are_what_they_were_without_the_second_factors() -> None:
    """The forward kernel computes nothing that only derivatives need."""
    kernel, _ = RECIPES["svd3"](wp.float32)
    assert "f64" not in kernel.source()
    assert "f64" in kernel.source("adjoint")
