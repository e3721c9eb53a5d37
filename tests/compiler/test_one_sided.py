"""Variables that only one branch of an `if` assigns: 0 where it is not taken, with right derivatives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, check_tangent, run

pytestmark = [
    pytest.mark.unoptimized,
    pytest.mark.filterwarnings("ignore:kernel .* is assigned on one branch:tapedebug.TapedebugWarning"),
    pytest.mark.filterwarnings("ignore:kernel .* on some paths only:tapedebug.TapedebugWarning"),
]


@wp.struct
class Pair:
    a: float
    v: wp.vec2


@wp.func
def chosen(a: float, bound: float):
    if a > bound:
        square = a * a
    return square + a


@wp.func
def falls_through(a: float):
    if a > 0.5:
        return a * a
    if a < 0.15:
        return 3.0 * a


@wp.func
def declared(a: float) -> float:
    if a > 0.45:
        return a * a


@wp.func
def leaves_a_loop(a: float, n: int):
    for k in range(n):
        if a < 0.23 * float(k):
            return a * float(k)


@wp.func
def pair_or_none(a: float):
    if a > 0.5:
        return a, wp.vec2(a * a, 1.0)


@wp.kernel
def missing_returns(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    a, v = pair_or_none(x[i])
    falls_through(x[i])
    y[i] = falls_through(x[i]) + declared(x[i]) + leaves_a_loop(x[i], n) + a * v[0] + v[1]


@wp.kernel
def plain(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if x[i] > 0.5:
        z = x[i] * x[i]
    y[i] = z + x[i]


@wp.kernel
def nested(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if x[i] > 0.3:
        if x[i] > 0.6:
            z = x[i] * x[i]
        else:
            w = 3.0 * x[i]
    else:
        if x[i] < 0.1:
            z = wp.sin(x[i])
    y[i] = z + w * x[i]


@wp.kernel
def lasts_through_a_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for j in range(n):
        if j == i % 3:
            z = x[j] * x[i]
        y[i] += z * x[j]


@wp.kernel
def lasts_through_two_loops(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for j in range(n):
        for k in range(n - 2 * j):  # the last iterations of the outer loop run none of these
            if k == 1:
                z = x[j] * x[k]
    y[i] = z * x[i]


@wp.kernel
def in_a_while(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    k = n
    while k > 0:
        if x[k - 1] > 0.5:
            last = x[k - 1] * x[i]
        k -= 1
    y[i] = last * last


@wp.kernel
def in_an_unrolled_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(3):
        if x[k] > 0.5:
            last = x[k] * x[i]
    y[i] = last


@wp.kernel
def of_a_function(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(n):
        y[i] += chosen(x[k], x[i])  # each call begins anew


@wp.kernel
def of_structs_and_tuples(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if x[i] > 0.5:
        s = Pair(x[i], wp.vec2(x[i], 2.0 * x[i]))
        u = (x[i] * x[i], wp.vec2(x[i], 1.0))
    y[i] = s.a * s.v[1] + u[0] + u[1][0]


KERNELS = [
    plain,
    nested,
    lasts_through_a_loop,
    lasts_through_two_loops,
    in_a_while,
    in_an_unrolled_loop,
    of_a_function,
    of_structs_and_tuples,
    missing_returns,
]
X = np.array([0.05, 0.7, 0.2, 0.9, 0.4, 0.65], np.float32)


def expected(kernel: Any) -> np.ndarray:
    """The values by the same code in Python, with every variable 0 at first."""
    x, n, y = X.astype(np.float64), len(X), np.zeros(len(X))
    for i in range(n):
        z = w = last = 0.0
        match kernel.key:
            case "plain":
                y[i] = (x[i] ** 2 if x[i] > 0.5 else 0.0) + x[i]
            case "nested":
                if x[i] > 0.3:
                    z, w = (x[i] ** 2, 0.0) if x[i] > 0.6 else (0.0, 3.0 * x[i])
                elif x[i] < 0.1:
                    z = np.sin(x[i])
                y[i] = z + w * x[i]
            case "lasts_through_a_loop":
                for j in range(n):
                    z = x[j] * x[i] if j == i % 3 else z
                    y[i] += z * x[j]
            case "lasts_through_two_loops":
                for j in range(n):
                    for k in range(n - 2 * j):
                        z = x[j] * x[k] if k == 1 else z
                y[i] = z * x[i]
            case "in_a_while":
                for k in range(n - 1, -1, -1):
                    last = x[k] * x[i] if x[k] > 0.5 else last
                y[i] = last * last
            case "in_an_unrolled_loop":
                for k in range(3):
                    last = x[k] * x[i] if x[k] > 0.5 else last
                y[i] = last
            case "of_a_function":
                y[i] = sum((x[k] ** 2 if x[k] > x[i] else 0.0) + x[k] for k in range(n))
            case "missing_returns":
                a = x[i]
                y[i] = a * a if a > 0.5 else 3.0 * a if a < 0.15 else 0.0
                y[i] += a * a if a > 0.45 else 0.0
                y[i] += next((a * k for k in range(n) if a < 0.23 * k), 0.0)
                y[i] += a**3 + 1.0 if a > 0.5 else 0.0
            case "of_structs_and_tuples":
                y[i] = x[i] * 2.0 * x[i] + x[i] ** 2 + x[i] if x[i] > 0.5 else 0.0
    return y


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.key)
def test_values_are_those_of_python(kernel: Any) -> None:
    for how in ({}, {"interpreted": True}, {"lanes": True}):
        y = np.zeros_like(X)
        run(kernel, len(X), [X.copy(), y, len(X)], **how)
        np.testing.assert_allclose(y, expected(kernel), rtol=3e-6, err_msg=str(how))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.key)
def test_derivatives_equal_differences(kernel: Any) -> None:
    args = [X.copy(), np.zeros_like(X), len(X)]
    check_gradient(kernel, len(X), args)
    check_tangent(kernel, len(X), args)


def test_the_compiler_warns_at_the_line_of_the_if() -> None:
    @wp.kernel
    def warned(x: wp.array(dtype=float)):
        if x[0] > 0.0:
            z = 1.0
        x[1] = z

    with pytest.warns(wp.TapedebugWarning) as caught:
        _ = warned.analysis
    [warning] = caught
    assert str(warning.message) == (
        "kernel `warned`: `z` is assigned on one branch of this `if` only and read after it: where that "
        "branch is not taken, it is 0 (in NVIDIA Warp it is undefined)\n"
        "  = hint: assign `z` before the `if`"
    )
    assert (warning.filename, warning.lineno) == (__file__, warned.origin.first_line + 2)


def test_nothing_is_said_where_the_variable_is_not_read() -> None:
    @wp.kernel
    def silent(x: wp.array(dtype=float)):
        if x[0] > 0.0:
            z = 1.0
            x[1] = z
        if x[0] > 1.0:
            return
        else:
            w = 2.0
        x[2] = w

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = silent.analysis


def test_the_compiler_warns_of_a_function_that_returns_on_some_paths_only() -> None:
    @wp.kernel
    def warned(x: wp.array(dtype=float)):
        x[1] = declared(x[0])

    with pytest.warns(wp.TapedebugWarning) as caught:
        _ = warned.analysis
    [warning] = caught
    assert str(warning.message) == (
        "kernel `warned`: `declared()` returns a value on some paths only: on the others it is 0 (in NVIDIA "
        "Warp it is undefined)\n  = hint: end it with a `return` of a value"
    )
    assert (warning.filename, warning.lineno) == (__file__, declared.origin.first_line + 2)
