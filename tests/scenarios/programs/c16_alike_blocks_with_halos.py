"""A wave on a string in blocks: all in one array, each thread moves a block of its own and reads its halo elsewhere.

Threads write to places that are not their index, in memory that other views of the array read: none meet.
"""

import numpy as np

import tapedebug as wp

BLOCKS, WIDTH, STEPS = 4, 5, 4
CELLS = BLOCKS * WIDTH
SPEED = 0.4


@wp.kernel
def step(now: wp.array(dtype=float), before: wp.array(dtype=float), after: wp.array(dtype=float)):
    block = wp.tid()
    for k in range(WIDTH):
        i = block * WIDTH + k
        left = float(0.0)
        right = float(0.0)
        if i > 0:
            left = now[i - 1]
        if i < CELLS - 1:
            right = now[i + 1]
        after[i] = 2.0 * now[i] - before[i] + SPEED * (left - 2.0 * now[i] + right)


@wp.kernel
def heard(string: wp.array(dtype=float), at: int, loss: wp.array(dtype=float)):
    loss[0] = string[at] * string[at]


where = np.linspace(0.0, np.pi, CELLS)
pluck = wp.array(np.sin(where) ** 3, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    rows = wp.zeros(((STEPS + 2) * CELLS,), dtype=float, requires_grad=True)
    times = [rows[t * CELLS : (t + 1) * CELLS] for t in range(STEPS + 2)]
    wp.copy(times[0], pluck)
    wp.copy(times[1], pluck)
    for t in range(STEPS):
        wp.launch(step, dim=BLOCKS, inputs=[times[t + 1], times[t]], outputs=[times[t + 2]])
    wp.launch(heard, dim=1, inputs=[times[-1], CELLS // 3], outputs=[loss])
tape.backward(loss)
inputs = [pluck]
