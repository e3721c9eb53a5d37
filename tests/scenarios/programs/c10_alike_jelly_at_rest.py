"""A jelly at rest and beside it: energies of singular values and of the rotation, in one kernel."""

import numpy as np

import tapedebug as wp

CELLS = 4


@wp.kernel
def energy(F: wp.array(dtype=wp.mat33), load: wp.array(dtype=wp.mat33), total: wp.array(dtype=float)):
    i = wp.tid()
    u, s, v = wp.svd3(F[i])
    stretched = u * wp.diag(s) * wp.transpose(v)
    rotation = u * wp.transpose(v)
    difference = F[i] - rotation
    volume = s[0] * s[1] * s[2] - 1.0
    elastic = wp.ddot(difference, difference) + volume * volume
    wp.atomic_add(total, 0, elastic + wp.ddot(load[i], stretched) + 0.1 * wp.ddot(load[i], rotation))


rng = np.random.default_rng(3)
shapes = np.stack([np.eye(3) + e * rng.normal(size=(3, 3)) for e in (0.0, 1e-7, 1e-6, 1e-2)])
F = wp.array(shapes, dtype=wp.mat33, requires_grad=True)
load = wp.array(rng.normal(size=(CELLS, 3, 3)), dtype=wp.mat33)
total = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(energy, dim=CELLS, inputs=[F, load], outputs=[total])
tape.backward(total)
print("gradient", F.grad.numpy())
