"""Fit a contour to given directions. Two of its points nearly coincide, and the softening is too small."""

import numpy as np

import tapedebug as wp

N = 24
# FIX: SOFTENING = 1.0e-2
SOFTENING = 1.0e-9


@wp.kernel
def edges(points: wp.array(dtype=wp.vec2), edge: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    after = (i + 1) % points.shape[0]
    edge[i] = points[after] - points[i]


@wp.kernel
def directions(edge: wp.array(dtype=wp.vec2), direction: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    x = edge[i][0]
    y = edge[i][1]
    # EXPECT exploding warning: points
    direction[i] = wp.vec2(x, y) / (wp.sqrt(x * x + y * y + 1.0e-20) + SOFTENING)


@wp.kernel
def misalignment(
    direction: wp.array(dtype=wp.vec2), wanted: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)
):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(direction[i] - wanted[i]))


angle = 2.0 * np.pi * np.arange(N) / N
shape = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
shape[8] = shape[7] + np.array([0.0, 6.0e-8], dtype=np.float32)
points = wp.array(shape, dtype=wp.vec2, requires_grad=True)
edge = wp.zeros(N, dtype=wp.vec2, requires_grad=True)
direction = wp.zeros(N, dtype=wp.vec2, requires_grad=True)
wanted = wp.array(np.stack([-np.sin(angle + 0.3), np.cos(angle + 0.3)], axis=1), dtype=wp.vec2)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(edges, dim=N, inputs=[points], outputs=[edge])
    # CALLED exploding
    wp.launch(directions, dim=N, inputs=[edge], outputs=[direction])
    wp.launch(misalignment, dim=N, inputs=[direction, wanted], outputs=[loss])
tape.backward(loss)
