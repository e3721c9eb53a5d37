"""Rows of a Jacobian by seeds: nobody has an objective here, and ones are as good as any other seed."""

import numpy as np

import tapedebug as wp

N = 6


@wp.kernel
def mix(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[(i + 1) % N] + wp.sin(x[i])


x = wp.array(np.linspace(0.1, 1.0, N), dtype=float, requires_grad=True)
y = wp.zeros(N, dtype=float, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(mix, dim=N, inputs=[x], outputs=[y])

rows = []
for row in range(N):
    seed = np.zeros(N, dtype=np.float32)
    seed[row] = 1.0
    tape.backward(grads={y: wp.array(seed, dtype=float)})
    rows.append(x.grad.numpy().copy())
    tape.zero()
assert np.linalg.matrix_rank(np.stack(rows)) == N
