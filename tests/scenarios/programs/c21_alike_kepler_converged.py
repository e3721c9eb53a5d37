"""Kepler's equation by fixed-point iteration, as long as it takes; the last round moves nothing any more."""

import numpy as np

import tapedebug as wp

N = 20
ROUNDS = 30


@wp.kernel
def iterate(guess: wp.array(dtype=float), mean: wp.array(dtype=float), e: wp.array(dtype=float)):
    i = wp.tid()
    guess[i] = mean[i] + e[0] * wp.sin(guess[i])


@wp.kernel
def distance(anomaly: wp.array(dtype=float), e: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    r = 1.0 - e[0] * wp.cos(anomaly[i])
    wp.atomic_add(loss, 0, (r - 0.9) * (r - 0.9))


mean = wp.array(np.linspace(0.1, 6.0, N), dtype=float, requires_grad=True)
e = wp.array([0.45], dtype=float, requires_grad=True)
anomaly = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for _ in range(ROUNDS):
        wp.launch(iterate, dim=N, inputs=[anomaly, mean, e])
    wp.launch(distance, dim=N, inputs=[anomaly, e], outputs=[loss])
tape.backward(loss)
