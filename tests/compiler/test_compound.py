"""Matrices, quaternions and integers in statements: loops, branches, components, functions."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run

Wide = wp.types.matrix((2, 3), float)
FRAME = wp.mat22(1.0, 2.0, -1.0, 0.5)
TURN = wp.quat(0.5, 0.5, -0.5, 0.5)


@wp.func
def positive_rows(m: Wide, shift: int) -> wp.vec2:
    r = wp.vec2()
    for i in range(2):
        for j in range(3):
            if m[i, j] > 0.0:
                r[i] += m[i, j] * m[i, (j + shift) % 3]
    return r


@wp.kernel
def loops(m: wp.array2d(dtype=Wide), out: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    s = Wide()
    for j in range(m.shape[1]):
        s += m[i, j] * 0.5
        s[0, j] *= 2.0
        s[1] = s[0] * m[i, j][1, 2]
    out[i] = positive_rows(s, 1) + positive_rows(m[i, 0], 2)


@wp.kernel
def branches(m: wp.array2d(dtype=wp.mat22), out: wp.array(dtype=wp.mat22)):
    i = wp.tid()
    a, b = FRAME
    n = wp.matrix_from_rows(a, b) if i > 0 else wp.identity(n=2, dtype=float)
    x = m[i, 0]
    if wp.determinant(x) > 0.0:
        x = wp.inverse(x + n * 4.0)
    else:
        x[i % 2] = b * x[0, 0]
    out[i] += x @ FRAME
    out[i][0, 1] -= x[1, 0]
    out[i][1] += x[0]
    m[i, 1] = wp.transpose(x) * out[i]
    m[i, 2][1, 1] = x[0, i % 2]


@wp.kernel
def rotations(q: wp.array(dtype=wp.quat), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.quat)):
    i = wp.tid()
    r = wp.normalize(q[i])
    for _k in range(3):
        r = r * TURN
        r.w += 0.1
        v[i] = wp.quat_rotate(wp.normalize(r), v[i])
        r[i % 4] *= v[i][1]
    x, y, z, w = r
    out[i] = wp.quat(wp.vec3(x, z, y), w * w)


def arguments(kernel):
    rng = np.random.default_rng(6)
    shapes = {
        "loops": [(4, 3, 2, 3), (4, 2)],
        "branches": [(4, 3, 2, 2), (4, 2, 2)],
        "rotations": [(4, 4), (4, 3), (4, 4)],
    }
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes[kernel.key]]


@pytest.mark.parametrize("kernel", [loops, branches, rotations], ids=lambda k: k.key)
def test_gradient(kernel):
    check_gradient(kernel, 4, arguments(kernel), tolerance=1e-6)


@pytest.mark.parametrize("kernel", [loops, branches, rotations], ids=lambda k: k.key)
def test_interpreted(kernel):
    one, two = arguments(kernel), arguments(kernel)
    run(kernel, 4, one)
    run(kernel, 4, two, interpreted=True)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@wp.kernel
def rebuilt(m: wp.array(dtype=wp.mat22), out: wp.array(dtype=wp.mat22)):
    i = wp.tid()
    a = m[i]
    before = a
    a[0] = a[1]
    for k in range(2):
        a[k, 1 - k] = before[k, k]
    a[i, i] = 9.0
    if a != before and a == a:
        out[i] = a


def test_components_are_assigned_and_values_are_copied():
    m = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.float32)
    out = np.zeros_like(m)
    run(rebuilt, 2, [m, out])
    # row 0 becomes row 1; then the other diagonal holds the diagonal that was; then [i, i] is 9
    assert out.tolist() == [[[9, 1], [4, 4]], [[7, 5], [8, 9]]]
    assert m[0].tolist() == [[1, 2], [3, 4]]


@wp.kernel
def shifted(x: wp.array(dtype=wp.uint32), y: wp.array(dtype=wp.int8)):
    i = wp.tid()
    a = wp.uint32(2463534242)
    b = wp.int8(1)
    for _k in range(i + 1):
        a ^= a << wp.uint32(13)
        a ^= a >> wp.uint32(17)
        a ^= a << wp.uint32(5)
        b = b * wp.int8(-3) + wp.int8(7)
    x[i] = a
    y[i] = b
    y[i] <<= wp.int8(1)


def test_integers_wrap_in_loops():
    """Marsaglia's xorshift (doi:10.18637/jss.v008.i14), and an 8-bit recurrence."""
    x, y = np.zeros(20, np.uint32), np.zeros(20, np.int8)
    run(shifted, 20, [x, y])
    a, b = 2463534242, 1
    for i in range(20):
        a ^= a << 13 & 0xFFFFFFFF
        a ^= a >> 17
        a ^= a << 5 & 0xFFFFFFFF
        b = (b * -3 + 7 + 128) % 256 - 128
        assert (x[i], y[i]) == (a, (b * 2 + 128) % 256 - 128)


class Yield(wp.types.vector(length=5, dtype=float)):
    """A vector with a function of its own, as programs derive them."""

    @wp.func
    def of_pressure(p: float):
        return Yield(p, 2.0 * p, 0.0, 0.0, p * p)


@wp.kernel
def yielding(p: wp.array(dtype=float), least: Yield, out: wp.array(dtype=Yield)):
    i = wp.tid()
    out[i] = wp.max(Yield(0.0), Yield.of_pressure(p[i])) + least


def test_a_class_derived_from_a_type_is_that_type_with_functions():
    p, out = wp.array([3.0, -1.0], dtype=float, requires_grad=True), wp.zeros(2, dtype=Yield)
    assert out.dtype is Yield.__base__
    wp.launch(yielding, 2, inputs=[p, Yield(1.0, 0.0, 0.0, 0.0, 0.0), out])
    np.testing.assert_array_equal(out.numpy(), [[4, 6, 0, 0, 9], [1, 0, 0, 0, 1]])
