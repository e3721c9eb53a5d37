"""Gradient descent on the shape of a beam: parameters are written after backward, as they should be."""

import numpy as np

import tapedebug as wp

N = 24


@wp.kernel
def bend(width: wp.array(dtype=float), load: wp.array(dtype=float), sag: wp.array(dtype=float)):
    i = wp.tid()
    sag[i] = load[i] / (width[i] * width[i] * width[i])


@wp.kernel
def cost(sag: wp.array(dtype=float), width: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, sag[i] * sag[i] + 0.05 * width[i])


@wp.kernel
def descend(width: wp.array(dtype=float), slope: wp.array(dtype=float), rate: float):
    i = wp.tid()
    width[i] = wp.max(width[i] - rate * slope[i], 0.2)


width = wp.array(np.full(N, 0.9), dtype=float, requires_grad=True)
load = wp.array(np.linspace(0.5, 1.5, N), dtype=float)
sag = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

for _ in range(4):
    loss.zero_()
    tape = wp.Tape(on_overwrite="ignore")
    with tape:
        wp.launch(bend, dim=N, inputs=[width, load], outputs=[sag])
        wp.launch(cost, dim=N, inputs=[sag, width], outputs=[loss])
    tape.backward(loss)
    wp.launch(descend, dim=N, inputs=[width, width.grad, 0.05])
    load.numpy()[:] *= 1.01
    tape.zero()
