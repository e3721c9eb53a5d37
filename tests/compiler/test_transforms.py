"""Transforms and spatial vectors in kernels: parts, setters; constructors that are given types and sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run

vec5 = wp.types.vector(length=5, dtype=float)
LENGTH = 4
RNG = np.random.default_rng(9)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@wp.kernel
def parts(a: wp.array(dtype=wp.transform), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.transform)):
    i = wp.tid()
    t = a[i]
    t.p = t.p * 2.0 + v[i]
    t.p.x = t.q.w * v[i].y
    t.q[1] = t.p[2]
    t.q *= 0.5
    t[6] = t[0] * t[6]
    out[i].p = v[i]
    out[i].q = t.q
    out[i].p.z += t.p.x
    wp.transform_set_translation(out[i], wp.transform_get_translation(t) + out[i].p)


def test_parts_of_transforms() -> None:
    a, v, out = normal(5, 7), normal(5, 3), np.zeros((5, 7), np.float32)
    run(parts, 5, [a, v, out])
    expected = a.astype(float).copy()
    expected[:, :3] = expected[:, :3] * 2 + v
    expected[:, 0] = expected[:, 6] * v[:, 1]
    expected[:, 4] = expected[:, 2]
    expected[:, 3:] *= 0.5
    expected[:, 6] *= expected[:, 0]
    moved = v.astype(float).copy()
    moved[:, 2] += expected[:, 0]
    np.testing.assert_allclose(out, np.concatenate([expected[:, :3] + moved, expected[:, 3:]], 1), rtol=1e-5)
    check_gradient(parts, 5, [a, v, np.zeros_like(out)])


@wp.kernel
def chain(a: wp.array(dtype=wp.transform), p: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    t = wp.transform_identity()
    for k in range(a.shape[0]):
        t = t * a[k]
        wp.transform_set_rotation(t, wp.normalize(t.q))
    p[i] = wp.transform_point(t, p[i])


def test_transforms_carried_by_a_loop() -> None:
    check_gradient(chain, 3, [normal(4, 7), normal(3, 3)])


@wp.kernel
def made_of(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    s = x[i]
    v = wp.vector(s, 2.0 * s, 3.0)
    u = wp.vector(s, length=LENGTH)
    z = wp.vector(length=3, dtype=float)
    w = wp.vector(v, dtype=wp.float64)
    m = wp.matrix(s, 2.0, 3.0, 4.0 * s, shape=(2, 2))
    n = wp.matrix(s, shape=(2, 3))
    e = wp.matrix(shape=(2, 2), dtype=float)
    q = wp.quaternion(v, s)
    r = wp.quaternion(s, 0.0, 0.0, 1.0)
    t = wp.transformation(v, q)
    f = wp.types.vector(length=5, dtype=float)(s)
    g = vec5(1.0, s, 3.0, 4.0, 5.0)
    k = wp.spatial_vector(v, z + v)
    compose = wp.matrix(v, wp.normalize(q), v)
    c = wp.vector(1, 2, 3)
    d = wp.quaternion(dtype=wp.float64)
    out[i, 0] = wp.dot(v, z + v) + wp.dot(u, u) + float(wp.dot(w, w))
    out[i, 1] = wp.trace(m @ (e + m)) + wp.ddot(n, n)
    out[i, 2] = (q * r).x + wp.length(t.p) + t.q.w
    out[i, 3] = wp.dot(f, g) + wp.spatial_dot(k, k) + wp.trace(compose)
    out[i, 4] = float(c[1]) + float(d[3]) + wp.select(s > 0.0, 1.0, s)
    out[i, 5] = wp.transform(p=v, q=q)[6] + float(wp.mat22d(m)[1, 1])


def test_constructors_that_are_given_types_and_sizes() -> None:
    x, out = np.array([0.5, 1.5], np.float32), np.zeros((2, 6), np.float32)
    run(made_of, 2, [x, out])
    s = x.astype(float)
    vv = 5 * s**2 + 9
    q = np.stack([s, 2 * s, 3 + 0 * s, s], -1)
    squares = q**2 / (q**2).sum(1, keepdims=True)
    diagonal = 2 * (squares[:, :3] + squares[:, 3:]) - 1  # of the rotation's matrix
    compose = (diagonal * q[:, :3]).sum(1) + 1
    np.testing.assert_allclose(out[:, 0], 2 * vv + 4 * s**2, rtol=1e-5)
    np.testing.assert_allclose(out[:, 1], s**2 + 12 + 16 * s**2 + 6 * s**2, rtol=1e-5)
    np.testing.assert_allclose(out[:, 2], s + s**2 + np.sqrt(vv) + s, rtol=1e-5)
    np.testing.assert_allclose(out[:, 3], s * (13 + s) + 2 * vv + compose, rtol=1e-5)
    np.testing.assert_allclose(out[:, 4], 2 + s, rtol=1e-6)
    np.testing.assert_allclose(out[:, 5], s + 4 * s, rtol=1e-6)
    check_gradient(made_of, 2, [x, out], tolerance=3e-6)


@pytest.mark.parametrize("suffix", ["", "f", "d"])
def test_named_types(suffix: str) -> None:
    scalar = wp.float64 if suffix == "d" else wp.float32
    for name, kind in {
        "transform": wp.types.transformation(dtype=scalar),
        "quat": wp.types.quaternion(dtype=scalar),
        "spatial_vector": wp.types.vector(length=6, dtype=scalar),
        "spatial_matrix": wp.types.matrix(shape=(6, 6), dtype=scalar),
        "mat44": wp.types.matrix((4, 4), scalar),
    }.items():
        assert getattr(wp, name + suffix) is kind
    assert wp.array(np.zeros((3, 7)), dtype=wp.types.transformation(dtype=scalar)).shape == (3,)


@pytest.mark.unoptimized
def test_parts_that_are_left_out_are_those_of_the_identity():
    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        moved, turned = wp.transform(p=wp.vec3(x[i], 2.0, x[i])), wp.transform(q=wp.quat(x[i], 0.0, 0.0, 1.0))
        both = moved[:]  # a vector of seven numbers
        y[i] = both[2] * moved.q.w + wp.dot(both, turned[:])

    y = np.zeros(2, np.float32)
    run(k, 2, [np.array([3.0, 5.0], np.float32), y])
    assert y.tolist() == [4.0, 6.0]
    check_gradient(k, 2, [normal(2), normal(2)])
