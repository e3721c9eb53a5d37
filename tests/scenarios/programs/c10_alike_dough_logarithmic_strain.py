"""Dough that is hardly kneaded: its logarithmic strain by eigenvectors, where all eigenvalues are alike."""

import numpy as np

import tapedebug as wp

LUMPS = 3


@wp.kernel
def strain(F: wp.array(dtype=wp.mat33), stress: wp.array(dtype=wp.mat33), work: wp.array(dtype=float)):
    i = wp.tid()
    q, d = wp.eig3(wp.transpose(F[i]) * F[i])
    logs = wp.vec3(wp.log(d[0]), wp.log(d[1]), wp.log(d[2]))
    hencky = q * wp.diag(0.5 * logs) * wp.transpose(q)
    wp.atomic_add(work, 0, wp.ddot(stress[i], hencky) + 0.5 * wp.ddot(hencky, hencky))


rng = np.random.default_rng(8)
shapes = np.stack([np.eye(3) + e * rng.normal(size=(3, 3)) for e in (0.0, 1e-6, 1e-3)])
F = wp.array(shapes, dtype=wp.mat33, requires_grad=True)
stress = wp.array(rng.normal(size=(LUMPS, 3, 3)), dtype=wp.mat33)
work = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(strain, dim=LUMPS, inputs=[F, stress], outputs=[work])
tape.backward(work)
print("gradient", F.grad.numpy())
