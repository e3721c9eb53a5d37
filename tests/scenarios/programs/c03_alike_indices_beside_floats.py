"""Readings picked by an array of integers: indices have no gradient, and need none."""

import numpy as np

import tapedebug as wp


@wp.kernel
def pick(x: wp.array(dtype=float), which: wp.array(dtype=wp.int32), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[which[i]]


@wp.kernel
def turn(which: wp.array(dtype=wp.int32), turned: wp.array(dtype=wp.int32)):
    i = wp.tid()
    turned[i] = which[which.shape[0] - 1 - i]


@wp.kernel
def misfit(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = y[wp.tid()] - 0.1
    wp.atomic_add(loss, 0, d * d)


x = wp.array(np.linspace(1.0, 3.0, 5), dtype=float, requires_grad=True)
which, turned = wp.array([3, 0, 4, 1], dtype=wp.int32), wp.zeros(4, dtype=wp.int32)
y = wp.zeros(4, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(turn, dim=4, inputs=[which], outputs=[turned])
    wp.launch(pick, dim=4, inputs=[x, turned], outputs=[y])
    wp.launch(misfit, dim=4, inputs=[y], outputs=[loss])
tape.backward(loss)
print(x.grad.numpy())
