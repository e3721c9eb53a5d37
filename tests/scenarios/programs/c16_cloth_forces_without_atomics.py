"""Find the stiffness of a falling cloth. Each spring adds its force to both of its ends, by hand."""

import numpy as np

import tapedebug as wp

SIDE, STEPS = 5, 4
POINTS = SIDE * SIDE
DT, MASS = 0.02, 0.05


@wp.kernel
def spring_forces(
    x: wp.array(dtype=wp.vec3),
    first: wp.array(dtype=int),
    second: wp.array(dtype=int),
    rest: wp.array(dtype=float),
    stiffness: wp.array(dtype=float),
    force: wp.array(dtype=wp.vec3),
):
    s = wp.tid()
    a = first[s]
    b = second[s]
    d = x[b] - x[a]
    length = wp.length(d)
    f = d * (stiffness[0] * (length - rest[s]) / length)
    # EXPECT race error: force#2
    # FIX: wp.atomic_add(force, a, f)
    force[a] = force[a] + f
    # FIX: wp.atomic_sub(force, b, f)
    force[b] = force[b] - f


@wp.kernel
def fall(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    x_next: wp.array(dtype=wp.vec3),
    v_next: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    moved = v[i] + (force[i] / MASS + wp.vec3(0.0, -9.81, 0.0)) * DT
    if i < SIDE:
        moved = wp.vec3(0.0, 0.0, 0.0)  # the upper edge is held
    v_next[i] = moved
    x_next[i] = x[i] + moved * DT


@wp.kernel
def distance(x: wp.array(dtype=wp.vec3), seen: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(x[i] - seen[i]))


def zeros():
    return wp.zeros(POINTS, dtype=wp.vec3, requires_grad=True)


row, column = np.divmod(np.arange(POINTS), SIDE)
flat = np.stack([0.1 * column, -0.08 * row, 0.02 * row * column], axis=1)
ends = [(i, i + 1) for i in range(POINTS) if column[i] < SIDE - 1]
ends += [(i, i + SIDE) for i in range(POINTS - SIDE)]
first = wp.array([a for a, _ in ends], dtype=int)
second = wp.array([b for _, b in ends], dtype=int)
rest = wp.array(np.full(len(ends), 0.1), dtype=float)
stiffness = wp.array([12.0], dtype=float, requires_grad=True)
seen = wp.array(flat * 1.05, dtype=wp.vec3)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    x, v = wp.array(flat, dtype=wp.vec3, requires_grad=True), zeros()
    for _ in range(STEPS):
        force, x_next, v_next = zeros(), zeros(), zeros()
        # CALLED race
        wp.launch(spring_forces, dim=len(ends), inputs=[x, first, second, rest, stiffness, force])
        wp.launch(fall, dim=POINTS, inputs=[x, v, force], outputs=[x_next, v_next])
        x, v = x_next, v_next
    wp.launch(distance, dim=POINTS, inputs=[x, seen], outputs=[loss])
tape.backward(loss)
inputs = [stiffness]
