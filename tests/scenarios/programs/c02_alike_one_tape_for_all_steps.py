"""Fit a curve: one tape goes on recording in every step, and an optimiser moves the parameters in between."""

import numpy as np

import tapedebug as wp

SAMPLES = 24


@wp.kernel
def residual(
    shape: wp.array(dtype=float),
    x: wp.array(dtype=float),
    measured: wp.array(dtype=float),
    r: wp.array(dtype=float),
):
    i = wp.tid()
    r[i] = shape[0] * x[i] * x[i] + wp.sin(shape[1] * x[i]) - measured[i]


@wp.kernel
def squares(r: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, r[i] * r[i])


place = np.linspace(-1.0, 1.0, SAMPLES, dtype=np.float32)
x = wp.array(place, dtype=float)
measured = wp.array(place**3, dtype=float)
shape = wp.array([0.5, 0.2], dtype=float, requires_grad=True)

tape = wp.Tape()
for step in range(4):
    r = wp.zeros(SAMPLES, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with tape:
        wp.launch(residual, dim=SAMPLES, inputs=[shape, x, measured], outputs=[r])
        wp.launch(squares, dim=SAMPLES, inputs=[r], outputs=[loss])
    tape.backward(loss)
    shape.assign(shape.numpy() - 0.01 * shape.grad.numpy())
    tape.zero()
