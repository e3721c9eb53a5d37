"""Values known when a kernel is compiled: static(…), unrolled loops, conditions, objects."""

# ruff: noqa: E721, B905, B007, B023, RUF015
from __future__ import annotations

import enum
import math

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check, check_gradient, check_tangent, run, twin

WEIGHTS = (0.5, -1.0, 2.0)
TABLE = {"gain": 3.0, "shift": -0.5}
MODE = "fast"
NOTHING = None


class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 2


class Config:
    N = 3
    names = ["a", "b"]


def floats(*shape, seed=2):
    return np.random.default_rng(seed).uniform(0.3, 1.2, shape).astype(np.float32)


# Loops ------------------------------------------------------------------------------------------------------


@wp.kernel
def nested_short(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for a in range(3):
        for b in range(2, -1, -1):
            if a == b:
                continue
            y[i] += x[a] * x[b] * float(a - b)
            x[i] = x[i] * 0.5 + y[a]


@wp.kernel
def leaves(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for a, w in enumerate((0.5, -1.5, 2.0, 1.0)):
        if x[a] > 1.0 + 0.1 * float(i):
            y[i] = y[i] * w
            break
        if x[a] < 0.4:
            continue
        y[i] += x[a] * x[a] * w
    y[i] *= w + float(a)


@wp.kernel
def returns_inside(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for a in (2, 0, 1):
        if x[a] * x[i] > 0.8:
            y[i] = x[a] * y[a]
            return
        y[i] *= x[a]


@wp.kernel
def longer_than_unrolled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(100):
        y[i] = y[i] * 0.95 + x[k % 4] * 0.1
        last = y[i] * x[i]
    y[i] = last + float(k)


@wp.kernel
def over_what_is_known(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for w in WEIGHTS:
        y[i] += w * x[i]
    for a, b in zip(range(4), (x[0], x[1] * x[i], x[2])):
        y[a] = y[a] * b
    for name in reversed(("gain", "shift")):
        y[i] = y[i] * TABLE[name] + x[i]
    y[i] += float(len(WEIGHTS) + len(TABLE) + len((x[0], 2.0)))
    for k in []:
        y[i] = 0.0


@wp.kernel
def after_loops(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for a in range(1, 3):
        v = x[a] * y[i]
    for b in range(i, 4):
        if x[b] > 0.9:
            break
        u = x[b] * y[b]
        w = u * v
    k = 0
    while k < i + 1:
        z = x[k] * y[0]
        k += 1
    for c in range(i + 1):
        for d in range(c + 1):
            deep = x[d] * x[c]
    y[i] = v + u * w + z * deep + float(a + b + c + d)


LOOPS = [
    nested_short,
    leaves,
    returns_inside,
    longer_than_unrolled,
    over_what_is_known,
    after_loops,
]


@pytest.mark.parametrize("kernel", LOOPS, ids=lambda k: k.key)
def test_loops_are_those_of_python(kernel):
    x, y = floats(4), floats(4, seed=3)
    if kernel is after_loops:
        x[:] = [0.5, 0.7, 0.8, 1.1]
    check(kernel, 3, [x, y])


def test_whether_a_loop_is_written_out_changes_nothing(monkeypatch):
    sources, results = [], []
    for most in (0, 16):
        monkeypatch.setattr(wp.config, "max_unroll", most)

        @wp.kernel
        def three(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            for k in range(3):
                y[i] = y[i] * x[k] + float(k)

        args = [floats(4), floats(4, seed=3)]
        run(three, 4, args)
        sources.append(sum(line.split("#")[0].count("for ") for line in three.source().splitlines()))
        results.append(args[1].tolist())
    assert sources[0] == sources[1] + 1
    assert results[0] == results[1]


def test_a_variable_that_a_loop_assigns_first_is_0_where_it_did_not_run():
    @wp.kernel
    def last(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec3), n: int):
        for k in range(n):
            v = wp.vec3(x[k], 1.0, float(k))
            pair = v, k
        y[0] = v * float(k + 1)
        y[1] = pair[0] * float(pair[1])

    for n, expected in ((0, [[0, 0, 0], [0, 0, 0]]), (2, [[10, 2, 2], [5, 1, 1]])):
        y = np.ones((2, 3), np.float32)
        run(last, 1, [np.array([3, 5], np.float32), y, n])
        assert y.tolist() == expected
    check_gradient(last, 1, [floats(3), floats(2, 3), 3])


def test_a_function_called_twice_with_other_types_keeps_its_loop_variables_apart():
    @wp.func
    def last_of(a: wp.array(dtype=float), scale, n: int):
        for k in range(n):
            v = scale * a[k]
        return v

    @wp.kernel
    def both(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
        y[0] = last_of(x, 2.0, n) + wp.dot(last_of(x, wp.vec2(1.0, 3.0), n), wp.vec2(1.0, 1.0))

    y = np.zeros(1, np.float32)
    run(both, 1, [np.array([1, 2], np.float32), y, 2])
    assert y[0] == 4 + 8


# static -----------------------------------------------------------------------------------------------------


def polynomial(coefficients):
    @wp.func
    def derivative(x: float):
        return wp.static(coefficients[1])

    @wp.kernel
    def evaluated(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        s = float(0.0)
        for k in range(wp.static(len(coefficients))):
            s += wp.static(coefficients[k]) * wp.pow(x[i], wp.static(float(k)))
        if wp.static(len(coefficients) > 1):
            s += derivative(x[i])
        elif wp.static(len(coefficients) > 100):
            s += "nobody compiles this"
        y[i] = s

    return evaluated


@pytest.mark.parametrize("coefficients", [[2.0], [1.0, -2.0, 0.5], [0.1 * k for k in range(30)]], ids=len)
def test_static_in_a_factory(coefficients):
    kernel = polynomial(coefficients)
    x, y = floats(4), np.zeros(4, np.float32)
    run(kernel, 4, [x, y])
    expected = np.polynomial.Polynomial(coefficients)(x) + (coefficients[1] if len(coefficients) > 1 else 0)
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    check_gradient(kernel, 4, [x, y])


def square(a):
    return a * a


def test_static_sees_what_names_meant_at_the_decoration():
    kernels = []
    for factor in (2.0, 3.0):

        @wp.kernel
        def scaled(y: wp.array(dtype=float)):
            y[0] = wp.static(square(factor) + [c for c in (factor, 1.0)][0]) + factor

        kernels.append(scaled)
    found = []
    for kernel in kernels:
        y = np.zeros(1, np.float32)
        run(kernel, 1, [y])
        found.append(y[0])
    # what kernels capture otherwise, they read when they are compiled
    assert found == [2 * 2 + 2 + 3, 3 * 3 + 3 + 3]


def test_static_gives_values_of_every_kind():
    helper = wp.func(doubled_plain)

    @wp.kernel
    def kinds(x: wp.array(dtype=float), y: wp.array(dtype=float), d: wp.array(dtype=wp.float64)):
        i = wp.tid()
        v = wp.static(wp.vec3(1.0, 2.0, 3.0) * 2.0)
        m = wp.static(wp.mat22(1.0, 2.0, 3.0, 4.0))
        f = wp.static(helper)
        kind = wp.static(wp.vec2)
        n = wp.static(math.factorial(4))
        d[i] = wp.static(wp.float64(0.1)) + wp.static(np.float64(0.2))
        y[i] = v[1] * x[i] + m[1, 0] + f(x[i]) + kind(x[i], 2.0)[1] + float(n) + wp.static(True and 0.5)
        for k in range(3):
            v[k] *= wp.static((1.0, 2.0, 4.0)[k]) + x[i]
            y[i] += v[k] * wp.static(v_weights(k))

    x, y, d = floats(2), np.zeros(2, np.float32), np.zeros(2)
    run(kinds, 2, [x, y, d])
    v = np.array([2, 4, 6]) * (np.array([1, 2, 4]) + x[:, None])
    expected = 4 * x + 3 + 2 * x + 2 + 24 + 0.5 + v @ [0, 1, 2]
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert d.tolist() == [0.1 + 0.2] * 2
    check_gradient(kinds, 2, [x, y, d])


def doubled_plain(a: float):
    return a * 2.0


def v_weights(k):
    return float(k)


def test_static_outside_a_kernel_is_its_argument():
    assert wp.static(3) == 3


# Conditions and objects that are known ----------------------------------------------------------------------


@wp.func
def norm(a, kind):
    if type(a) == float:
        return wp.abs(a)
    elif kind is wp.vec3 and kind == type(a):
        return wp.length(a)
    elif a.dtype == wp.float64:
        return float(a)
    return float(a) * 10.0


@wp.kernel
def conditions(x: wp.array(dtype=float), y: wp.array(dtype=float), n: wp.array2d(dtype=int)):
    i = wp.tid()
    s = (
        norm(-x[i], wp.float32)
        + norm(wp.vec3(3.0, 0.0, 4.0), wp.vec3)
        + norm(wp.float64(0.5), 0)
        + norm(2, None)
    )
    if MODE == "fast" and NOTHING is None and "gain" in TABLE and MODE != "slow" and "z" not in Config.names:
        s *= TABLE["gain"]
    else:
        s = wp.vec3()
    a = x if MODE == "slow" else y
    b = (x[i], 2.0) if x[i] > 0.6 else (x[i] * x[i], 3.0)
    s += float(n.ndim + n[0].ndim) * float(n.dtype(3.9)) + x.dtype(2) + x[i].dtype(1)
    y[i] = s * b[0] + b[1] * type(s)(a[i]) + float(Side.RIGHT + Side.LEFT) + float(Config.N)


def test_conditions_on_types_and_objects():
    x, y, n = floats(3), floats(3, seed=5), np.zeros((1, 1), np.int32)
    found = twin([x, y, n])
    run(conditions, 3, found, f64=True)
    s = (x + 5 + 0.5 + 20.0) * 3.0 + 9.0 + 2 + 1
    b = np.where(x > 0.6, x, x * x), np.where(x > 0.6, 2.0, 3.0)
    np.testing.assert_allclose(found[1], s * b[0] + b[1] * y + 2 + 3, rtol=1e-6)
    check_gradient(conditions, 3, [x, y, n])
    check_tangent(conditions, 3, [x, y, n])


OUTSIDE = wp.ones(2, requires_grad=True)


@pytest.mark.unoptimized
def test_an_array_outside_the_kernel_is_refused_at_constant_indices_too():
    @wp.kernel
    def outside(y: wp.array(dtype=float)):
        y[0] = OUTSIDE[0]

    with pytest.raises(TypeError) as caught:
        wp.launch(outside, 1, outputs=[wp.zeros(1)])
    assert str(caught.value).startswith(
        "kernel `outside`: `OUTSIDE` is an array outside the kernel: launches would not see its later "
        "values, and it would get no gradient\n"
    )
    assert str(caught.value).endswith(
        "  = hint: add a parameter `OUTSIDE: array(dtype=float32)`, and pass OUTSIDE in inputs"
    )


def test_static_numbers_are_literals_of_the_type_they_are_converted_to():
    @wp.kernel
    def large(y: wp.array(dtype=wp.int64)):
        y[0] = wp.int64(wp.static(2**40))
        y[1] = wp.int64(-wp.static(2**31))
        for _ in range(wp.static(3 > 2)):
            y[2] += wp.int64(1)

    y = wp.zeros(3, dtype=wp.int64)
    wp.launch(large, 1, outputs=[y])
    assert y.numpy().tolist() == [2**40, -(2**31), 1]
