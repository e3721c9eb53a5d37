"""Distances between bodies, guarded in the usual ways: an epsilon, a `where` inside, lengths at zero."""

import numpy as np

import tapedebug as wp

BODIES = 12


@wp.kernel
def separate(x: wp.array(dtype=wp.vec3), strength: wp.array(dtype=float), energy: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for k in range(BODIES):
        d = x[i] - x[k]
        square = wp.dot(d, d)
        soft = wp.sqrt(square + 0.01)
        safe = wp.where(square > 0.04, square, 1.0)
        far = wp.where(square > 0.04, wp.log(safe) + 1.0 / safe, 0.0)
        total += strength[i] * (1.0 / soft + 0.1 * far)
    energy[i] = total


@wp.kernel
def total(energy: wp.array(dtype=float), weight: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, weight[i] * energy[i])


place = np.random.default_rng(6).normal(size=(BODIES, 3)).astype(np.float32)
x = wp.array(place, dtype=wp.vec3, requires_grad=True)
strength = wp.full(BODIES, 0.5, dtype=float, requires_grad=True)
weight = wp.array(np.linspace(0.5, 1.0, BODIES), dtype=float)
energy = wp.zeros(BODIES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(separate, dim=BODIES, inputs=[x, strength], outputs=[energy])
    wp.launch(total, dim=BODIES, inputs=[energy, weight], outputs=[loss])
tape.backward(loss)
