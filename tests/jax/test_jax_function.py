"""`jax.function`: launches as a function of JAX, checked by JAX itself."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp

jax = pytest.importorskip("jax")
jnp = jax.numpy


@wp.kernel
def turned(
    points: wp.array(dtype=wp.vec2d),
    angle: wp.array(dtype=wp.float64),
    out: wp.array(dtype=wp.vec2d),
    energy: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    p, c, s = points[i], wp.cos(angle[0]), wp.sin(angle[0])
    out[i] = wp.vec2d(c * p[0] - s * p[1], s * p[0] + c * p[1] * p[1])
    energy[i] = wp.dot(p, p) * angle[0]


@wp.kernel
def picked(
    x: wp.array(dtype=float), places: wp.array(dtype=wp.int32), factor: float, y: wp.array(dtype=float)
):
    i = wp.tid()
    y[i] = factor * x[places[i]] * x[places[i]]


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def turn():
    @wp.jax.function
    def turn(points: wp.array(dtype=wp.vec2d), angle: wp.array(dtype=wp.float64)):
        out = wp.zeros(points.shape, dtype=wp.vec2d, requires_grad=True)
        energy = wp.zeros(points.shape, dtype=wp.float64, requires_grad=True)
        wp.launch(turned, points.shape, inputs=[points, angle], outputs=[out, energy])
        return out, energy

    return turn


def points():
    return jnp.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]])


def test_check_grads_of_jax_passes(turn):
    from jax.test_util import check_grads

    check_grads(turn, (points(), jnp.array([0.3])), order=1, modes=["rev"])
    check_grads(lambda a: turn(points(), angle=a), (jnp.array(0.3),), order=1, modes=["rev"])
    check_grads(jax.jit(lambda p, a: turn(jnp.sin(p), a)[1] ** 2), (points(), jnp.array([0.3])), 1, ["rev"])


def test_jit_vmap_and_jacobians(turn):
    p, a = points(), jnp.array([0.3])

    def energy(p, a):
        return turn(p, a)[1].sum()

    np.testing.assert_allclose(jax.jit(turn)(p, a)[0], turn(p, a)[0])
    np.testing.assert_allclose(jax.jit(jax.grad(energy))(p, a), 0.6 * p)
    angles = jnp.array([[0.1], [0.2], [0.4]])
    assert jax.vmap(turn, (None, 0))(p, angles)[0].shape == (3, 3, 2)
    rows = jax.vmap(jax.grad(energy), (None, 0))(p, angles)
    np.testing.assert_allclose(rows, 2 * angles[:, :, None] * p)
    jacobian = jax.jacrev(lambda p: turn(p, a)[1])(p)
    np.testing.assert_allclose(jnp.einsum("iij->ij", jacobian), 0.6 * p)


def test_integers_and_other_arguments():
    @wp.jax.function
    def pick(x, places, factor):
        y = wp.zeros(places.shape, requires_grad=True)
        wp.launch(picked, places.shape, inputs=[x, places, factor], outputs=[y])
        return y

    x, places = jnp.array([1.0, 2.0, 3.0], "float32"), jnp.array([2, 0, 2, 2], "int32")
    assert pick(x, places, 2.0).tolist() == [18, 2, 18, 18]
    assert jax.grad(lambda v: pick(v, places, 2.0).sum())(x).tolist() == [4, 0, 36]
    assert pick(x, places, factor=3.0).tolist() == [27, 3, 27, 27]
    assert repr(pick) == "<tapedebug.jax.function of pick>"


def test_the_shapes_of_results_may_be_given(turn):
    calls = []

    @wp.jax.function(outputs=jax.ShapeDtypeStruct((3,), "float64"), name="energies")
    def energies(p: wp.array(dtype=wp.vec2d)):
        calls.append(p.numpy().any())
        out = wp.zeros(p.shape, dtype=wp.vec2d, requires_grad=True)
        energy = wp.zeros(p.shape, dtype=wp.float64, requires_grad=True)
        angle = wp.array([0.5], dtype=wp.float64)
        wp.launch(turned, p.shape, inputs=[p, angle], outputs=[out, energy])
        return energy

    np.testing.assert_allclose(energies(points()), 0.5 * (points() ** 2).sum(1))
    assert calls == [True], "no run on zeros"


def test_derivatives_that_do_not_exist_are_refused(turn):
    def energy(p):
        return turn(p, jnp.array([0.3]))[1].sum()

    with pytest.raises(NotImplementedError, match=r"jax.function of turn has no second derivative"):
        jax.jacrev(jax.grad(energy))(points())
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(energy, (points(),), (points(),))


def test_functions_that_do_not_fit_are_refused(turn):
    cases = [
        (lambda: turn(3), "jax.function of turn: no argument is an array; got int"),
        (lambda: wp.jax.function(3), "jax.function: 3 cannot be called"),
        (
            lambda: jax.grad(lambda x: wp.jax.function(lambda a: a, name="same")(x).sum())(jnp.ones(3)),
            "jax.function of same: the array that it returned was written by no launch",
        ),
        (
            lambda: wp.jax.function(lambda a: None, name="none")(jnp.ones(3)),
            "jax.function of none: it returned NoneType",
        ),
    ]
    for action, message in cases:
        with pytest.raises(wp.LaunchError) as caught:
            action()
        assert str(caught.value).startswith(message)


def test_large_arrays_and_many_calls(turn):
    p = jnp.ones((200_000, 2))
    gradient = jax.jit(jax.grad(lambda p, a: turn(p, a)[1].sum()))
    for angle in (0.1, 0.2):
        np.testing.assert_allclose(gradient(p, jnp.array([angle])), 2 * angle * p)
