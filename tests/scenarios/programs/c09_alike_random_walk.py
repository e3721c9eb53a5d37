"""A walk with random kicks whose seeds are given: it is the same each time, and has a right gradient."""

import numpy as np

import tapedebug as wp

N = 40
STEPS = 12


@wp.kernel
def kick(
    x: wp.array(dtype=float),
    width: wp.array(dtype=float),
    seed: int,
    step: int,
    x_next: wp.array(dtype=float),
):
    i = wp.tid()
    state = wp.rand_init(seed, i * 100 + step)
    x_next[i] = 0.95 * x[i] + width[0] * wp.randn(state)


@wp.kernel
def spread(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


x = wp.array(np.linspace(-1.0, 1.0, N), dtype=float, requires_grad=True)
width = wp.array([0.3], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        x_next = wp.zeros_like(x)
        wp.launch(kick, dim=N, inputs=[x, width, 42, step], outputs=[x_next])
        x = x_next
    wp.launch(spread, dim=N, inputs=[x], outputs=[loss])
tape.backward(loss)
