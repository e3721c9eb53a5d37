"""warp.geometry: the surface of a sphere's distance field (`IsoSurfaceNets`), and the derivative of its vertices."""

import numpy as np
import warp as wp
from warp.geometry import IsoSurfaceNets

wp.config.quiet = True


@wp.kernel
def spread(vertices: wp.array(dtype=wp.vec3), weights: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, weights[i % 7] * wp.length_sq(vertices[i]))


axis = np.linspace(-1.0, 1.0, 9)
x, y, z = np.meshgrid(axis, axis, axis, indexing="ij")
field = wp.array(
    (np.sqrt(x * x + 1.1 * y * y + z * z) - 0.63).astype(np.float32), dtype=float, requires_grad=True
)
weights = wp.array(np.linspace(0.5, 1.5, 7).astype(np.float32), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    vertices, indices = IsoSurfaceNets.extract(field, 0.0, lower=(-1.0, -1.0, -1.0), upper=(1.0, 1.0, 1.0))
    wp.launch(spread, dim=len(vertices), inputs=[vertices, weights], outputs=[loss])
tape.backward(loss)
