"""A density of a million cells is summed up: one cell does not move the last digit of the float32 sum."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

CELLS = 300_000


@wp.kernel
def pressure(density: wp.array(dtype=float), p: wp.array(dtype=float)):
    i = wp.tid()
    p[i] = density[i] * (1.0 + 0.01 * density[i])


@wp.kernel
def mass(p: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, p[wp.tid()])


rng = np.random.default_rng(3)
density = wp.array(rng.uniform(0.5, 1.5, CELLS), dtype=float, requires_grad=True)
p = wp.zeros(CELLS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(pressure, dim=CELLS, inputs=[density], outputs=[p])
    wp.launch(mass, dim=CELLS, inputs=[p], outputs=[loss])
tape.backward(loss)
