"""A dune: the wind near the ground comes from a table, through NumPy; the pressure of the air reaches the loss directly."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

CELLS = 24
HEIGHTS, SPEEDS = [0.0, 0.4, 0.9, 1.5, 2.5], [2.0, 3.1, 5.0, 5.9, 6.3]


@wp.kernel
def crest(sand: wp.array(dtype=float), height: wp.array(dtype=float)):
    i = wp.tid()
    left, right = wp.max(i - 1, 0), wp.min(i + 1, CELLS - 1)
    height[i] = 0.25 * sand[left] + 0.5 * sand[i] + 0.25 * sand[right]


@wp.kernel
def table(height: wp.array(dtype=float), speed: wp.array(dtype=float)):
    i = wp.tid()
    speed[i] = 2.0 + 4.3 * (1.0 - wp.exp(-height[i]))


@wp.kernel
def carried(height: wp.array(dtype=float), speed: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, speed[i] * speed[i] * speed[i] / (1.0 + height[i]))


def numbers(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


place = np.linspace(0.0, 1.0, CELLS)
sand = numbers(1.2 + np.sin(7.0 * place))
height, speed = numbers(np.zeros(CELLS)), numbers(np.zeros(CELLS))
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(crest, dim=CELLS, inputs=[sand], outputs=[height])
    # EXPECT disconnected warning: speed, height, sand
    # FIX: wp.launch(table, dim=CELLS, inputs=[height], outputs=[speed])
    found = np.interp(height.numpy(), HEIGHTS, SPEEDS)
    # DROP
    print("fastest", found.max())
    # DROP
    speed = numbers(found)
    wp.launch(carried, dim=CELLS, inputs=[height, speed], outputs=[loss])
tape.backward(loss)
print("gradient of the sand", sand.grad.numpy().max())
