"""A picture is blurred and compared with one that was taken: the edge of the blurred one is whatever was there."""

import numpy as np

import tapedebug as wp

ROWS, COLUMNS = 8, 10


@wp.kernel
def expose(light: wp.array2d(dtype=float), gain: wp.array(dtype=float), picture: wp.array2d(dtype=float)):
    i, j = wp.tid()
    picture[i, j] = light[i, j] * gain[0]


@wp.kernel
def blur(picture: wp.array2d(dtype=float), blurred: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < ROWS - 1 and j < COLUMNS - 1:
        around = picture[i - 1, j] + picture[i + 1, j] + picture[i, j - 1] + picture[i, j + 1]
        blurred[i, j] = 0.5 * picture[i, j] + 0.125 * around


@wp.kernel
def compare(
    blurred: wp.array2d(dtype=float),
    picture: wp.array2d(dtype=float),
    taken: wp.array2d(dtype=float),
    loss: wp.array(dtype=float),
):
    i, j = wp.tid()
    # EXPECT uninitialised-read error: blurred
    d = wp.clamp(blurred[i, j], 0.0, 2.0) * picture[i, j] - taken[i, j]
    wp.atomic_add(loss, 0, d * d)


rng = np.random.default_rng(5)
light = wp.array(rng.uniform(0.2, 1.0, (ROWS, COLUMNS)), dtype=float)
taken = wp.array(rng.uniform(0.2, 1.0, (ROWS, COLUMNS)), dtype=float)
gain = wp.array([1.3], dtype=float, requires_grad=True)
picture = wp.zeros((ROWS, COLUMNS), dtype=float, requires_grad=True)
# FIX: blurred = wp.zeros((ROWS, COLUMNS), dtype=float, requires_grad=True)
blurred = wp.empty((ROWS, COLUMNS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(expose, dim=(ROWS, COLUMNS), inputs=[light, gain], outputs=[picture])
    wp.launch(blur, dim=(ROWS, COLUMNS), inputs=[picture], outputs=[blurred])
    # CALLED uninitialised-read
    wp.launch(compare, dim=(ROWS, COLUMNS), inputs=[blurred, picture, taken], outputs=[loss])
tape.backward(loss)
