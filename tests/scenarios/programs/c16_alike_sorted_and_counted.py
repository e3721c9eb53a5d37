"""Particles are brought into the order of their cells, weighed by a histogram, and moved in place.

The scatter goes to places of which no two are the same; the histogram adds atomically; the move stays at the
thread's own index; a flag that says that somebody left the box is set by many threads, all to the same value.
"""

import numpy as np

import tapedebug as wp

PARTICLES, CELLS, STEPS = 32, 6, 3
LENGTH = 6.0


@wp.kernel
def reorder(x: wp.array(dtype=float), target: wp.array(dtype=int), ordered: wp.array(dtype=float)):
    p = wp.tid()
    ordered[target[p]] = x[p]


@wp.kernel
def count(x: wp.array(dtype=float), histogram: wp.array(dtype=float)):
    p = wp.tid()
    histogram[wp.clamp(int(x[p]), 0, CELLS - 1)] += 1.0


@wp.kernel
def move(
    x: wp.array(dtype=float),
    histogram: wp.array(dtype=float),
    push: wp.array(dtype=float),
    outside: wp.array(dtype=int),
):
    p = wp.tid()
    cell = wp.clamp(int(x[p]), 0, CELLS - 1)
    x[p] = x[p] + push[0] * wp.sin(x[p]) / (1.0 + histogram[cell])
    if x[p] > LENGTH - 1.0:
        outside[0] = 1


@wp.kernel
def spread(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    p = wp.tid()
    d = x[p] - 0.5 * LENGTH
    wp.atomic_add(loss, 0, d * d)


rng = np.random.default_rng(2)
start = rng.uniform(0.0, LENGTH, PARTICLES)
target = wp.array(np.argsort(np.argsort(start)), dtype=int)
push = wp.array([0.2], dtype=float, requires_grad=True)
outside = wp.zeros(1, dtype=int)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    found = wp.array(start, dtype=float, requires_grad=True)
    x = wp.zeros(PARTICLES, dtype=float, requires_grad=True)
    wp.launch(reorder, dim=PARTICLES, inputs=[found, target], outputs=[x])
    for _ in range(STEPS):
        histogram = wp.zeros(CELLS, dtype=float)
        wp.launch(count, dim=PARTICLES, inputs=[x], outputs=[histogram])
        wp.launch(move, dim=PARTICLES, inputs=[x, histogram, push, outside])
    wp.launch(spread, dim=PARTICLES, inputs=[x], outputs=[loss])
tape.backward(loss)
inputs = [push]
