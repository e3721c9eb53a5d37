"""Other ways to write things, which programs use: each means what the usual one means."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run


@wp.kernel
def backward_ranges(o: wp.array(dtype=int), n: int, step: int):
    c = 0
    for i in reversed(range(0, n, 3)):
        c = 10 * c + i
    o[0] = c
    c = 0
    for i in reversed(range(n)):
        if i == 2:
            break
        c = 10 * c + i
    o[1] = c
    c = 0
    for i in reversed(range(9, n, step)):
        c = 10 * c + i
    o[2] = c
    c = 0
    for i in reversed(range(1, 4)):
        c = 10 * c + i
    o[3] = c
    for _ in reversed(range(0)):
        o[4] = 1


def test_reversed_range_with_computed_bounds():
    for interpreted in (False, True):
        o = np.zeros(5, np.int32)
        run(backward_ranges, 1, [o, 8, -2], interpreted=interpreted)
        assert o.tolist() == [630, 76543, 9, 321, 0]
        run(backward_ranges, 1, [o, 4, -2], interpreted=interpreted)
        assert o.tolist() == [30, 3, 579, 321, 0]


@wp.kernel
def horner(x: wp.array(dtype=float), a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for k in reversed(range(a.shape[0])):
        s = s * x[i] + a[k]
    y[i] = s


def test_gradient_through_a_reversed_range():
    check_gradient(
        horner,
        3,
        [
            np.array([0.5, 1.5, -0.7], np.float32),
            np.array([1, 2, 3, 0.5], np.float32),
            np.zeros(3, np.float32),
        ],
    )


def test_makers_of_types_make_values():
    @wp.kernel
    def makers(x: wp.array(dtype=float), o: wp.array(dtype=float)):
        v = wp.types.vector(length=3, dtype=float)
        v[1] = x[0]
        w = wp.types.vector(x[0], 2.0)
        u = wp.types.vector(3, float)(1.0, 2.0, 3.0)
        m = wp.types.matrix(shape=(2, 2), dtype=float)
        m[0, 1] = x[0]
        q = wp.types.quaternion(0.0, 0.0, x[0], 1.0)
        h = wp.types.vector(u, dtype=wp.float64)
        o[0] = v[1] + w[0] * w[1] + wp.dot(v, u) + m[0, 1] + q[2] + wp.float32(h[2])

    x = wp.array([2.0], dtype=float, requires_grad=True)
    o = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(makers, 1, inputs=[x], outputs=[o])
    tape.backward(loss=o)
    assert o.numpy().tolist() == [2.0 + 4.0 + 4.0 + 2.0 + 2.0 + 3.0]
    assert x.grad.numpy().tolist() == [7.0]


def test_static_lengths_of_values_of_the_kernel():
    @wp.kernel
    def lengths(o: wp.array(dtype=int)):
        v = wp.vec3(1.0, 2.0, 3.0)
        m = wp.types.matrix(shape=(4, 2), dtype=float)
        t = (1, 2.0, v, m, 5)
        o[0] = wp.static(len(v) + 10 * len(m) + 100 * len(t))
        o[1] = len(v) + 10 * len(m) + 100 * len(t)

    o = wp.zeros(2, dtype=int)
    wp.launch(lengths, 1, inputs=[o])
    assert o.numpy().tolist() == [543, 543]


def test_operators_by_name():
    @wp.kernel
    def named(x: wp.array(dtype=wp.vec2), m: wp.mat22, o: wp.array(dtype=float)):
        v = wp.add(wp.mul(m, x[0]), wp.neg(wp.mul(2.0, x[0])))
        o[0] = wp.dot(wp.sub(v, x[0]), wp.div(x[0], 2.0)) + float(wp.bit_or(wp.lshift(1, 2), 1))

    x = wp.array([(1.0, 2.0)], dtype=wp.vec2, requires_grad=True)
    o = wp.zeros(1, dtype=float, requires_grad=True)
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    with wp.Tape() as tape:
        wp.launch(named, 1, inputs=[x, m], outputs=[o])
    tape.backward(loss=o)
    # ((M - 3) x) · x / 2 + 5
    a, at = m - 3.0 * wp.identity(2), np.array([1.0, 2.0])
    assert o.numpy()[0] == at @ np.asarray(a) @ at / 2 + 5
    np.testing.assert_array_equal(x.grad.numpy()[0], (np.asarray(a) + np.asarray(a).T) @ at / 2)
    assert wp.mul(2.0, wp.vec2(1.0)) == wp.vec2(2.0) and wp.sub(3, 1) == 2


def test_integer_vectors_by_component():
    @wp.kernel
    def integers(o: wp.array(dtype=wp.vec2i)):
        o[0] = wp.cw_mul(wp.vec2i(2, -3), wp.vec2i(4, 5))
        o[1] = wp.cw_div(wp.vec2i(8, -15), wp.vec2i(3, 4))

    o = wp.zeros(2, dtype=wp.vec2i)
    wp.launch(integers, 1, inputs=[o])
    assert o.numpy().tolist() == [[8, -15], [2, -3]]


def test_expect_neq(capfd: pytest.CaptureFixture[str]):
    @wp.kernel
    def differ(x: wp.array(dtype=wp.vec2)):
        wp.expect_neq(x[0], x[1])
        wp.expect_neq(x[0], x[2])

    wp.launch(differ, 1, inputs=[wp.array([(1.0, 2.0), (1.0, 2.0), (1.0, 3.0)], dtype=wp.vec2)])
    said = "".join(capfd.readouterr())
    assert said.count("failed") == 1
    assert "expect_neq() failed in thread 0: x[0] is vec2(1.0, 2.0), x[1] is vec2(1.0, 2.0)" in said


def test_expectations_outside_kernels(capfd: pytest.CaptureFixture[str]):
    wp.expect_eq(wp.vec2(1.0, 2.0), wp.vec2(1.0, 2.0))
    wp.expect_neq(1, 2)
    wp.expect_near(wp.vec2(1.0), wp.vec2(1.0 + 1e-7))
    assert "".join(capfd.readouterr()) == ""
    wp.expect_eq(1, 2)
    wp.expect_neq(wp.vec2(1.0), wp.vec2(1.0))
    wp.expect_near(1.0, 1.5, tolerance=0.25)
    assert capfd.readouterr().out.splitlines() == [
        "expect_eq() failed: 1, 2",
        "expect_neq() failed: vec2(1.0, 1.0), vec2(1.0, 1.0)",
        "expect_near() failed: 1.0, 1.5, 0.25",
    ]
    with pytest.raises(TypeError, match="of one type"):
        wp.expect_eq(wp.vec2(1.0), wp.vec3(1.0))


def test_rows_and_slices_are_values():
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    assert m[0] == wp.vec2(1.0, 2.0) and isinstance(m[0], wp.vec2)
    m[1][0] = 7.0
    assert m == wp.mat22(1.0, 2.0, 7.0, 4.0) and m[:, 1] == wp.vec2(2.0, 4.0)
    assert wp.vec3(1.0, 2.0, 3.0)[1:] == (2.0, 3.0) == tuple(wp.vec2(2.0, 3.0))
    assert wp.vec2(1.0, 2.0) != (1.0, 2.5)


def test_length_by_its_older_name():
    assert wp.zeros(n=3, dtype=int).shape == (3,)
    assert wp.full(n=2, value=1.5).numpy().tolist() == [1.5, 1.5]
    assert wp.ones(n=1).shape == wp.empty(n=1).shape == (1,)
    with pytest.raises(wp.ArrayError, match="the shape is given twice: shape=2, n=3"):
        wp.zeros(2, n=3)


@pytest.mark.parametrize(
    "dtype", [wp.int8, wp.uint8, wp.int16, wp.uint16, wp.int32, wp.uint32, wp.int64, wp.uint64]
)
def test_bits_are_counted(dtype: type):
    def counted(x: wp.array(dtype=dtype), o: wp.array(dtype=int)):
        o[wp.tid()] = wp.bit_count(x[wp.tid()])

    limits = np.iinfo(wp.dtype_to_numpy(dtype))
    random = np.random.default_rng(1).integers(limits.min, limits.max, 100, limits.dtype, endpoint=True)
    numbers = np.array([limits.min, limits.max, 0, 1, *random.tolist()], limits.dtype)
    o = wp.zeros(len(numbers), dtype=int)
    wp.launch(wp.Kernel(counted), dim=len(numbers), inputs=[numbers, o])
    assert o.numpy().tolist() == [(int(n) % 2**limits.bits).bit_count() for n in numbers]
    assert wp.bit_count(numbers[1]) == int(limits.max).bit_count()


def test_copysign_of_zeros():
    assert np.signbit(wp.copysign(0.0, -0.0)) and not np.signbit(wp.copysign(-0.0, 0.0))
    assert wp.copysign(wp.float64(2.0), wp.float64(-np.inf)) == -2.0


def test_rotations_about_axes_by_number():
    rpy = wp.quat_rpy(0.1, 0.2, 0.3)
    np.testing.assert_allclose(wp.quat_from_euler(wp.vec3(0.1, 0.2, 0.3), 0, 1, 2), rpy, rtol=1e-6)


def test_constructors_of_types_take_the_sizes_that_the_type_has() -> None:
    mat32d = wp.types.matrix((3, 2), wp.float64)

    @wp.kernel
    def same(o: wp.array(dtype=wp.float64)):
        a = mat32d(wp.float64(2.0), shape=(3, 2), dtype=wp.float64)
        b = wp.vec3d(a[0, 1], a[1, 1], a[2, 1], length=3)
        o[0] = b[0] + b[1] + mat32d(a, shape=(3, 2))[2, 1]

    @wp.kernel
    def other(o: wp.array(dtype=wp.float64)):
        o[0] = mat32d(wp.float64(2.0), shape=(2, 3))[0, 0]

    o = wp.zeros(1, dtype=wp.float64)
    wp.launch(same, 1, outputs=[o])
    assert o.numpy().tolist() == [6.0]
    with pytest.raises(wp.KernelTypeError, match=r"the shape of mat32d is \(3, 2\), not \(2, 3\)"):
        wp.launch(other, 1, outputs=[o])
