"""A race around an obstacle: branches choose the side and the penalty, and where they are taken there is slope."""

import numpy as np

import tapedebug as wp

N = 12
POINTS = 10


@wp.kernel
def smooth(path: wp.array2d(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i, k = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(path[i, k + 1] - path[i, k]))


@wp.kernel
def avoid(path: wp.array2d(dtype=wp.vec2), radius: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i, k = wp.tid()
    distance = wp.length(path[i, k] - wp.vec2(0.5, 0.1))
    if distance < radius[0]:
        side = wp.sign(path[i, k][1] - 0.1)
        missing = radius[0] - distance
        wp.atomic_add(loss, 0, 10.0 * missing * missing + 0.1 * side * path[i, k][1])


rng = np.random.default_rng(4)
start = np.zeros((N, POINTS + 1, 2))
start[:, :, 0] = np.linspace(0.0, 1.0, POINTS + 1)
start[:, :, 1] = rng.normal(scale=0.2, size=(N, POINTS + 1))
path = wp.array(start, dtype=wp.vec2, requires_grad=True)
radius = wp.array([0.35], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(smooth, dim=(N, POINTS), inputs=[path], outputs=[loss])
    wp.launch(avoid, dim=(N, POINTS + 1), inputs=[path, radius], outputs=[loss])
tape.backward(loss)
