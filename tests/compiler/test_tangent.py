"""Tangents: against differences of the float64 twin, and against adjoints: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import run
from tests.compiler.second_order import Second
from tests.compiler.test_control_flow import KERNELS


@wp.kernel
def vectors(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = x[i]
    w = wp.normalize(v) * wp.length(v - x[(i + 1) % n])
    v.y = w.x * 2.0
    wp.atomic_add(y, (i * 2) % n, wp.dot(v, w) / (1.0 + y[i] * 0.0))


@wp.kernel
def before_of_atomic(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    before = wp.atomic_add(y, 0, x[i] * x[i])
    x[i] = before * x[i]


def seeds(kernel, args, seed):
    rng = np.random.default_rng(seed)
    floats = {p.index for p in kernel.params if p.is_array and p.type.dtype in (wp.float32, wp.vec3)}
    return {i: rng.normal(size=args[i].shape) for i in floats}


def wide(args):
    return [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in args]


def pushed(kernel, n, args, direction):
    """Values and tangents after a run of the tangent, in float64."""
    values = wide(args)
    dots = {i: d.copy() for i, d in direction.items()}
    run(kernel, n, values, f64=True, tangents=[dots[p.index] for p in kernel.params if p.is_array])
    return values, dots


def arguments(kernel, seed, n=6):
    rng = np.random.default_rng(seed)
    shape = (n, 3) if kernel is vectors else n
    return [rng.uniform(-1, 1, shape).astype(np.float32), rng.uniform(0.5, 1.5, n).astype(np.float32), n]


@pytest.mark.parametrize("kernel", [*KERNELS, vectors, before_of_atomic], ids=lambda k: k.key)
@pytest.mark.parametrize("seed", range(2))
def test_tangent_equals_differences_and_the_adjoint_transposed(kernel, seed):
    n = 6
    args = arguments(kernel, seed)
    direction, weights = seeds(kernel, args, 1), seeds(kernel, args, 2)
    values, dots = pushed(kernel, n, args, direction)

    ran = wide(args)
    run(kernel, n, ran, f64=True)
    for ours, plain in zip(values, ran, strict=True):
        np.testing.assert_array_equal(ours, plain)

    def moved(step):
        there = wide(args)
        for i, d in direction.items():
            there[i] = there[i] + step * d
        run(kernel, n, there, f64=True)
        return there

    h = 1e-6
    plus, minus = moved(h), moved(-h)
    for i, dot in dots.items():
        np.testing.assert_allclose(dot, (plus[i] - minus[i]) / (2 * h), rtol=1e-6, atol=1e-7)

    adjoints = {i: w.copy() for i, w in weights.items()}
    run(kernel, n, wide(args), f64=True, adjoints=[adjoints[p.index] for p in kernel.params if p.is_array])
    forward = sum((weights[i] * dots[i]).sum() for i in dots)
    reverse = sum((adjoints[i] * direction[i]).sum() for i in dots)
    if kernel is not before_of_atomic:  # threads that read what others wrote are reversed in another order
        assert forward == pytest.approx(reverse, rel=1e-12, abs=1e-12)


def test_an_inactive_array_pushes_nothing():
    args = arguments(vectors, 0)
    dot_y = np.zeros(6)
    run(vectors, 6, wide(args), f64=True, tangents=[None, dot_y])
    np.testing.assert_array_equal(dot_y, 0.0)


def test_in_float32_values_are_those_of_the_kernel_bit_for_bit():
    args = arguments(vectors, 3)
    plain = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    run(vectors, 6, plain)
    dots = [np.ones((6, 3), np.float32), np.zeros(6, np.float32)]
    run(vectors, 6, args, tangents=dots)
    np.testing.assert_array_equal(args[1], plain[1])


@pytest.mark.parametrize("kernel", [*KERNELS, vectors, before_of_atomic], ids=lambda k: k.key)
def test_second_derivatives_are_differences_of_the_adjoint(kernel):
    Second(kernel, 6, arguments(kernel, 0), interpreted=True).check()


@pytest.mark.parametrize("kernel", [vectors, before_of_atomic], ids=lambda k: k.key)
def test_compiled_second_derivatives(kernel):
    Second(kernel, 6, arguments(kernel, 1)).check()
