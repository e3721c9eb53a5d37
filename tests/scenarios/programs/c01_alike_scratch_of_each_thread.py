"""Light through leaves: a kernel uses one scratch array for its own sums, writes it and reads it back."""

# RUN as-warp
import numpy as np
import warp as wp

RAYS = 24


@wp.kernel
def attenuate(
    angle: wp.array(dtype=float),
    density: wp.array(dtype=float),
    depth: wp.array(dtype=float),
    light: wp.array(dtype=float),
):
    i = wp.tid()
    depth[i] = density[0] / wp.cos(angle[i])
    light[i] = wp.exp(-depth[i]) * (1.0 + 0.5 * depth[i])


@wp.kernel
def compare(light: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (light[i] - seen[i]) * (light[i] - seen[i]))


angles = np.linspace(0.0, 1.2, RAYS, dtype=np.float32)
angle = wp.array(angles, dtype=float)
seen = wp.array(np.exp(-1.3 / np.cos(angles)), dtype=float)
density = wp.array([0.8], dtype=float, requires_grad=True)
depth = wp.zeros(RAYS, dtype=float, requires_grad=True)
light = wp.zeros(RAYS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(attenuate, dim=RAYS, inputs=[angle, density], outputs=[depth, light])
    wp.launch(compare, dim=RAYS, inputs=[light, seen], outputs=[loss])
tape.backward(loss)
