"""Random numbers: streams, distributions, gradients through draws, and what a draw does to its state."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run, twin
from tests.lang import noise_reference as reference

pytestmark = pytest.mark.unoptimized

COUNT = 20_000


@wp.kernel
def floats(seed: int, out: wp.array2d(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    out[i, 0] = wp.randf(state)
    out[i, 1] = wp.randf(state, -2.0, 3.0)
    out[i, 2] = wp.randn(state)
    out[i, 3] = wp.randn(state)


@wp.kernel
def integers(seed: int, out: wp.array2d(dtype=wp.int64)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    out[i, 0] = wp.int64(wp.randi(state))
    out[i, 1] = wp.int64(wp.randi(state, -3, 7))
    out[i, 2] = wp.int64(wp.randu(state))
    out[i, 3] = wp.int64(wp.randu(state, wp.uint32(5), wp.uint32(9)))
    out[i, 4] = wp.int64(wp.poisson(state, 0.0))
    out[i, 5] = wp.int64(wp.poisson(state, 2.5))
    out[i, 6] = wp.int64(wp.poisson(state, 40.0))
    out[i, 7] = wp.int64(wp.poisson(state, 400.0))


@wp.kernel
def points(seed: int, flat: wp.array2d(dtype=wp.vec2), solid: wp.array2d(dtype=wp.vec3)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    flat[i, 0] = wp.sample_triangle(state)
    flat[i, 1] = wp.sample_unit_ring(state)
    flat[i, 2] = wp.sample_unit_disk(state)
    flat[i, 3] = wp.sample_unit_square(state)
    solid[i, 0] = wp.sample_unit_sphere(state)
    solid[i, 1] = wp.sample_unit_sphere_surface(state)
    solid[i, 2] = wp.sample_unit_hemisphere(state)
    solid[i, 3] = wp.sample_unit_hemisphere_surface(state)
    solid[i, 4] = wp.sample_unit_cube(state)


def drawn(kernel: Any, *shapes: tuple[int, ...], dtype: Any = np.float32, **options: Any) -> list[np.ndarray]:
    arrays = [np.zeros(shape, dtype) for shape in shapes]
    run(kernel, shapes[0][0], [42, *arrays], **options)
    return arrays


@functools.cache
def many(name: str) -> list[np.ndarray]:
    if name == "points":
        return drawn(points, (COUNT, 4, 2), (COUNT, 5, 3))
    if name == "integers":
        return drawn(integers, (COUNT, 8), dtype=np.int64)
    return drawn(floats, (COUNT, 4))


def close(found: float, expected: float, deviation: float) -> None:
    """Within five standard errors of a mean of `COUNT` draws."""
    assert abs(found - expected) <= 5 * deviation / math.sqrt(COUNT), (found, expected)


def test_streams_are_those_of_the_hash() -> None:
    state = reference.rand_init(42, np.arange(COUNT))
    states = [state := reference.pcg(state) for _ in range(4)]
    found = many("integers")[0]
    with np.errstate(over="ignore"):
        assert (found[:, 0] == states[0].astype(np.int32)).all()
        assert (found[:, 1] == (states[1] % 10).astype(np.int64) - 3).all()
        assert (found[:, 2] == states[2]).all()
        assert (found[:, 3] == states[3] % 4 + 5).all()
    first = reference.uniform(reference.pcg(reference.rand_init(42, np.arange(COUNT))))
    assert (many("floats")[0][:, 0] == first.astype(np.float32)).all()


def test_floats_have_their_distributions() -> None:
    unit, between, normal, other = many("floats")[0].T.astype(float)
    assert 0 <= unit.min() < unit.max() < 1
    close(unit.mean(), 0.5, math.sqrt(1 / 12))
    assert -2 <= between.min() < between.max() < 3
    close(between.mean(), 0.5, 5 * math.sqrt(1 / 12))
    for x in (normal, other):
        close(x.mean(), 0, 1)
        close((x**2).mean(), 1, math.sqrt(2))
        close((x**4).mean(), 3, math.sqrt(96))
    close((normal * other).mean(), 0, 1)


def test_integers_have_their_distributions() -> None:
    found = many("integers")[0]
    assert set(found[:, 1]) == set(range(-3, 7))
    assert set(found[:, 3]) == {5, 6, 7, 8}
    for number in range(-3, 7):
        close((found[:, 1] == number).mean(), 0.1, 0.3)
    assert not found[:, 4].any()
    for column, mean in ((5, 2.5), (6, 40.0), (7, 400.0)):
        x = found[:, column].astype(float)
        close(x.mean(), mean, math.sqrt(mean))
        close(((x - mean) ** 2).mean(), mean, math.sqrt(mean + 2 * mean**2))
    for number in range(6):
        p = math.exp(-2.5) * 2.5**number / math.factorial(number)
        close((found[:, 5] == number).mean(), p, math.sqrt(p))


def test_points_are_spread_evenly() -> None:
    flat, solid = (a.astype(float) for a in many("points"))
    triangle, ring, disk, square = np.moveaxis(flat, 1, 0)
    assert (triangle >= 0).all() and (triangle.sum(1) <= 1 + 1e-6).all()
    for weight in (*triangle.T, 1 - triangle.sum(1)):
        close(weight.mean(), 1 / 3, math.sqrt(1 / 18))
    np.testing.assert_allclose(np.linalg.norm(ring, axis=1), 1, atol=1e-6)
    close((np.linalg.norm(disk, axis=1) ** 2).mean(), 0.5, math.sqrt(1 / 12))
    assert (np.abs(square) <= 0.5).all()
    ball, sphere, half_ball, half_sphere, cube = np.moveaxis(solid, 1, 0)
    for inside in (ball, half_ball):
        close((np.linalg.norm(inside, axis=1) ** 3).mean(), 0.5, math.sqrt(1 / 12))
    for on in (sphere, half_sphere):
        np.testing.assert_allclose(np.linalg.norm(on, axis=1), 1, atol=1e-6)
    close(sphere[:, 2].mean(), 0, math.sqrt(1 / 3))
    close(half_sphere[:, 2].mean(), 0.5, math.sqrt(1 / 12))
    assert (half_ball[:, 2] >= -1e-6).all() and (half_sphere[:, 2] >= -1e-6).all()
    close(cube.mean(), 0, math.sqrt(1 / 36))
    for round_one in (ring, disk, ball, sphere):
        close(round_one[:, 0].mean(), 0, 1)
        close((round_one[:, 0] * round_one[:, 1]).mean(), 0, 1)


@pytest.mark.parametrize("name", ["floats", "integers", "points"])
def test_the_twin_and_the_interpreter_draw_the_same(name: str) -> None:
    kernel: Any = globals()[name]
    shapes = [(300, *a.shape[1:]) for a in many(name)]
    dtypes = (np.int64, np.int64) if name == "integers" else (np.float64, np.float32)
    doubled = drawn(kernel, *shapes, dtype=dtypes[0], f64=True)
    plain = drawn(kernel, *((20, *s[1:]) for s in shapes), dtype=dtypes[1], interpreted=True)
    for wide, slow, found in zip(doubled, plain, many(name), strict=True):
        np.testing.assert_allclose(wide, found[:300], rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(slow, found[:20], rtol=2e-5, atol=2e-6)


@wp.kernel
def pick(cdf: wp.array(dtype=float), seed: int, out: wp.array(dtype=int)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    out[i] = wp.sample_cdf(state, cdf)


def test_sample_cdf_picks_by_weight() -> None:
    weights = np.array([0.1, 0.0, 0.4, 0.5])
    out = np.zeros(COUNT, np.int32)
    run(pick, COUNT, [np.cumsum(weights).astype(np.float32), 3, out])
    for index, p in enumerate(weights):
        close((out == index).mean(), p, math.sqrt(p * (1 - p)))


@wp.kernel
def search(a: wp.array(dtype=float), x: wp.array(dtype=float), out: wp.array2d(dtype=int)):
    i = wp.tid()
    out[i, 0] = wp.lower_bound(a, x[i])
    out[i, 1] = wp.lower_bound(a, 2, 5, x[i])


def test_lower_bound_is_numpys_search_within_the_array() -> None:
    a = np.array([1, 2, 2, 4, 7, 9], np.float32)
    x = np.array([0, 1, 1.5, 2, 3, 9, 10], np.float32)
    out = np.zeros((7, 2), np.int32)
    run(search, 7, [a, x, out])
    assert (out[:, 0] == np.minimum(np.searchsorted(a, x), 5)).all()
    assert (out[:, 1] == np.clip(np.searchsorted(a, x), 2, 4)).all()


# States ----------------------------------------------------------------------------------------------------


@wp.func
def two_of(state: wp.uint32):
    first = wp.randf(state)
    return first, wp.randf(state), state


@wp.kernel
def by_value(out: wp.array(dtype=float), after: wp.array(dtype=wp.uint32)):
    state = wp.rand_init(5)
    copy = state
    a, b, after_two = two_of(state)
    out[0] = a
    out[1] = b
    out[2] = wp.randf(state)
    out[3] = wp.randf(copy)
    out[4] = wp.randf(after_two)
    out[5] = wp.randf(wp.rand_init(5))
    after[0] = state


def test_functions_and_copies_have_states_of_their_own() -> None:
    out, after = np.zeros(6, np.float32), np.zeros(1, np.uint32)
    run(by_value, 1, [out, after])
    one = reference.pcg(reference.pcg(5))
    two = reference.pcg(one)
    first, second, third = (reference.uniform(s) for s in (one, two, reference.pcg(two)))
    assert out.tolist() == [first, second, first, first, third, first]
    assert after[0] == one


@wp.kernel
def carried(
    states: wp.array(dtype=wp.uint32),
    n: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    state = states[i]
    walk = x[i]
    for _k in range(n[i]):
        if wp.randf(state) < 0.4:
            walk = walk * (1.0 + 0.2 * wp.randn(state))
        else:
            walk += wp.randf(state, -wp.abs(x[i]), walk)
    while wp.randf(state) < 0.7 and wp.randf(state) < 0.9:
        walk = wp.sin(walk) * 1.5
        if wp.randf(state) > 0.8:
            continue
        walk += 0.1 * float(wp.poisson(state, 2.0))
    states[i] = state
    y[i] = walk


def test_loops_carry_states_and_replay_them_in_reverse() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(0.3, 1.5, 24).astype(np.float32)
    states = reference.pcg(np.arange(24))
    n = (np.arange(24) % 5).astype(np.int32)
    args = [states, n, x, np.zeros(24, np.float32)]
    check_gradient(carried, 24, args)
    again = [a.copy() for a in args]
    run(carried, 24, again)
    single = [a.copy() for a in args]
    run(carried, 24, single, interpreted=True)
    wide = twin(args)
    run(carried, 24, wide, f64=True)
    assert (again[0] == single[0]).all() and (again[0] == wide[0]).all()
    assert len(set(again[0] ^ args[0])) > 20


@wp.kernel
def spread(bounds: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(3, i)
    out[i] = wp.randf(state, bounds[i, 0], bounds[i, 1]) ** 2.0


def test_bounds_have_derivatives() -> None:
    bounds = np.random.default_rng(1).normal(size=(9, 2)).astype(np.float32)
    check_gradient(spread, 9, [bounds, np.zeros(9, np.float32)])
    out, adjoint, seed = np.zeros(9, np.float32), np.zeros_like(bounds), np.ones(9, np.float32)
    run(spread, 9, [bounds, out], adjoints=[adjoint, seed])
    u = reference.uniform(reference.pcg(reference.rand_init(3, np.arange(9))))
    value = bounds[:, 0] + u * (bounds[:, 1] - bounds[:, 0])
    expected = 2 * value[:, None] * np.stack([1 - u, u], 1)
    np.testing.assert_allclose(adjoint, expected, rtol=1e-5, atol=1e-5)


@wp.kernel
def turbulence(
    p: wp.array(dtype=wp.vec3), weights: wp.array(dtype=float), octaves: int, out: wp.array(dtype=wp.vec3)
):
    i = wp.tid()
    state = wp.rand_init(11)
    out[i] = wp.curlnoise(state, p[i], octaves=wp.uint32(octaves), lacunarity=weights[0], gain=weights[1])


@wp.kernel
def moving(q: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec3), plane: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    out[i] = wp.curlnoise(wp.rand_init(2), q[i])
    plane[i] = wp.curlnoise(wp.rand_init(2), wp.vec2(q[i].x, q[i].w), 2)


def test_octaves_of_curl_noise_are_differentiable_in_all_they_take() -> None:
    rng = np.random.default_rng(4)
    p, weights = rng.uniform(-3, 3, (5, 3)).astype(np.float32), np.array([1.9, 0.6], np.float32)
    check_gradient(turbulence, 5, [p, weights, 3, np.zeros((5, 3), np.float32)])
    out = np.zeros((5, 3))
    run(turbulence, 5, [p.astype(float), weights.astype(float), 2, out], f64=True)
    first = int(reference.pcg(11))
    second = int(reference.rand_init(int(reference.rand_init(first, 10019689)), 13112221))
    scale, gain = weights.astype(float)
    expected = reference.curl(first, p.astype(float)) + gain * reference.curl(second, scale * p.astype(float))
    np.testing.assert_allclose(out, expected, atol=1e-9)
    run(turbulence, 5, [p, weights, 0, none := np.ones((5, 3), np.float32)])
    assert not none.any()


def test_curl_noise_in_time_has_no_sources() -> None:
    q = np.random.default_rng(6).uniform(-2, 2, (4, 4)).astype(np.float32)
    outputs = [np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)]
    check_gradient(moving, 4, [q, *outputs])
    divergence = np.zeros((4, 4))
    for axis in range(3):
        for index in range(4):  # one output's derivative at a time
            seeds = [np.zeros((4, 3)), np.zeros((4, 2))]
            seeds[0][index, axis] = 1
            adjoint = np.zeros((4, 4))
            run(moving, 4, twin([q, *outputs]), f64=True, adjoints=[adjoint, *seeds])
            divergence[index, axis] = adjoint[index, axis]
    np.testing.assert_allclose(divergence.sum(1), 0, atol=1e-12)
    assert np.abs(divergence).max() > 0.05


# Outside kernels -------------------------------------------------------------------------------------------


@wp.kernel
def once(seed: int, out: wp.array(dtype=float), p: wp.array(dtype=wp.vec3), x: wp.array(dtype=wp.vec2)):
    state = wp.rand_init(seed, 3)
    a, b, c, d, e = state, state, state, state, state
    out[0] = wp.randf(a)
    out[1] = wp.randf(b, -1.0, 2.0)
    out[2] = wp.randn(c)
    out[3] = float(wp.randi(d, -5, 6))
    out[4] = wp.noise(state, x[0])
    out[5] = wp.noise(state, 0.25)
    out[6] = wp.pnoise(state, x[0], 3, 4)
    p[0] = wp.sample_unit_sphere(e)
    x[1] = wp.curlnoise(state, x[0])


def test_python_draws_what_kernels_draw_and_advances_nothing() -> None:
    out, p = np.zeros(7, np.float32), np.zeros((1, 3), np.float32)
    x = np.array([[0.3, 1.7], [0, 0]], np.float32)
    run(once, 1, [7, out, p, x])
    state, at = wp.rand_init(7, 3), wp.vec2(0.3, 1.7)
    assert state == int(reference.rand_init(7, 3))
    found = [
        wp.randf(state),
        wp.randf(state, -1, 2.0),
        wp.randn(state),
        wp.randi(state, -5, 6),
        wp.noise(state, at),
        wp.noise(state, 0.25),
        wp.pnoise(state, at, 3, 4),
    ]
    np.testing.assert_allclose(found, out, rtol=1e-6)
    np.testing.assert_allclose(wp.sample_unit_sphere(state), p[0], rtol=1e-6)
    np.testing.assert_allclose(wp.curlnoise(state, at), x[1], rtol=1e-6)
    assert wp.randu(state, 5, 6) == 5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: wp.randf(1.5), "randf() takes a state of rand_init() first; got 1.5\n"),
        (lambda: wp.noise(-1, 0.5), "noise() takes a state of rand_init() first; got -1\n"),
        (lambda: wp.randf(1, 2.0), "randf() takes state, low, high; got 2 arguments"),
        (lambda: wp.randi(1, 0.0, 2.0), "randi() takes bounds of int32; got float32 and float32\n"),
    ],
)
def test_wrong_draws_of_python(wrong: Any, message: str) -> None:
    with pytest.raises(TypeError) as info:
        wrong()
    assert str(info.value).startswith(message)


def test_second_derivatives_of_noise() -> None:
    @wp.kernel
    def loss_of(p: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
        i = wp.tid()
        state = wp.rand_init(3, i)
        field = wp.curlnoise(state, p[i], octaves=2)
        value = wp.noise(state, p[i]) * wp.noise(state, p[i] * 2.0)
        wp.atomic_add(loss, 0, value + wp.dot(field, field) * wp.randf(state, p[i][0], 2.0))

    start = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    p, loss = wp.array(start, dtype=wp.vec3, requires_grad=True), wp.zeros(1, requires_grad=True)
    check = wp.autograd.hvp_check(loss_of, 4, [p], [loss], loss)
    assert check.verdict == "AGREE", check.message
