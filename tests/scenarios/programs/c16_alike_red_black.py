"""A pressure is relaxed in place: red cells from black ones, then black cells from red ones. No two threads meet."""

import numpy as np

import tapedebug as wp

SIDE, SWEEPS = 8, 3
RED, BLACK = 0, 1


@wp.kernel
def relax(p: wp.array2d(dtype=float), source: wp.array2d(dtype=float), colour: int):
    i, j = wp.tid()
    n = p.shape[0]
    if (i + j) % 2 == colour and i > 0 and j > 0 and i < n - 1 and j < n - 1:
        p[i, j] = 0.25 * (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1] - source[i, j])


@wp.kernel
def energy(p: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, p[i, j] * p[i, j])


rng = np.random.default_rng(1)
source = wp.array(rng.normal(size=(SIDE, SIDE)), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    p = wp.zeros((SIDE, SIDE), dtype=float, requires_grad=True)
    for _ in range(SWEEPS):
        for colour in (RED, BLACK):
            wp.launch(relax, dim=(SIDE, SIDE), inputs=[p, source, colour])
    wp.launch(energy, dim=(SIDE, SIDE), inputs=[p], outputs=[loss])
tape.backward(loss)
