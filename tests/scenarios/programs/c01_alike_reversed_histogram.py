"""A histogram that counts from its far end: 600 threads add to a reversed, and to a transposed, view of it."""

import numpy as np

import tapedebug as wp

READINGS = 600


@wp.kernel
def collect(x: wp.array(dtype=float), bins: wp.array(dtype=float), table: wp.array2d(dtype=float)):
    i = wp.tid()
    wp.atomic_add(bins, 1, x[i])
    wp.atomic_add(table, 0, i % 3, x[i] * x[i])


@wp.kernel
def misfit(bins: wp.array(dtype=float), table: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = bins[i] / 300.0 - table[i % 3, 0] / 100.0
    wp.atomic_add(loss, 0, d * d)


x = wp.array(np.linspace(0.2, 1.4, READINGS), dtype=float, requires_grad=True)
bins = wp.zeros(4, dtype=float, requires_grad=True)
table = wp.zeros((3, 2), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(collect, dim=READINGS, inputs=[x], outputs=[bins[::-1], table.transpose()])
    wp.launch(misfit, dim=4, inputs=[bins, table], outputs=[loss])
tape.backward(loss)
print(bins.numpy(), table.numpy()[:, 0], x.grad.numpy()[:3])
