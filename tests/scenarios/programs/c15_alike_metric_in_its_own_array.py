"""A metric beside the loss, into an array of its own: it costs a little, and changes nothing."""

import numpy as np

import tapedebug as wp

CELLS = 40
STEPS = 10


@wp.kernel
def diffuse(c: wp.array(dtype=float), rate: wp.array(dtype=float), c_next: wp.array(dtype=float)):
    i = wp.tid()
    left = c[wp.max(i - 1, 0)]
    right = c[wp.min(i + 1, CELLS - 1)]
    c_next[i] = c[i] + rate[i] * c[i] * (left - 2.0 * c[i] + right)


@wp.kernel
def misfit(c: wp.array(dtype=float), goal: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (c[i] - goal[i]) * (c[i] - goal[i]))


@wp.kernel
def mass(c: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, c[wp.tid()])


place = np.linspace(0.0, 1.0, CELLS)
c = wp.array(np.exp(-50.0 * (place - 0.4) ** 2), dtype=float, requires_grad=True)
goal = wp.array(np.exp(-20.0 * (place - 0.5) ** 2), dtype=float)
rate = wp.full(CELLS, 0.2, dtype=float, requires_grad=True)
# the loss begins at zero on the tape: a reset before it is computed is what resets are for
loss = wp.zeros(1, dtype=float, requires_grad=True)
total = wp.zeros(1, dtype=float, requires_grad=True)
start = wp.clone(c)

tape = wp.Tape()
with tape:
    loss.zero_()
    for _ in range(STEPS):
        c_next = wp.zeros(CELLS, dtype=float, requires_grad=True)
        wp.launch(diffuse, dim=CELLS, inputs=[c, rate], outputs=[c_next])
        c = c_next
    wp.launch(misfit, dim=CELLS, inputs=[c, goal], outputs=[loss])
    wp.launch(mass, dim=CELLS, inputs=[c], outputs=[total])
    wp.copy(start, c)
tape.backward(loss)
print("mass", total.numpy()[0])
