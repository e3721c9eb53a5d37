"""Small programs for NVIDIA Warp, right and wrong, which the tests of `tapedebug.watch` run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

wp = pytest.importorskip("warp")
wp.config.quiet = True


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def scale(x: wp.array(dtype=float), factor: float):
    i = wp.tid()
    x[i] = x[i] * factor


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


@wp.func
def cube(x: float):
    return x * x * x


@wp.func_grad(cube)
def adj_cube(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * x * x * adj_ret  # should be 3


@wp.kernel
def cubes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cube(x[i])


@wp.kernel
def powers(x: wp.array(dtype=float), y: wp.array(dtype=float), count: int):
    i = wp.tid()
    s = float(0.0)
    for _ in range(count):
        s = s * x[i] + 1.0  # Warp reverses a dynamic loop with the last value of s
    y[i] = s


@wp.kernel
def step(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), k: wp.array(dtype=float), dt: float):
    i = wp.tid()
    a = -k[i] * x[i] * wp.length(x[i])
    v[i] = v[i] + a * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def distance(x: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.dot(x[i], x[i]))


@wp.struct
class State:
    q: wp.array(dtype=float)
    v: wp.array(dtype=float)
    k: float


@wp.kernel
def advance(old: State, then: State, dt: float):
    i = wp.tid()
    then.v[i] = old.v[i] - old.k * old.q[i] * dt
    then.q[i] = old.q[i] + then.v[i] * dt


def array(values, requires_grad=True, dtype=float):
    return wp.array(np.array(values, np.float32), dtype=dtype, requires_grad=requires_grad)


def zeros(count, requires_grad=True):
    return wp.zeros(count, dtype=float, requires_grad=requires_grad)


def one(kernel, *args, y_grad=True, backward=1):
    """One launch of three threads, summed."""
    x, y, loss = array([1.0, 2.0, 3.0]), zeros(3, y_grad), zeros(1)
    tape = wp.Tape()
    with tape:
        wp.launch(kernel, 3, [x], [y, *args])
        wp.launch(total, 3, [y], [loss])
    for _ in range(backward):
        tape.backward(loss)
    return tape, x, y, loss


def overwritten():
    x, y, loss = array([1.0, 2.0, 3.0]), zeros(3), zeros(1)
    tape = wp.Tape()
    with tape:
        wp.launch(square, 3, [x], [y])
        wp.launch(scale, 3, [x, 3.0])
        wp.launch(total, 3, [y], [loss])
    tape.backward(loss)
    return tape, x, y, loss


def springs(steps=8, count=16):
    """Springs that each step overwrites: the gradient that Warp consumes is off by 44 %."""
    rng = np.random.default_rng(0)
    x = array(rng.normal(size=(count, 3)), dtype=wp.vec3)
    v = wp.zeros(count, dtype=wp.vec3, requires_grad=True)
    k, loss = array(rng.uniform(1, 2, count)), zeros(1)
    tape = wp.Tape()
    with tape:
        for _ in range(steps):
            wp.launch(step, dim=count, inputs=[x, v, k, 0.05])
        wp.launch(distance, dim=count, inputs=[x, loss])
    tape.backward(loss)
    return tape, x, v, k, loss


def states(steps=3):
    """A chain of structs, right."""
    loss, chain = zeros(1), []
    for _ in range(steps + 1):
        state = State()
        state.q, state.v, state.k = array([1.0, 2.0]), array([0.5, -0.5]), 2.0
        chain.append(state)
    tape = wp.Tape()
    with tape:
        for old, new in pairwise(chain):
            wp.launch(advance, 2, [old, new, 0.1])
        wp.launch(total, 2, [chain[-1].q], [loss])
    tape.backward(loss)
    return tape, chain, loss
