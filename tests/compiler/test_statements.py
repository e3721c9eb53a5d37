"""Statements in combination, against Python: jumps, views, swaps and variables across nested loops."""

# ruff: noqa: B007
from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check, check_gradient, check_tangent, run


@wp.func
def first_above(a: wp.array(dtype=float), bound: float):
    for k in range(3):
        if a[k] > bound:
            return a[k] * a[k]
    return a[-1]


@wp.func
def first_factor(a: wp.array(dtype=float), bound: float) -> float:
    for k in range(a.shape[0]):
        for j in (2, 1):
            if a[k] * float(j) > bound:
                return a[k] * float(j)
            if a[k] < 0.1:
                break
    return 0.5


@wp.kernel
def returned_from_loops(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = first_above(m[i], 0.8) + first_above(m[:, i], 0.9) * first_factor(m[i, ::-1], 1.5)


@wp.kernel
def jumps_in_nested_loops(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(4):
        if k == 2:
            continue
        for j in range(m.shape[0]):
            if m[j, k] > 1.0:
                break
            if j == i:
                continue
            y[i] += m[j, k] * y[i]
            if y[i] > 3.0:
                return
        y[i] -= 0.1 * m[i, k]


@wp.kernel
def views_in_loops(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    best = m[0]
    n = 0
    while n < 4:
        row = m[n - 1]
        for k in range(2):
            row = m[k + n - 3]
            row[0] = row[0] * 0.9 + best[1]
            if row[0] > best[0]:
                best = row
        n += 1
        w = best[2] * row[1]
    y[i] = best[0] * best[i] + w


@wp.kernel
def swapped_elements(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a, b = m[i], y
    for k in range(3):
        a[k], b[k] = b[k] * a[k], a[k] + b[i]
        a[k] += b[k] if k > i else a[k - 1]
    c = (a[0], b[1])
    for k in range(i):
        c = (c[1] * 0.5, c[0] + a[k])
    y[i] = c[0] * c[1]


@wp.kernel
def outlives_two_loops(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for a in range(i, 3):
        for b in range(a, i - 1, -1):
            last = m[a, b] * y[b]
            if last > 0.8:
                break
        y[i] += last * float(b + a)
    y[i] = y[i] * float(a) + last


@wp.kernel
def loop_variables(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = 0.0
    k = 10
    for k in range(i, 5, 2):
        s += m[k % 4, 0] * y[k % 3]
    y[i] = s * float(k)
    for k in range(0):
        y[i] = 0.0
    y[i] += float(k)


@wp.func
def shift(v: wp.vec3, k: int):
    v[k] += v[k - 1] * 2.0
    v[0:2] = v[1:3]
    return v


@wp.kernel
def components_in_loops(p: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    v = p[i]
    for k in range(3):
        v = shift(v, k) * y[k]
        p[i][k] *= v[k]
    w = wp.vec3()
    for k in range(i + 1):
        w[k % 3] += v[(k + i) % 3] * w[k - 3]
        w[-1 - k] = v[0] + w[2]
    y[i] = wp.dot(w, v)
    p[i] = p[i - 1]
    p[i - 1][i] = y[0]


def floats(*shape):
    return np.random.default_rng(1).uniform(0.3, 1.2, shape).astype(np.float32)


KERNELS = [
    (returned_from_loops, (3, 4)),
    (jumps_in_nested_loops, (3, 4)),
    (views_in_loops, (4, 3)),
    (swapped_elements, (3, 3)),
    (outlives_two_loops, (3, 3)),
    (loop_variables, (4, 3)),
]


@pytest.mark.parametrize(("kernel", "shape"), KERNELS, ids=lambda k: getattr(k, "key", ""))
def test_statements_are_those_of_python(kernel, shape):
    check(kernel, 3, [floats(*shape), floats(3)], tolerance=1e-6)


def test_components_that_loops_change():
    args = [floats(3, 3), floats(3)]
    check_gradient(components_in_loops, 3, args, tolerance=1e-6)
    check_tangent(components_in_loops, 3, args)


@wp.kernel
def compared_across_types(
    x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=int), d: wp.float64, u: wp.uint32
):
    i = wp.tid()
    y[i] = int(x[i] < n[i]) + 10 * int(n[i] >= x[i]) + 100 * int(x[i] == d) + 1000 * int(n[i] > u)
    y[i] += 10000 * int(wp.int64(n[i]) != n[i]) + 100000 * int(wp.int8(n[i]) < wp.uint8(255))


def test_comparisons_convert_as_in_c() -> None:
    x, n = np.array([0.5, 3.0, 2.5, -1.0], np.float32), np.array([1, 3, 2, -1], np.int32)
    y = wp.zeros(4, dtype=int)
    wp.launch(compared_across_types, dim=4, inputs=[wp.array(x), wp.array(n), y, 2.5, 2])
    expected = [
        (a < b) + 10 * (b >= a) + 100 * (a == 2.5) + 1000 * (int(np.uint32(b & 0xFFFFFFFF)) > 2) + 100000
        for a, b in zip(x.tolist(), n.tolist(), strict=True)
    ]
    assert y.numpy().tolist() == expected


@wp.kernel
def chosen_effects(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * x[i]) if x[i] > 0.5 else wp.atomic_sub(y, 1, x[i])
    for k in range(4, 2):
        y[2] = 1.0
    y[2] = float(k)


def test_a_conditional_expression_stands_for_its_effects_and_an_empty_range_for_its_start() -> None:
    x, y = np.array([0.2, 0.75, 1.0], np.float32), np.zeros(3, np.float32)
    run(chosen_effects, 3, [x, y])
    np.testing.assert_allclose(y, [0.75**2 + 1.0, -0.2, 4.0], rtol=1e-6)
    check_gradient(chosen_effects, 3, [x, np.zeros(3, np.float32)])
