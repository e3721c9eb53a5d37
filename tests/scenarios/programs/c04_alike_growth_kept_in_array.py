# Growth of a population from year to year, in a loop, but each year has its own element: nothing is carried.
# RUN as-warp
import numpy as np
import warp as wp

YEARS = 20


@wp.kernel
def grow(rate: wp.array(dtype=float), years: int, size: wp.array2d(dtype=float)):
    i = wp.tid()
    for k in range(years):
        size[i, k + 1] = size[i, k] + rate[i] * size[i, k] * (1.0 - size[i, k])


@wp.kernel
def off(size: wp.array2d(dtype=float), seen: wp.array(dtype=float), years: int, loss: wp.array(dtype=float)):
    i = wp.tid()
    d = size[i, years] - seen[i]
    wp.atomic_add(loss, 0, d * d)


rate = wp.array([0.2, 0.3, 0.5], dtype=float, requires_grad=True)
start = np.zeros((3, YEARS + 1), np.float32)
start[:, 0] = 0.05
size = wp.array(start, dtype=float, requires_grad=True)
seen = wp.array([0.5, 0.8, 0.9], dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(grow, dim=3, inputs=[rate, YEARS], outputs=[size])
    wp.launch(off, dim=3, inputs=[size, seen, YEARS], outputs=[loss])
tape.backward(loss)
print(rate.grad.numpy())
