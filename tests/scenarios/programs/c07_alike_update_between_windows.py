"""Truncated on purpose: the state goes on from window to window, the parameter is updated after each."""

import numpy as np

import tapedebug as wp
from tapedebug.optim import SGD

N, STEPS = 8, 6


@wp.kernel
def grow(size: wp.array(dtype=float), rate: wp.array(dtype=float), after: wp.array(dtype=float)):
    i = wp.tid()
    after[i] = size[i] + 0.1 * rate[0] * size[i] * (1.0 - size[i])


@wp.kernel
def gap(size: wp.array(dtype=float), wanted: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (size[i] - wanted) * (size[i] - wanted))


rate = wp.array([0.8], dtype=float, requires_grad=True)
size = wp.array(np.linspace(0.1, 0.3, N), dtype=float, requires_grad=True)
sgd = SGD([rate], lr=0.1)
tapes = []
for window in range(4):
    gap_left = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        for _ in range(STEPS):
            after = wp.zeros(N, dtype=float, requires_grad=True)
            wp.launch(grow, dim=N, inputs=[size, rate], outputs=[after])
            size = after
        wp.launch(gap, dim=N, inputs=[size, 0.9], outputs=[gap_left])
    tape.backward(gap_left)
    sgd.step([rate.grad])
    tape.zero()
    tapes.append(tape)
