"""A picture is nearly sharp again: residuals of 1e-4 have three digits in float32, and the gradient is right."""

import numpy as np

import tapedebug as wp

N = 32


@wp.kernel
def blur(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = 0.25 * a[(i + 1) % N] + 0.5 * a[i] + 0.25 * a[(i + N - 1) % N]


@wp.kernel
def mse(a: wp.array(dtype=float), t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (a[i] - t[i]) * (a[i] - t[i]) / float(N))


rng = np.random.default_rng(0)
sharp = rng.normal(size=N)
x = wp.array(sharp * (1 + 1e-4 * rng.normal(size=N)), dtype=float, requires_grad=True)
target = wp.array(0.25 * np.roll(sharp, -1) + 0.5 * sharp + 0.25 * np.roll(sharp, 1), dtype=float)
y = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(blur, dim=N, inputs=[x], outputs=[y])
    wp.launch(mse, dim=N, inputs=[y, target], outputs=[loss])
tape.backward(loss)
