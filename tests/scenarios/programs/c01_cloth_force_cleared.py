"""A rope of masses and springs: how hard to throw it so that its end hits a peg? Forces are collected in one array.

`zero_` is not on Warp's tape: each step adds its gradient of the forces to that of the step before.
"""

# RUN as-warp
import numpy as np
import warp as wp

N = 12
STEPS = 8


@wp.kernel
def spring_forces(x: wp.array(dtype=wp.vec3), stiffness: float, rest: float, force: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    d = x[i + 1] - x[i]
    length = wp.length(d)
    f = d * (stiffness * (length - rest) / length)
    wp.atomic_add(force, i, f)
    wp.atomic_sub(force, i + 1, f)


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    x_next: wp.array(dtype=wp.vec3),
    v_next: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    v_next[i] = v[i] + 0.02 * (force[i] + wp.vec3(0.0, -9.81, 0.0))
    x_next[i] = x[i] + 0.02 * v_next[i]


@wp.kernel
def clear(force: wp.array(dtype=wp.vec3)):
    force[wp.tid()] = wp.vec3(0.0, 0.0, 0.0)


@wp.kernel
def miss(x: wp.array(dtype=wp.vec3), peg: wp.vec3, loss: wp.array(dtype=float)):
    loss[0] = wp.length_sq(x[x.shape[0] - 1] - peg)


def positions():
    return wp.zeros(N, dtype=wp.vec3, requires_grad=True)


start = np.stack([0.11 * np.arange(N), np.zeros(N), np.zeros(N)], axis=1).astype(np.float32)
x = wp.array(start, dtype=wp.vec3)
throw = wp.array(np.linspace([0, 0, 0], [2, 5, 1], N, dtype=np.float32), dtype=wp.vec3, requires_grad=True)
force = positions()
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    v = throw
    for step in range(STEPS):
        x_next, v_next = positions(), positions()
        # EXPECT overwrite error: force
        # FIX: wp.launch(clear, dim=N, inputs=[force])
        force.zero_()
        wp.launch(spring_forces, dim=N - 1, inputs=[x, 40.0, 0.1], outputs=[force])
        wp.launch(integrate, dim=N, inputs=[x, v, force], outputs=[x_next, v_next])
        x, v = x_next, v_next
    wp.launch(miss, dim=1, inputs=[x, wp.vec3(1.5, 0.4, 0.2)], outputs=[loss])
tape.backward(loss)
