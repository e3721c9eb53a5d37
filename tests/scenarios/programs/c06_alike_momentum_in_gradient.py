"""The gradient array itself is the momentum: it is scaled down after each step, not zeroed."""

import numpy as np

import tapedebug as wp

N = 12


@wp.kernel
def energy(x: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i = wp.tid()
    p = x[i]
    wp.atomic_add(loss, 0, p[0] * p[0] + 10.0 * p[1] * p[1] + p[0] * p[1])


@wp.kernel
def step_and_keep(x: wp.array(dtype=wp.vec2), velocity: wp.array(dtype=wp.vec2), rate: float, keep: float):
    i = wp.tid()
    x[i] = x[i] - rate * velocity[i]
    velocity[i] = keep * velocity[i]


x = wp.array(np.random.default_rng(2).normal(size=(N, 2)), dtype=wp.vec2, requires_grad=True)
for _ in range(5):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(energy, dim=N, inputs=[x], outputs=[loss])
    tape.backward(loss)
    wp.launch(step_and_keep, dim=N, inputs=[x, x.grad, 0.01, 0.9])
del loss
