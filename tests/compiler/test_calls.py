"""Calls: keywords of functions of the language, Python's own functions, what is computed and what is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.lower import keywords
from tapedebug.lang.builtins import BUILTINS
from tests.compiler.harness import check, check_gradient, check_tangent, run


def floats(*shape, seed=2):
    return np.random.default_rng(seed).uniform(0.3, 0.9, shape).astype(np.float32)


# Keywords ---------------------------------------------------------------------------------------------------


@wp.kernel
def by_name(
    x: wp.array(dtype=float), y: wp.array(dtype=float), m: wp.array2d(dtype=float), n: wp.array(dtype=int)
):
    i = wp.tid()
    a = wp.lerp(x[i], b=2.0, t=0.25) + wp.clamp(low=0.5, high=0.6, x=x[i]) + wp.atan2(x=1.0, y=x[i])
    b = wp.where(cond=x[i] > 0.5, value_if_true=a, value_if_false=2.0) * wp.sin(x=x[i])
    v = wp.quat_rotate(
        quat=wp.quat_from_axis_angle(axis=wp.vec3(0.0, 0.0, 1.0), angle=x[i]), vec=wp.vec3(1.0, 0.0, 0.0)
    )
    wp.atomic_add(arr=y, i=i, value=a * b + v[1])
    wp.atomic_max(m, i, value=b, j=1)
    before = wp.atomic_cas(arr=n, i=0, compare=0, value=7)
    state = wp.rand_init(seed=3, offset=i) if i < 0 else wp.rand_init(5)
    y[i] += wp.randf(state, high=2.0, low=2.0) + float(before) * 0.0


def test_keywords_are_the_documented_names():
    x, y, m, n = floats(3), np.zeros(3, np.float32), np.zeros((3, 2), np.float32), np.zeros(1, np.int32)
    run(by_name, 3, [x, y, m, n])
    a = 0.75 * x + 0.5 + np.clip(x, 0.5, 0.6) + np.arctan2(x, 1)
    b = np.where(x > 0.5, a, 2) * np.sin(x)
    np.testing.assert_allclose(y, a * b + np.sin(x) + 2, rtol=1e-5)
    np.testing.assert_allclose(m, np.stack([np.zeros(3), np.maximum(b, 0)], 1), rtol=1e-5)
    assert n[0] == 7
    check_gradient(by_name, 3, [x, y, m * 0.0, n], tolerance=1e-6)  # m itself is a tie of the maximum


@pytest.mark.peer
def test_keywords_are_those_of_warp():
    warp = pytest.importorskip("warp")
    functions = warp._src.context.builtin_functions
    compared = 0
    for name in sorted(BUILTINS.keys() & functions.keys() - {"curlnoise"}):
        function = functions[name]
        known = {tuple(f.input_types) for f in getattr(function, "overloads", None) or [function]}
        for signature in keywords.signatures(name):
            assert any(signature == names[: len(signature)] for names in known), (name, signature, known)
            compared += 1
    assert compared > 120


# Python's functions -----------------------------------------------------------------------------------------


@wp.kernel
def pythons(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = math.sin(x[i]) + math.cos(x[i]) * math.exp(x[i]) - math.log(x[i]) + math.sqrt(x[i]) + math.pi
    b = (
        math.atan2(x[i], 2.0)
        + math.pow(x[i], 1.5)
        + math.fabs(-x[i])
        + math.fmod(x[i], 0.25)
        + math.tanh(x[i])
    )
    c = min(x[i], a, b, 0.7) + max(0.5, x[i]) + abs(x[i] - 0.6) + pow(x[i], 2.0) + float(round(x[i] * 3.0))
    d = math.degrees(x[i]) * 0.01 + math.radians(x[i]) + math.asin(x[i]) + math.erf(x[i]) + math.tau * math.e
    if math.isnan(a) or not math.isfinite(b) or math.isinf(c):
        d = 0.0
    y[i] = a * b + c * d + float(int(x[i] * 10.0)) + float(bool(i)) + float(len(x))


def test_functions_of_python_and_math():
    check(pythons, 3, [floats(3), floats(3, seed=7)], tolerance=1e-6)


@wp.kernel
def numpys(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = np.arcsin(x[i]) + np.arctan2(x[i], 2.0) + np.power(x[i], 1.5) + np.minimum(x[i], 0.5) + np.abs(-x[i])
    y[i] = a * np.maximum(x[i], np.sin(x[i])) + np.fmod(x[i], 0.25) + np.float32(i) * np.pi + np.rint(x[i])


def test_functions_of_numpy():
    check(numpys, 3, [floats(3), floats(3, seed=7)], tolerance=1e-6)


# What is computed -------------------------------------------------------------------------------------------


@wp.func
def counted(counter: wp.array(dtype=int), place: int, value: bool):
    counter[place] += 1
    return value


@wp.kernel
def lazily(x: wp.array(dtype=float), y: wp.array(dtype=float), seen: wp.array(dtype=int)):
    i = wp.tid()
    n = x.shape[0]
    if i + 1 < n and x[i + 1] > 0.5 and counted(seen, 0, True):
        y[i] += x[i + 1] * x[i + 1]
    if i + 1 >= n or x[i + 1] < 0.5 or counted(seen, 1, False):
        y[i] += x[i]
    y[i] *= x[i + 1] if i + 1 < n else (x[i] * 2.0 if not (i < 1) and counted(seen, 2, True) else 1.0)
    if 0.2 < x[i] <= x[(i + 1) % n] < 2.0 != y[i]:
        y[i] = y[i] * y[i]
    while i < n and x[i] > 0.4:
        y[0] += x[i] * 0.5
        i += 1


def test_only_what_is_selected_is_computed():
    """Memory beyond the array is not read: guards hold, in values and in derivatives."""
    memory = np.full(8, np.nan, np.float32)
    x, y, seen = memory[2:5], floats(3, seed=4), np.zeros(3, np.int32)
    x[:] = [0.7, 0.3, 0.8]
    check(lazily, 3, [x, y, seen])
    run(lazily, 3, [x, y, seen])
    assert np.isnan(memory[5:]).all()
    assert seen.tolist() == [1, 1, 1]
    assert np.isfinite(y).all()


# Targets of every operator ----------------------------------------------------------------------------------


@wp.kernel
def operators(
    x: wp.array(dtype=float), m: wp.array2d(dtype=float), n: wp.array(dtype=int), k: wp.array2d(dtype=int)
):
    i = wp.tid()
    a = x[i]
    a += 1.0
    a -= x[0]
    a *= a
    a /= 1.0 + x[i]
    a **= 1.5
    a %= 0.75
    a //= 0.125
    x[i] *= x[i] + a
    x[i] /= m[i, 0] + 2.0
    x[i] **= 2.0
    x[i] -= m[i, 1]
    m[i, 1] %= 0.35
    m[i, 0] //= 0.25
    m[i][0] += x[i]
    j = i + 9
    j //= 2
    j %= 4
    j <<= 2
    j |= 3
    j &= 14
    j ^= 5
    j >>= 1
    n[i] += j
    n[i] -= 3
    n[i] *= j + 2
    n[i] //= 3
    n[i] <<= 1
    k[i, 0] |= n[i]
    k[i, 1] &= 6
    k[i][1] ^= j
    k[i, 0] >>= 1
    k[i, 0] &= 31
    k[i, 0] %= 5


def test_every_augmented_assignment():
    rng = np.random.default_rng(3)
    n, k = rng.integers(1, 9, 3).astype(np.int32), rng.integers(1, 9, (3, 2)).astype(np.int32)
    check(operators, 3, [floats(3), floats(3, 2), n, k], tolerance=1e-6)


@wp.kernel
def annotated(x: wp.array(dtype=float), d: wp.array(dtype=wp.float64)):
    i = wp.tid()
    a: float = 2
    b: wp.float64 = 0.1
    c: int = 3
    v: wp.vec3 = wp.vec3(x[i], 1.0, 2.0)
    e: float
    e = a * float(c)
    x[i] = e * v[0]
    d[i] += b


def test_annotated_assignment_gives_a_number_its_type():
    x, d = floats(2), np.zeros(2)
    expected = x * 6
    run(annotated, 2, [x, d])
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert d.tolist() == [0.1, 0.1]
    check_tangent(annotated, 2, [x, d])


@wp.func
def summed(values: tuple[float, ...]) -> float:
    s = float(0.0)
    for v in values:
        s += v
    for k in range(len(values)):
        s += values[k]
    return s


@wp.func
def scaled(pair: tuple[wp.vec3, float]) -> float:
    return wp.length_sq(pair[0]) * pair[1]


@wp.kernel
def tuples(x: wp.array(dtype=float), o: wp.array(dtype=float)):
    i = wp.tid()
    t = (x[i], 2.0, x[i] * x[i])
    o[i] = summed(t) + summed((x[i],)) + scaled((wp.vec3(x[i], 1.0, 2.0), x[i]))


def test_parameters_that_are_tuples():
    x = np.array([0.5, -1.5], np.float32)
    o = np.zeros(2, np.float32)
    run(tuples, 2, [x, o])
    np.testing.assert_allclose(o, 2 * (x + 2 + x * x) + 2 * x + (x * x + 5) * x, rtol=1e-6)
    check_gradient(tuples, 2, [x, o])
