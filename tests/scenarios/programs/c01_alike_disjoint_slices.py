"""A trajectory in one array: each step reads one slice of it and writes the next. Nothing is overwritten."""

import numpy as np

import tapedebug as wp

N = 32
STEPS = 10


@wp.kernel
def advance(x: wp.array(dtype=wp.vec3), rate: wp.array(dtype=float), x_next: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    spin = wp.vec3(-x[i][1], x[i][0], 0.1 * x[i][2] * x[i][2])
    x_next[i] = x[i] + 0.05 * rate[i] * spin


@wp.kernel
def distance(x: wp.array(dtype=wp.vec3), target: wp.vec3, loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.length_sq(x[wp.tid()] - target))


start = np.random.default_rng(3).normal(size=(N, 3)).astype(np.float32)
path = wp.zeros((STEPS + 1, N), dtype=wp.vec3, requires_grad=True)
path[0].assign(start)
rate = wp.array(np.linspace(0.5, 1.5, N), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape(on_overwrite="ignore")
with tape:
    for step in range(STEPS):
        wp.launch(advance, dim=N, inputs=[path[step], rate], outputs=[path[step + 1]])
    wp.launch(distance, dim=N, inputs=[path[STEPS], wp.vec3(1.0, 0.0, 0.0)], outputs=[loss])
tape.backward(loss)
