"""Springs that start at rest, in buffers that hold the results of the run before: nothing is crossed."""

import numpy as np

import tapedebug as wp

BEADS = 12


@wp.kernel
def spring(x: wp.array(dtype=float), k: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] = 1.0 - k[i] * x[i]


@wp.kernel
def step(x: wp.array(dtype=float), force: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = x[i] + 0.1 * force[i]


@wp.kernel
def stretch(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - 0.2) * (x[i] - 0.2))


k = wp.array(np.linspace(1.0, 2.0, BEADS), dtype=float, requires_grad=True)
rest = wp.zeros(BEADS, dtype=float, requires_grad=True)
force, after, last = (wp.zeros(BEADS, dtype=float, requires_grad=True) for _ in range(3))
loss = wp.zeros(1, dtype=float, requires_grad=True)

for run in range(2):
    loss.zero_()
    tape = wp.Tape()
    with tape:
        wp.launch(spring, dim=BEADS, inputs=[rest, k], outputs=[force])
        wp.launch(step, dim=BEADS, inputs=[rest, force], outputs=[after])
        wp.launch(spring, dim=BEADS, inputs=[after, k], outputs=[force])
        wp.launch(step, dim=BEADS, inputs=[after, force], outputs=[last])
        wp.launch(stretch, dim=BEADS, inputs=[last], outputs=[loss])
    tape.backward(loss)
    print("gradient", k.grad.numpy().max())
    if run == 0:
        tape.zero()
