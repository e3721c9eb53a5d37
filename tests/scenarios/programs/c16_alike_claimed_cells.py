"""Cells are claimed by the first drop that falls in them, and each swaps its own level: none decides what the loss is."""

import numpy as np

import tapedebug as wp

DROPS, CELLS = 24, 6


@wp.kernel
def fall(
    cell: wp.array(dtype=int),
    mass: wp.array(dtype=float),
    wet: wp.array(dtype=int),
    count: wp.array(dtype=int),
    water: wp.array(dtype=float),
):
    d = wp.tid()
    c = cell[d]
    if wp.atomic_cas(wet, c, 0, 1) == 0:
        wp.atomic_add(count, 0, 1)
    wp.atomic_add(water, c, mass[d])


@wp.kernel
def renew(water: wp.array(dtype=float), level: wp.array(dtype=float), change: wp.array(dtype=float)):
    c = wp.tid()
    change[c] = water[c] - wp.atomic_exch(level, c, water[c])


@wp.kernel
def total(change: wp.array(dtype=float), count: wp.array(dtype=int), loss: wp.array(dtype=float)):
    c = wp.tid()
    wp.atomic_add(loss, 0, change[c] * change[c] / float(count[0]))


rng = np.random.default_rng(4)
cell = wp.array(rng.integers(0, CELLS, DROPS), dtype=int)
mass = wp.array(rng.uniform(0.5, 1.5, DROPS), dtype=float, requires_grad=True)
wet, count = wp.zeros(CELLS, dtype=int), wp.zeros(1, dtype=int)
water = wp.zeros(CELLS, dtype=float, requires_grad=True)
level = wp.array(rng.uniform(0.0, 1.0, CELLS), dtype=float, requires_grad=True)
change = wp.zeros(CELLS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(fall, dim=DROPS, inputs=[cell, mass], outputs=[wet, count, water])
    wp.launch(renew, dim=CELLS, inputs=[water, level], outputs=[change])
    wp.launch(total, dim=CELLS, inputs=[change, count], outputs=[loss])
tape.backward(loss)
inputs = [mass]
