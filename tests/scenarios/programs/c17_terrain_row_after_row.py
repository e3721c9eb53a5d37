"""Find how steep a hillside is. At its eastern edge the slope is taken to the first cell of the next row."""

import numpy as np

import tapedebug as wp

ROWS, COLUMNS = 7, 9


@wp.kernel
def raise_ground(base: wp.array2d(dtype=float), lift: wp.array(dtype=float), height: wp.array2d(dtype=float)):
    i, j = wp.tid()
    height[i, j] = base[i, j] + lift[j] * float(i + 1)


@wp.kernel
def steepness(height: wp.array2d(dtype=float), slope: wp.array2d(dtype=float)):
    i, j = wp.tid()
    # FIX: if i < ROWS - 1 and j < COLUMNS - 1:
    if i < ROWS - 1:
        # EXPECT out-of-bounds error: height
        east = height[i, j + 1] - height[i, j]
        south = height[i + 1, j] - height[i, j]
        slope[i, j] = east * east + south * south


@wp.kernel
def total(slope: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, slope[i, j])


rng = np.random.default_rng(4)
base = wp.array(rng.uniform(0.0, 0.5, (ROWS, COLUMNS)), dtype=float)
lift = wp.array(np.linspace(0.1, 0.4, COLUMNS), dtype=float, requires_grad=True)
height = wp.zeros((ROWS, COLUMNS), dtype=float, requires_grad=True)
slope = wp.zeros((ROWS, COLUMNS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(raise_ground, dim=(ROWS, COLUMNS), inputs=[base, lift], outputs=[height])
    # CALLED out-of-bounds
    wp.launch(steepness, dim=(ROWS, COLUMNS), inputs=[height], outputs=[slope])
    wp.launch(total, dim=(ROWS, COLUMNS), inputs=[slope], outputs=[loss])
tape.backward(loss)
