"""A filter whose weights are stored from the last to the first, and read through a reversed view."""

import numpy as np

import tapedebug as wp

SAMPLES = 400


@wp.kernel
def smooth(x: wp.array(dtype=float), weights: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for k in range(3):
        total += weights[k] * x[wp.min(i + k, x.shape[0] - 1)]
    y[i] = total


@wp.kernel
def error(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = y[wp.tid()] - 0.5
    wp.atomic_add(loss, 0, d * d)


x = wp.array(np.sin(np.linspace(0.0, 9.0, SAMPLES)), dtype=float, requires_grad=True)
weights = wp.array([0.5, 0.3, 0.2], dtype=float, requires_grad=True)
y = wp.zeros(SAMPLES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(smooth, dim=SAMPLES, inputs=[x[::-1], weights[::-1]], outputs=[y[::-1]])
    wp.launch(error, dim=SAMPLES, inputs=[y], outputs=[loss])
tape.backward(loss)
print(weights.grad.numpy())
