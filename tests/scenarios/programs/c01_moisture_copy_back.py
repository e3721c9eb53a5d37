"""Moisture seeps through soil: how permeable is it? The new field is copied back over the old one each hour."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

ROWS, COLUMNS = 10, 14
HOURS = 6


@wp.kernel
def seep(
    wet: wp.array2d(dtype=float), permeability: wp.array2d(dtype=float), wet_next: wp.array2d(dtype=float)
):
    i, j = wp.tid()
    here = wet[i, j]
    above = wet[wp.max(i - 1, 0), j]
    below = wet[wp.min(i + 1, wet.shape[0] - 1), j]
    flow = permeability[i, j] * here * here * (above - 2.0 * here + below)
    wet_next[i, j] = here + 0.2 * flow


@wp.kernel
def misfit(wet: wp.array2d(dtype=float), gauge: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    error = wet[i, j] - gauge[i, j]
    wp.atomic_add(loss, 0, error * error)


rng = np.random.default_rng(11)
wet = wp.array(rng.uniform(0.2, 1.0, (ROWS, COLUMNS)), dtype=float, requires_grad=True)
permeability = wp.full((ROWS, COLUMNS), 0.8, dtype=float, requires_grad=True)
gauge = wp.array(rng.uniform(0.2, 1.0, (ROWS, COLUMNS)), dtype=float)
wet_next = wp.zeros_like(wet)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [permeability]

tape = wp.Tape(on_overwrite="ignore")
with tape:
    for hour in range(HOURS):
        # ADD: wet_next = wp.zeros_like(wet)
        with wp.ScopedTimer("hour", print=False):
            wp.launch(seep, dim=(ROWS, COLUMNS), inputs=[wet, permeability], outputs=[wet_next])
            # EXPECT overwrite error: wet
            # FIX: wet = wp.clone(wet_next)
            wp.copy(wet, wet_next)
    wp.launch(misfit, dim=(ROWS, COLUMNS), inputs=[wet, gauge], outputs=[loss])
tape.backward(loss)
