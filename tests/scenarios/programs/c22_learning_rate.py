"""Training diverges: the learning rate is far too large. The gradients are right in each step."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

N = 48
RATE = 40.0


@wp.kernel
def model(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = w[0] + w[1] * x[i] + w[2] * x[i] * x[i]


@wp.kernel
def mean_square(y: wp.array(dtype=float), data: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = y[i] - data[i]
    wp.atomic_add(loss, 0, d * d / float(y.shape[0]))


rng = np.random.default_rng(0)
place = np.linspace(-1.0, 1.0, N)
x = wp.array(place, dtype=float)
data = wp.array(1.0 - 2.0 * place + 0.1 * rng.normal(size=N), dtype=float)
w = wp.array([0.1, 0.1, 0.1], dtype=float, requires_grad=True)
tapes = []

for epoch in range(4):
    y = wp.zeros(N, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(model, dim=N, inputs=[x, w], outputs=[y])
        wp.launch(mean_square, dim=N, inputs=[y, data], outputs=[loss])
    tape.backward(loss)
    tapes.append(tape)
    step = w.grad.numpy()
    tape.zero()
    w.assign(w.numpy() - RATE * step)
loss = None
