"""A density on a grid, from particles: each writes its share to the cell that it is in, and the last one wins."""

import numpy as np

import tapedebug as wp

PARTICLES = 40
NX, NY = 6, 4


@wp.struct
class Grid:
    density: wp.array2d(dtype=float)
    count: wp.array2d(dtype=int)


@wp.kernel
def deposit(place: wp.array(dtype=wp.vec2), mass: wp.array(dtype=float), grid: Grid):
    p = wp.tid()
    i = wp.clamp(int(place[p][0]), 0, NX - 1)
    j = wp.clamp(int(place[p][1]), 0, NY - 1)
    wp.atomic_add(grid.count, i, j, 1)
    # EXPECT race error: grid.density
    # FIX: wp.atomic_add(grid.density, i, j, mass[p])
    grid.density[i, j] = mass[p]


@wp.kernel
def spread(grid: Grid, wanted: float, loss: wp.array(dtype=float)):
    i, j = wp.tid()
    d = grid.density[i, j] - wanted
    wp.atomic_add(loss, 0, d * d * float(grid.count[i, j]))


rng = np.random.default_rng(3)
place = wp.array(rng.uniform(0.0, [NX, NY], (PARTICLES, 2)), dtype=wp.vec2)
mass = wp.array(rng.uniform(0.5, 1.5, PARTICLES), dtype=float, requires_grad=True)
grid = Grid()
grid.density = wp.zeros((NX, NY), dtype=float, requires_grad=True)
grid.count = wp.zeros((NX, NY), dtype=int)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED race
    wp.launch(deposit, dim=PARTICLES, inputs=[place, mass, grid])
    wp.launch(spread, dim=(NX, NY), inputs=[grid, 1.5], outputs=[loss])
tape.backward(loss)
