"""A clock beside the motion loses its small steps, and the loss does not read it; the motion is near 0 and moves."""

import numpy as np

import tapedebug as wp

STEPS, DT = 50, 1e-4


@wp.kernel
def tick(clock: wp.array(dtype=float), dt: float):
    clock[0] = clock[0] + dt


@wp.kernel
def swing(x: wp.array(dtype=float), v: wp.array(dtype=float), dt: float):
    i = wp.tid()
    v[i] = v[i] - dt * 40.0 * x[i]
    x[i] = x[i] + dt * v[i]


@wp.kernel
def height(x: wp.array(dtype=float), v: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i] + 0.1 * v[i] * v[i])


clock = wp.array([86_400.0], dtype=float)
x = wp.array(np.linspace(0.1, 0.4, 4), dtype=float, requires_grad=True)
v = wp.array([0.0, 0.5, -0.5, 1e-3], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for _ in range(STEPS):
        wp.launch(tick, dim=1, inputs=[clock, DT])
        wp.launch(swing, dim=4, inputs=[x, v, DT])
    wp.launch(height, dim=4, inputs=[x, v], outputs=[loss])
tape.backward(loss)
