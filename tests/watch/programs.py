"""Small programs for NVIDIA Warp, right and wrong, which the tests of `tapedebug.watch` run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

wp = pytest.importorskip("warp")
wp.config.quiet = True

VERSION = tuple(int(part) for part in wp.config.version.split(".")[:2])
CONSUMES = VERSION >= (1, 13)
"""The adjoint of a store zeroes the gradient of what it overwrites; earlier releases add it again."""
KNOWS_ARGUMENTS = VERSION >= (1, 15)
"""A recorded command tells its arguments."""
REVERSES_STRUCTS = VERSION >= (1, 15)
"""The adjoint of a store of a struct to an array is complete; earlier releases lose the gradient."""
REVERSES_PARTS = VERSION >= (1, 15)
"""The adjoint of a copy with offsets is right; earlier releases exchange them."""


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def scale(x: wp.array(dtype=float), factor: float):
    i = wp.tid()
    x[i] = x[i] * factor


@wp.kernel
def descend(x: wp.array(dtype=float), gradient: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] - 0.1 * gradient[i]


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


@wp.kernel
def turn(m: wp.mat22, v: wp.vec2, x: wp.array(dtype=wp.vec2), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.dot(m * x[i], v)


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


@wp.struct
class Ball:
    position: float
    speed: float


@wp.kernel
def fly(ball: wp.array(dtype=Ball), drag: wp.array(dtype=float), then: wp.array(dtype=Ball)):
    i = wp.tid()
    after = Ball()
    after.speed = ball[i].speed - drag[0] * ball[i].speed
    after.position = ball[i].position + after.speed
    then[i] = after


@wp.kernel
def positions(ball: wp.array(dtype=Ball), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, ball[wp.tid()].position)


def arrays_of_structs():
    """Arrays whose elements are structs, which no replay holds in float64; right."""
    balls = [wp.zeros(2, dtype=Ball, requires_grad=True) for _ in range(3)]
    start = balls[0].numpy()
    start["speed"] = [1.0, 2.0]
    balls[0].assign(start)
    drag, loss = array([0.1]), zeros(1)
    tape = wp.Tape()
    with tape:
        for old, new in pairwise(balls):
            wp.launch(fly, 2, [old, drag, new])
        wp.launch(positions, 2, [balls[-1], loss])
    tape.backward(loss)
    return tape, drag, loss


@wp.struct
class Bed:
    height: wp.array(dtype=float)


@wp.kernel
def weigh(bed: Bed, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = bed.height[i] * x[i]


def struct_set_late():
    """A struct gets an array that no launch uses, between the launch and the reverse pass."""
    bed, x, y, loss = Bed(), array([1.0, 2.0]), zeros(2), zeros(1)
    bed.height = array([3.0, 4.0], requires_grad=False)
    tape = wp.Tape()
    with tape:
        wp.launch(weigh, 2, [bed, x], [y])
        wp.launch(total, 2, [y], [loss])
    bed.height = array([30.0, 40.0], requires_grad=False)
    tape.backward(loss)
    return tape, x, y, loss


@wp.kernel
def push_out(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    query = wp.mesh_query_point(mesh, x[i], 10.0)
    if query.result:
        p = wp.mesh_eval_position(mesh, query.face, query.u, query.v)
        y[i] = wp.dot(x[i] - p, x[i] - p)


@wp.kernel
def push_out_of_each(meshes: wp.array(dtype=wp.uint64), x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    query = wp.mesh_query_point(meshes[0], x[i], 10.0)
    if query.result:
        p = wp.mesh_eval_position(meshes[0], query.face, query.u, query.v)
        y[i] = wp.dot(x[i] - p, x[i] - p)


@wp.struct
class Body:
    mesh: wp.uint64
    mass: float


@wp.struct
class Part:
    values: wp.array(dtype=float)


@wp.kernel
def push_out_of_bodies(bodies: wp.array(dtype=Body), x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    body = bodies[0]
    query = wp.mesh_query_point(body.mesh, x[i], 10.0)
    if query.result:
        p = wp.mesh_eval_position(body.mesh, query.face, query.u, query.v)
        y[i] = body.mass * wp.dot(x[i] - p, x[i] - p)


@wp.kernel
def square_parts(parts: wp.array(dtype=Part), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = parts[0].values[i] * parts[0].values[i]


@wp.kernel
def keyed(keys: wp.array(dtype=wp.uint64), y: wp.array(dtype=float)):
    i = wp.tid()
    if keys[i] > wp.uint64(1):
        y[i] = 2.0


@wp.kernel
def density(grid: wp.uint64, x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for j in wp.hash_grid_query(grid, x[i], 1.0):
        d = wp.length_sq(x[i] - x[j])
        if d < 1.0:
            total += (1.0 - d) * (1.0 - d)
    y[i] = total


@wp.kernel
def at_indices(x: wp.indexedarray(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


TILE = wp.constant(4)


@wp.kernel
def tile_square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    t = wp.tile_load(x, shape=TILE, offset=i * TILE)
    wp.tile_store(y, wp.tile_map(wp.mul, t, t), offset=i * TILE)


def mesh(move=False):
    points = array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]], dtype=wp.vec3)
    indices = wp.array([0, 1, 2], dtype=int)
    x, y, loss = array([[0.2, 0.3, 1.0], [0.1, 0.2, -2.0]], dtype=wp.vec3), zeros(2), zeros(1)
    body = wp.Mesh(points, indices)
    tape = wp.Tape()
    with tape:
        wp.launch(push_out, 2, [body.id, x, y])
        wp.launch(total, 2, [y], [loss])
    tape.backward(loss)
    return tape, points, x, y, loss, body


def neighbours():
    rng = np.random.default_rng(1)
    x, y, loss = array(rng.uniform(0, 2, (12, 3)), dtype=wp.vec3), zeros(12), zeros(1)
    grid = wp.HashGrid(8, 8, 8)
    tape = wp.Tape()
    with tape:
        grid.build(x, 1.0)
        wp.launch(density, 12, [grid.id, x, y])
        wp.launch(total, 12, [y], [loss])
    tape.backward(loss)
    return tape, x, y, loss, grid


def indexed():
    x, y, loss = array([1.0, 2.0, 3.0, 4.0]), zeros(2), zeros(1)
    tape = wp.Tape()
    with tape:
        wp.launch(at_indices, 2, [wp.indexedarray(x, [wp.array([3, 1], dtype=int)])], [y])
        wp.launch(total, 2, [y], [loss])
    return tape, x, y, loss  # the reverse pass of a tape of Warp does not take indexed arrays


def tiles():
    x, y, loss = array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), zeros(8), zeros(1)
    tape = wp.Tape()
    with tape:
        wp.launch_tiled(tile_square, dim=2, inputs=[x, y], block_dim=32)
        wp.launch(total, 8, [y], [loss])
    tape.backward(loss)
    return tape, x, y, loss


@wp.kernel
def times(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = factor * x[i]


def back_as_array(tape, x, y, z, loss):
    z = array(np.sin(y.numpy()) + 2.0)
    wp.launch(total, 3, [z, loss])


def back_as_list(tape, x, y, z, loss):
    z = wp.array([2.0 + one**3 for one in y.list()], dtype=float, requires_grad=True)
    wp.launch(total, 3, [z, loss])


def back_as_number(tape, x, y, z, loss):
    largest = float(y.numpy()[0])
    wp.launch(times, 3, [y, 2.0 / largest, z])
    wp.launch(total, 3, [z, loss])


def printed(tape, x, y, z, loss):
    largest = float(y.numpy().max())
    noise = array([0.31, 0.12, 0.45])
    wp.launch(times, 3, [y, 0.37, z])
    wp.launch(total, 3, [z, loss])
    wp.launch(total, 3, [noise, loss])
    return f"largest {largest}"


def through(between):
    """The squares of an input, handed on by `between`, to a sum."""
    x, y, z, loss = array([1.0, 2.0, 0.7]), zeros(3), zeros(3), zeros(1)
    tape = wp.Tape()
    with tape:
        wp.launch(square, 3, [x], [y])
        between(tape, x, y, z, loss)
    tape.backward(loss)
    return tape, x, y, loss
