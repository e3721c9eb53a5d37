"""A scale is calibrated until float32 gets no closer: the gradient that is left is rounding, and right to that."""

import numpy as np

import tapedebug as wp

N = 24


@wp.kernel
def reading(
    mass: wp.array(dtype=float), gain: wp.array(dtype=float), offset: wp.array(dtype=float),
    out: wp.array(dtype=float),
):  # fmt: skip
    i = wp.tid()
    out[i] = gain[0] * mass[i] + offset[0]


@wp.kernel
def misfit(out: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (out[i] - seen[i]) * (out[i] - seen[i]) / float(N))


@wp.kernel
def descend(x: wp.array(dtype=float), g: wp.array(dtype=float), rate: float):
    x[0] = x[0] - rate * g[0]


masses = np.linspace(0.0, 2.0, N)
mass = wp.array(masses, dtype=float)
seen = wp.array(1.7 * masses + 0.3, dtype=float)
gain = wp.array([1.0], dtype=float, requires_grad=True)
offset = wp.array([0.0], dtype=float, requires_grad=True)

tapes = []
for step in range(400):
    out = wp.zeros(N, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(reading, dim=N, inputs=[mass, gain, offset], outputs=[out])
        wp.launch(misfit, dim=N, inputs=[out, seen], outputs=[loss])
    tape.backward(loss)
    wp.launch(descend, dim=1, inputs=[gain, gain.grad, 0.3])
    wp.launch(descend, dim=1, inputs=[offset, offset.grad, 0.3])
    gain.grad.zero_()
    offset.grad.zero_()
    if step in (0, 399):
        tapes.append(tape)
del loss
