"""Variants of a kernel: axes of threads, ranges, strides, the twin in float64."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import run


@wp.kernel
def plane(a: wp.array2d(dtype=float), p: wp.array2d(dtype=wp.vec2), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = wp.sin(a[i, j]) * a[j, i] + p[i, j].x * p[j, i].y + float(i * 10 + j)


@wp.kernel
def box(a: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    i, j, k = wp.tid()
    out[i, j, k] = a[i, j, k] * a[i, j, k] + float(i * 100 + j * 10 + k)


@wp.kernel
def four(a: wp.array4d(dtype=float), out: wp.array4d(dtype=float)):
    i, j, k, l = wp.tid()  # noqa: E741
    out[i, j, k, l] = a[i, j, k, l] * a[i, j, k, l] + float(i * 1000 + j * 100 + k * 10 + l)


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize(("kernel", "shape"), [(box, (2, 3, 4)), (four, (2, 3, 2, 3))])
def test_threads_of_three_and_four_axes(kernel, shape, interpreted):
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8
    out = np.zeros_like(a)
    run(kernel, shape, [a, out], interpreted=interpreted)
    digits = sum(axis * 10 ** (len(shape) - 1 - n) for n, axis in enumerate(np.indices(shape)))
    assert np.array_equal(out, a * a + digits)
    da, seed = np.zeros_like(a), np.ones_like(a)
    run(kernel, shape, [a, out], adjoints=[da, seed], interpreted=interpreted)
    assert np.array_equal(da, 2 * a) and not seed.any()


def test_any_range_of_threads():
    """Chunks of a launch run the threads lo … hi-1 and no others, wherever rows end."""
    shape = (3, 4)
    for lo in range(0, 12):
        for hi in range(lo, 13):
            a, out = np.ones(shape, np.float32), np.full(shape, -1, np.float32)
            p = np.zeros((3, 4, 2), np.float32)
            pick(lo, hi, [a, p, out])
            expected = [(lo <= k < hi) for k in range(12)]
            assert (out.ravel() >= 0).tolist() == expected


def pick(lo, hi, args):
    slots = [3, 4, 1, 1]
    for value in args:
        width = value.strides[1] // 4
        slots += [value.ctypes.data, 3, 4, 4 * width, width]
    packed = ctypes.create_string_buffer(square.layout.size)
    square.layout.struct.pack_into(packed, 0, *slots, 0, 0, 0)
    square.forward()(lo, hi, ctypes.addressof(packed))


@wp.kernel
def square(a: wp.array2d(dtype=float), p: wp.array2d(dtype=wp.vec2), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = a[i, j] + p[i, j].x


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1),
    "sliced": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("f64", [False, True])
def test_strides(layout, f64):
    rng = np.random.default_rng(2)
    dtype = np.float64 if f64 else np.float32
    plain = [rng.normal(size=s).astype(dtype) for s in ((4, 4), (4, 4, 2), (4, 4))]
    seeds = [np.zeros((4, 4), dtype), np.zeros((4, 4, 2), dtype), rng.normal(size=(4, 4)).astype(dtype)]
    results = []
    for arrange in (LAYOUTS["contiguous"], LAYOUTS[layout]):
        arrays, adjoints = ([arrange(a.copy()) for a in group] for group in (plain, seeds))
        run(plane, (4, 4), arrays, f64=f64)
        run(plane, (4, 4), arrays, f64=f64, adjoints=adjoints)
        results.append([arrays[2].copy(), *(a.copy() for a in adjoints)])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
    a, p, _ = plain
    i, j = np.indices((4, 4))
    expected = np.sin(a) * a.T + p[..., 0] * p.swapaxes(0, 1)[..., 1] + i * 10 + j
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-5)


@wp.kernel
def copied(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


def test_broadcast_stride_reads_one_element():
    one = np.broadcast_to(np.float32(3.0), (4,))
    y = np.zeros(4, np.float32)
    run(copied, 4, [one, y])
    assert y.tolist() == [3.0] * 4


# The twin in float64 ---------------------------------------------------------------------------------------


@wp.kernel
def cancels(x: wp.array(dtype=float), y: wp.array(dtype=float), big: float):
    i = wp.tid()
    y[i] = (x[i] + big) - big


def test_the_twin_computes_in_float64_with_the_same_constants():
    x, y = np.array([0.1], np.float32), np.zeros(1, np.float32)
    run(cancels, 1, [x, y, 1e8])
    assert y[0] == 0.0
    wide = [x.astype(float), np.zeros(1)]
    run(cancels, 1, [*wide, 1e8], f64=True)
    assert abs(wide[1][0] - np.float32(0.1)) < 1e-7


@wp.kernel
def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float), s: float):
    i = wp.tid()
    y[i] = x[i] * s * 0.1


def test_arguments_and_literals_of_the_twin_are_those_of_the_kernel():
    """0.1 is not a float32: the reference differentiates the program that ran, not another one."""
    x, y = np.ones(1), np.zeros(1)
    run(scaled, 1, [x, y, 0.1], f64=True)
    assert y[0] == float(np.float32(0.1)) ** 2
