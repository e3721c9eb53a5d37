"""Temporal differences: the next value is detached on purpose, and the gradient stops there as it should."""

# VERDICT UNDECIDABLE
import numpy as np

import tapedebug as wp

STATES = 20


@wp.kernel
def value(state: wp.array(dtype=float), weight: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    x = state[i]
    out[i] = wp.tanh(weight[0] * x + weight[1]) + weight[2] * x * x


@wp.kernel
def surprise(
    now: wp.array(dtype=float),
    later: wp.array(dtype=float),
    reward: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    d = now[i] - reward[i] - 0.9 * later[i]
    wp.atomic_add(loss, 0, d * d)


x = np.linspace(-1.0, 1.0, STATES)
state = wp.array(x, dtype=float)
following = wp.array(0.8 * x + 0.1, dtype=float)
reward = wp.array(np.cos(x), dtype=float)
weight = wp.array([0.7, 0.1, 0.3], dtype=float, requires_grad=True)
now = wp.zeros(STATES, dtype=float, requires_grad=True)
later = wp.zeros(STATES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(value, dim=STATES, inputs=[state, weight], outputs=[now])
    wp.launch(value, dim=STATES, inputs=[following, weight], outputs=[later])
    fixed = wp.clone(later, requires_grad=False)
    wp.launch(surprise, dim=STATES, inputs=[now, fixed, reward], outputs=[loss])
tape.backward(loss)
