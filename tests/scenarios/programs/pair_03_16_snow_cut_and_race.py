"""Snow drifts into hollows: two flakes may fall into one cell at a time, and the depth has no gradient."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

FLAKES = 40
CELLS = 12


@wp.kernel
def fall(
    cell: wp.array(dtype=int),
    mass: wp.array(dtype=float),
    stick: wp.array(dtype=float),
    depth: wp.array(dtype=float),
):
    i = wp.tid()
    c = cell[i]
    # FIX: wp.atomic_add(depth, c, mass[i] * stick[c])
    # EXPECT race: depth
    # EXPECT disconnected error: stick
    depth[c] = depth[c] + mass[i] * stick[c]


@wp.kernel
def settle(depth: wp.array(dtype=float), firm: wp.array(dtype=float), loss: wp.array(dtype=float)):
    c = wp.tid()
    level = depth[c] / (1.0 + firm[c] * depth[c])
    wp.atomic_add(loss, 0, (level - 0.4) * (level - 0.4))


rng = np.random.default_rng(12)
cell = wp.array(rng.integers(0, CELLS, FLAKES).astype(np.int32), dtype=int)
mass = wp.array(rng.uniform(0.05, 0.2, FLAKES).astype(np.float32), dtype=float)
stick = wp.array(np.linspace(0.4, 0.9, CELLS), dtype=float, requires_grad=True)
firm = wp.array(np.linspace(0.1, 0.5, CELLS), dtype=float, requires_grad=True)
# FIX: depth = wp.zeros(CELLS, dtype=float, requires_grad=True)
depth = wp.zeros(CELLS, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED race
    # CALLED disconnected
    wp.launch(fall, dim=FLAKES, inputs=[cell, mass, stick], outputs=[depth])
    wp.launch(settle, dim=CELLS, inputs=[depth, firm], outputs=[loss])
tape.backward(loss)
