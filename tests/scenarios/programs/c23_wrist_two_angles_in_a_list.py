"""A wrist with two joints: the angles go through a list and `math`, which is too little for values to tell."""

# VERDICT AGREE
import math

import tapedebug as wp


@wp.kernel
def pull(muscle: wp.array(dtype=float), angle: wp.array(dtype=float)):
    i = wp.tid()
    angle[i] = 0.7 * muscle[i] + 0.2 * muscle[i] * muscle[i]


@wp.kernel
def lengths(angle: wp.array(dtype=float), reach: wp.array(dtype=float)):
    i = wp.tid()
    reach[i] = 0.4 * wp.cos(angle[i])


@wp.kernel
def miss(reach: wp.array(dtype=float), muscle: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    off = reach[i] - 0.35
    wp.atomic_add(loss, 0, off * off + 0.01 * muscle[i] * muscle[i])


muscle = wp.array([0.5, -0.25], dtype=float, requires_grad=True)
angle, reach = wp.zeros_like(muscle), wp.zeros_like(muscle)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(pull, dim=2, inputs=[muscle], outputs=[angle])
    # EXPECT disconnected warning: reach, angle, muscle
    # FIX: wp.launch(lengths, dim=2, inputs=[angle], outputs=[reach])
    found = [0.4 * math.cos(one) for one in angle.list()]
    # DROP
    reach = wp.array(found, dtype=float, requires_grad=True)
    wp.launch(miss, dim=2, inputs=[reach, muscle], outputs=[loss])
tape.backward(loss)
print("gradient of the muscles", muscle.grad.numpy())
