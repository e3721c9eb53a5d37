"""The pull of a kite: its lift is added for each of two lines, and once more by a copied line."""

import numpy as np

import tapedebug as wp

LINES = 2.0


@wp.kernel
def lift(speed: wp.array(dtype=float), lines: float, pull: wp.array(dtype=float)):
    i = wp.tid()
    pull[i] += 0.6 * speed[i] * speed[i] / lines


@wp.kernel
def tear(pull: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, pull[i] * pull[i])


speed = wp.array(np.linspace(3.0, 7.0, 6), dtype=float, requires_grad=True)
pull = wp.zeros(6, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(lift, dim=6, inputs=[speed, LINES], outputs=[pull])
    # DROP
    # EXPECT duplicate-launch warning: pull
    wp.launch(lift, dim=6, inputs=[speed, LINES], outputs=[pull])
    wp.launch(tear, dim=6, inputs=[pull], outputs=[loss])
tape.backward(loss)
print(speed.grad.numpy())
