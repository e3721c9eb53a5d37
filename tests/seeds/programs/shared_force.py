"""One `force` for two steps. Given here: the kernels, which the document names only."""

import numpy as np
import warp as wp


@wp.kernel
def compute_forces(
    pos: wp.array(dtype=wp.vec2), vel: wp.array(dtype=wp.vec2), force: wp.array(dtype=wp.vec2)
):
    i = wp.tid()
    x = pos[i]
    force[i] = -x * (wp.dot(x, x) + 0.5) - vel[i] * wp.length(vel[i])


@wp.kernel
def simulate(
    pos: wp.array(dtype=wp.vec2),
    vel: wp.array(dtype=wp.vec2),
    force: wp.array(dtype=wp.vec2),
    pos_next: wp.array(dtype=wp.vec2),
    vel_next: wp.array(dtype=wp.vec2),
):
    i = wp.tid()
    f = force[i]
    v = vel[i] + 1.0 * f / (1.0 + wp.dot(f, f))
    vel_next[i] = v
    pos_next[i] = pos[i] + 1.0 * v


@wp.kernel
def distance(pos: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(pos[i] - wp.vec2(1.0, 2.0)))


n = 3
start = np.array([[0.3, 0.1], [1.0, -0.5], [-0.7, 0.9]])
pos0 = wp.array(start, dtype=wp.vec2, requires_grad=True)
vel0 = wp.array(start[::-1].copy(), dtype=wp.vec2, requires_grad=True)
pos1, vel1, pos2, vel2, force = (wp.zeros_like(pos0) for _ in range(5))
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # step 1
    wp.launch(compute_forces, dim=n, inputs=[pos0, vel0], outputs=[force])
    wp.launch(simulate, dim=n, inputs=[pos0, vel0, force], outputs=[pos1, vel1])

    # step 2 (error, we are overwriting previous forces)
    wp.launch(compute_forces, dim=n, inputs=[pos1, vel1], outputs=[force])
    wp.launch(simulate, dim=n, inputs=[pos1, vel1, force], outputs=[pos2, vel2])

    # compute loss
    wp.launch(distance, dim=n, inputs=[pos2], outputs=[loss])

tape.backward(loss)
