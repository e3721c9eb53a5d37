"""Adjoints of every kind of control flow, against differences of the float64 twin."""

# The documents write `float(0.0)` for variables that a loop changes.
# ruff: noqa: RUF046, B007
from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.lower import control
from tests.benchmarks.compile_times import ARRAYS, body
from tests.compiler.harness import check_gradient, run


@wp.func
def sum_and_norm(x: wp.array(dtype=float), w: wp.array(dtype=float), n: int):
    total = float(0.0)
    norm = float(0.0)
    for i in range(n):
        norm += w[i]
        total += x[i] * w[i]
    return total, norm


@wp.func
def first_above(x: wp.array(dtype=float), n: int, bound: float) -> float:
    for i in range(n):
        if x[i] > bound:
            return x[i] * x[i]
    return -1.0


@wp.func
def signed(a: float):
    if a < 0.0:
        return -a * a
    return a * 3.0


@wp.kernel
def straight(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i] / (1.0 + x[i] * x[i])


@wp.kernel
def branches(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    a = x[i]
    if a > 0.5:
        a = a * a
    elif a > 0.0:
        a = wp.exp(a)
        if i > 2:
            a *= 2.0
    else:
        a = -a
    y[i] = a


@wp.kernel
def early_return(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i >= n - 2:
        return
    if x[i] < 0.0:
        y[i] = x[i] * 2.0
        return
    y[i] = x[i] * x[i]


@wp.kernel
def product(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    p = float(1.0)
    for k in range(n):
        p *= x[k]
    y[i] = p * x[i]


@wp.kernel
def used_after(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    total, norm = sum_and_norm(x, x, n)
    wp.atomic_add(y, i, total / (norm * norm + 1.0))


@wp.kernel
def nested_loops(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(3):
        for j in range(k, n, 2):
            s = s * 0.5 + wp.sin(s * x[j])
        s += x[k]
    y[i] = s


@wp.kernel
def backwards(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(1.0)
    for k in range(n - 1, -1, -2):
        s = s * x[k] + float(k)
    y[i] = s


@wp.kernel
def newton(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    a = wp.abs(x[i]) + 1.0
    r = a
    count = int(0)
    while count < n and wp.abs(r * r - a) > 1.0e-3:
        r = 0.5 * (r + a / r)
        count += 1
    y[i] = r


@wp.kernel
def break_and_continue(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.1)
    for k in range(n):
        if k == 1:
            continue
        if s > 4.0:
            break
        s = s * s + wp.abs(x[k]) + 0.3
        if x[i] < 0.0:
            continue
        s += 0.1 * x[i]
    y[i] = s


@wp.kernel
def return_in_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i] = first_above(x, n, 0.6) + signed(x[i])


@wp.kernel
def while_in_branch(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    if s > 0.0:
        k = int(0)
        while k < i:
            if k > 1:
                s *= 1.0 + 0.1 * x[k]
            k += 1
    else:
        for k in range(2):
            s = s * s - 0.5
    y[i] = s


@wp.kernel
def conditional_expression(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    inside = i > 0 and x[i - 1] > 0.0
    a = x[i - 1] if inside else 2.0
    y[i] = a * x[i] if not inside or x[i] > 0.0 else wp.sqrt(-x[i])


@wp.kernel
def in_place(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i] = x[i] * x[i]
    x[i] = wp.sin(x[i])
    x[i] *= y[i]
    y[i] = y[i] * x[i]


@wp.kernel
def in_place_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(n):
        if k % 2 == 0:
            y[i] = y[i] * x[k] + 0.3 * y[i]
        else:
            y[i] = wp.sin(y[i])
        for j in range(k):
            y[i] *= 1.0 + 0.05 * x[j]


@wp.kernel
def in_place_while(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for outer in range(2):
        while y[i] < 4.0 + float(outer):
            y[i] = y[i] * y[i] + 1.0 + 0.2 * x[i] * x[i]


@wp.kernel
def running_products(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    for k in range(n - 1):
        y[k + 1] = x[k] * y[k]


@wp.func
def first_of(a: float, b: float) -> float:
    for k in range(2):
        return a
    return b


@wp.kernel
def returned_from_outside(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    """The loop's result is a value from outside that no iteration uses."""
    i = wp.tid()
    y[i] = first_of(x[i] * x[i], y[i])


@wp.kernel
def array_after_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    """An array that a loop stores to is the same array after it."""
    i = wp.tid()
    for k in range(3):
        y[i] = y[i] * x[k]
    y[i] = y[i] * y[i]


@wp.kernel
def carried_tuple(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    """Several values in one variable are carried one by one."""
    i = wp.tid()
    pair = x[i], y[i]
    for k in range(3):
        pair = pair[1], pair[0] * pair[1]
    y[i] = pair[0] - pair[1]


@wp.func
def two_from_loop(x: wp.array(dtype=float), n: int) -> tuple[float, float]:
    for k in range(n):
        if x[k] > 0.2:
            return x[k], x[k] * x[k]
    return 0.0, 1.0


@wp.kernel
def several_results_from_a_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    a, b = two_from_loop(x, n)
    y[i] = a * b + x[i] * b


@wp.func
def assigned_where_it_is_read(a: float):
    if a > 0.0:
        if a > 0.8:
            return a
        b = a * a
    else:
        b = -a
    return b * 3.0


@wp.kernel
def assigned_unless_left(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    """`s` is assigned on every path that reaches its use; the others jump."""
    i = wp.tid()
    for k in range(n):
        if x[k] > 0.0:
            if x[k] > 0.5:
                continue
            s = x[k] * x[k]
        elif x[k] < -0.9:
            break
        else:
            s = x[k]
        y[i] = y[i] + s * s
    if i == 2:
        if y[i] > 0.9:
            return
        t = x[i]
    else:
        t = x[i] * x[i]
    y[i] = y[i] * t + assigned_where_it_is_read(x[i])


@wp.func
def with_defaults(a: float, b: float = 2.0, c: int = 3):
    return a * b + float(c)


@wp.kernel
def defaults_and_keywords(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i] = with_defaults(x[i]) * with_defaults(x[i], c=5) + with_defaults(b=x[i], a=1.5)


@wp.kernel
def rotated(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    """Carried values change places: none may be read after it was changed."""
    i = wp.tid()
    a = x[i]
    b = y[i]
    c = x[i] * y[i]
    k = int(0)
    while k < 4:
        b, a = a, b
        c, b, a = b * 0.5, a, c
        k += 1
    y[i] = a * 1.0 + b * b + c * 3.0


KERNELS = [
    rotated,
    assigned_unless_left,
    defaults_and_keywords,
    returned_from_outside,
    array_after_loop,
    carried_tuple,
    several_results_from_a_loop,
    straight,
    branches,
    early_return,
    product,
    used_after,
    nested_loops,
    backwards,
    newton,
    break_and_continue,
    return_in_loop,
    while_in_branch,
    conditional_expression,
    in_place,
    in_place_loop,
    in_place_while,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.key)
@pytest.mark.parametrize("seed", range(3))
def test_adjoint_equals_differences(kernel, seed):
    rng = np.random.default_rng(seed)
    n = 6
    x = rng.uniform(-1.0, 1.0, n).astype(np.float32)
    y = rng.uniform(0.5, 1.5, n).astype(np.float32)
    check_gradient(kernel, n, [x, y, n], tolerance=1e-6)


def test_loop_carried_array_is_reversed_with_its_values():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.5, 1.5, (2, 7)).astype(np.float32)
    check_gradient(running_products, 1, [x, y, 7])


def test_forward_values_of_control_flow():
    x = np.array([0.7, -0.2, 0.3, 2.0], np.float32)
    y = np.zeros(4, np.float32)
    run(branches, 4, [x, y, 4])
    np.testing.assert_allclose(y, [0.7**2, 0.2, np.exp(0.3), 4.0], rtol=1e-6)
    run(return_in_loop, 4, [x, y, 4])
    np.testing.assert_allclose(y, 0.7**2 + np.array([2.1, -0.04, 0.9, 6.0]), rtol=1e-6)


def test_a_loop_that_only_adds_keeps_nothing():
    @wp.kernel
    def total(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
        s = float(0.0)
        for k in range(n):
            s += x[k]
        wp.atomic_add(y, 0, s)

    assert "put_f32" not in total.source("adjoint")
    assert "put_f32" in product.source("adjoint")


@wp.kernel
def name_of_a_vector_and_of_counters(v: wp.array(dtype=wp.vec3), y: wp.array2d(dtype=float), n: int):
    i = wp.tid()
    c = v[i]
    y[i, 0] = c[0] * c[1]
    for r in range(n):
        for c in range(r + 1):
            y[i, c] += v[i][c] * v[i][r]
    for _ in range(2):
        c = v[i][0] * 2.0
        y[i, 1] += c * c
    for c in range(n):
        y[i, c] *= v[i][2]
    y[i, 0] += float(c)


@wp.kernel
def turns(x: wp.array(dtype=float), k: wp.array(dtype=int), n: int):
    i = wp.tid()
    a = x[i]
    b = a * a
    p = k[i]
    q = 7
    for _ in range(n):
        a, b = b, a
    while p < 5:
        p, q = q, p
    for _ in range(n + p):
        a, b = b + a, a
    x[i] = a
    k[i] = p


def test_variables_of_several_types_take_turns() -> None:
    x, k = np.array([0.5, 1.5, 2.0]), np.array([1, 6, 4], np.int32)
    for how in ({}, {"interpreted": True}, {"lanes": True}):
        given = [x.astype(np.float32), k.copy(), 3]
        run(turns, 3, given, **how)
        np.testing.assert_array_equal(given[1], [7, 6, 7])
        a, b = x * x, x  # after three turns
        fibonacci = {9: (34, 55), 10: (55, 89)}
        expected = [fibonacci[3 + p][1] * a[i] + fibonacci[3 + p][0] * b[i] for i, p in enumerate(given[1])]
        np.testing.assert_allclose(given[0], expected, rtol=1e-6)
    check_gradient(turns, 3, [x, k, 3])


def test_iterations_may_begin_with_another_type_of_a_variable() -> None:
    """As in Warp, if each iteration assigns the name first."""
    v = np.random.default_rng(1).uniform(0.5, 1.5, (2, 3)).astype(np.float32)
    args = [v, np.zeros((2, 3), np.float32), 3]
    expected = np.zeros((2, 3))
    for i in range(2):
        expected[i, 0] = v[i, 0] * v[i, 1]
        for r in range(3):
            for c in range(r + 1):
                expected[i, c] += v[i, c] * v[i, r]
        expected[i, 1] += 2 * (2 * v[i, 0]) ** 2
        expected[i] *= v[i, 2]
        expected[i, 0] += 2
    for how in ({}, {"interpreted": True}, {"lanes": True}):
        y = np.zeros_like(args[1])
        run(name_of_a_vector_and_of_counters, 2, [v, y, 3], **how)
        np.testing.assert_allclose(y, expected, rtol=1e-5)
    check_gradient(name_of_a_vector_and_of_counters, 2, args)


def test_after_such_a_loop_the_name_has_no_one_type() -> None:
    @wp.kernel
    def read(v: wp.array(dtype=wp.vec3), y: wp.array(dtype=float), n: int):
        c = v[0]
        for _ in range(n):
            c = 2.0 * v[0][0]
            y[0] += c
        y[1] = c[0]

    with pytest.raises(
        wp.KernelNameError, match=r"`c` is vec3 before the loop in line .* and float32 inside it"
    ):
        _ = read.analysis


def test_a_branch_merges_only_the_variables_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "cache"))  # nothing is lowered yet
    merged = []
    for lines in (100, 200, 400):
        path = tmp_path / f"{lines}.py"
        text = f"import tapedebug as wp\n\n\n@wp.kernel\ndef k({ARRAYS}, s: float):\n    i = wp.tid()\n"
        path.write_text(f"{text}{body(lines)}\n", encoding="utf-8")
        kernel: Any = runpy.run_path(str(path))["k"]
        with patch.object(control, "_merge_name", wraps=control._merge_name) as merge:
            kernel.analysis
        merged.append(merge.call_count)
    assert 0 < merged[0] <= 100
    assert merged[2] - merged[1] == 2 * (merged[1] - merged[0])
