"""Ages are integers and weigh the samples: they have no gradient, and none was asked for."""

import numpy as np

import tapedebug as wp

PEOPLE = 18


@wp.kernel
def fit(
    age: wp.array(dtype=int),
    height: wp.array(dtype=float),
    slope: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    i = wp.tid()
    out[i] = height[i] - slope[0] * float(age[i]) - slope[1]


@wp.kernel
def misfit(out: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, out[i] * out[i])


age = wp.array(np.arange(PEOPLE) % 7 + 2, dtype=int)
height = wp.array(0.7 + 0.05 * np.arange(PEOPLE), dtype=float)
slope = wp.array([0.08, 0.6], dtype=float, requires_grad=True)
out = wp.zeros(PEOPLE, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(fit, dim=PEOPLE, inputs=[age, height, slope], outputs=[out])
    wp.launch(misfit, dim=PEOPLE, inputs=[out], outputs=[loss])
tape.backward(loss)
print("gradient", slope.grad.numpy())
