# A sparse product: where each entry goes is known beforehand, and many add to one element. No number is handed out.
# RUN as-warp
import numpy as np
import warp as wp

ENTRIES = 18
ROWS = 6


@wp.kernel
def product(
    entry: wp.array(dtype=float),
    row: wp.array(dtype=int),
    column: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    k = wp.tid()
    wp.atomic_add(y, row[k], entry[k] * x[column[k]])


@wp.kernel
def length(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i] * y[i])


rng = np.random.default_rng(5)
entry = wp.array(rng.random(ENTRIES), dtype=float, requires_grad=True)
row = wp.array(rng.integers(0, ROWS, ENTRIES), dtype=int)
column = wp.array(rng.integers(0, ROWS, ENTRIES), dtype=int)
x = wp.array(rng.random(ROWS), dtype=float, requires_grad=True)
y = wp.zeros(ROWS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(product, dim=ENTRIES, inputs=[entry, row, column, x], outputs=[y])
    wp.launch(length, dim=ROWS, inputs=[y], outputs=[loss])
tape.backward(loss)
print(loss.numpy())
