"""Atomics but sums: what they leave and return, which thread an adjoint goes to, what results steer."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run


@wp.kernel
def smallest(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    wp.atomic_min(y, i % n, x[i] * x[i] - x[i])


@wp.kernel
def largest(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    before = wp.atomic_max(y, i % n, wp.sin(4.0 * x[i]))
    x[i] = before * x[i]


@wp.kernel
def exchanged(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    before = wp.atomic_exch(y, i % n, x[i] * x[i])
    x[i] = x[i] * before


@wp.kernel
def swapped(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    here = y[i % n]
    if i % 3 == 0:
        here = 0.0
    before = wp.atomic_cas(y, i % n, here, x[i] * here)
    x[i] = x[i] * wp.cos(before)


@wp.kernel
def vectors(p: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.vec3), n: int):
    i = wp.tid()
    low = wp.atomic_min(q, i % n, wp.cross(p[i], p[0]))
    high = wp.atomic_max(q, i % n, p[i] * 0.9)
    p[i] = wp.atomic_exch(q, 0, low + high * 0.5)


@wp.kernel
def tickets(x: wp.array(dtype=float), y: wp.array(dtype=float), count: wp.array(dtype=int), n: int):
    i = wp.tid()
    before = wp.atomic_max(count, 0, i % n)
    ticket = wp.atomic_exch(count, 1, i)
    if before > 1 and ticket % 2 == 0:
        y[i % n] = y[i % n] * x[i]
    else:
        wp.atomic_xor(count, 2, i)
        if wp.atomic_cas(count, 2, 3, 0) == 3:
            y[i % n] = y[i % n] + x[i] * x[i]


@wp.kernel
def in_loops(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    best = float(0.0)
    for k in range(i):
        if x[k] > 0.4:
            best += wp.atomic_max(y, k % n, x[i] * x[k]) * x[k]
    x[i] = best + x[i]


SEEDS = range(3)


@pytest.mark.parametrize("kernel", [smallest, largest, exchanged, swapped, in_loops], ids=lambda k: k.key)
@pytest.mark.parametrize("seed", SEEDS)
def test_adjoint(kernel, seed):
    x, y = np.random.default_rng(seed).uniform(0.2, 1.2, (2, 12)).astype(np.float32)
    check_gradient(kernel, 12, [x, y, 3], tolerance=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_adjoint_of_vectors(seed):
    p, q = np.random.default_rng(seed).uniform(0.2, 1.2, (2, 10, 3)).astype(np.float32)
    check_gradient(vectors, 10, [p, q, 2], tolerance=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_integers_steer_what_is_differentiated(seed):
    x, y = np.random.default_rng(seed).uniform(0.2, 1.2, (2, 12)).astype(np.float32)
    check_gradient(tickets, 12, [x, y, np.array([0, 0, 3], np.int32), 3], tolerance=1e-6)


@pytest.mark.parametrize("kernel", [smallest, largest, exchanged, swapped, in_loops], ids=lambda k: k.key)
def test_tangent_is_the_transpose(kernel):
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0.2, 1.2, (2, 12))
    dots, seeds = rng.normal(size=(2, 12)), rng.normal(size=(2, 12))
    values = [x.copy(), y.copy(), 3]
    tangents = [*dots.copy()]
    run(kernel, 12, values, f64=True, tangents=tangents)
    adjoints = [*seeds.copy()]
    run(kernel, 12, [x.copy(), y.copy(), 3], f64=True, adjoints=adjoints)
    forward = float(sum((t * s).sum() for t, s in zip(tangents, seeds, strict=True)))
    backward = float(sum((d * a).sum() for d, a in zip(dots, adjoints, strict=True)))
    assert forward == pytest.approx(backward, rel=1e-12)


@pytest.mark.parametrize("interpreted", [False, True])
def test_values_and_results(interpreted):
    @wp.kernel
    def each(a: wp.array(dtype=int), before: wp.array(dtype=int), v: wp.array(dtype=int)):
        i = wp.tid()
        before[0] = wp.atomic_min(a, 0, v[0])
        before[1] = wp.atomic_max(a, 1, v[1])
        before[2] = wp.atomic_exch(a, 2, v[2])
        before[3] = wp.atomic_cas(a, 3, 40, v[3])
        before[4] = wp.atomic_cas(a, 4, 41, v[4])
        before[5] = wp.atomic_and(a, 5, v[5])
        before[6] = wp.atomic_or(a, 6, v[6])
        before[7] = wp.atomic_xor(a, 7, v[7]) + i

    a = np.arange(10, 90, 10, dtype=np.int32)
    start, before, v = a.copy(), np.zeros(8, np.int32), np.array([5, 19, 7, 99, 98, 52, 3, 81], np.int32)
    run(each, 1, [a, before, v], interpreted=interpreted)
    assert before.tolist() == start.tolist()
    assert a.tolist() == [5, 20, 7, 99, 50, 60 & 52, 70 | 3, 80 ^ 81]


def test_an_adjoint_goes_to_whoever_reached_the_value_first():
    x = np.array([3, 1, 5, 5, 1, 5], np.float32)
    low, high = np.array([1, np.inf], np.float32), np.array([-np.inf, 5], np.float32)

    @wp.kernel
    def both(x: wp.array(dtype=float), low: wp.array(dtype=float), high: wp.array(dtype=float)):
        i = wp.tid()
        for k in range(2):
            wp.atomic_min(low, k, x[i])
            wp.atomic_max(high, k, x[i])

    seeds = [np.zeros(6, np.float32), np.array([10, 1], np.float32), np.array([100, 1000], np.float32)]
    run(both, 6, [x, low, high], adjoints=seeds)
    # Both arrays began at the extreme once: there it is the array's own value that stays.
    assert seeds[0].tolist() == [0, 1, 100, 0, 0, 0]
    assert seeds[1].tolist() == [10, 0]
    assert seeds[2].tolist() == [0, 1000]


def test_of_a_nan_and_a_number_the_number_stays_as_with_min():
    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_min(y, 0, x[i])
        wp.atomic_max(y, 1, x[i])

    y = np.array([2, np.nan], np.float32)
    run(k, 3, [np.array([np.nan, 4, 1], np.float32), y])
    assert y.tolist() == [1, 4]


def test_analysis():
    analysis = largest.analysis
    assert analysis.atomic == {1}
    assert analysis.writes == {0, 1}
    assert analysis.serial
    assert not smallest.analysis.serial
    assert exchanged.analysis.serial
    assert [a.kind for a in smallest.analysis.accesses].count("atomic") == 1


@pytest.mark.parametrize("name", ["atomic_min", "atomic_max"])
def test_through_a_tape(name):
    """Many threads onto few elements, a loss made of them: each gradient is that of the winning thread."""
    pick = getattr(wp, name)

    @wp.kernel
    def reduce(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        pick(y, i % 4, x[i] * x[i])

    values = np.random.default_rng(3).normal(size=4000).astype(np.float32)
    x = wp.array(values, dtype=float, requires_grad=True)
    start = 1e9 if name == "atomic_min" else -1.0
    y = wp.full(4, start, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(reduce, dim=4000, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.array([1.0, 2.0, 3.0, 4.0], dtype=float)})
    expected = np.zeros(4000, np.float32)
    for k in range(4):
        own = values[k::4] ** 2
        winner = 4 * (own.argmin() if name == "atomic_min" else own.argmax()) + k
        expected[winner] = 2 * values[winner] * (k + 1)
        assert y.numpy()[k] == values[winner] ** 2
    assert np.allclose(x.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.peer
def test_beside_warp():
    """Without ties Warp's adjoint is right, and ours is the same."""
    warp = pytest.importorskip("warp", reason="warp-lang is not installed")

    def program(w):
        def extremes(x: w.array(dtype=float), low: w.array(dtype=float), high: w.array(dtype=float)):
            i = w.tid()
            w.atomic_min(low, i % 3, w.sin(x[i]))
            w.atomic_max(high, i % 3, w.sin(x[i]))

        kernel = w.kernel(extremes)
        options = {"dtype": float, "device": "cpu"}
        x = w.array(np.linspace(-3, 3, 31, dtype=np.float32), requires_grad=True, **options)
        low = w.full(3, 2.0, requires_grad=True, **options)
        high = w.full(3, -2.0, requires_grad=True, **options)
        with w.Tape() as tape:
            w.launch(kernel, dim=31, inputs=[x], outputs=[low, high], device="cpu")
        seeds = {low: w.array([1.0, 2.0, 3.0], **options), high: w.array([4.0, 5.0, 6.0], **options)}
        tape.backward(grads=seeds)
        return np.concatenate([low.numpy(), high.numpy()]), x.grad.numpy()

    ours, theirs = program(wp), program(warp)
    assert np.allclose(ours[0], theirs[0], rtol=1e-6)
    assert np.allclose(ours[1], theirs[1], rtol=1e-5)
    assert np.count_nonzero(ours[1]) == 6
