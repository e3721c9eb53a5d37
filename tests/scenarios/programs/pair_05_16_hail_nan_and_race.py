"""Hail on a roof: dents are written by several stones at once, and the mean of no stones divides by zero."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

STONES = 30
TILES = 8


@wp.kernel
def strike(
    tile: wp.array(dtype=int),
    speed: wp.array(dtype=float),
    dent: wp.array(dtype=float),
    count: wp.array(dtype=float),
):
    i = wp.tid()
    # FIX: wp.atomic_add(dent, tile[i], speed[i] * speed[i])
    # EXPECT race: dent
    dent[tile[i]] = dent[tile[i]] + speed[i] * speed[i]
    wp.atomic_add(count, tile[i], 1.0)


@wp.kernel
def wear(
    dent: wp.array(dtype=float),
    count: wp.array(dtype=float),
    glaze: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    k = wp.tid()
    # FIX: mean = dent[k] * glaze[k] / wp.max(count[k], 1.0)
    # EXPECT nonfinite error
    mean = dent[k] * glaze[k] / count[k]
    wp.atomic_add(loss, 0, mean * mean)


rng = np.random.default_rng(3)
tile = wp.array(rng.integers(0, TILES - 1, STONES).astype(np.int32), dtype=int)
speed = wp.array(rng.uniform(1.0, 2.0, STONES).astype(np.float32), dtype=float, requires_grad=True)
glaze = wp.array(np.linspace(0.5, 1.0, TILES), dtype=float, requires_grad=True)
dent = wp.zeros(TILES, dtype=float, requires_grad=True)
count = wp.zeros(TILES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [speed, glaze]

tape = wp.Tape()
with tape:
    # CALLED race
    wp.launch(strike, dim=STONES, inputs=[tile, speed], outputs=[dent, count])
    # CALLED nonfinite
    wp.launch(wear, dim=TILES, inputs=[dent, count, glaze], outputs=[loss])
tape.backward(loss)
