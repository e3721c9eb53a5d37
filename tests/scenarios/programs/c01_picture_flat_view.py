"""Sharpening a picture: a flat view of the picture is clamped after the edges were found in it."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

SIDE = 12


@wp.kernel
def edges(picture: wp.array2d(dtype=float), gain: wp.array(dtype=float), edge: wp.array2d(dtype=float)):
    i, j = wp.tid()
    right = picture[i, wp.min(j + 1, picture.shape[1] - 1)]
    down = picture[wp.min(i + 1, picture.shape[0] - 1), j]
    dx = right - picture[i, j]
    dy = down - picture[i, j]
    edge[i, j] = gain[0] * (dx * dx + dy * dy)


@wp.kernel
def expose(pixels: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT overwrite error: picture
    out[i] = 1.0 - wp.exp(-2.0 * pixels[i])


@wp.kernel
def compare(
    pixels: wp.array(dtype=float),
    edge: wp.array2d(dtype=float),
    wanted: wp.array2d(dtype=float),
    loss: wp.array(dtype=float),
):
    i, j = wp.tid()
    error = pixels[i * edge.shape[1] + j] + edge[i, j] - wanted[i, j]
    wp.atomic_add(loss, 0, error * error)


rng = np.random.default_rng(2)
picture = wp.array(rng.uniform(0.0, 1.0, (SIDE, SIDE)), dtype=float, requires_grad=True)
wanted = wp.array(rng.uniform(0.0, 1.0, (SIDE, SIDE)), dtype=float)
gain = wp.array([0.7], dtype=float, requires_grad=True)
edge = wp.zeros((SIDE, SIDE), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
pixels = picture.flatten()
exposed = pixels
# ADD: exposed = wp.zeros_like(pixels)

with wp.Tape(on_overwrite="ignore") as tape:
    wp.launch(edges, dim=(SIDE, SIDE), inputs=[picture, gain], outputs=[edge])
    # CALLED overwrite
    wp.launch(expose, dim=SIDE * SIDE, inputs=[pixels], outputs=[exposed])
    wp.launch(compare, dim=(SIDE, SIDE), inputs=[exposed, edge, wanted], outputs=[loss])
tape.backward(loss)
