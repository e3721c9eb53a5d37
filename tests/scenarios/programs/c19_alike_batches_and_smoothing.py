"""A height map is smoothed five times, then compared with two surveys: all of the repeats are meant."""

import numpy as np

import tapedebug as wp

WIDTH = 12
CELLS = WIDTH * WIDTH


@wp.kernel
def smooth(h: wp.array2d(dtype=float), weight: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    up, down = h[wp.max(i - 1, 0), j], h[wp.min(i + 1, WIDTH - 1), j]
    left, right = h[i, wp.max(j - 1, 0)], h[i, wp.min(j + 1, WIDTH - 1)]
    out[i, j] = (1.0 - weight[0]) * h[i, j] + weight[0] * 0.25 * (up + down + left + right)


@wp.kernel
def relax_border(h: wp.array2d(dtype=float), level: wp.array(dtype=float)):
    j = wp.tid()
    h[0, j] = 0.5 * h[0, j] + 0.5 * level[0]


@wp.kernel
def compare(
    h: wp.array2d(dtype=float),
    points: wp.array(dtype=int),
    seen: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    k = wp.tid()
    d = h[points[k] // WIDTH, points[k] % WIDTH] - seen[k]
    wp.atomic_add(loss, 0, d * d)


@wp.kernel
def roughness(weight: wp.array(dtype=float), factor: float, loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, factor * weight[0] * weight[0])


rng = np.random.default_rng(2)
h = wp.array(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32), dtype=float, requires_grad=True)
weight = wp.array([0.6], dtype=float, requires_grad=True)
level = wp.array([0.2], dtype=float, requires_grad=True)
surveys = [
    (
        wp.array(rng.integers(0, CELLS, 20).astype(np.int32), dtype=int),
        wp.array(rng.normal(size=20).astype(np.float32), dtype=float),
    )
    for _ in range(2)
]
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(5):
        out = wp.zeros((WIDTH, WIDTH), dtype=float, requires_grad=True)
        wp.launch(smooth, dim=(WIDTH, WIDTH), inputs=[h, weight], outputs=[out])
        h = out
    wp.launch(relax_border, dim=WIDTH, inputs=[h, level])
    wp.launch(relax_border, dim=WIDTH, inputs=[h, level])
    for points, seen in surveys:
        wp.launch(compare, dim=20, inputs=[h, points, seen], outputs=[loss])
    wp.launch(roughness, dim=1, inputs=[weight, 0.1], outputs=[loss])
    wp.launch(roughness, dim=1, inputs=[weight, 0.2], outputs=[loss])
tape.backward(loss)
