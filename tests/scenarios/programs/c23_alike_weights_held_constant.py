"""Iteratively reweighted fit: the weights follow from the residuals through NumPy, as constants, without a gradient."""

import numpy as np

import tapedebug as wp

N = 16


@wp.kernel
def residuals(
    slope: wp.array(dtype=float),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
    off: wp.array(dtype=float),
):
    i = wp.tid()
    off[i] = slope[0] * x[i] + slope[1] - y[i]


@wp.kernel
def weighted(off: wp.array(dtype=float), weight: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, weight[i] * off[i] * off[i])


place = np.linspace(0.0, 2.0, N)
data = 1.5 * place + 0.3 + 0.2 * np.sin(9.0 * place)
slope = wp.array([1.0, 0.0], dtype=float, requires_grad=True)
x, y = wp.array(place, dtype=float), wp.array(data, dtype=float)
off, loss = wp.zeros(N, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(residuals, dim=N, inputs=[slope, x, y], outputs=[off])
    far = np.abs(off.numpy())
    weight = wp.array(1.0 / np.maximum(far, 0.1), dtype=float)
    wp.launch(weighted, dim=N, inputs=[off, weight], outputs=[loss])
tape.backward(loss)
print("gradient", slope.grad.numpy())
