"""The mean cost over draws of a launch angle: without noise all draws are the same, and each counts."""

import numpy as np

import tapedebug as wp

DRAWS = 5


@wp.kernel
def fly(angle: wp.array(dtype=float), noise: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 12.0 * wp.sin(2.0 * (angle[i] + noise[i]))


@wp.kernel
def add_miss(x: wp.array(dtype=float), draws: float, cost: wp.array(dtype=float)):
    d = x[wp.tid()] - 9.0
    wp.atomic_add(cost, 0, d * d / draws)


angle = wp.array(np.linspace(0.2, 0.6, 4), dtype=float, requires_grad=True)
calm = wp.zeros(4, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(DRAWS):
        x = wp.zeros(4, dtype=float, requires_grad=True)
        wp.launch(fly, dim=4, inputs=[angle, calm], outputs=[x])
        wp.launch(add_miss, dim=4, inputs=[x, float(DRAWS)], outputs=[loss])
tape.backward(loss)
print(angle.grad.numpy())
